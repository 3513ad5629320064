package main

import (
	"errors"
	"strings"
	"testing"

	"github.com/chargeonce/chargeonce/attempt"
	"github.com/chargeonce/chargeonce/internal/batch"
	"github.com/chargeonce/chargeonce/money"
	"github.com/chargeonce/chargeonce/payclient"
)

func TestExitCodes(t *testing.T) {
	row := func(o batch.Outcome, moved attempt.Moved, status int) batch.Result {
		return batch.Result{Outcome: o, Moved: moved, Payment: &payclient.Result{StatusCode: status}}
	}
	var (
		approved  = row(batch.Approved, attempt.MovedYes, 201)
		declined  = row(batch.Declined, attempt.MovedNo, 402)
		unknown   = row(batch.Unknown, attempt.MovedMaybe, 0)
		violation = row(batch.Violation, attempt.MovedMaybe, 200)
		forbidden = row(batch.Violation, attempt.MovedNo, 403)
		rejected  = row(batch.Violation, attempt.MovedNo, 400)
		refused   = row(batch.Refused, attempt.MovedNo, 0)
		notSent   = row(batch.NotSent, attempt.MovedNo, 0)
		conflict  = batch.Result{Outcome: batch.Refused, Reason: batch.Conflict, Moved: attempt.MovedMaybe, Standing: new(payclient.Result)}
		paid      = batch.Result{Outcome: batch.Refused, Reason: batch.AlreadyPaid, Moved: attempt.MovedNo, Standing: new(payclient.Result)}
	)
	unread := batch.Result{Outcome: batch.Unknown, Reason: batch.StoreUnavailable, Moved: attempt.MovedMaybe}
	stop := func(kind batch.StopKind) *batch.Stop { return &batch.Stop{Kind: kind, Err: errors.New("why")} }
	for _, c := range []struct {
		name string
		rows []batch.Result
		stop *batch.Stop
		want int
	}{
		{"no rows", nil, nil, 0},
		{"all approved", []batch.Result{approved, approved}, nil, 0},
		{"declined", []batch.Result{approved, declined}, nil, 3},
		{"refused before declined", []batch.Result{refused, declined}, nil, 7},
		{"not sent", []batch.Result{approved, notSent}, nil, 7},
		{"refused by the provider as malformed", []batch.Result{rejected}, nil, 7},
		{"credentials before refused", []batch.Result{refused, forbidden, declined}, nil, 4},
		{"unknown before all", []batch.Result{unknown, forbidden, refused, declined}, nil, 5},
		{"a violation that may have moved money is unknown", []batch.Result{violation}, nil, 5},
		{"a conflict with an open payment is unknown", []batch.Result{conflict, refused, declined}, nil, 5},
		{"paid already is refused", []batch.Result{paid, declined}, nil, 7},
		{"interrupted", []batch.Result{approved, declined, notSent}, stop(batch.StopInterrupted), 130},
		{"interrupted hides no unknown", []batch.Result{unknown}, stop(batch.StopInterrupted), 5},
		{"fatal", []batch.Result{declined}, stop(batch.StopOutput), 1},
		{"fatal hides no unknown", []batch.Result{unknown}, stop(batch.StopInput), 5},
		{"fatal: store", nil, stop(batch.StopStore), 1},
		{"rows that could not be read, though this run has sent nothing for them", []batch.Result{approved, unread, notSent}, stop(batch.StopStore), 5},
		{"fatal where all could be read", []batch.Result{approved, notSent}, stop(batch.StopStore), 1},
		{"they hide no unknown", []batch.Result{unread, unknown}, stop(batch.StopStore), 5},
		{"they are no smaller matter than what is wrong with the provider", []batch.Result{forbidden, unread}, stop(batch.StopProvider), 5},
		{"an interrupt hides none of them", []batch.Result{unread}, stop(batch.StopInterrupted), 5},
		{"stopped by the provider", []batch.Result{notSent}, stop(batch.StopProvider), 4},
		{"stopped out of reach", []batch.Result{notSent, declined}, stop(batch.StopUnreachable), 7},
	} {
		var total totals
		for _, r := range c.rows {
			total.add(r)
		}
		if got := total.code(c.stop); got != c.want {
			t.Errorf("%s: code %d, want %d", c.name, got, c.want)
		}
	}
}

func TestTotalsAreExactAndWithoutLimit(t *testing.T) {
	var total totals
	for _, text := range []string{"92233720368547758.07 EUR", "92233720368547758.07 EUR", "0.05 EUR", "1 JPY", "0.001 KWD"} {
		decimal, currency, _ := strings.Cut(text, " ")
		total.add(batch.Result{Outcome: batch.Approved, Moved: attempt.MovedYes, Amount: money.MustParse(decimal, currency)})
	}
	total.add(batch.Result{Outcome: batch.Refused, Moved: attempt.MovedNo}) // nothing is known of its amount
	want := "EUR  approved 184467440737095516.19 (3)\nJPY  approved 1 (1)\nKWD  approved 0.001 (1)"
	if got := strings.Join(total.byCurrency(), "\n"); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	if got, want := total.line(), "6 rows, 5 approved, 1 refused"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestWhyRowsWereNotSentIsSaidOnce(t *testing.T) {
	row := func(reason, message string) batch.Result {
		return batch.Result{Outcome: batch.NotSent, Moved: attempt.MovedNo, Reason: reason, Message: message}
	}
	refusedDial, stopped := row("unreachable", "connection refused"), row(batch.Stopped, "not tried")
	stop := func(kind batch.StopKind) *batch.Stop { return &batch.Stop{Kind: kind, Err: errors.New("why")} }
	for _, c := range []struct {
		name string
		rows []batch.Result
		stop *batch.Stop
		want string
	}{
		{"none", []batch.Result{{Outcome: batch.Approved, Moved: attempt.MovedYes}}, nil, ""},
		{"one cause", []batch.Result{refusedDial, refusedDial}, nil,
			"2 rows not sent, no money moved: unreachable: connection refused. Run the same command again"},
		{"two causes", []batch.Result{refusedDial, row("breaker_open", "")}, nil,
			"2 rows not sent, no money moved, for several reasons, the first: unreachable: connection refused. Run the same command again"},
		{"a cause without more", []batch.Result{row("abandoned", "")}, nil,
			"1 row not sent, no money moved: abandoned. Run the same command again"},
		{"stopped", []batch.Result{stopped}, stop(batch.StopProvider),
			"1 row not sent, no money moved. Run the same command again when that is set right"},
		{"the interrupt says it", []batch.Result{row(batch.Interrupted, "")}, stop(batch.StopInterrupted), ""},
	} {
		var total totals
		for _, r := range c.rows {
			total.add(r)
		}
		if got := total.unsent(c.stop); got != c.want {
			t.Errorf("%s: got %q, want %q", c.name, got, c.want)
		}
	}
}
