package postgres

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/chargeonce/chargeonce/attempt"
)

// What is asked again and again reads an index that holds only what is open, owes something or is undelivered, however many attempts
// there are.
func TestPlans(t *testing.T) {
	s := testStore(t, Options{MaxConns: leastConns})
	if err := s.AddRelay(t.Context(), "host"); err != nil {
		t.Fatal(err)
	}
	known := start(t, s, "open")
	admin(t, strings.ReplaceAll(`INSERT INTO s.chargeonce_slots (order_id, account, purpose) SELECT 'old ' || n, '', 'charge' FROM generate_series(1, 20000) AS n;
		INSERT INTO s.chargeonce_attempts (id, slot, ordinal, idempotency_key, reference, amount, currency, decimals, source_key, source_digest,
			description, provider, provider_account, environment, body_digest, status, reason, version, created_at, updated_at, fence, charge_id)
		SELECT gen_random_uuid(), id, 1, 'k', 'r', 1250, 'EUR', 2, '', 'd', '', 'test', '', '', '', 'approved', '', 2, now(), now(), 1, 'ch_' || id
			FROM s.chargeonce_slots WHERE order_id <> 'open';
		INSERT INTO s.chargeonce_events (attempt_id, version, what, from_status, to_status, at, who) SELECT id, 1, 'started', 'prepared', 'sending', now(), '' FROM s.chargeonce_attempts WHERE charge_id <> '';
		INSERT INTO s.chargeonce_notes (scope, id, attempt_id, at) SELECT 'w', id::text, id, now() FROM s.chargeonce_attempts;
		ANALYZE s.chargeonce_slots; ANALYZE s.chargeonce_attempts; ANALYZE s.chargeonce_events; ANALYZE s.chargeonce_notes`, "s.", s.opts.Schema+"."))

	open, _ := s.selects(attempt.Filter{Open: true})
	owing, _ := s.selects(attempt.Filter{Owing: true})
	order, _ := s.selects(attempt.Filter{Order: "open"})
	page := func(condition string, n int) string {
		return s.sql.selectAttempts + condition + fmt.Sprintf(" AND a.seq > $%d::bigint ORDER BY a.seq LIMIT 200", n)
	}
	id, _ := attempt.NewIdentity("")
	for name, c := range map[string]struct {
		text string
		args []any
		want string
	}{
		"due":           {s.sql.due, []any{nil, int64(10), int64(time.Minute.Microseconds())}, "chargeonce_open"},
		"due by place":  {s.sql.duePlaces, []any{nil, int64(10), int64(time.Minute.Microseconds()), `[["test","",""]]`}, "chargeonce_open"},
		"list of open":  {page(open, 1), []any{int64(0)}, "chargeonce_open"},
		"list of owing": {page(owing, 1), []any{int64(0)}, "chargeonce_owing"},
		"an order":      {page(order, 2), []any{"open", int64(0)}, "chargeonce_slots_order_id"},
		"attempt":       {s.sql.attempt, []any{known.ID}, "chargeonce_attempts_pkey"},
		"slot":          {s.sql.slot, []any{"open", "", "charge"}, "chargeonce_slots_order_id"},
		"events":        {s.sql.events, []any{known.ID}, "chargeonce_events_pkey"},
		"briefs":        {s.sql.briefs, []any{[]string{known.ID, id.ID}}, "chargeonce_attempts_pkey"},
		"of charges":    {s.sql.briefsOfCharges, []any{[]string{"ch_1"}}, "chargeonce_charged"},
		"undelivered":   {s.sql.take, []any{"host", int64(10), int64(1), nil}, "chargeonce_outbox"},
		"outcome":       {s.sql.result, append(mustArgs(t, s, known), true), "chargeonce_attempts_pkey"},
	} {
		var plan []string
		err := s.ask(t.Context(), answerLimit, query{text: "EXPLAIN " + c.text, args: c.args, row: func(row []any) error {
			plan = append(plan, fmt.Sprint(row[0]))
			return nil
		}})
		text := strings.Join(plan, "\n")
		if err != nil || !strings.Contains(text, c.want) || strings.Contains(text, "Seq Scan on chargeonce_attempts") || strings.Contains(text, "Seq Scan on chargeonce_events") {
			t.Errorf("%s: %v, want index %s in:\n%s", name, err, c.want, text)
		}
	}
}

// mustArgs are those of an outcome on belief.
func mustArgs(t *testing.T, s *Store, known attempt.Attempt) []any {
	t.Helper()
	b := s.believe(approves(known).Step(&known))
	if b.kind != writesResult {
		t.Fatalf("an approval is written by statement %d", b.kind)
	}
	return b.args
}
