package fakeprovider_test

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/chargeonce/chargeonce/fakeprovider"
)

func (c caller) void(id string) reply {
	return c.do("POST", "/v1/charges/"+id+"/void", "", "")
}

func TestVoid(t *testing.T) {
	bank := fakeprovider.New(fakeprovider.Config{})
	c := call(t, bank)
	made := c.pay("k1", "r1", "tok_requires_action")
	c.pay("k2", "r2", "tok_visa")
	c.pay("k3", "r3", "tok_declined")
	other := c
	other.token = "another"

	want(t, "another client's", other.void("ch_000001"), "404")
	want(t, "nobody's", c.void("ch_000009"), "404")
	nobody := c
	nobody.token = ""
	want(t, "no token", nobody.void("ch_000001"), "401")
	want(t, "GET", c.do("GET", "/v1/charges/ch_000001/void", "", ""), "405")
	want(t, "a refund", c.do("POST", "/v1/refunds/re_000001/void", "", ""), "405")
	want(t, "still pending", bank.Charges("r1")[0].Status, "pending")
	for range 2 {
		r := c.void("ch_000001")
		want(t, "void", fmt.Sprint(r, r.field("id"), r.field("status"), r.field("decline_code")), "200ch_000001failedvoided")
		want(t, "no action any more", strings.Contains(r.body, "next_action"), false)
	}
	want(t, "read", c.do("GET", "/v1/charges/ch_000001", "", "").field("decline_code"), "voided")
	want(t, "found", strings.Contains(c.find("r1").body, `"status":"failed"`), true)
	want(t, "no charge", charges(bank, "r1"), 0)
	want(t, "ledger", bank.Declines("r1")[0].DeclineCode, "voided")
	for _, id := range []string{"ch_000002", "ch_000003"} { // succeeded, declined
		r := c.void(id)
		want(t, id, fmt.Sprint(r, r.field("code"), r.field("charge")), "409charge_not_voidable"+id)
	}
	want(t, "untouched", bank.Charges("r2")[0].Status, "succeeded")
	want(t, "untouched", bank.Declines("r3")[0].DeclineCode, "generic_decline")
	want(t, "keys", bank.DistinctKeys(), 3)

	replay := c.pay("k1", "r1", "tok_requires_action")
	want(t, "the key's answer", fmt.Sprint(replay, replay.body == made.body), "201 replayed true")
}

// A payer who completes the action is charged; a void is too late then.
func TestRequiresActionIsCompleted(t *testing.T) {
	bank := fakeprovider.New(fakeprovider.Config{})
	c := call(t, bank)
	want(t, "action", strings.Contains(c.pay("k1", "r1", "tok_requires_action").body, `"next_action":{"type":"redirect"`), true)
	r := c.do("POST", "/_fake/settle", "", `{"id":"ch_000001","status":"succeeded"}`)
	want(t, "settle", r, "200")
	r = c.do("GET", "/v1/charges/ch_000001", "", "")
	want(t, "charged", r.field("status")+r.field("next_action"), "succeeded")
	want(t, "too late", c.void("ch_000001"), "409")
}

// What was under way when the charge was voided does not happen, unless the
// provider breaks its word.
func TestVoidIsFinal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		bank := fakeprovider.New(fakeprovider.Config{})
		c := call(t, bank)
		c.pay("k1", "r1", "tok_pending_then_succeeded_1h")
		c.void("ch_000001")
		time.Sleep(2 * time.Hour)
		want(t, "later", c.void("ch_000001").field("decline_code"), "voided")
		settle := func(to fakeprovider.State) {
			t.Helper()
			if err := bank.Settle("ch_000001", to); err != nil {
				t.Fatal(err)
			}
		}
		settle(fakeprovider.Failed)
		want(t, "failed as it was", c.void("ch_000001").field("decline_code"), "voided")
		settle(fakeprovider.Succeeded)
		want(t, "a broken word", charges(bank, "r1"), 1)
		want(t, "no longer voided", c.void("ch_000001"), "409")
		settle(fakeprovider.Failed)
		want(t, "reason", fmt.Sprint(bank.Declines("r1")[0].DeclineCode), "")
	})
}

func TestVoidFaults(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		bank := fakeprovider.New(fakeprovider.Config{})
		c := call(t, bank)
		voids := fakeprovider.Match{Path: "/v1/charges/*"}
		status := func() string { return c.do("GET", "/v1/charges/ch_000001", "", "").field("status") }
		bank.ScriptFor(voids, "status:503", "lose-request", "lose-answer", "slow:5s", "answer")
		want(t, "a charge is no void", c.pay("k1", "r1", "tok_pending"), "201")
		want(t, "refused", c.void("ch_000001"), "503")
		want(t, "lost", c.void("ch_000001").err != nil, true)
		want(t, "not voided", status(), "pending")
		want(t, "answer lost", c.void("ch_000001").err != nil, true)
		want(t, "voided", status(), "failed")
		start := time.Now()
		want(t, "slow", c.void("ch_000001"), "200")
		want(t, "after", time.Since(start), 5*time.Second)
		want(t, "used", len(bank.Unused()), 1)

		c.pay("k2", "r2", "tok_pending_then_succeeded_10s")
		bank.ClearFaults()
		bank.ScriptFor(voids, "book-after:15s")
		start = time.Now()
		want(t, "voided too late", c.void("ch_000002"), "409")
		want(t, "after", time.Since(start), 15*time.Second)
	})
}

// Drawn faults do not depend on the order in which charges are voided.
func TestVoidDraw(t *testing.T) {
	draw := func(ids ...string) string {
		bank := fakeprovider.New(fakeprovider.Config{})
		bank.Draw(fakeprovider.Draw{Seed: 7, Rate: 0.5, Faults: []fakeprovider.Fault{"status:503"}})
		got := map[string][]string{}
		for _, id := range ids {
			got[id] = append(got[id], call(t, bank).void(id).String())
		}
		return fmt.Sprint(got)
	}
	want(t, "order", draw("ch_000001", "ch_000001", "ch_000002", "ch_000003", "ch_000001"),
		draw("ch_000003", "ch_000001", "ch_000002", "ch_000001", "ch_000001"))
	want(t, "some are hit", strings.Contains(draw("ch_000001", "ch_000002", "ch_000003", "ch_000004"), "503"), true)
}

func TestVoidSurvivesRestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		file := t.TempDir() + "/ledger.db"
		bank := open(t, file, fakeprovider.Config{})
		c := call(t, bank)
		made := c.pay("k1", "r1", "tok_pending_then_succeeded_1h")
		c.pay("k2", "r2", "tok_requires_action")
		want(t, "void", c.void("ch_000001"), "200")
		bank.Close()
		for range 3 { // the second time writes the ledger anew, the third reads that
			bank = open(t, file, fakeprovider.Config{})
			c = call(t, bank)
			time.Sleep(2 * time.Hour)
			want(t, "voided", bank.Declines("r1")[0].DeclineCode, "voided")
			want(t, "again", c.void("ch_000001"), "200")
			want(t, "the key's answer", c.pay("k1", "r1", "tok_pending_then_succeeded_1h").body, made.body)
			for range 1200 { // enough to have the file rewritten at the next start
				if err := bank.Settle("ch_000002", fakeprovider.Pending); err != nil {
					t.Fatal(err)
				}
			}
			want(t, "action", strings.Contains(c.find("r2").body, "next_action"), true)
			bank.Close()
		}
	})
}
