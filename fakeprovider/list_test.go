package fakeprovider_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/chargeonce/chargeonce/fakeprovider"
)

// list gets one page of a listing; query starts with created_from's value.
func (c caller) list(query string) reply {
	return c.do("GET", "/v1/charges?created_from="+query, "", "")
}

func TestListByTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // starts at midnight UTC 2000-01-01
		bank := fakeprovider.New(fakeprovider.Config{})
		c, other := call(t, bank), call(t, bank)
		other.token = "another"
		for i := range 6 { // one a second, each of another status
			source := []string{"tok_visa", "tok_declined", "tok_pending"}[i%3]
			c.pay(fmt.Sprint("k", i), fmt.Sprint("r", i), source)
			other.pay(fmt.Sprint("k", i), "theirs", "tok_visa")
			time.Sleep(time.Second)
		}
		c.refund("f1", "rf1", "ch_000001", 100)
		all := "ch_000001 ch_000003 ch_000005 ch_000007 ch_000009 ch_000011"
		for _, test := range []struct{ query, ids string }{
			{"0", all},
			{"946684800", all},
			{"946684801", "ch_000003 ch_000005 ch_000007 ch_000009 ch_000011"},
			{"946684801&created_to=946684803", "ch_000003 ch_000005"},
			{"946684801&created_to=946684801", ""},
			{"2000-01-01T00:00:04Z", "ch_000009 ch_000011"},
			{"2000-01-01T02:00:04%2B02:00&created_to=2000-01-01T00:00:04.5Z", "ch_000009"},
			{"2000-01-01T00:00:03.000000001Z", "ch_000009 ch_000011"},
			{"2001-01-01T00:00:00Z", ""},
			{"946684801&created_to=946684805&limit=2&starting_after=ch_000003", "ch_000005 ch_000007"},
			{"946684804&starting_after=ch_000001", "ch_000009 ch_000011"},
			{"0&merchant_reference=r4", "ch_000009"},
			{"946684805&merchant_reference=r4", ""},
		} {
			r := c.list(test.query)
			want(t, test.query, r.ids(), test.ids)
			want(t, test.query, r.status, 200)
		}
		want(t, "refunds", c.do("GET", "/v1/refunds?created_from=946684806", "", "").ids(), "re_000001")
		want(t, "refunds before", c.do("GET", "/v1/refunds?created_from=0&created_to=946684806", "", "").ids(), "")
		for _, query := range []string{
			"yesterday", "2000-01-01", "1.5", "946684801&created_to=946684800", "99999999999999", "-99999999999",
			"2000-01-01T02:00:04+02:00", // the plus is a blank by then
			"0&created_to=x",
		} {
			r := c.list(query)
			want(t, query, fmt.Sprint(r, r.field("code")), "400query_invalid")
		}
		want(t, "what is wrong", strings.Contains(c.list("0&created_to=x").body, "created_to: want Unix seconds or an RFC 3339 time"), true)
	})
}

// A listing is paged to its end while charges are made.
func TestListPages(t *testing.T) {
	bank := fakeprovider.New(fakeprovider.Config{})
	c := call(t, bank)
	for i := range 130 {
		c.pay(fmt.Sprint("k", i), "r", "tok_visa")
	}
	first := c.list("0")
	want(t, "a hundred unless said", fmt.Sprint(len(strings.Fields(first.ids())), first.field("has_more")), "100true")
	var ids []string
	for after := ""; ; after = "&starting_after=" + ids[len(ids)-1] {
		r := c.list("0&limit=10" + after)
		ids = append(ids, strings.Fields(r.ids())...)
		if len(ids) == 60 {
			c.pay("late", "r", "tok_visa")
		}
		if r.field("has_more") == "false" {
			break
		}
	}
	want(t, "records", len(ids), 131)
	want(t, "sorted", slices.IsSorted(ids), true)
	want(t, "each once", len(slices.Compact(ids)), 131)
}

// Every fault of a search is one of a listing.
func TestListFaults(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		bank := fakeprovider.New(fakeprovider.Config{SearchLag: time.Minute})
		c := call(t, bank)
		bank.Script("hide:1h", "answer", "answer")
		for i := range 3 {
			c.pay(fmt.Sprint("k", i), fmt.Sprint("r", i), "tok_visa")
		}
		want(t, "in the lag", c.list("0").ids(), "")
		time.Sleep(time.Minute)
		want(t, "hidden", c.list("0").ids(), "ch_000002 ch_000003")
		r := c.list("0&limit=2")
		want(t, "no more", r.ids()+r.field("has_more"), "ch_000002 ch_000003false")
		time.Sleep(time.Hour)
		for _, test := range []struct {
			fault fakeprovider.Fault
			ids   string
			more  string
		}{
			{"answer", "ch_000001 ch_000002", "true"},
			{"lookup-empty", "", "false"},
			{"lookup-twice", "ch_000001 ch_000002 ch_900001 ch_900002", "true"},
			{"lookup-cut", "ch_000001", "false"},
			{"lookup-foreign", "ch_000001", "true"},
		} {
			bank.ScriptFor(fakeprovider.Lookups, test.fault)
			r := c.list("0&limit=2")
			want(t, string(test.fault), r.ids()+" "+r.field("has_more"), test.ids+" "+test.more)
		}
		bank.ScriptFor(fakeprovider.Lookups, "lookup-stuck", "status:503", "lookup-null", "set:amount=7")
		r = c.list("0&limit=1&starting_after=ch_000003")
		want(t, "stuck", r.ids()+r.field("has_more"), "ch_000001true")
		want(t, "status", c.list("0"), "503")
		want(t, "null", c.list("0").field("data"), "null")
		want(t, "set", strings.Count(c.list("0").body, `"amount":7,`), 3)
	})
}

// Charges are listed in the order of their times although the clock was set
// back, and a page follows the one before.
func TestListAfterClockWasSetBack(t *testing.T) {
	now := time.Unix(1000, 0)
	bank := fakeprovider.New(fakeprovider.Config{Now: func() time.Time { return now }})
	c := call(t, bank)
	for i, at := range []int64{1000, 1002, 990, 1001, 990} {
		now = time.Unix(at, 0)
		c.pay(fmt.Sprint("k", i), "r", "tok_visa")
	}
	now = time.Unix(2000, 0)
	want(t, "all", c.list("0").ids(), "ch_000003 ch_000005 ch_000001 ch_000004 ch_000002")
	want(t, "page", c.list("0&limit=1&starting_after=ch_000005").ids(), "ch_000001")
	want(t, "span", c.list("991&created_to=1002").ids(), "ch_000001 ch_000004")
}

func TestListAfterRestart(t *testing.T) {
	file := t.TempDir() + "/ledger.db"
	bank := open(t, file, fakeprovider.Config{})
	call(t, bank).pay("k", "r", "tok_visa")
	want(t, "before", call(t, bank).list("0").ids(), "ch_000001")
	bank.Close()
	bank = open(t, file, fakeprovider.Config{})
	want(t, "after", call(t, bank).list("0").ids(), "ch_000001")
	if err := bank.Reset(); err != nil {
		t.Fatal(err)
	}
	want(t, "empty", call(t, bank).list("0").ids(), "")
}
