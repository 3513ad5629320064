package sqlite

import (
	"database/sql/driver"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/chargeonce/chargeonce/attempt"
	"github.com/chargeonce/chargeonce/money"
)

// schemaOne makes a file as the first release left it: an open payment, an approved one, and one that owes a refund after it
// has met another duty.
func schemaOne(t *testing.T, path string) {
	t.Helper()
	all, err := migrations()
	if err != nil {
		t.Fatal(err)
	}
	if err := create(path); err != nil {
		t.Fatal(err)
	}
	c, err := newConnector(path, false)
	if err != nil {
		t.Fatal(err)
	}
	conn, err := c.Connect(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	r := &rawSession{conn: conn}
	run := func(text string, args ...driver.Value) {
		t.Helper()
		if err := r.exec1(text, args...); err != nil {
			t.Fatalf("%s: %v", text, err)
		}
	}
	run("CREATE TABLE chargeonce_migrations (number INTEGER PRIMARY KEY, name TEXT NOT NULL, applied_at INTEGER NOT NULL) STRICT")
	run(all[0].sql)
	run("INSERT INTO chargeonce_migrations (number, name, applied_at) VALUES (1, '0001_attempts', 1)")
	at := time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	amount := money.MustParse("12.50", "EUR")
	duties, err := json.Marshal([]attempt.Duty{
		{Kind: attempt.DutyReview, ChargeID: "ch_3", Why: attempt.WhyReversed, OpenedAt: at, MetAt: at},
		{Kind: attempt.DutyRefund, ChargeID: "ch_3", Amount: amount, Why: attempt.WhyLateMoney, OpenedAt: at},
	})
	if err != nil {
		t.Fatal(err)
	}
	charges, err := json.Marshal([]attempt.Charge{{ID: "ch_2", Status: attempt.ChargeSucceeded, Amount: amount}})
	if err != nil {
		t.Fatal(err)
	}
	insert := `INSERT INTO chargeonce_attempts (id, slot, ordinal, idempotency_key, reference, amount, currency, decimals, source_key,
		source_digest, description, provider, provider_account, environment, body_digest, status, reason, version, created_at,
		updated_at, fence, next_check_at, charges, charge_id, duties)
		VALUES (?, ?, 1, 'key', 'reference', 1250, 'EUR', 2, '', 'source', '', 'test', '', '', '', ?, '', 1, ?, ?, 1, ?, ?, ?, ?)`
	for n, a := range []struct {
		id, status string
		live, next driver.Value
		charges    driver.Value
		chargeID   string
		duties     driver.Value
	}{
		{"open", "sending", "open", at.UnixMicro(), nil, "", nil},
		{"approved", "approved", "approved", nil, string(charges), "ch_2", nil},
		{"owing", "declined", nil, nil, nil, "", string(duties)},
	} {
		slot := int64(n + 1)
		run("INSERT INTO chargeonce_slots (id, order_id, account, purpose, live) VALUES (?, ?, '', 'charge', ?)", slot, a.id, a.live)
		run(insert, a.id, slot, a.status, at.UnixMicro(), at.UnixMicro(), a.next, a.charges, a.chargeID, a.duties)
		run(`INSERT INTO chargeonce_events (attempt_id, version, what, from_status, to_status, at, who)
			VALUES (?, 1, 'started', 'prepared', ?, ?, '')`, a.id, a.status, at.UnixMicro())
	}
	if err := conn.Close(); err != nil {
		t.Fatal(err)
	}
}

// What the first release stored is there, means what it meant, and can do what is new.
func TestMigrateFromSchemaOne(t *testing.T) {
	path := testFile(t)
	schemaOne(t, path)
	if _, err := Open(t.Context(), path, Options{ReadOnly: true}); !errors.Is(err, attempt.ErrUnavailable) || !strings.Contains(err.Error(), "open it for writing") {
		t.Errorf("ReadOnly before it: %v", err)
	}
	s := testStore(t, path, Options{})
	if got := appliedMigrations(t, s); !slices.Equal(got, []int64{1, 2}) {
		t.Fatalf("migrations %v", got)
	}
	ctx := t.Context()
	for id, status := range map[string]attempt.Status{
		"open": attempt.StatusSending, "approved": attempt.StatusApproved, "owing": attempt.StatusDeclined,
	} {
		v, err := s.Slot(ctx, attempt.Slot{Order: id, Purpose: attempt.PurposeCharge})
		if err != nil || len(v.Attempts) != 1 || len(v.Refunds) != 0 || !v.ClosedAt.IsZero() {
			t.Fatalf("%s: %d payments, %d refunds, closed at %s: %v", id, len(v.Attempts), len(v.Refunds), v.ClosedAt, err)
		}
		if a := v.Attempts[0]; a.ID != id || a.Status != status || a.IsRefund() || !a.UnwantedAt.IsZero() {
			t.Errorf("%s: %+v", id, a)
		}
	}
	for _, f := range []attempt.Filter{{Owing: true}, {Owing: true, Order: "owing"}} {
		var owing []string
		for a, err := range s.List(ctx, f) {
			if err != nil {
				t.Fatal(err)
			}
			owing = append(owing, a.ID)
		}
		if !slices.Equal(owing, []string{"owing"}) {
			t.Errorf("%+v: %v", f, owing)
		}
	}
	if found, err := s.Briefs(ctx, nil, []string{"ch_2"}); err != nil || len(found) != 1 || found[0].ID != "approved" {
		t.Errorf("by its charge: %+v, %v", found, err)
	}
	if v, err := s.TakeDue(ctx, 10, time.Hour); err != nil || len(v.Attempts) != 1 || v.Attempts[0].ID != "open" {
		t.Errorf("%d due: %v", len(v.Attempts), err)
	}

	cancel := &attempt.Cancel{Slot: attempt.Slot{Order: "approved", Purpose: attempt.PurposeCharge}}
	if err := s.Apply(ctx, cancel.Step()); err != nil || len(cancel.View.Attempts) != 1 {
		t.Fatal(err)
	}
	if a := cancel.View.Attempts[0]; a.UnwantedAt.IsZero() || len(a.Duties) != 1 {
		t.Errorf("cancelled: unwanted at %s, duties %+v", a.UnwantedAt, a.Duties)
	}
	outcome := &attempt.Record{ID: "open", Once: &attempt.Once{Scope: "webhook", ID: "evt_1"}, Evidence: attempt.Evidence{
		Kind: attempt.EvidenceWebhook, Charges: []attempt.Charge{{ID: "ch_1", Status: attempt.ChargeSucceeded, Amount: money.MustParse("12.50", "EUR")}},
	}}
	if err := s.Apply(ctx, outcome.Step(nil)); err != nil {
		t.Fatal(err)
	}
	wantStatus(t, s, "open", attempt.StatusApproved, 2)
}

// A store that is opened to look at it changes nothing: no file, no schema, no attempt.
func TestReadOnly(t *testing.T) {
	path := testFile(t)
	if _, err := Open(t.Context(), path, Options{ReadOnly: true}); !errors.Is(err, attempt.ErrUnavailable) {
		t.Errorf("a file that is not there: %v", err)
	}
	if err := create(path); err != nil { // had Open made it, this would say nothing
		t.Fatal(err)
	}
	if _, err := Open(t.Context(), path, Options{ReadOnly: true}); !errors.Is(err, attempt.ErrNotDurable) {
		t.Errorf("an empty file: %v", err)
	}
	writer := testStore(t, path, Options{})
	a := start(t, writer, "1001")
	if err := writer.AddRelay(t.Context(), "host"); err != nil {
		t.Fatal(err)
	}
	release := hold(t, writer) // nobody waits for the lock
	s := testStore(t, path, Options{ReadOnly: true})
	wantStatus(t, s, a.ID, attempt.StatusSending, 1)
	if v, err := s.Slot(t.Context(), a.Slot); err != nil || len(v.Attempts) != 1 {
		t.Errorf("%d attempts: %v", len(v.Attempts), err)
	}
	if _, err := s.Lag(t.Context(), "host"); err != nil {
		t.Error(err)
	}
	release()
	ctx, step := t.Context(), starts("1002")
	_, dueErr := s.TakeDue(ctx, 1, time.Hour)
	_, takeErr := s.TakeUndelivered(ctx, "host", 1, time.Hour)
	for name, err := range map[string]error{
		"Apply": s.Apply(ctx, &step.Step), "the step": step.Err, "Once": s.Apply(ctx, &attempt.Step{Once: &attempt.Once{ID: "1"}}),
		"InTx": s.InTx(ctx, nil), "TakeDue": dueErr, "TakeUndelivered": takeErr, "AddRelay": s.AddRelay(ctx, "another"),
		"RemoveRelay": s.RemoveRelay(ctx, "host"), "Delivered": s.Delivered(ctx, "host", a.ID, 1, 0),
	} {
		if !errors.Is(err, attempt.ErrUnavailable) || !strings.Contains(err.Error(), "ReadOnly") {
			t.Errorf("%s: %v", name, err)
		}
	}
	// And SQLite would not let it.
	err := s.write.with(func(r *rawSession) error { return r.exec1("DELETE FROM chargeonce_events") })
	if err == nil {
		t.Error("its connection writes")
	}
	approve := approves(a)
	if err := writer.Apply(ctx, approve.Step(&a)); err != nil {
		t.Fatal(err)
	}
	wantStatus(t, s, a.ID, attempt.StatusApproved, 2)
}
