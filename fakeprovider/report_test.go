package fakeprovider_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/chargeonce/chargeonce/fakeprovider"
)

const reportHeader = "id,reference,type,gross,fee,net,currency,created\n"

func writeReport(t *testing.T, bank *fakeprovider.Provider, o fakeprovider.ReportOptions) string {
	t.Helper()
	var b strings.Builder
	if err := bank.WriteReport(&b, o); err != nil {
		t.Error(err)
	}
	return b.String()
}

// payIn charges an amount of a currency.
func (c caller) payIn(key, ref, currency string, amount int64) reply {
	return c.do("POST", "/v1/charges", `"`+key+`"`,
		fmt.Sprintf(`{"amount":%d,"currency":%q,"source":"tok_visa","merchant_reference":%q}`, amount, currency, ref))
}

func TestReport(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		bank := fakeprovider.New(fakeprovider.Config{Tokens: map[string]string{"secret": "shop", "another": "other"}})
		c, other := call(t, bank), call(t, bank)
		other.token = "another"
		want(t, "empty", writeReport(t, bank, fakeprovider.ReportOptions{}),
			"Settlement report,fakeprovider\nPeriod,,\n"+reportHeader+"TOTAL,0,,,,,,\n")

		c.payIn("k1", "r1", "EUR", 1000)
		c.pay("k2", "r2", "tok_declined")
		c.pay("k3", "r3", "tok_pending_then_succeeded_5s")
		time.Sleep(time.Second + time.Millisecond)
		c.refund("f1", `f"1,x`, "ch_000001", 400)
		bank.Script("pending")
		c.refund("f2", "f2", "ch_000001", 100)
		time.Sleep(time.Second)
		other.payIn("k1", "theirs", "EUR", 5)

		first := "ch_000001,r1,charge,10.00,0.39,9.61,EUR,2000-01-01T00:00:00Z\n"
		refund := "re_000001,\"f\"\"1,x\",refund,-4.00,0.00,-4.00,EUR,2000-01-01T00:00:01.001Z\n"
		theirs := "ch_000004,theirs,charge,0.05,0.25,-0.20,EUR,2000-01-01T00:00:02.001Z\n"
		want(t, "one currency", writeReport(t, bank, fakeprovider.ReportOptions{}),
			"Settlement report,fakeprovider\nPeriod,,\n"+reportHeader+first+refund+theirs+"TOTAL,3,,6.05,0.64,5.41,EUR,\n")
		want(t, "one client", writeReport(t, bank, fakeprovider.ReportOptions{Client: "shop"}),
			"Settlement report,fakeprovider\nPeriod,,\n"+reportHeader+first+refund+"TOTAL,2,,6.00,0.39,5.61,EUR,\n")
		want(t, "nobody", strings.Count(writeReport(t, bank, fakeprovider.ReportOptions{Client: "nobody"}), "\n"), 4)
		midnight := time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)
		want(t, "a period", writeReport(t, bank, fakeprovider.ReportOptions{
			From: midnight.Add(1001 * time.Millisecond).In(time.FixedZone("x", 3600)), To: midnight.Add(2001 * time.Millisecond),
		}), "Settlement report,fakeprovider\nPeriod,2000-01-01T00:00:01.001Z,2000-01-01T00:00:02.001Z\n"+reportHeader+refund+"TOTAL,1,,-4.00,0.00,-4.00,EUR,\n")

		time.Sleep(time.Hour) // ch_000003 has succeeded by now
		c.payIn("k5", "yen", "JPY", 54890)
		c.payIn("k6", "dinar", "KWD", 1234)
		got := writeReport(t, bank, fakeprovider.ReportOptions{From: midnight.Add(time.Minute)})
		want(t, "decimals", strings.TrimPrefix(got, "Settlement report,fakeprovider\nPeriod,2000-01-01T00:01:00Z,\n"+reportHeader),
			"ch_000005,yen,charge,54890,793,54097,JPY,2000-01-01T01:00:02.001Z\n"+
				"ch_000006,dinar,charge,1.234,0.042,1.192,KWD,2000-01-01T01:00:02.001Z\n"+
				"TOTAL,2,,,,,,\n")
		want(t, "settled later", strings.Contains(writeReport(t, bank, fakeprovider.ReportOptions{}), "\nch_000003,r3,charge,"), true)
	})
}

func TestReportFee(t *testing.T) {
	bank := fakeprovider.New(fakeprovider.Config{})
	c := call(t, bank)
	for i, test := range []struct {
		amount int64
		fee    string
	}{
		{1, "0.25"}, {35, "0.25"}, {36, "0.26"}, {107, "0.26"}, {108, "0.27"}, {250, "0.29"}, {249, "0.28"}, {999_999_999_999, "140000000.25"},
	} {
		c.payIn(fmt.Sprint("k", i), fmt.Sprint("r", i), "EUR", test.amount)
		line := strings.Split(writeReport(t, bank, fakeprovider.ReportOptions{}), "\n")[3+i]
		want(t, fmt.Sprint("fee of ", test.amount), strings.Split(line, ",")[4], test.fee)
	}
}

func TestReportMisreports(t *testing.T) {
	bank := fakeprovider.New(fakeprovider.Config{Now: func() time.Time { return time.Unix(0, 0) }})
	c := call(t, bank)
	for i := range 4 {
		c.pay(fmt.Sprint("k", i), fmt.Sprint("r", i), "tok_visa")
	}
	c.refund("f", "f", "ch_000004", 1000)
	const at = ",EUR,1970-01-01T00:00:00Z\n"
	lines := "ch_000001,r0,charge,10.00,0.39,9.61" + at +
		"ch_000003,r2,charge,9.99,0.39,9.60" + at +
		"ch_000004,r3,charge,10.00,0.39,9.61" + at +
		"ch_000004,r3,charge,10.00,0.39,9.61" + at +
		"re_000001,f,refund,-0.07,0.00,-0.07" + at +
		"ch_900001,foreign-1,charge,10.00,0.39,9.61" + at +
		"ch_900002,foreign-2,charge,10.00,0.39,9.61" + at
	wrong := fakeprovider.ReportOptions{
		LeaveOut: []string{"ch_000002"}, Double: []string{"ch_000004"},
		Amounts: map[string]int64{"ch_000003": 999, "re_000001": -7}, Foreign: 2,
	}
	head := "Settlement report,fakeprovider\nPeriod,,\n" + reportHeader
	want(t, "report", writeReport(t, bank, wrong), head+lines+"TOTAL,7,,59.92,2.34,57.58,EUR,\n")
	wrong.NoTrailer = true
	want(t, "cut off", writeReport(t, bank, wrong), head+lines)
	query := "/_fake/report?leave_out=ch_000002&double=ch_000004&amount=ch_000003:999&amount=re_000001:-7&foreign=2&no_trailer=true"
	want(t, "control", c.do("GET", query, "", "").body, head+lines)
	want(t, "control, a period", c.do("GET", "/_fake/report?from=1&to=1970-01-01T00:00:02Z", "", "").body,
		"Settlement report,fakeprovider\nPeriod,1970-01-01T00:00:01Z,1970-01-01T00:00:02Z\n"+reportHeader+"TOTAL,0,,,,,,\n")
	for _, bad := range []string{"from=x", "to=x", "from=2&to=1", "amount=ch_000001", "foreign=-1", "no_trailer=perhaps", "until=3", "%zz"} {
		r := c.do("GET", "/_fake/report?"+bad, "", "")
		want(t, bad, fmt.Sprint(r, r.field("code")), "400query_invalid")
	}
	want(t, "a POST", c.do("POST", "/_fake/report", "", ""), "404")
}

// Sums that no int64 holds are no sums.
func TestReportSumsDoNotOverflow(t *testing.T) {
	bank := fakeprovider.New(fakeprovider.Config{})
	c := call(t, bank)
	c.pay("k1", "r1", "tok_visa")
	c.pay("k2", "r2", "tok_visa")
	got := writeReport(t, bank, fakeprovider.ReportOptions{Amounts: map[string]int64{"ch_000001": math.MaxInt64, "ch_000002": math.MaxInt64}})
	want(t, "lines", strings.Count(got, ",92233720368547758.07,1291272085159668.86,90942448283388089.21,EUR,"), 2)
	want(t, "trailer", strings.HasSuffix(got, "\nTOTAL,2,,,,,,\n"), true)
}

func TestReportOnSocket(t *testing.T) {
	c, _ := serve(t, fakeprovider.ServerConfig{})
	for i := range 2000 {
		c.pay(fmt.Sprint("k", i), fmt.Sprint("r", i), "tok_visa")
	}
	r := c.do("GET", "/_fake/report", "", "")
	want(t, "type", r.header.Get("Content-Type"), "text/csv; charset=utf-8")
	want(t, "lines", strings.Count(r.body, "\nch_"), 2000)
	want(t, "trailer", r.body[strings.LastIndex(r.body, "\nTOTAL")+1:], "TOTAL,2000,,20000.00,780.00,19220.00,EUR,\n")
	r = c.do("GET", "/_fake/report?from=x", "", "")
	want(t, "a bad query", fmt.Sprint(r, r.field("code")), "400query_invalid")
}

// watcher does something once that many bytes are written.
type watcher struct {
	b  bytes.Buffer // not embedded: io.Copy would go round Write
	at int
	do func() error
}

func (w *watcher) String() string { return w.b.String() }

func (w *watcher) Write(b []byte) (int, error) {
	n, err := w.b.Write(b)
	if do := w.do; do != nil && w.b.Len() >= w.at {
		w.do = nil
		err = errors.Join(err, do())
	}
	return n, err
}

// What happens while a report is written: a charge is not blocked and not in
// it, a Reset ends it with an error, and so does a writer that fails.
func TestReportWhileTheBooksChange(t *testing.T) {
	bank := fakeprovider.New(fakeprovider.Config{})
	c := call(t, bank)
	for i := range 3000 {
		c.pay(fmt.Sprint("k", i), fmt.Sprint("r", i), "tok_visa")
	}
	w := &watcher{at: 1000, do: func() error {
		want(t, "a charge", c.pay("late", "late", "tok_visa"), "201")
		return nil
	}}
	if err := bank.WriteReport(w, fakeprovider.ReportOptions{}); err != nil {
		t.Error(err)
	}
	want(t, "lines", strings.Count(w.String(), "\nch_"), 3000)
	full := errors.New("disk full")
	w = &watcher{at: 100000, do: func() error { return full }}
	if err := bank.WriteReport(w, fakeprovider.ReportOptions{}); !errors.Is(err, full) {
		t.Errorf("a writer that fails: %v", err)
	}
	w = &watcher{at: 1000, do: bank.Reset}
	if err := bank.WriteReport(w, fakeprovider.ReportOptions{}); err == nil || !strings.Contains(err.Error(), "books were emptied") {
		t.Errorf("after a Reset: %v", err)
	}
	want(t, "no trailer", strings.Contains(w.String(), "TOTAL"), false)
}

// A report that is read in memory is made while it is read.
func TestReportInMemoryStreams(t *testing.T) {
	bank := fakeprovider.New(fakeprovider.Config{})
	c := call(t, bank)
	for i := range 3000 {
		c.pay(fmt.Sprint("k", i), fmt.Sprint("r", i), "tok_visa")
	}
	req, err := http.NewRequestWithContext(t.Context(), "GET", "http://bank/_fake/report", nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := bank.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	some := make([]byte, 1000)
	if _, err := io.ReadFull(resp.Body, some); err != nil {
		t.Fatal(err)
	}
	if err := bank.Reset(); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadAll(resp.Body); err == nil {
		t.Error("the report went on without its books")
	}
}
