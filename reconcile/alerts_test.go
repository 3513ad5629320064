package reconcile_test

import (
	"bytes"
	"fmt"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/chargeonce/chargeonce/attempt"
	"github.com/chargeonce/chargeonce/fakeprovider"
	"github.com/chargeonce/chargeonce/payclient"
	"github.com/chargeonce/chargeonce/reconcile"
)

// rule is an alerting rule of docs/alerts/chargeonce.yaml: a metric above a threshold for a time, or one that is missing.
type rule struct {
	name      string
	metric    string // with its label
	absent    bool
	threshold float64
	hold      time.Duration

	since time.Time // the condition has held since then; zero: it does not hold
}

var (
	aboveExpr  = regexp.MustCompile(`^(chargeonce_[a-z_]+(?:\{[a-z]+="[a-z]+"\})?) > ([0-9]+)$`)
	absentExpr = regexp.MustCompile(`^absent\((chargeonce_[a-z_]+)\)$`)
)

// shippedRules reads the rules. The file keeps to one key and value a line; anything else fails the test.
func shippedRules(t *testing.T) []*rule {
	t.Helper()
	text, err := os.ReadFile("../docs/alerts/chargeonce.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var rules []*rule
	for n, line := range strings.Split(string(text), "\n") {
		if strings.ContainsRune(line, '\t') {
			t.Fatalf("line %d: a tab, which YAML forbids", n+1)
		}
		key, value, _ := strings.Cut(strings.TrimSpace(line), ": ")
		switch key {
		case "- alert":
			rules = append(rules, &rule{name: value})
		case "expr":
			r := rules[len(rules)-1]
			if m := aboveExpr.FindStringSubmatch(value); m != nil {
				r.metric = m[1]
				if r.threshold, err = strconv.ParseFloat(m[2], 64); err != nil {
					t.Fatal(err)
				}
			} else if m := absentExpr.FindStringSubmatch(value); m != nil {
				r.metric, r.absent = m[1], true
			} else {
				t.Fatalf("line %d: expression %q is not one that this test can evaluate", n+1, value)
			}
		case "for":
			if rules[len(rules)-1].hold, err = time.ParseDuration(value); err != nil {
				t.Fatal(err)
			}
		}
	}
	if len(rules) == 0 {
		t.Fatal("no rules")
	}
	return rules
}

// evaluate takes a scrape, and returns whether the rule fires: its condition has held for its time.
func (r *rule) evaluate(scrape map[string]float64, now time.Time) bool {
	v, there := scrape[r.metric]
	if holds := there && !r.absent && v > r.threshold || !there && r.absent; !holds {
		r.since = time.Time{}
		return false
	}
	if r.since.IsZero() {
		r.since = now
	}
	return now.Sub(r.since) >= r.hold
}

// scrape reads the metrics as a monitoring system does: from their text.
func (s *shop) scrape() map[string]float64 {
	s.t.Helper()
	health, err := reconcile.ReadHealth(s.t.Context(), s.Store)
	if err != nil {
		s.t.Fatal(err)
	}
	var text bytes.Buffer
	if err := health.WritePrometheus(&text); err != nil {
		s.t.Fatal(err)
	}
	values := make(map[string]float64)
	for line := range strings.Lines(text.String()) {
		if strings.HasPrefix(line, "#") {
			continue
		}
		name, value, ok := strings.Cut(strings.TrimSpace(line), " ")
		v, err := strconv.ParseFloat(value, 64)
		if _, twice := values[name]; !ok || err != nil || twice {
			s.t.Fatalf("line %q: %v", line, err)
		}
		values[name] = v
	}
	return values
}

// fired lets time pass to a moment since the beginning, scraping every 15 s, and returns when each rule fired first.
func (s *shop) fired(until time.Duration) map[string]time.Duration {
	s.t.Helper()
	rules, fired := shippedRules(s.t), make(map[string]time.Duration)
	for time.Since(s.began) < until {
		values := s.scrape()
		for _, r := range rules {
			if _, already := fired[r.name]; r.evaluate(values, time.Now()) && !already {
				fired[r.name] = time.Since(s.began)
			}
		}
		time.Sleep(15 * time.Second)
	}
	return fired
}

// The reconciler does not run: within minutes that is told, and after half an hour that a payment is unsettled.
func TestR11NoReconcilerRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := open(t, fakeprovider.Config{}, oneSend)
		s.Bank.Script(fakeprovider.NeverArrives)
		s.unknown(s.Intent("6001"))
		fired := s.fired(31*time.Minute + 15*time.Second)
		if at, ok := fired["ChargeoncePaymentUnsettled"]; !ok || at < 30*time.Minute || at > 31*time.Minute+15*time.Second {
			t.Errorf("unsettled: %v", fired)
		}
		if at, ok := fired["ChargeonceReconcilerBehind"]; !ok || at > 10*time.Minute {
			t.Errorf("behind: %v", fired)
		}
		if len(fired) != 2 {
			t.Errorf("fired: %v", fired)
		}
	})
}

// It runs: lost requests, lost answers, payers who take their time and late bookings are no alarm.
func TestR11TheReconcilerRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := open(t, fakeprovider.Config{}, oneSend, func(c *payclient.Config) { c.Breaker.FailurePercent = -1 })
		s.watch(s.reconciler(func(c *reconcile.Config) { c.Every = 0 }))
		s.Bank.Script(fakeprovider.NeverArrives, fakeprovider.LoseAnswer, fakeprovider.BookAfter(20*time.Minute))
		for _, order := range []string{"6010", "6011", "6012"} {
			s.pay(s.Intent(order))
		}
		s.unknown(s.with("6013", "tok_requires_action"))
		if fired := s.fired(5 * time.Hour); len(fired) != 0 {
			t.Errorf("fired: %v", fired)
		}
		if v := s.scrape(); v["chargeonce_pending_attempts"] != 1 || v[`chargeonce_open_attempts{status="unknown"}`] != 1 {
			t.Errorf("metrics: %v", v)
		}
	})
}

func TestR11AlarmsForPeople(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := open(t, fakeprovider.Config{}, oneSend, func(c *payclient.Config) { c.AskFor = 2 * time.Hour })
		s.watch(s.reconciler(func(c *reconcile.Config) { c.Policy.LateMoney = reconcile.LateReview }))
		s.lateMoney("6020", 35*time.Minute)
		s.until(3 * time.Hour)
		s.Bank.Script(fakeprovider.LoseAnswer)
		s.Bank.Always(fakeprovider.Lookups, fakeprovider.Status(404))
		s.unknown(s.Intent("6021"))
		fired := s.fired(9 * time.Hour)
		for _, name := range []string{"ChargeonceReviewOwed", "ChargeonceAskingEnded", "ChargeoncePaymentUnsettled"} {
			if _, ok := fired[name]; !ok {
				t.Errorf("%s has not fired: %v", name, fired)
			}
		}
	})
}

// Every rule is about a metric that is told, every metric is in the docs, and absent() is about one that is always told.
func TestRulesAndDocsNameTheMetrics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := open(t, fakeprovider.Config{})
		values := s.scrape()
		for _, r := range shippedRules(t) {
			if _, ok := values[r.metric]; !ok {
				t.Errorf("%s: nobody tells %s", r.name, r.metric)
			}
			if r.absent && !r.evaluate(nil, time.Now().Add(-time.Hour)) && !r.evaluate(nil, time.Now()) {
				t.Errorf("%s does not fire where nothing is told", r.name)
			}
		}
		docs, err := os.ReadFile("../docs/metrics.md")
		if err != nil {
			t.Fatal(err)
		}
		for name := range values {
			name, _, _ = strings.Cut(name, "{")
			if !strings.Contains(string(docs), fmt.Sprintf("| `%s` |", name)) {
				t.Errorf("docs/metrics.md does not tell of %s", name)
			}
		}
	})
}

func TestHealthOfAnEmptyStoreAndABrokenOne(t *testing.T) {
	store := new(attempt.Memory)
	h, err := reconcile.ReadHealth(t.Context(), store)
	if err != nil || h.At.IsZero() || h.OldestOpen != (reconcile.Oldest{}) || h.Overdue != 0 {
		t.Errorf("%+v, %v", h, err)
	}
	if err := store.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := reconcile.ReadHealth(t.Context(), store); err == nil {
		t.Error("a store that cannot be read is not healthy")
	}
}
