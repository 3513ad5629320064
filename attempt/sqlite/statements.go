package sqlite

import (
	"slices"
	"strings"
)

// statement names a statement that is prepared once per connection.
type statement int

const (
	stmtBegin statement = iota
	stmtCommit
	stmtRollback
	stmtSlotOf
	stmtSlot
	stmtSlotWith
	stmtInsertSlot
	stmtSetLive
	stmtCloseSlot
	stmtClosing
	stmtAttempt
	stmtInsertStarted
	stmtInsertAttempt
	stmtUpdateResult
	stmtUpdateAttempt
	stmtPostpone
	stmtInsertEvent
	stmtEvents
	stmtDue
	stmtNote
	stmtKeepNote
	stmtSent
	stmtBriefs
	stmtBriefsOfCharges
	stmtOddBriefs
	stmtAddRelay
	stmtRemoveRelay
	stmtEmptyOutbox
	stmtRelay
	stmtRelays
	stmtRelease
	stmtFree
	stmtUndelivered
	stmtTake
	stmtDelivered
	stmtLag
	statementCount
)

// The columns of an attempt, in groups, so that a payment writes no column that has nothing in it or does not change: that
// was a tenth of its cost.
var (
	fixedColumns = []string{ // never change after the insert
		"slot", "id", "ordinal", "idempotency_key", "reference", "amount", "currency", "decimals", "source_key",
		"source_digest", "description", "provider", "provider_account", "environment", "created_at",
	}
	stateColumns = []string{ // change with every version
		"status", "reason", "version", "updated_at", "claims", "next_check_at",
	}
	claimColumns = []string{ // change when a claim is granted
		"body", "body_digest", "fence", "first_claim_at",
	}
	resultColumns = []string{ // empty until a request was sent
		"sends", "maybe_sends", "last_sent_at", "answer", "charges", "charge_id",
	}
	rareColumns = []string{ // empty while all goes well
		"refusal", "none_asked_at", "asks", "asking_ended_at", "duties", "duties_open", "unwanted_at", "refund_live",
	}
	refundColumns = []string{ // of a refund, never change after the insert
		"refund_of", "refund_charge", "refund_id",
	}
	allColumns = slices.Concat(fixedColumns, stateColumns, claimColumns, resultColumns, rareColumns, refundColumns)
)

// isOpen is the condition of the index chargeonce_open, in its words, so that SQLite sees that the index serves.
const isOpen = "status IN ('prepared', 'sending', 'unknown')"

// selected are the columns of an attempt with those of its slot, seq, the slot's number and its closing first.
var selected = "SELECT a.seq, s.id, s.closed_at, s.account, s.order_id, s.purpose, a." + strings.Join(allColumns[1:], ", a.")

// selectAttempts reads attempts. selectSlot reads a slot with its attempts, oldest first: of one that has none, a row with no
// seq. It is one statement, so that both are read at the same moment.
var (
	selectAttempts = selected + " FROM chargeonce_attempts a JOIN chargeonce_slots s ON s.id = a.slot "
	selectSlot     = selected + " FROM chargeonce_slots s LEFT JOIN chargeonce_attempts a ON a.slot = s.id WHERE "
)

var statements = [statementCount]string{
	stmtBegin:    "BEGIN IMMEDIATE",
	stmtCommit:   "COMMIT",
	stmtRollback: "ROLLBACK",

	stmtSlotOf:     "SELECT slot FROM chargeonce_attempts WHERE id = ?",
	stmtSlot:       selectSlot + "s.order_id = ? AND s.account = ? AND s.purpose = ? ORDER BY a.ordinal",
	stmtSlotWith:   selectSlot + "s.id = (SELECT slot FROM chargeonce_attempts WHERE id = ?) ORDER BY a.ordinal",
	stmtInsertSlot: "INSERT INTO chargeonce_slots (order_id, account, purpose, live) VALUES (?, ?, ?, ?) ON CONFLICT DO NOTHING",
	// The guard against a second live attempt: it changes no row if the slot's live attempt is another than believed.
	stmtSetLive:   "UPDATE chargeonce_slots SET live = ? WHERE id = ? AND live IS ?",
	stmtCloseSlot: "UPDATE chargeonce_slots SET closed_at = ?, closed_by = ?, closed_why = ? WHERE id = ? AND closed_at IS NULL",
	stmtClosing: "SELECT closed_at, closed_by, closed_why FROM chargeonce_slots" +
		" WHERE order_id = ? AND account = ? AND purpose = ? AND closed_at IS NOT NULL",

	stmtAttempt:       selectAttempts + "WHERE a.id = ?",
	stmtInsertStarted: insertInto(slices.Concat(fixedColumns, stateColumns, claimColumns)),
	stmtInsertAttempt: insertInto(allColumns),
	stmtUpdateResult:  update(slices.Concat(stateColumns, resultColumns)),
	stmtUpdateAttempt: update(slices.Concat(stateColumns, claimColumns, resultColumns, rareColumns)),
	stmtPostpone:      "UPDATE chargeonce_attempts SET next_check_at = ? WHERE id = ?",

	stmtInsertEvent: "INSERT INTO chargeonce_events (attempt_id, version, what, from_status, to_status, at, who, evidence, duties)" +
		" VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
	stmtEvents: "SELECT version, what, from_status, to_status, at, who, evidence, duties FROM chargeonce_events" +
		" WHERE attempt_id = ? ORDER BY version",

	stmtDue: selectDue + orderDue,

	stmtNote: "SELECT attempt_id, at, data FROM chargeonce_notes WHERE scope = ? AND id = ?",
	stmtKeepNote: "INSERT INTO chargeonce_notes (scope, id, attempt_id, at, data) VALUES (?, ?, ?, ?, ?)" +
		" ON CONFLICT (scope, id) DO UPDATE SET attempt_id = excluded.attempt_id, at = excluded.at, data = excluded.data",

	stmtSent: "SELECT id, coalesce(last_sent_at, created_at) AS at FROM chargeonce_attempts WHERE seq > ? AND seq <= ?" +
		" AND status = 'approved' AND provider = ? AND provider_account = ? AND environment = ? AND at BETWEEN ? AND ?",

	stmtBriefs:          selectBriefs("concat_ws(char(31), "+strings.Join(briefColumns[:], ", ")+")") + "WHERE a.id IN (SELECT value FROM json_each(?))",
	stmtBriefsOfCharges: selectBriefs("concat_ws(char(31), "+strings.Join(briefColumns[:], ", ")+")") + "WHERE a.charge_id <> '' AND a.charge_id IN (SELECT value FROM json_each(?))",
	stmtOddBriefs:       selectBriefs(strings.Join(briefColumns[:], ", ")) + "WHERE a.id IN (SELECT value FROM json_each(?))",

	stmtAddRelay:    "INSERT INTO chargeonce_relays (name) VALUES (?) ON CONFLICT DO NOTHING",
	stmtRemoveRelay: "DELETE FROM chargeonce_relays WHERE name = ?",
	stmtEmptyOutbox: "DELETE FROM chargeonce_outbox WHERE relay = ?",
	stmtRelay:       "SELECT 1 FROM chargeonce_relays WHERE name = ?",
	stmtRelays:      "SELECT count(*) FROM chargeonce_relays",
	stmtRelease:     "UPDATE chargeonce_outbox SET taken_until = 0 WHERE relay = ? AND taken_until > 0 AND taken_until <= ?",
	// The first undelivered events of attempts that nobody has taken.
	stmtFree: "SELECT attempt_id FROM chargeonce_outbox o WHERE relay = ? AND taken_until = 0 AND NOT EXISTS (SELECT 1" +
		" FROM chargeonce_outbox e WHERE e.relay = o.relay AND e.attempt_id = o.attempt_id AND e.version < o.version)" +
		" ORDER BY at, attempt_id LIMIT ?",
	stmtUndelivered: "SELECT o.version, e.what, e.from_status, e.to_status, e.at, e.who, e.evidence, e.duties FROM chargeonce_outbox o" +
		" LEFT JOIN chargeonce_events e ON e.attempt_id = o.attempt_id AND e.version = o.version" +
		" WHERE o.relay = ? AND o.attempt_id = ? ORDER BY o.version",
	stmtTake:      "UPDATE chargeonce_outbox SET taken_until = ? WHERE relay = ? AND attempt_id = ?",
	stmtDelivered: "DELETE FROM chargeonce_outbox WHERE relay = ? AND attempt_id = ? AND version <= ?",
	stmtLag:       "SELECT (SELECT count(*) FROM chargeonce_relays WHERE name = ?1), count(*), min(at) FROM chargeonce_outbox WHERE relay = ?1",
}

const selectOwing = "SELECT seq FROM chargeonce_attempts INDEXED BY chargeonce_owing WHERE duties_open > 0 ORDER BY seq"

// selectDue and orderDue read what is due; a condition may stand between them.
const (
	selectDue = "SELECT id FROM chargeonce_attempts INDEXED BY chargeonce_open WHERE next_check_at <= ?"
	orderDue  = " ORDER BY next_check_at, seq LIMIT ?"
)

// briefColumns are what is needed to recognise attempts.
var briefColumns = [briefColumnCount]string{
	"a.id", "a.reference", "s.account", "s.order_id", "s.purpose", "a.provider", "a.provider_account", "a.environment",
	"a.amount", "a.currency", "a.decimals", "a.status", "a.charge_id", "a.refund_of", "a.refund_charge", "a.refund_id",
}

const briefColumnCount = 16

// briefEnd ends a column of a brief where all are one text: each column that is read costs as much as finding the row.
const briefEnd = "\x1f"

func selectBriefs(what string) string {
	return "SELECT " + what + " FROM chargeonce_attempts a JOIN chargeonce_slots s ON s.id = a.slot "
}

func insertInto(columns []string) string {
	return "INSERT INTO chargeonce_attempts (" + strings.Join(columns, ", ") + ") VALUES (?" +
		strings.Repeat(", ?", len(columns)-1) + ")"
}

// update has the guard against a lost update: version and next_check_at are as they were read.
func update(columns []string) string {
	return "UPDATE chargeonce_attempts SET " + strings.Join(columns, " = ?, ") +
		" = ? WHERE id = ? AND version = ? AND next_check_at IS ?"
}
