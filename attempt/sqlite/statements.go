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
	stmtSlotByName
	stmtInsertSlot
	stmtSetLive
	stmtAttempts
	stmtAttempt
	stmtInsertStarted
	stmtInsertAttempt
	stmtUpdateResult
	stmtUpdateAttempt
	stmtPostpone
	stmtInsertEvent
	stmtEvents
	stmtDue
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
		"refusal", "none_asked_at", "asks", "asking_ended_at", "duties",
	}
	allColumns = slices.Concat(fixedColumns, stateColumns, claimColumns, resultColumns, rareColumns)
)

// isOpen is the condition of the index chargeonce_open, in its words, so that SQLite sees that the index serves.
const isOpen = "status IN ('prepared', 'sending', 'unknown')"

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

	stmtAttempts:      selectAttempts + "WHERE a.slot = ? ORDER BY a.ordinal",
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

	stmtDue: "SELECT id FROM chargeonce_attempts INDEXED BY chargeonce_open WHERE next_check_at <= ?" +
		" ORDER BY next_check_at, seq LIMIT ?",
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
