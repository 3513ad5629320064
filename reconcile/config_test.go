package reconcile_test

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/chargeonce/chargeonce/attempt"
	"github.com/chargeonce/chargeonce/fakeprovider"
	"github.com/chargeonce/chargeonce/payclient"
	"github.com/chargeonce/chargeonce/reconcile"
)

// planned is an asker with a schedule and nothing else.
type planned struct {
	place    attempt.Place
	schedule attempt.Schedule
}

func (p planned) Place() attempt.Place       { return p.place }
func (p planned) Schedule() attempt.Schedule { return p.schedule }
func (p planned) Ask(context.Context, attempt.Attempt, time.Time) (attempt.Evidence, error) {
	return attempt.Evidence{}, nil
}

// S5: what contradicts itself is refused, all at once, and names the field.
func TestS5Config(t *testing.T) {
	good := attempt.Schedule{First: 2 * time.Minute, Rule: attempt.AbandonRule{After: 30 * time.Minute, Lag: time.Minute}}
	with := func(change func(*attempt.Schedule)) []reconcile.Asker {
		s := good
		change(&s)
		return []reconcile.Asker{planned{schedule: s}}
	}
	store := new(attempt.Memory)
	one := []reconcile.Asker{planned{schedule: good}}
	var nobody *payclient.Client
	for name, c := range map[string]struct {
		cfg  reconcile.Config
		want []string
	}{
		"nothing":                     {reconcile.Config{}, []string{"Store: missing", "Askers: none"}},
		"nil askers":                  {reconcile.Config{Store: store, Askers: []reconcile.Asker{nil, nobody}}, []string{"number 1 is nil", "number 2 is nil"}},
		"one place twice":             {reconcile.Config{Store: store, Askers: append(one, planned{schedule: good})}, []string{"numbers 1 and 2 ask the same place"}},
		"lease shorter than question": {reconcile.Config{Store: store, Askers: one, Lease: time.Minute, AskTimeout: 31 * time.Second}, []string{"Lease: 1m0s"}},
		"negative": {
			reconcile.Config{Store: store, Askers: one, Every: -1, Batch: -1, Concurrency: -1, ListBatch: -1, ListMargin: -1},
			[]string{"Every", "Batch", "Concurrency", "ListBatch", "ListMargin"},
		},
		"policy":   {reconcile.Config{Store: store, Askers: one, Policy: reconcile.Policy{LateMoney: "spend"}}, []string{`"spend", want refund, review or keep`}},
		"nil func": {reconcile.Config{Store: store, Askers: one, Also: []func(context.Context) error{nil}}, []string{"Also: number 1"}},
		"abandons before it asks": {
			reconcile.Config{Store: store, Askers: with(func(s *attempt.Schedule) { s.First = 30 * time.Minute })},
			[]string{"time to the first question"},
		},
		"abandons within the lag": {
			reconcile.Config{Store: store, Askers: with(func(s *attempt.Schedule) { s.Rule.Lag = time.Hour })}, []string{"hidden for"},
		},
		"asks no longer than to abandoning": {
			reconcile.Config{Store: store, Askers: with(func(s *attempt.Schedule) { s.AskFor = 20 * time.Minute })}, []string{"nothing is ever abandoned"},
		},
		"never asks": {
			reconcile.Config{Store: store, Askers: with(func(s *attempt.Schedule) { s.Rule.After, s.First = 0, 8*24*time.Hour })}, []string{"after asking has ended"},
		},
		"waits": {reconcile.Config{Store: store, Askers: with(func(s *attempt.Schedule) { s.Waits = []time.Duration{1, 0}; s.Grace = -1 })}, []string{"wait number 2", "Grace"}},
	} {
		_, err := reconcile.New(c.cfg)
		if err == nil {
			t.Errorf("%s: no error", name)
			continue
		}
		for _, want := range c.want {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %q does not tell %q", name, err, want)
			}
		}
	}
	for name, askers := range map[string][]reconcile.Asker{
		"usual": one, "cannot be asked": with(func(s *attempt.Schedule) { *s = attempt.Schedule{CannotAsk: true} }),
		"never abandons": with(func(s *attempt.Schedule) { s.Rule.After = 0 }), "zero": {planned{}},
	} {
		if _, err := reconcile.New(reconcile.Config{Store: store, Askers: askers}); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// The whole line of time of the defaults fits: a client that New takes is an asker that New takes.
func TestS5DefaultsFit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := open(t, fakeprovider.Config{})
		s.reconciler()
	})
}
