package sqlite

import "strings"

// statement names a statement that is prepared once per connection.
type statement int

const (
	stmtBegin statement = iota
	stmtCommit
	stmtRollback
	stmtSlotOf
	stmtSlotByName
	stmtInsertSlot
	stmtSetLive
	stmtAttempts
	stmtAttempt
	stmtInsertAttempt
	stmtUpdateAttempt
	stmtPostpone
	stmtInsertEvent
	stmtEvents
	stmtOpen
	stmtClose
	stmtDue
	statementCount
)

// The columns of an attempt: those that never change after the insert, then those that an update writes.
var (
	fixedColumns = []string{
		"id", "slot", "ordinal", "idempotency_key", "reference", "amount", "currency", "decimals", "source_key",
		"source_digest", "description", "provider", "provider_account", "environment", "created_at",
	}
	changingColumns = []string{
		"body", "body_digest", "status", "reason", "version", "updated_at", "fence", "claims", "first_claim_at", "sends",
		"maybe_sends", "last_sent_at", "refusal", "answer", "charges", "charge_id", "none_asked_at", "asks",
		"next_check_at", "asking_ended_at", "duties",
	}
	allColumns = append(append([]string{}, fixedColumns...), changingColumns...)
)

// selectAttempts reads attempts with the names of their slots, seq first.
var selectAttempts = "SELECT a.seq, s.account, s.order_id, s.purpose, a." + strings.Join(allColumns, ", a.") +
	" FROM chargeonce_attempts a JOIN chargeonce_slots s ON s.id = a.slot "

var statements = [statementCount]string{
	stmtBegin:    "BEGIN IMMEDIATE",
	stmtCommit:   "COMMIT",
	stmtRollback: "ROLLBACK",

	stmtSlotOf:     "SELECT slot FROM chargeonce_attempts WHERE id = ?",
	stmtSlotByName: "SELECT id FROM chargeonce_slots WHERE order_id = ? AND account = ? AND purpose = ?",
	stmtInsertSlot: "INSERT INTO chargeonce_slots (order_id, account, purpose, live) VALUES (?, ?, ?, ?) ON CONFLICT DO NOTHING",
	// The guard against a second live attempt: it changes no row if the slot's live attempt is another than believed.
	stmtSetLive: "UPDATE chargeonce_slots SET live = ? WHERE id = ? AND live IS ?",

	stmtAttempts: selectAttempts + "WHERE a.slot = ? ORDER BY a.ordinal",
	stmtAttempt:  selectAttempts + "WHERE a.id = ?",
	stmtInsertAttempt: "INSERT INTO chargeonce_attempts (" + strings.Join(allColumns, ", ") + ") VALUES (?" +
		strings.Repeat(", ?", len(allColumns)-1) + ")",
	// The guard against a lost update: version and next_check_at are as they were read.
	stmtUpdateAttempt: "UPDATE chargeonce_attempts SET " + strings.Join(changingColumns, " = ?, ") +
		" = ? WHERE id = ? AND version = ? AND next_check_at IS ?",
	stmtPostpone: "UPDATE chargeonce_attempts SET next_check_at = ? WHERE id = ?",

	stmtInsertEvent: "INSERT INTO chargeonce_events (attempt_id, version, what, from_status, to_status, at, who, evidence, duties)" +
		" VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
	stmtEvents: "SELECT version, what, from_status, to_status, at, who, evidence, duties FROM chargeonce_events" +
		" WHERE attempt_id = ? ORDER BY version",

	stmtOpen:  "INSERT INTO chargeonce_open (due, attempt_id) VALUES (?, ?)",
	stmtClose: "DELETE FROM chargeonce_open WHERE due = ? AND attempt_id = ?",
	stmtDue:   "SELECT due, attempt_id FROM chargeonce_open WHERE due <= ? ORDER BY due, attempt_id LIMIT ?",
}
