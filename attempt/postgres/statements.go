package postgres

import (
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"
)

// The inputs of the statements that write, in the order of their arguments.
var (
	firstInput  = slices.Concat(columns("bigint", "lock"), decidedColumn, slotColumns, columns("uuid", "live"), fixedColumns, stateColumns, claimColumns, eventInput())
	insertInput = slices.Concat(slotColumns, attemptColumns, eventInput())
	resultInput = slices.Concat(decidedColumn, guardColumns, idColumn, stateColumns, resultColumns, eventInput())
	updateInput = slices.Concat(decidedColumn, guardColumns, freesColumn, idColumn, stateColumns, claimColumns, resultColumns, rareColumns, eventInput())
)

// statements are the texts for one schema. Every name in them is qualified: they need no search_path and so no state of a
// session.
type statements struct {
	first, firstMany   string // a slot and its first attempt, on belief
	result, resultMany string // an attempt's next state, on belief, where little has changed
	update, updateMany string // and where more has

	insert, replace                          string // after the slot was locked
	insertSlot, setLive, closeSlot, keepNote string

	tryLock, lockSlot, lockSlotOf, lockAttempts, lockAttemptsOf string
	slot, slotOf, attempt, events, event, closing, note, told   string

	due, duePlaces string

	briefs, briefsOfCharges string

	addRelay, relayUsers, removeRelay, take, delivered, lag string

	latest string

	selectAttempts string // begins a query for attempts
	schema         string
}

// stale is how far from the time it was decided for a step on belief is still written.
var stale = fmt.Sprintf("interval '%d milliseconds'", within.Milliseconds())

func newStatements(schema string) *statements {
	s := &statements{schema: pgx.Identifier{schema}.Sanitize() + "."}
	s.first, s.firstMany = s.writeFirst(false), s.writeFirst(true)
	resultSet := slices.Concat(stateColumns, resultColumns)
	updateSet := slices.Concat(stateColumns, claimColumns, resultColumns, rareColumns)
	s.result, s.resultMany = s.writeNext(resultInput, resultSet, false), s.writeNext(resultInput, resultSet, true)
	s.update, s.updateMany = s.writeNext(updateInput, updateSet, false), s.writeNext(updateInput, updateSet, true)

	// one/count(*): a row that is not as it was read under the lock fails the statement, and so the transaction, which is
	// committed in the same round trip.
	const exactlyOne = " SELECT 1/count(*) FROM done"
	in := source{in: insertInput}
	s.insert = s.text("WITH done AS (INSERT INTO {s}attempts (slot, " + names("", attemptColumns) + ") SELECT s.id, " + in.values(attemptColumns) +
		" FROM {s}slots s WHERE s.order_id = " + in.named("order_id") + " AND s.account = " + in.named("account") +
		" AND s.purpose = " + in.named("purpose") + " RETURNING id)" + s.tell(in, "done") + exactlyOne)
	in = source{in: updateInput}
	s.replace = s.text("WITH done AS (UPDATE {s}attempts a SET " + in.set(updateSet) + " WHERE a.id = " + in.value(idColumn[0]) +
		" AND a.version = " + in.named("old_version") + " AND a.next_check_at IS NOT DISTINCT FROM " + in.named("old_next_check_at") +
		// of each argument the server must be told the type, also of those that are for the statement on belief
		" AND (" + in.named("decided") + " IS NULL OR " + in.named("frees") + " IS NOT NULL) RETURNING a.id)" + s.tell(in, "done") + exactlyOne)
	const named = "order_id = $1::text AND account = $2::text AND purpose = $3::text"
	s.insertSlot = s.text("WITH done AS (INSERT INTO {s}slots (order_id, account, purpose) VALUES ($1, $2, $3) ON CONFLICT DO NOTHING RETURNING id)" + exactlyOne)
	s.setLive = s.text("WITH done AS (UPDATE {s}slots SET live = $4::text::uuid WHERE " + named + " AND live IS NOT DISTINCT FROM $5::text::uuid RETURNING id)" + exactlyOne)
	s.closeSlot = s.text("WITH done AS (UPDATE {s}slots SET closed_at = $4, closed_by = $5, closed_why = $6 WHERE " + named + " AND closed_at IS NULL RETURNING id)" + exactlyOne)
	s.keepNote = s.text("INSERT INTO {s}notes (scope, id, attempt_id, at, data) VALUES ($1, $2, $3::text::uuid, $4, $5)" +
		" ON CONFLICT (scope, id) DO UPDATE SET attempt_id = excluded.attempt_id, at = excluded.at, data = excluded.data")

	const ofAttempt = "(SELECT slot FROM {s}attempts WHERE id = $1::text::uuid)"
	s.tryLock = "SELECT pg_try_advisory_xact_lock($1::bigint)"
	s.lockSlot = s.text("SELECT id FROM {s}slots WHERE " + named + " FOR NO KEY UPDATE SKIP LOCKED")
	s.lockSlotOf = s.text("SELECT id FROM {s}slots WHERE id = " + ofAttempt + " FOR NO KEY UPDATE SKIP LOCKED")
	s.lockAttempts = s.text("SELECT 1 FROM {s}attempts WHERE slot = (SELECT id FROM {s}slots WHERE " + named + ") FOR NO KEY UPDATE SKIP LOCKED")
	s.lockAttemptsOf = s.text("SELECT 1 FROM {s}attempts WHERE slot = " + ofAttempt + " FOR NO KEY UPDATE SKIP LOCKED")

	selected := "SELECT a.seq, s.id, s.closed_at, s.account, s.order_id, s.purpose, " + read("a.", attemptColumns)
	s.selectAttempts = s.text(selected + " FROM {s}attempts a JOIN {s}slots s ON s.id = a.slot ")
	ofSlot := selected + ", clock_timestamp() FROM {s}slots s LEFT JOIN {s}attempts a ON a.slot = s.id WHERE "
	s.slot = s.text(ofSlot + "s.order_id = $1::text AND s.account = $2::text AND s.purpose = $3::text ORDER BY a.ordinal")
	s.slotOf = s.text(ofSlot + "s.id = " + ofAttempt + " ORDER BY a.ordinal")
	s.attempt = s.selectAttempts + "WHERE a.id = $1::text::uuid"
	events := "SELECT version, " + read("", eventColumns) + " FROM {s}events WHERE attempt_id = $1::text::uuid"
	s.events = s.text(events + " ORDER BY version")
	s.event = s.text(events + " AND version = $2::bigint")
	s.closing = s.text("SELECT closed_at, closed_by, closed_why FROM {s}slots WHERE " + named + " AND closed_at IS NOT NULL")
	s.note = s.text("SELECT attempt_id::text, at, data FROM {s}notes WHERE scope = $1::text AND id = $2::text")
	// An outcome is written durably whatever the database is set to.
	s.told = "SELECT clock_timestamp(), " + waited("$1::boolean")

	s.due, s.duePlaces = s.writeDue(""), s.writeDue(" AND (a.provider, a.provider_account, a.environment) IN"+
		" (SELECT p ->> 0, p ->> 1, p ->> 2 FROM json_array_elements($4::text::json) AS p)")

	brief := "SELECT a.id::text, a.reference, s.account, s.order_id, s.purpose, a.provider, a.provider_account, a.environment," +
		" a.amount, a.currency, a.decimals, a.status, a.charge_id, a.refund_of::text, a.refund_charge, a.refund_id" +
		" FROM {s}attempts a JOIN {s}slots s ON s.id = a.slot WHERE "
	s.briefs = s.text(brief + "a.id = ANY ($1::text[]::uuid[])")
	s.briefsOfCharges = s.text(brief + "a.charge_id <> '' AND a.charge_id = ANY ($1::text[])")

	s.latest = s.text("SELECT max(updated_at), clock_timestamp() FROM (SELECT updated_at FROM {s}attempts ORDER BY seq DESC LIMIT 256) AS newest")
	s.outbox()
	return s
}

// text fills in where the tables are.
func (s *statements) text(t string) string {
	return strings.ReplaceAll(t, "{s}", s.schema+"chargeonce_")
}

// read lists columns in the types in which they are decoded.
func read(prefix string, cols []column) string {
	all := make([]string, len(cols))
	for i, c := range cols {
		all[i] = prefix + c.name
		if c.kind == "json" || c.kind == "uuid" {
			all[i] += "::text"
		}
	}
	return strings.Join(all, ", ")
}

// waited is whether commits are waited for, by the transaction itself; where a condition holds, they are made to be.
func waited(force string) string {
	const setting = "current_setting('synchronous_commit')"
	return "CASE WHEN " + force + " AND " + setting + " = 'off' THEN set_config('synchronous_commit', 'on', true) ELSE " + setting + " END"
}

// tell is the parts of a statement that write the events of what was done, and put them into the outbox of each relay. Where there is no
// relay the condition spares the server the rest.
func (s *statements) tell(in source, done string) string {
	event := eventInput()
	id, version, at := in.value(idColumn[0]), in.named("version"), in.named("event_at")
	return ", told_events AS (INSERT INTO {s}events (attempt_id, version, " + names("", eventColumns) + ")" +
		" SELECT " + id + ", " + version + ", " + in.values(event) + " FROM " + done + ")" +
		", told_relays AS (INSERT INTO {s}outbox (relay, attempt_id, version, at) SELECT r.name, " + id + ", " + version + ", " + at +
		" FROM " + done + " CROSS JOIN {s}relays r WHERE (SELECT EXISTS (SELECT FROM {s}relays)))"
}

// fresh is the condition that a step on belief was decided about now, p being the present.
func fresh(decided string) string {
	return "p.sync <> 'off' AND (" + decided + " IS NULL OR p.now BETWEEN " + decided + " - " + stale + " AND " + decided + " + " + stale + ")"
}

// present is the part of a statement that tells the time and whether the commit is waited for. The statement's last argument says
// whether it is made to be.
func present(in []column) string {
	return "present AS MATERIALIZED (SELECT clock_timestamp() AS now, " + waited(fmt.Sprintf("$%d::boolean", len(in)+1)) + " AS sync)"
}

// writeFirst writes slots that are not there yet, each with its first attempt. It waits for nobody: whoever starts a slot holds the
// lock of its name until the end of his transaction, and where somebody else does nothing is written.
func (s *statements) writeFirst(many bool) string {
	in := source{firstInput, many}
	fixed := slices.Concat(fixedColumns, stateColumns, claimColumns)
	insertSlots := "INSERT INTO {s}slots (order_id, account, purpose, live)"
	insertAttempts := ", started AS (INSERT INTO {s}attempts (slot, " + names("", fixed) + ") SELECT slot, " + in.values(fixed)
	if !many {
		return s.text("WITH " + present(firstInput) +
			", done AS (" + insertSlots + " SELECT " + in.values(slotColumns) + ", " + in.named("live") + "::uuid FROM present p" +
			" WHERE " + fresh(in.named("decided")) + " AND pg_try_advisory_xact_lock(" + in.named("lock") + ")" +
			" ON CONFLICT DO NOTHING RETURNING id AS slot)" +
			insertAttempts + " FROM done)" + s.tell(in, "done") +
			" SELECT p.now, p.sync, CASE WHEN done.slot IS NOT NULL THEN " + in.named("id") + " END FROM present p LEFT JOIN done ON true")
	}
	return s.text("WITH " + present(firstInput) +
		", free AS MATERIALIZED (SELECT i.*, pg_try_advisory_xact_lock(i.lock) AS locked FROM " + given(firstInput) + ", present p WHERE " + fresh("i.decided") + ")" +
		", made AS (" + insertSlots + " SELECT f.order_id, f.account, f.purpose, f.live::uuid" +
		" FROM free f WHERE f.locked ORDER BY f.order_id, f.account, f.purpose ON CONFLICT DO NOTHING RETURNING id, order_id, account, purpose)" +
		", done AS MATERIALIZED (SELECT m.id AS slot, f.* FROM made m JOIN free f" +
		" ON f.order_id = m.order_id AND f.account = m.account AND f.purpose = m.purpose)" +
		insertAttempts + " FROM done i)" + s.tell(in, "done i") +
		" SELECT p.now, p.sync, done.id FROM present p LEFT JOIN done ON true")
}

// writeNext writes the next states of attempts that are still as their callers know them. It waits for nobody: of what somebody
// else has locked nothing is written. Where it may free the slot it locks that too, before the attempt: whoever has a slot has locked its
// attempts as well.
func (s *statements) writeNext(cols, set []column, many bool) string {
	in := source{cols, many}
	id, from, done, chosen, order := in.value(idColumn[0]), "present p", "done i", "a.id AS attempt", ""
	if many {
		from, chosen = given(cols)+" CROSS JOIN present p", "a.id AS attempt, i.*"
	}
	slots, free, freed, locked := "", "", "", "a"
	if slices.Contains(cols, freesColumn[0]) {
		frees := in.named("frees")
		slots, free, locked, order = " JOIN {s}slots s ON s.id = a.slot", " AND (NOT "+frees+" OR s.live = a.id)", "s, a", " ORDER BY s.id"
		freed = ", freed AS (UPDATE {s}slots s SET live = NULL FROM " + done + " WHERE s.id = i.slot AND " + frees + ")"
		chosen += ", s.id AS slot"
	}
	return s.text("WITH " + present(cols) +
		", done AS MATERIALIZED (SELECT " + chosen + " FROM " + from + " JOIN {s}attempts a ON a.id = " + id + slots +
		" WHERE " + fresh(in.named("decided")) + " AND a.version = " + in.named("old_version") +
		" AND a.next_check_at IS NOT DISTINCT FROM " + in.named("old_next_check_at") + free + order +
		" FOR NO KEY UPDATE OF " + locked + " SKIP LOCKED)" + freed +
		", changed AS (UPDATE {s}attempts a SET " + in.set(set) + " FROM " + done + " WHERE a.id = i.attempt)" +
		s.tell(in, done) +
		" SELECT p.now, p.sync, done.attempt::text FROM present p LEFT JOIN done ON true")
}

// writeDue takes what is due: $1 the time, NULL for the server's, $2 how many, $3 for how long, in microseconds.
func (s *statements) writeDue(condition string) string {
	return s.text("WITH present AS MATERIALIZED (SELECT coalesce($1::timestamptz, clock_timestamp()) AS now)" +
		", due AS MATERIALIZED (SELECT a.id, a.next_check_at, a.seq FROM {s}attempts a WHERE a.next_check_at <= (SELECT now FROM present)" + condition +
		" ORDER BY a.next_check_at, a.seq LIMIT $2::bigint FOR NO KEY UPDATE SKIP LOCKED)" +
		", taken AS (UPDATE {s}attempts a SET next_check_at = (SELECT now FROM present) + $3::bigint * interval '1 microsecond'" +
		" FROM due d WHERE a.id = d.id RETURNING a.*)" +
		" SELECT a.seq, s.id, s.closed_at, s.account, s.order_id, s.purpose, " + read("a.", attemptColumns) + ", (SELECT now FROM present)" +
		" FROM taken a JOIN {s}slots s ON s.id = a.slot JOIN due d ON d.id = a.id ORDER BY d.next_check_at, d.seq")
}
