package postgres

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/chargeonce/chargeonce/attempt"
	"github.com/chargeonce/chargeonce/money"
	"github.com/jackc/pgx/v5"
)

// What a payment costs the store: two durable steps with their events. The store is compared, in one run and turn by turn, with
// hand-written SQL over a pool of as many connections, which has its JSON ready made and decides nothing:
//
//   - unprepared: the store as it works behind a pooler, without the pooler
//   - plain: the same rows in the same tables, statement by statement between BEGIN and COMMIT
//   - rows: the same, each part pipelined into one round trip
//   - bare: one insert and one update of one table, without slot, event, guard or outbox
//   - pgbench: bare's two statements by pgbench, which costs the client next to nothing
//   - pgbench-store: the store's own two statements by pgbench, one by one

// pay is one payment as the client makes it: start and claim in one step, then the outcome.
func pay(ctx context.Context, store attempt.Store, order string) error {
	slot := attempt.Slot{Order: order}.WithDefaults()
	begin := &attempt.Start{
		Slot:     slot,
		Intent:   attempt.Intent{Order: order, Amount: benchAmount, Source: attempt.Token("tok_visa")},
		Provider: "standard", Environment: "test", Who: "host-1",
		Claim: 15 * time.Second, SendSpan: 10 * time.Second, FirstCheck: 2 * time.Minute, PreparedAfter: 24 * time.Hour,
		New: func(int) (attempt.Attempt, error) { return benchAttempt() },
	}
	if err := store.Apply(ctx, begin.Step()); err != nil {
		return err
	}
	if begin.Decision.Kind != attempt.DecidedSend {
		return fmt.Errorf("decided %d for a new order", begin.Decision.Kind)
	}
	known := begin.Decision.Attempt
	outcome := &attempt.Record{ID: known.ID, Who: "host-1", Evidence: attempt.Evidence{
		Kind: attempt.EvidenceSends, Fence: 1, Sends: []attempt.Send{benchSend(known.ID)},
	}}
	if err := store.Apply(ctx, outcome.Step(&known)); err != nil {
		return err
	}
	if outcome.Attempt.Status != attempt.StatusApproved {
		return fmt.Errorf("ended as %s", outcome.Attempt.Status)
	}
	return nil
}

var benchAmount = money.MustParse("548.90", "TRY")

func benchAttempt() (attempt.Attempt, error) {
	identity, err := attempt.NewIdentity("co-")
	return attempt.Attempt{
		ID: identity.ID, Key: identity.Key, Reference: identity.Reference, Amount: benchAmount,
		Source: attempt.Digest{Sum: strings.Repeat("5a", 32)}, Provider: "standard", Environment: "test",
		Body: []byte(`{"amount":54890,"currency":"TRY","source":"` + "\x00" + `","description":"","merchant_reference":"` +
			identity.Reference + `"}`),
		BodyDigest: strings.Repeat("a5", 32),
	}, err
}

func benchSend(id string) attempt.Send {
	return attempt.Send{
		StartedAt: time.Now().UTC(), Took: 312 * time.Millisecond,
		Charge: &attempt.Charge{ID: "ch_" + id, Status: attempt.ChargeSucceeded, Amount: benchAmount},
		Answer: attempt.Answer{Verdict: attempt.Charged, StatusCode: 201, RequestID: "req_" + id},
	}
}

// handWritten writes a payment's rows with pgx.
type handWritten struct {
	pool                              *pool
	schema                            string
	claims, charges, answer, evidence string
}

func newHandWritten(b testing.TB) *handWritten {
	s := testStore(b, Options{})
	h := &handWritten{schema: s.opts.Schema}
	cfg, chosen, err := parse(testURL(b))
	if err != nil {
		b.Fatal(err)
	}
	h.pool = newPool(defaultMaxConns, s.connector(cfg, chosen, false))
	b.Cleanup(h.pool.close)
	admin(b, "CREATE TABLE "+h.schema+".payments (id uuid PRIMARY KEY, order_id text NOT NULL UNIQUE, amount bigint NOT NULL, currency text NOT NULL,"+
		" key text NOT NULL, reference text NOT NULL, body bytea, status text NOT NULL, created_at timestamptz NOT NULL, updated_at timestamptz NOT NULL, charge_id text, answer json)")
	text := func(v any) string {
		t, err := json.Marshal(v)
		if err != nil {
			b.Fatal(err)
		}
		return string(t)
	}
	send := benchSend("00000000-0000-7000-8000-000000000000")
	h.claims = text([]attempt.Claim{{Fence: 1, Until: time.Now().UTC().Truncate(time.Microsecond)}})
	h.charges, h.answer = text([]attempt.Charge{*send.Charge}), text(send.Answer)
	h.evidence = text(attempt.Evidence{Kind: attempt.EvidenceSends, Fence: 1, Sends: []attempt.Send{send}})
	return h
}

// together sends statements together: they are one transaction, since nothing but the end synchronizes.
func (h *handWritten) together(b *pgx.Batch) error {
	ctx := context.Background()
	return h.pool.with(ctx, func(c *conn) error { return c.SendBatch(ctx, b).Close() })
}

// byOne sends one after another.
func (h *handWritten) byOne(b *pgx.Batch) error {
	ctx := context.Background()
	return h.pool.with(ctx, func(c *conn) error {
		return pgx.BeginFunc(ctx, c, func(tx pgx.Tx) error {
			for _, q := range b.QueuedQueries {
				if _, err := tx.Exec(ctx, q.SQL, q.Arguments...); err != nil {
					return err
				}
			}
			return nil
		})
	})
}

func (h *handWritten) rows(order string) error  { return h.write(order, h.together) }
func (h *handWritten) plain(order string) error { return h.write(order, h.byOne) }

func (h *handWritten) write(order string, send func(*pgx.Batch) error) error {
	a, err := benchAttempt()
	if err != nil {
		return err
	}
	now := time.Now().UTC()
	in := &pgx.Batch{}
	in.Queue("INSERT INTO "+h.schema+".chargeonce_slots (order_id, account, purpose, live) VALUES ($1,'','charge',$2)", order, a.ID)
	in.Queue("INSERT INTO "+h.schema+`.chargeonce_attempts (slot, id, ordinal, idempotency_key, reference, amount, currency, decimals,
		source_key, source_digest, description, provider, provider_account, environment, created_at, body, body_digest, status,
		reason, version, updated_at, fence, claims, first_claim_at, next_check_at)
		SELECT id, $2, 1, $3, $4, $5, 'TRY', 2, '', $6, '', 'standard', '', 'test', $7, $8, $9, 'sending', 'in_flight', 1, $7, 1, $10, $7, $11
		FROM `+h.schema+".chargeonce_slots WHERE order_id = $1 AND account = '' AND purpose = 'charge'",
		order, a.ID, a.Key, a.Reference, a.Amount.Minor(), a.Source.Sum, now, a.Body, a.BodyDigest, h.claims, now.Add(2*time.Minute))
	in.Queue("INSERT INTO "+h.schema+`.chargeonce_events (attempt_id, version, what, from_status, to_status, at, who)
		VALUES ($1, 1, 'started_claimed', 'prepared', 'sending', $2, 'host-1')`, a.ID, now)
	if err := send(in); err != nil {
		return err
	}
	now = time.Now().UTC()
	up := &pgx.Batch{}
	up.Queue("UPDATE "+h.schema+`.chargeonce_attempts SET status='approved', reason='', version=2, updated_at=$2, claims=NULL, sends=1,
		last_sent_at=$2, answer=$3, charges=$4, charge_id=$5, next_check_at=NULL WHERE id=$1 AND version=1`, a.ID, now, h.answer, h.charges, "ch_"+a.ID)
	up.Queue("INSERT INTO "+h.schema+`.chargeonce_events (attempt_id, version, what, from_status, to_status, at, who, evidence)
		VALUES ($1, 2, 'learnt', 'sending', 'approved', $2, 'host-1', $3)`, a.ID, now, h.evidence)
	return send(up)
}

func (h *handWritten) bare(order string) error {
	a, err := benchAttempt()
	if err != nil {
		return err
	}
	ctx, now := context.Background(), time.Now().UTC()
	err = h.pool.with(ctx, func(c *conn) error {
		_, err := c.Exec(ctx, "INSERT INTO "+h.schema+".payments (id, order_id, amount, currency, key, reference, body, status, created_at, updated_at) VALUES ($1,$2,$3,'TRY',$4,$5,$6,'sending',$7,$7)",
			a.ID, order, a.Amount.Minor(), a.Key, a.Reference, a.Body, now)
		return err
	})
	if err != nil {
		return err
	}
	return h.pool.with(ctx, func(c *conn) error {
		_, err := c.Exec(ctx, "UPDATE "+h.schema+".payments SET status='approved', updated_at=$2, charge_id=$3, answer=$4 WHERE id=$1", a.ID, time.Now().UTC(), "ch_"+a.ID, h.answer)
		return err
	})
}

// rival is one way to write payments, which tells how long it took for so many by so many callers at once.
type rival struct {
	name string
	pay  func(b *testing.B, turn, callers, payments int) time.Duration
}

// byCallers is a rival in this process.
func byCallers(name string, pay func(order string) error) rival {
	return rival{name, func(b *testing.B, turn, callers, payments int) time.Duration {
		return drive(b, callers, payments, func(n int) error { return pay(fmt.Sprintf("order-%d-%d", turn, n)) })
	}}
}

var raceTurn atomic.Int64

// race lets the rivals write payments turn by turn, and reports the first one's speed as a multiple of each other's, by the clock and by
// the processor time of the whole machine (server and client, so other work counts too): the medians over all turns. One iteration is a
// whole race.
func race(b *testing.B, callers, payments int, rivals ...rival) {
	took, busy := make([][]time.Duration, len(rivals)), make([][]time.Duration, len(rivals))
	for b.Loop() {
		for range 7 {
			turn := int(raceTurn.Add(1))
			for i := range rivals {
				i := (i + turn) % len(rivals)
				before := machineBusy()
				took[i] = append(took[i], rivals[i].pay(b, turn, callers, payments))
				busy[i] = append(busy[i], machineBusy()-before)
			}
		}
	}
	for i, r := range rivals {
		if i > 0 {
			b.ReportMetric(medianRatio(took[i], took[0]), "x-"+r.name)
			if busy[0][0] > 0 {
				b.ReportMetric(medianRatio(busy[i], busy[0]), "x-"+r.name+"-by-cpu")
			}
		}
		b.ReportMetric(float64(payments)/median(took[i]).Seconds(), r.name+"/s")
		if busy[0][0] > 0 {
			b.ReportMetric(float64(payments)/median(busy[i]).Seconds(), r.name+"/cpu-s")
		}
	}
	b.ReportMetric(0, "ns/op") // of a whole race: says nothing
}

func median(all []time.Duration) time.Duration {
	return slices.Sorted(slices.Values(all))[len(all)/2]
}

// medianRatio is the median of the turns' ratios.
func medianRatio(a, b []time.Duration) float64 {
	ratios := make([]float64, len(a))
	for i := range a {
		ratios[i] = float64(a[i]) / float64(b[i])
	}
	slices.Sort(ratios)
	return ratios[len(ratios)/2]
}

// machineBusy is the processor time that this machine has spent so far, 0 where it does not tell: proc(5), in 1/100 s.
func machineBusy() time.Duration {
	text, err := os.ReadFile("/proc/stat")
	if err != nil {
		return 0
	}
	var user, nice, system, idle, iowait, irq, softirq int64
	if _, err := fmt.Sscanf(string(text), "cpu %d %d %d %d %d %d %d", &user, &nice, &system, &idle, &iowait, &irq, &softirq); err != nil {
		return 0
	}
	return time.Duration(user+nice+system+irq+softirq) * 10 * time.Millisecond
}

// drive makes payments with a number of callers at once.
func drive(b *testing.B, callers, payments int, pay func(n int) error) time.Duration {
	begun := time.Now()
	var wg sync.WaitGroup
	for c := range callers {
		wg.Go(func() {
			for n := c; n < payments; n += callers {
				if err := pay(n); err != nil {
					b.Errorf("payment %d: %v", n, err)
					return
				}
			}
		})
	}
	wg.Wait()
	return time.Since(begun)
}

func BenchmarkPayments(b *testing.B) {
	for _, n := range []struct{ callers, payments int }{{1, 300}, {8, 1600}, {64, 6400}} {
		b.Run(fmt.Sprintf("callers=%d", n.callers), func(b *testing.B) {
			s, h, g := testStore(b, Options{}), newHandWritten(b), newHandWritten(b)
			unprepared := testStore(b, Options{Pooler: true})
			race(b, n.callers, n.payments,
				byCallers("store", func(order string) error { return pay(context.Background(), s, order) }),
				byCallers("unprepared", func(order string) error { return pay(context.Background(), unprepared, order) }),
				byCallers("plain", g.plain), byCallers("rows", h.rows), byCallers("bare", h.bare),
				pgbench(b, "pgbench", bareScript(h.schema)), pgbench(b, "pgbench-store", storeScript(b, s)))
		})
	}
}

// Reconcilers take what is due, as many workers at once.
func BenchmarkTakeDue(b *testing.B) {
	for _, workers := range []int{1, 2, 4, 8} {
		b.Run(fmt.Sprintf("workers=%d", workers), func(b *testing.B) {
			s := testStore(b, Options{MaxConns: 20})
			admin(b, strings.ReplaceAll(`INSERT INTO s.chargeonce_slots (order_id, account, purpose) SELECT n, '', 'charge' FROM generate_series(1, 20000) AS n;
				INSERT INTO s.chargeonce_attempts (id, slot, ordinal, idempotency_key, reference, amount, currency, decimals, source_key, source_digest, description,
					provider, provider_account, environment, body_digest, status, reason, version, created_at, updated_at, fence, next_check_at)
				SELECT gen_random_uuid(), id, 1, 'k', 'r', 1250, 'EUR', 2, '', 'd', '', 'test', '', '', '', 'unknown', '', 2, now(), now(), 1, now() - n * interval '1 s'
					FROM (SELECT id, row_number() OVER () AS n FROM s.chargeonce_slots) AS slots;
				ANALYZE s.chargeonce_slots; ANALYZE s.chargeonce_attempts`, "s.", s.opts.Schema+"."))
			var taken atomic.Int64
			b.ResetTimer()
			for b.Loop() {
				var wg sync.WaitGroup
				for range workers {
					wg.Go(func() {
						for range 40 / workers {
							v, err := s.TakeDue(context.Background(), 100, time.Hour)
							if err != nil {
								b.Error(err)
							}
							taken.Add(int64(len(v.Attempts)))
						}
					})
				}
				wg.Wait()
			}
			b.ReportMetric(float64(taken.Load())/b.Elapsed().Seconds(), "claims/s")
			b.ReportMetric(0, "ns/op")
		})
	}
}
