package postgres

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/chargeonce/chargeonce/attempt"
)

var (
	rowsFlag = flag.String("rows", "10000,100000", "how many approved attempts the tables of BenchmarkRows hold, sizes separated by commas; the others are compared with the first")
	keepFlag = flag.Bool("rows.keep", false, "keep the filled tables for the next run, in schemas named rows_N")
)

// What an operation costs as the tables grow: each on tables of several sizes, turn by turn. One iteration is a whole comparison.
func BenchmarkRows(b *testing.B) {
	var stores []*Store
	var sizes []string
	for _, size := range strings.Split(*rowsFlag, ",") {
		n, err := strconv.Atoi(size)
		if err != nil || n < 1000 {
			b.Fatalf("-rows: %q is no number of at least 1000", size)
		}
		s := openTest(b, filledSchema(b, n), Options{})
		defer s.Close()
		stores, sizes = append(stores, s), append(sizes, size)
	}
	run := time.Now().UnixNano() // kept tables hold the orders of earlier runs
	for _, op := range []struct {
		name  string
		times int
		run   func(b *testing.B, s *Store, turn, n int) error
	}{
		{"pay", 400, func(_ *testing.B, s *Store, turn, n int) error {
			return pay(context.Background(), s, fmt.Sprintf("new-%d-%d-%d", run, turn, n))
		}},
		{"claim", 20, func(b *testing.B, s *Store, turn, n int) error {
			v, err := s.TakeDue(context.Background(), 10, time.Millisecond)
			if err == nil && len(v.Attempts) != 10 {
				return fmt.Errorf("%d are due, want 10 of those that are open", len(v.Attempts))
			}
			return err
		}},
		{"list-open", 10, func(b *testing.B, s *Store, turn, n int) error {
			found := 0
			for _, err := range s.List(context.Background(), attempt.Filter{Open: true}) {
				if err != nil {
					return err
				}
				found++
			}
			if found != openRows {
				return fmt.Errorf("%d are open, want %d", found, openRows)
			}
			return nil
		}},
		{"slot", 400, func(b *testing.B, s *Store, turn, n int) error {
			v, err := s.Slot(context.Background(), slotOf(filledOrder(1+(n*7919+turn)%1000)))
			if err == nil && len(v.Attempts) != 1 {
				return fmt.Errorf("%d attempts in a slot that was filled", len(v.Attempts))
			}
			return err
		}},
	} {
		b.Run(op.name, func(b *testing.B) {
			took := make([][]time.Duration, len(stores))
			for b.Loop() {
				for range 9 {
					turn := int(raceTurn.Add(1))
					for i := range stores {
						i := (i + turn) % len(stores)
						took[i] = append(took[i], drive(b, 1, op.times, func(n int) error { return op.run(b, stores[i], turn, n) }))
					}
				}
			}
			for i := range stores {
				b.ReportMetric(float64(median(took[i]).Microseconds())/float64(op.times), "us-at-"+sizes[i])
				if i > 0 {
					b.ReportMetric(medianRatio(took[i], took[0]), "x-at-"+sizes[i])
				}
			}
			b.ReportMetric(0, "ns/op")
		})
	}
}

// openRows is how many attempts of a filled table are unknown, and due.
const openRows = 50

// filledOrder is an order's number as the statement below writes it: in no order, as far as an index is concerned.
func filledOrder(n int) string { return fmt.Sprintf("%d-old", n*2654435761%4294967296) }

// filledSchema is a schema whose tables hold n attempts that are approved, as payments leave them, and openRows that are not known.
func filledSchema(b *testing.B, n int) string {
	b.Helper()
	text := func(v any) string {
		t, err := json.Marshal(v)
		if err != nil {
			b.Fatal(err)
		}
		return "'" + strings.ReplaceAll(string(t), "'", "''") + "'"
	}
	schema := fmt.Sprintf("rows_%d", n)
	if !*keepFlag {
		schema = testSchema(b)
	} else if _, err := Migrate(b.Context(), testURL(b), MigrateOptions{Schema: schema}); err != nil {
		b.Fatal(err)
	}
	s := openTest(b, schema, Options{MaxConns: leastConns})
	defer s.Close()
	last, err := s.Slot(b.Context(), slotOf(filledOrder(n)))
	if err != nil {
		b.Fatal(err)
	}
	if len(last.Attempts) > 0 {
		return schema // kept by an earlier run
	}
	send := benchSend("00000000-0000-7000-8000-000000000000")
	a, err := benchAttempt()
	if err != nil {
		b.Fatal(err)
	}
	const id = "(lpad(to_hex(1700000000000 + n), 12, '0') || '7000' || lpad(to_hex(n), 16, '0'))::uuid" // in the order of time, as a UUIDv7 is
	for first := 1; first <= n; first += 250_000 {
		last := min(first+250_000-1, n)
		status := fmt.Sprintf("CASE WHEN n > %d THEN 'unknown' ELSE 'approved' END", n-openRows)
		admin(b, "SET synchronous_commit = off; "+strings.NewReplacer("{s}", schema+".chargeonce_", "{n}", fmt.Sprintf("generate_series(%d::bigint, %d) AS n", first, last),
			"{id}", id, "{order}", "(n * 2654435761 % 4294967296) || '-old'", "{status}", status,
			"{body}", fmt.Sprintf(`'\x%x'`, a.Body), "{answer}", text(send.Answer), "{charges}", text([]attempt.Charge{*send.Charge}),
			"{evidence}", text(attempt.Evidence{Kind: attempt.EvidenceSends, Fence: 1, Sends: []attempt.Send{send}}),
			"{key}", "md5(n::text)", "{digest}", "repeat('5a', 32)",
		).Replace(`
			INSERT INTO {s}slots (order_id, account, purpose, live) SELECT {order}, '', 'charge', {id} FROM {n} ORDER BY n;
			INSERT INTO {s}attempts (id, slot, ordinal, idempotency_key, reference, amount, currency, decimals, source_key, source_digest, description, provider,
				provider_account, environment, body, body_digest, status, reason, version, created_at, updated_at, fence, first_claim_at, sends, last_sent_at,
				answer, charges, charge_id, next_check_at)
			SELECT {id}, s.id, 1, {key}, 'co-' || {key}, 54890, 'TRY', 2, '', {digest}, '', 'standard', '', 'test', {body}, {digest},
				{status}, '', 2, now(), now(), 1, now(), 1, now(), {answer}, {charges}, CASE WHEN {status} = 'approved' THEN 'ch_' || {key} ELSE '' END,
				CASE WHEN {status} = 'unknown' THEN now() - interval '1 minute' END
			FROM {n} JOIN {s}slots s ON s.order_id = {order} AND s.account = '' AND s.purpose = 'charge' ORDER BY n;
			INSERT INTO {s}events (attempt_id, version, what, from_status, to_status, at, who)
			SELECT {id}, 1, 'started_claimed', 'prepared', 'sending', now(), 'host-1' FROM {n} ORDER BY n;
			INSERT INTO {s}events (attempt_id, version, what, from_status, to_status, at, who, evidence)
			SELECT {id}, 2, 'learnt', 'sending', {status}, now(), 'host-1', {evidence} FROM {n} ORDER BY n`))
		if b.Failed() {
			b.FailNow()
		}
	}
	for _, table := range []string{"slots", "attempts", "events"} {
		admin(b, "VACUUM (ANALYZE) "+schema+".chargeonce_"+table)
	}
	admin(b, "CHECKPOINT")
	return schema
}
