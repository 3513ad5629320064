package main

import (
	"fmt"
	"maps"
	"math/big"
	"slices"
	"strings"

	"github.com/chargeonce/chargeonce/attempt"
	"github.com/chargeonce/chargeonce/internal/batch"
	"github.com/chargeonce/chargeonce/money"
)

// totals counts the rows of a run and sums their amounts, exactly and without limit.
type totals struct {
	rows      int
	byOutcome map[batch.Outcome]int
	sums      map[sumKey]*sum
	existing  int // told from the store

	open      int                   // money may have moved
	unread    int                   // this run has sent nothing for them, and nobody could read whether another has
	cancelled int                   // of those, the ones whose order was cancelled
	places    map[attempt.Place]int // of those, the ones that may be open at another place than this run's
	provider  int                   // refused for configuration or credentials
	rejected  int                   // refused by the provider as malformed

	notSent string          // why the first row was not sent that was tried
	reasons map[string]bool // of the rows that were not sent
}

type sumKey struct {
	currency string
	outcome  batch.Outcome
}

type sum struct {
	rows  int
	minor big.Int
}

// outcomes is the order in which outcomes are shown.
var outcomes = []batch.Outcome{batch.Approved, batch.Declined, batch.Unknown, batch.Violation, batch.Refused, batch.NotSent}

func (t *totals) add(r batch.Result) {
	if t.byOutcome == nil {
		t.byOutcome, t.sums = make(map[batch.Outcome]int), make(map[sumKey]*sum)
	}
	t.rows++
	t.byOutcome[r.Outcome]++
	if r.Existing {
		t.existing++
	}
	switch {
	case r.Unread():
		t.unread++
	case r.Open():
		t.open++
		if r.Reason == batch.Cancelled {
			t.cancelled++
			break
		}
		at := r.Standing
		if r.Reason == batch.Elsewhere {
			at = r.Payment
		}
		if at != nil {
			if t.places == nil {
				t.places = make(map[attempt.Place]int)
			}
			t.places[at.Attempt.Place()]++
		}
	case r.ProviderFault():
		t.provider++
	case r.Outcome == batch.Violation:
		t.rejected++
	}
	if r.Outcome == batch.NotSent && r.Reason != batch.Stopped && r.Reason != batch.Interrupted {
		t.addNotSent(r)
	}
	if !r.Amount.Valid() {
		return
	}
	key := sumKey{r.Amount.Currency(), r.Outcome}
	s := t.sums[key]
	if s == nil {
		s = new(sum)
		t.sums[key] = s
	}
	s.rows++
	s.minor.Add(&s.minor, big.NewInt(r.Amount.Minor()))
}

// addNotSent keeps why a row was not sent, for a person who reads the totals: the first row's cause, and that others differ.
func (t *totals) addNotSent(r batch.Result) {
	if t.reasons == nil {
		t.reasons = make(map[string]bool)
		t.notSent = strings.Join(nonEmpty([]string{r.Reason, r.Message}), ": ")
	}
	t.reasons[r.Reason] = true
}

// unsent says once why rows were not sent and what to do; empty where there are none, or where what ended the run says it.
func (t *totals) unsent(stop *batch.Stop) string {
	n, then := t.byOutcome[batch.NotSent], ". Run the same command again"
	if stop != nil {
		switch stop.Kind {
		case batch.StopProvider, batch.StopUnreachable, batch.StopUnreadable:
			then += " when that is set right"
		default:
			n = 0
		}
	}
	if n == 0 {
		return ""
	}
	text := plural(n, "row") + " not sent, no money moved"
	switch len(t.reasons) {
	case 0:
	case 1:
		text += ": " + t.notSent
	default:
		text += ", for several reasons, the first: " + t.notSent
	}
	return text + then
}

// line says the numbers of rows in one line.
func (t *totals) line() string {
	parts := []string{plural(t.rows, "row")}
	for _, o := range outcomes {
		if n := t.byOutcome[o]; n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, o))
		}
	}
	return strings.Join(parts, ", ")
}

// byCurrency says, for each currency, how many rows ended how, and their sums.
func (t *totals) byCurrency() []string {
	currencies := make(map[string]bool)
	for key := range t.sums {
		currencies[key.currency] = true
	}
	var lines []string
	for _, currency := range slices.Sorted(maps.Keys(currencies)) {
		var parts []string
		for _, o := range outcomes {
			if s := t.sums[sumKey{currency, o}]; s != nil {
				parts = append(parts, fmt.Sprintf("%s %s (%d)", o, decimal(&s.minor, currency), s.rows))
			}
		}
		lines = append(lines, currency+"  "+strings.Join(parts, ", "))
	}
	return lines
}

// decimal writes minor units in major units. It is for sums, which may be larger than any amount.
func decimal(minor *big.Int, currency string) string {
	digits := minor.String()
	decimals, _ := money.Decimals(currency)
	if decimals == 0 {
		return digits
	}
	for len(digits) <= decimals {
		digits = "0" + digits
	}
	return digits[:len(digits)-decimals] + "." + digits[len(digits)-decimals:]
}

// code is the exit code for the rows and for what ended the run.
func (t *totals) code(stop *batch.Stop) int {
	kind := batch.StopKind(0)
	if stop != nil {
		kind = stop.Kind
	}
	switch {
	case t.open+t.unread > 0:
		return exitUnknown // nothing hides an unknown
	case kind == batch.StopInterrupted:
		return exitInterrupted
	case kind == batch.StopStore, kind == batch.StopInput, kind == batch.StopOutput:
		return exitFatal
	case kind == batch.StopProvider, t.provider > 0:
		return exitProvider
	case t.rejected+t.byOutcome[batch.Refused]+t.byOutcome[batch.NotSent] > 0, kind != 0:
		return exitRefused
	case t.byOutcome[batch.Declined] > 0:
		return exitDeclined
	}
	return exitOK
}
