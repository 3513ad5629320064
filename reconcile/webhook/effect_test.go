package webhook_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chargeonce/chargeonce/attempt"
	"github.com/chargeonce/chargeonce/money"
	"github.com/chargeonce/chargeonce/reconcile/webhook"
)

func failed(eventID, chargeID string, a attempt.Attempt) []byte {
	return payload(eventID, "charge.failed", chargeID, a.Reference, "failed", a.Amount)
}

func pending(eventID, chargeID string, a attempt.Attempt) []byte {
	return payload(eventID, "charge.pending", chargeID, a.Reference, "pending", a.Amount)
}

// The approval counts while the request is in flight, once, and what was kept of it is what was read.
func TestApprovalDuringTheClaim(t *testing.T) {
	onStores(t, func(t *testing.T, open func(func() time.Time) attempt.Store) {
		r := newRigOn(t, open)
		a := r.start()
		r.claim(a.ID)
		r.want(200, r.deliver("evt_1", succeeded("evt_1", "ch_1", a)))
		r.is(a.ID, attempt.StatusApproved, 3)
		r.after(time.Hour) // delivered again much later, with a timestamp of its own
		r.want(200, r.deliver("evt_1", succeeded("evt_1", "ch_1", a)))
		got := r.is(a.ID, attempt.StatusApproved, 3)
		if got.ChargeID != "ch_1" || len(got.Charges) != 1 || len(got.Duties) != 0 {
			t.Errorf("attempt %+v", got)
		}
		if c := r.handler.Counts(); c != (webhook.Counts{Stored: 1, Seen: 1}) {
			t.Errorf("counted %+v", c)
		}
		events, err := r.store.Events(t.Context(), a.ID)
		if err != nil {
			t.Fatal(err)
		}
		last := events[len(events)-1]
		if len(events) != 3 || last.Who != "webhook" || last.Evidence.Kind != attempt.EvidenceWebhook || !last.At.Equal(epoch) {
			t.Errorf("events %+v", events)
		}
		notes := r.notes()
		if len(notes) != 1 || notes[0].ID != "evt_1" || notes[0].AttemptID != a.ID {
			t.Fatalf("kept %+v", notes)
		}
		var kept map[string]any
		if err := json.Unmarshal(notes[0].Data, &kept); err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(notes[0].Data), "tok_visa") || len(kept) != 1 || kept["notice"] == nil {
			t.Errorf("kept %s", notes[0].Data)
		}
	})
}

// What says that no money moved waits for the claim; the reconciler is called for when it ends.
func TestDeclineDuringTheClaimWaits(t *testing.T) {
	onStores(t, func(t *testing.T, open func(func() time.Time) attempt.Store) {
		r := newRigOn(t, open)
		a := r.start()
		r.claim(a.ID)
		r.want(200, r.deliver("evt_1", failed("evt_1", "ch_1", a)))
		got := r.is(a.ID, attempt.StatusSending, 3)
		if want := epoch.Add(15 * time.Second); !got.NextCheckAt.Equal(want) {
			t.Errorf("looked at again at %s, want %s", got.NextCheckAt, want)
		}
		r.after(15 * time.Second)
		r.record(a.ID, attempt.Evidence{Kind: attempt.EvidenceTime})
		r.is(a.ID, attempt.StatusDeclined, 4)
	})
}

// Whether a failure speaks for every send is for the provider's declaration to say.
func TestDeclineOfAProviderThatKeepsNoAnswers(t *testing.T) {
	r := newRig(t)
	r.handler = r.endpoint(func(c *webhook.Config) { c.KeepsAnswers = false })
	a := r.start()
	r.claim(a.ID)
	r.after(time.Minute)
	r.want(200, r.deliver("evt_1", failed("evt_1", "ch_1", a)))
	r.is(a.ID, attempt.StatusUnknown, 3)
}

// Whatever the order: the same end.
func TestOrderOfEventsDoesNotMatter(t *testing.T) {
	onStores(t, func(t *testing.T, open func(func() time.Time) attempt.Store) {
		r := newRigOn(t, open)
		type event struct {
			id   string
			body func(string, string, attempt.Attempt) []byte
		}
		three := []event{{"pending", pending}, {"failed", failed}, {"succeeded", succeeded}}
		n := 0
		var ends []attempt.Attempt
		for _, order := range [][]int{{0, 1, 2}, {0, 2, 1}, {1, 0, 2}, {2, 0, 1}, {1, 2, 0}, {2, 1, 0}} {
			a := r.start()
			r.claim(a.ID)
			for _, i := range order {
				if three[i].id == "failed" { // of another charge: one that the payer gave up
					id := fmt.Sprintf("evt_%d", n)
					r.want(200, r.deliver(id, three[i].body(id, "ch_failed", a)))
				} else {
					id := fmt.Sprintf("evt_%d", n)
					r.want(200, r.deliver(id, three[i].body(id, "ch_1", a)))
				}
				n++
			}
			ends = append(ends, r.attempt(a.ID))
		}
		for _, a := range ends {
			c, _ := a.Charge("ch_1")
			if a.Status != attempt.StatusApproved || a.ChargeID != "ch_1" || c.Status != attempt.ChargeSucceeded || len(a.Charges) != 2 || len(a.Duties) != 0 {
				t.Errorf("ended as %s with %+v and %+v", a.Status, a.Charges, a.Duties)
			}
		}
	})
}

// An end is final: money that an event tells of afterwards is owed, once.
func TestLateMoney(t *testing.T) {
	onStores(t, func(t *testing.T, open func(func() time.Time) attempt.Store) {
		r := newRigOn(t, open)
		a := r.start()
		r.claim(a.ID)
		r.after(time.Minute)
		r.want(200, r.deliver("evt_1", failed("evt_1", "ch_1", a)))
		r.is(a.ID, attempt.StatusDeclined, 3)
		for range 2 {
			r.want(200, r.deliver("evt_2", succeeded("evt_2", "ch_2", a)))
		}
		got := r.is(a.ID, attempt.StatusDeclined, 4)
		if len(got.Duties) != 1 || got.Duties[0].Why != attempt.WhyLateMoney || got.NextCheckAt.IsZero() {
			t.Errorf("owes %+v, looked at at %s", got.Duties, got.NextCheckAt)
		}
	})
}

func TestFiftyDeliveriesAtOnceHaveOneEffect(t *testing.T) {
	onStores(t, func(t *testing.T, open func(func() time.Time) attempt.Store) {
		r := newRigOn(t, open)
		a := r.start()
		r.claim(a.ID)
		other := r.endpoint() // as of another process
		body := succeeded("evt_1", "ch_1", a)
		orphan := payload("evt_2", "charge.succeeded", "ch_2", "somebody-else", "succeeded", price)
		var all sync.WaitGroup
		for i := range 50 {
			all.Go(func() {
				h := r.handler
				if i%2 == 0 {
					h = other
				}
				for id, body := range map[string][]byte{"evt_1": body, "evt_2": orphan} {
					if got := r.do(h, r.request(signedHeader(secretText, id, r.clock(), body), bytes.NewReader(body))); got != 200 {
						t.Errorf("answered %d", got)
					}
				}
			})
		}
		all.Wait()
		r.is(a.ID, attempt.StatusApproved, 3)
		if n := r.notes(); len(n) != 2 {
			t.Errorf("kept %d notes", len(n))
		}
		first, second := r.handler.Counts(), other.Counts()
		if first.Stored+second.Stored != 1 || first.Orphan+second.Orphan != 1 || first.Seen+second.Seen != 98 {
			t.Errorf("counted %+v and %+v", first, second)
		}
	})
}

func TestNothingIsAcknowledgedThatIsNotStored(t *testing.T) {
	onStores(t, func(t *testing.T, open func(func() time.Time) attempt.Store) {
		r := newRigOn(t, open)
		a := r.start()
		r.claim(a.ID)
		orphan := payload("evt_2", "charge.succeeded", "ch_2", "somebody-else", "succeeded", price)
		unstarted := r.mint()
		for _, err := range []error{attempt.ErrUnavailable, attempt.ErrInTx, errors.New("a mistake")} {
			r.store.failWith(func(*attempt.Step) error { return err })
			r.want(503, r.deliver("evt_1", succeeded("evt_1", "ch_1", a)))
			r.want(503, r.deliver("evt_2", orphan))
			r.want(503, r.deliver("evt_3", []byte("unreadable")))
			r.store.failWith(func(s *attempt.Step) error { // between the two steps of an event without an attempt
				if s.ID == "" {
					return err
				}
				return nil
			})
			r.want(503, r.deliver("evt_4", succeeded("evt_4", "ch_4", unstarted)))
		}
		if c := r.handler.Counts(); c != (webhook.Counts{NotStored: 12}) {
			t.Errorf("counted %+v", c)
		}
		r.store.failWith(nil)
		if n := r.notes(); len(n) != 0 {
			t.Errorf("kept %+v", n)
		}
		r.is(a.ID, attempt.StatusSending, 2)
		r.want(200, r.deliver("evt_1", succeeded("evt_1", "ch_1", a)))
		r.want(200, r.deliver("evt_2", orphan))
		r.want(200, r.deliver("evt_3", []byte("unreadable")))
		r.want(200, r.deliver("evt_4", succeeded("evt_4", "ch_4", unstarted)))
		r.is(a.ID, attempt.StatusApproved, 3)
		if n := r.notes(); len(n) != 4 {
			t.Errorf("kept %d notes", len(n))
		}
	})
}

// The commit's answer is lost: the store has it, the provider does not know, and delivers it again.
func TestACommitOfWhichNobodyKnows(t *testing.T) {
	r := newRig(t)
	a := r.start()
	r.claim(a.ID)
	h := r.endpoint(func(c *webhook.Config) { c.Store = lostCommit{r.store} })
	body := succeeded("evt_1", "ch_1", a)
	r.want(503, r.do(h, r.request(signedHeader(secretText, "evt_1", r.clock(), body), bytes.NewReader(body))))
	r.is(a.ID, attempt.StatusApproved, 3)
	r.want(200, r.deliver("evt_1", body))
	r.is(a.ID, attempt.StatusApproved, 3)
}

type lostCommit struct{ *failing }

func (s lostCommit) Apply(ctx context.Context, steps ...*attempt.Step) error {
	return errors.Join(s.failing.Apply(ctx, steps...), attempt.ErrUnavailable)
}

func TestEventsThatFitNoAttempt(t *testing.T) {
	onStores(t, func(t *testing.T, open func(func() time.Time) attempt.Store) {
		r := newRigOn(t, open)
		a := r.start()
		elsewhere := []attempt.Attempt{
			r.start(func(a *attempt.Attempt) { a.Provider = "other" }),
			r.start(func(a *attempt.Attempt) { a.ProviderAccount = "acct_2" }),
			r.start(func(a *attempt.Attempt) { a.Environment = "live" }),
		}
		refund := r.refundOf(r.approve(r.start()))
		unstarted := r.mint()
		prefixed := a
		prefixed.Reference = "x" + a.Reference // with the id of an attempt, and not its reference
		type try struct {
			body []byte
			why  webhook.Why
		}
		tries := []try{
			{payload("", "charge.succeeded", "ch_1", "", "succeeded", price), webhook.WhyNotOurs},
			{payload("", "charge.succeeded", "ch_1", "order-77", "succeeded", price), webhook.WhyNotOurs},
			{payload("", "charge.succeeded", "ch_1", strings.ToUpper(a.Reference), "succeeded", price), webhook.WhyNotOurs},
			{succeeded("", "ch_1", unstarted), webhook.WhyNoAttempt},
			{succeeded("", "ch_1", prefixed), webhook.WhyNoAttempt},
			{payload("", "charge.succeeded", "ch_1", a.ID, "succeeded", price), webhook.WhyNoAttempt},
			{payload("", "refund.succeeded", "re_1", a.Reference, "succeeded", price), webhook.WhyOtherKind},
			{payload("", "charge.succeeded", "ch_1", refund.Reference, "succeeded", price), webhook.WhyOtherKind},
		}
		for _, e := range elsewhere {
			tries = append(tries, try{succeeded("", "ch_1", e), webhook.WhyOtherPlace})
		}
		for i, try := range tries {
			id := fmt.Sprintf("evt_%02d", i)
			for range 2 {
				r.want(200, r.deliver(id, try.body))
			}
		}
		for _, a := range append(elsewhere, a, refund) {
			r.is(a.ID, a.Status, a.Version)
		}
		all := r.orphans()
		if len(all) != len(tries) {
			t.Fatalf("%d orphans of %d", len(all), len(tries))
		}
		for i, o := range all {
			if o.EventID != fmt.Sprintf("evt_%02d", i) || o.Why != tries[i].why || o.Notice.Charge.ID == "" || !o.At.Equal(epoch) {
				t.Errorf("%d: %+v, want %s", i, o, tries[i].why)
			}
		}
		if c := r.handler.Counts(); c != (webhook.Counts{Orphan: uint64(len(tries)), Seen: uint64(len(tries))}) {
			t.Errorf("counted %+v", c)
		}
		if n, err := r.handler.Adopt(t.Context()); n != 0 || err != nil {
			t.Errorf("adopted %d, %v", n, err)
		}
		if again := r.orphans(); !slices.Equal(all, again) {
			t.Errorf("listed %+v\nthen %+v", all, again)
		}
	})
}

// Two endpoints, two environments, one store: the same event ids, and none of the other's.
func TestPlacesShareNothing(t *testing.T) {
	onStores(t, func(t *testing.T, open func(func() time.Time) attempt.Store) {
		r := newRigOn(t, open)
		live := place
		live.Environment = "live"
		liveEndpoint := r.endpoint(func(c *webhook.Config) { c.Place = live })
		test := r.start()
		there := r.start(func(a *attempt.Attempt) { a.Environment = "live" })
		post := func(h http.Handler, body []byte) int {
			return r.do(h, r.request(signedHeader(secretText, "evt_1", r.clock(), body), bytes.NewReader(body)))
		}
		r.want(200, post(r.handler, succeeded("evt_1", "ch_1", test)))
		r.want(200, post(liveEndpoint, succeeded("evt_1", "ch_1", there)))
		r.is(test.ID, attempt.StatusApproved, 2)
		r.is(there.ID, attempt.StatusApproved, 2)

		// No two places share a scope, however they are spelt.
		slashed := []attempt.Place{
			{Provider: "a", Account: "b/c"}, {Provider: "a/b", Account: "c"}, {Provider: "a", Account: "b", Environment: "c/"},
			{Provider: "a", Account: "b%2Fc"},
		}
		for _, p := range slashed {
			r.want(200, post(r.endpoint(func(c *webhook.Config) { c.Place = p }), payload("", "charge.failed", p.Account, "x", "failed", price)))
		}
		for _, p := range slashed {
			n := 0
			for o, err := range webhook.Orphans(t.Context(), r.store, p) {
				if n++; err != nil || o.Notice.Charge.ID != p.Account {
					t.Errorf("%+v: %+v, %v", p, o, err)
				}
			}
			if n != 1 {
				t.Errorf("%+v: %d orphans", p, n)
			}
		}
	})
}

func TestAdopt(t *testing.T) {
	onStores(t, func(t *testing.T, open func(func() time.Time) attempt.Store) {
		r := newRigOn(t, open)
		late, never, elsewhere, refund := r.mint(), r.mint(), r.mint(), r.mint()
		elsewhere.Environment = "live"
		for i, a := range []attempt.Attempt{late, never, elsewhere, refund} {
			id := fmt.Sprintf("evt_%d", i)
			r.want(200, r.deliver(id, succeeded(id, fmt.Sprintf("ch_%d", i), a)))
		}
		if n, err := r.handler.Adopt(t.Context()); n != 0 || err != nil {
			t.Fatalf("adopted %d, %v", n, err)
		}
		r.put(late)
		r.put(elsewhere)
		r.claim(late.ID)

		// Any number at once: one effect.
		var all sync.WaitGroup
		var mu sync.Mutex
		adopted := 0
		for range 10 {
			all.Go(func() {
				n, err := r.handler.Adopt(t.Context())
				mu.Lock()
				defer mu.Unlock()
				if adopted += n; err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
		if adopted != 1 {
			t.Errorf("adopted %d", adopted)
		}
		r.is(late.ID, attempt.StatusApproved, 3)
		r.is(elsewhere.ID, attempt.StatusPrepared, 1)
		if d := r.last(); d.Result != webhook.Adopted || d.Attempt.ID != late.ID || d.EventID != "evt_0" {
			t.Errorf("told %+v", d)
		}
		if c := r.handler.Counts(); c.Adopted != 1 || c.Stored != 0 {
			t.Errorf("counted %+v", c)
		}
		if left := r.orphans(); len(left) != 3 {
			t.Errorf("left %+v", left)
		}
		r.want(200, r.deliver("evt_0", succeeded("evt_0", "ch_0", late))) // and when it is delivered again
		r.is(late.ID, attempt.StatusApproved, 3)

		// An orphan that is delivered again once its attempt is there needs no Adopt.
		r.put(never)
		r.claim(never.ID)
		r.want(200, r.deliver("evt_1", succeeded("evt_1", "ch_1", never)))
		r.is(never.ID, attempt.StatusApproved, 3)
		if n, err := r.handler.Adopt(t.Context()); n != 0 || err != nil {
			t.Errorf("adopted %d, %v", n, err)
		}
	})
}

// More orphans than are read at once, and one whose step fails.
func TestAdoptReadsAllOrphans(t *testing.T) {
	r := newRig(t)
	const many = 1203
	var attempts []attempt.Attempt
	for i := range many {
		a := r.mint()
		id := fmt.Sprintf("evt_%05d", i)
		r.want(200, r.deliver(id, succeeded(id, "ch_"+id, a)))
		attempts = append(attempts, a)
	}
	for _, a := range attempts {
		r.put(a)
	}
	if got := len(r.orphans()); got != many {
		t.Errorf("%d orphans", got)
	}
	broken := attempts[600].ID
	mistake := errors.New("a mistake")
	r.store.failWith(func(s *attempt.Step) error {
		if s.ID == broken {
			return mistake
		}
		return nil
	})
	if n, err := r.handler.Adopt(t.Context()); n != many-1 || !errors.Is(err, mistake) || !strings.Contains(err.Error(), "evt_00600") {
		t.Errorf("adopted %d, %v", n, err)
	}
	steps := 0
	r.store.failWith(func(*attempt.Step) error {
		steps++
		return attempt.ErrUnavailable
	})
	if n, err := r.handler.Adopt(t.Context()); n != 0 || !errors.Is(err, attempt.ErrUnavailable) || steps != 1 {
		t.Errorf("adopted %d, %v, after %d steps", n, err, steps)
	}
	r.store.failWith(nil)
	if n, err := r.handler.Adopt(t.Context()); n != 1 || err != nil {
		t.Errorf("adopted %d, %v", n, err)
	}
	if len(r.orphans()) != 0 {
		t.Error("orphans are left")
	}
	if err := r.store.Store.Close(); err != nil {
		t.Fatal(err)
	}
	for _, err := range r.handler.Orphans(t.Context()) {
		if !errors.Is(err, attempt.ErrUnavailable) {
			t.Errorf("listed from a store that is closed: %v", err)
		}
	}
	if _, err := r.handler.Adopt(t.Context()); !errors.Is(err, attempt.ErrUnavailable) {
		t.Errorf("adopted from a store that is closed: %v", err)
	}
}

// approve makes an attempt an approved one.
func (r *rig) approve(a attempt.Attempt) attempt.Attempt {
	r.t.Helper()
	r.claim(a.ID)
	r.record(a.ID, attempt.Evidence{Kind: attempt.EvidenceWebhook, Charges: []attempt.Charge{
		{ID: "ch_" + a.ID, Status: attempt.ChargeSucceeded, Amount: a.Amount},
	}})
	return r.is(a.ID, attempt.StatusApproved, 3)
}

// refundOf stores a prepared refund of an approved attempt.
func (r *rig) refundOf(charge attempt.Attempt) attempt.Attempt {
	r.t.Helper()
	return r.start(func(a *attempt.Attempt) {
		a.Slot, a.Ordinal = charge.Slot, 2
		a.Refund = attempt.RefundOf{AttemptID: charge.ID, ChargeID: charge.ChargeID, ID: "return-1"}
	})
}

// A refund's event goes to the refund, and the charge learns of it in the same commit.
func TestRefundEvents(t *testing.T) {
	onStores(t, func(t *testing.T, open func(func() time.Time) attempt.Store) {
		r := newRigOn(t, open)
		charge := r.approve(r.start())
		refund := r.refundOf(charge)
		r.claim(refund.ID)
		for range 2 {
			r.want(200, r.deliver("evt_1", payload("evt_1", "refund.succeeded", "re_1", refund.Reference, "succeeded", price)))
		}
		r.is(refund.ID, attempt.StatusApproved, 3)
		got := r.is(charge.ID, attempt.StatusApproved, 4)
		if c, _ := got.Charge(got.ChargeID); c.Refunded != price.Minor() {
			t.Errorf("refunded %d, want %d", c.Refunded, price.Minor())
		}
	})
}

// The handler on a socket: what a client sees of it.
func TestOnASocket(t *testing.T) {
	r := newRig(t)
	a := r.start()
	server := httptest.NewServer(r.handler)
	defer server.Close()
	type answer struct {
		status int
		length int64
		close  bool
	}
	post := func(header http.Header, body []byte, chunked bool) answer {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, server.URL, bytes.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		if chunked {
			req.ContentLength = -1
		}
		for name, values := range header {
			req.Header[name] = values
		}
		resp, err := server.Client().Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		return answer{resp.StatusCode, resp.ContentLength, resp.Close}
	}
	body := succeeded("evt_1", "ch_1", a)
	if got := post(signedHeader(secretText, "evt_1", r.clock(), body), bytes.Repeat([]byte("x"), 1<<20), true); got.status != 413 || !got.close {
		t.Errorf("a huge body: %d, close %t", got.status, got.close)
	}
	twice := signedHeader(secretText, "evt_1", r.clock(), body)
	twice["Webhook-Id"] = []string{"evt_1", "evt_1"}
	if got := post(twice, body, false); got.status != 400 {
		t.Errorf("an id twice: %d", got.status)
	}
	spelt := http.Header{} // names of headers have no case, RFC 9110 section 5.1
	for name, values := range signedHeader(secretText, "evt_1", r.clock(), body) {
		spelt[strings.ToLower(name)] = values
	}
	if got := post(spelt, body, true); got.status != 200 || got.length != 0 {
		t.Errorf("in lower case: %d, %d bytes", got.status, got.length)
	}
	r.is(a.ID, attempt.StatusApproved, 2)
}

// What is none of ours may name anything: a card number in it is not kept, and the event counts once all the same.
func TestForeignEventWithACardNumber(t *testing.T) {
	r := newRig(t)
	const card = "4111111111111111"
	body := payload("evt_"+card, "charge.succeeded", "ch "+card, "card "+card, "succeeded", money.MustParse("1.00", "EUR"))
	r.want(200, r.deliver("evt-"+card, body))
	r.want(200, r.deliver("evt-"+card, body))
	all := r.orphans()
	if len(all) != 1 {
		t.Fatalf("%d orphans", len(all))
	}
	if text := fmt.Sprintf("%+v", all); strings.Contains(text, card) {
		t.Errorf("kept: %s", text)
	}
}
