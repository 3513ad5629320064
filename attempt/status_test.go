package attempt_test

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/chargeonce/chargeonce/attempt"
)

// The diagram is what people read, the map is what the stores' last guard obeys.
func TestDiagramIsTheMapOfMoves(t *testing.T) {
	page, err := os.ReadFile("../docs/state-machine.md")
	if err != nil {
		t.Fatal(err)
	}
	_, diagram, ok := strings.Cut(string(page), "```mermaid\n")
	diagram, _, closed := strings.Cut(diagram, "```")
	if !ok || !closed || strings.Count(string(page), "```mermaid") != 1 {
		t.Fatal("docs/state-machine.md: want exactly one mermaid diagram")
	}
	drawn := make(map[[2]attempt.Status]bool)
	arrow := regexp.MustCompile(`(?m)^\s*(\[\*\]|\w+) --> (\[\*\]|\w+)(: .+)?$`)
	arrows := arrow.FindAllStringSubmatch(diagram, -1)
	if len(arrows) != strings.Count(diagram, "-->") {
		t.Errorf("%d arrows, of which %d can be read", strings.Count(diagram, "-->"), len(arrows))
	}
	for _, m := range arrows {
		switch {
		case m[1] == "[*]":
			if m[2] != attempt.StatusPrepared.String() {
				t.Errorf("drawn: an attempt begins as %s", m[2])
			}
			continue
		case m[2] == "[*]":
			if s, err := attempt.ParseStatus(m[1]); err != nil || !s.Final() {
				t.Errorf("drawn: %s is an end (%v)", m[1], err)
			}
			continue
		}
		from, err1 := attempt.ParseStatus(m[1])
		to, err2 := attempt.ParseStatus(m[2])
		if err1 != nil || err2 != nil {
			t.Fatalf("drawn: %s --> %s: %v %v", m[1], m[2], err1, err2)
		}
		drawn[[2]attempt.Status{from, to}] = true
	}
	for _, from := range attempt.Statuses() {
		for _, to := range attempt.Statuses() {
			if from == to {
				if !attempt.CanMove(from, to) {
					t.Errorf("%s may not stay", from)
				}
				continue
			}
			if legal := attempt.CanMove(from, to); legal != drawn[[2]attempt.Status{from, to}] {
				t.Errorf("%s to %s: legal %v, drawn %v", from, to, legal, drawn[[2]attempt.Status{from, to}])
			}
		}
	}
}

// The table says the same of each status as the code.
func TestTableOfStatuses(t *testing.T) {
	page, err := os.ReadFile("../docs/state-machine.md")
	if err != nil {
		t.Fatal(err)
	}
	row := regexp.MustCompile("(?m)^\\| `(\\w+)` \\|[^|]*\\| (yes|no) \\| ([^|]*) \\| ([^|]*) \\|$")
	seen := make(map[attempt.Status]bool)
	for _, m := range row.FindAllStringSubmatch(string(page), -1) {
		s, err := attempt.ParseStatus(m[1])
		if err != nil {
			t.Fatal(err)
		}
		seen[s] = true
		if (m[2] == "yes") != s.Live() {
			t.Errorf("%s: live %v, table says %s", s, s.Live(), m[2])
		}
		told := attempt.Attempt{Status: s, Amount: asked}.Tell(epoch)
		outcome := map[attempt.Outcome]string{
			attempt.UnknownOutcome: "`UnknownOutcome`", attempt.Approved: "`Approved`", attempt.Declined: "`Declined`",
			attempt.ContractViolation: "`ContractViolation`",
		}[told.Outcome]
		if told.NotPaid {
			outcome = "none: `NotPaidError`"
		}
		if !strings.HasPrefix(m[3], outcome) {
			t.Errorf("%s: told %s, table says %s", s, outcome, m[3])
		}
		if !strings.HasPrefix(m[4], told.Moved.String()) {
			t.Errorf("%s: moved %s, table says %s", s, told.Moved, m[4])
		}
	}
	for _, s := range attempt.Statuses() {
		if !seen[s] {
			t.Errorf("%s is not in the table", s)
		}
	}
}

// A legal move that nothing makes is a hole in the guard.
func TestEachMoveHappens(t *testing.T) {
	type move = [2]attempt.Status
	stories := map[move]func(x *timeline){
		{attempt.StatusPrepared, attempt.StatusSending}:   func(x *timeline) { x.claim() },
		{attempt.StatusPrepared, attempt.StatusUnknown}:   func(x *timeline) { x.webhook(pending("ch_1")) },
		{attempt.StatusPrepared, attempt.StatusApproved}:  func(x *timeline) { x.webhook(succeeded("ch_1", asked)) },
		{attempt.StatusPrepared, attempt.StatusDeclined}:  func(x *timeline) { x.webhook(failed("ch_1")) },
		{attempt.StatusPrepared, attempt.StatusRejected}:  func(x *timeline) { x.end(7, rejected()) },
		{attempt.StatusPrepared, attempt.StatusAbandoned}: func(x *timeline) { x.after(25 * time.Hour).time() },
		{attempt.StatusSending, attempt.StatusPrepared}:   func(x *timeline) { x.end(x.claim(), notSent()) },
		{attempt.StatusSending, attempt.StatusUnknown}:    func(x *timeline) { x.end(x.claim(), lost()) },
		{attempt.StatusSending, attempt.StatusApproved}:   func(x *timeline) { x.end(x.claim(), charged(succeeded("ch_1", asked))) },
		{attempt.StatusSending, attempt.StatusDeclined}:   func(x *timeline) { x.end(x.claim(), refused(false)) },
		{attempt.StatusSending, attempt.StatusRejected}:   func(x *timeline) { x.end(x.claim(), rejected()) },
		{attempt.StatusSending, attempt.StatusAbandoned}: func(x *timeline) {
			slow := *usualRule
			slow.After = 2 * time.Hour
			x.claim()
			for range 2 {
				x.after(time.Hour).learn(attempt.Evidence{
					Kind: attempt.EvidenceLookup, Lookup: attempt.LookupNone, AskedAt: x.now, Rule: &slow,
				})
			}
			x.after(-2 * time.Hour).time().is(attempt.StatusSending) // a clock that ran fast was set back
			x.after(3 * time.Hour).time()
		},
		{attempt.StatusUnknown, attempt.StatusPrepared}: func(x *timeline) {
			fence := x.claim()
			x.after(time.Minute).time().end(fence, notSent())
		},
		{attempt.StatusUnknown, attempt.StatusSending}:  func(x *timeline) { x.end(x.claim(), lost()); x.claim() },
		{attempt.StatusUnknown, attempt.StatusApproved}: func(x *timeline) { x.end(x.claim(), lost()).found(succeeded("ch_1", asked)) },
		{attempt.StatusUnknown, attempt.StatusDeclined}: func(x *timeline) { x.end(x.claim(), lost()).found(failed("ch_1")) },
		{attempt.StatusUnknown, attempt.StatusRejected}: func(x *timeline) {
			one := x.claim()
			x.after(time.Minute)
			x.end(x.claim(), rejected()).is(attempt.StatusUnknown).end(one, notSent())
		},
		{attempt.StatusUnknown, attempt.StatusAbandoned}: func(x *timeline) {
			x.end(x.claim(), lost()).after(time.Hour).none().after(time.Minute).none()
		},
	}
	for _, from := range attempt.Statuses() {
		for _, to := range attempt.Statuses() {
			if from == to || !attempt.CanMove(from, to) {
				continue
			}
			t.Run(from.String()+" to "+to.String(), func(t *testing.T) {
				story, ok := stories[move{from, to}]
				if !ok {
					t.Fatal("no story makes this move")
				}
				x := begin(t)
				story(x)
				x.is(to)
			})
		}
	}
}

func TestZeroStatusIsUnknown(t *testing.T) {
	var a attempt.Attempt
	if a.Status != attempt.StatusUnknown || !a.Status.Live() || a.Status.Final() {
		t.Errorf("the zero status is %s", a.Status)
	}
	if told := a.Tell(epoch); told != (attempt.Told{}) || !told.Open() {
		t.Errorf("the zero attempt is told as %+v", told)
	}
	var o attempt.Outcome
	var m attempt.Moved
	if o != attempt.UnknownOutcome || m != attempt.MovedMaybe {
		t.Errorf("zero values: %s, %s", o, m)
	}
	if told := (attempt.Attempt{Status: 99}).Tell(epoch); !told.Open() || told.Moved != attempt.MovedMaybe {
		t.Errorf("a status of another release is told as %+v", told)
	}
}

func TestStatusesAreAllAndNamed(t *testing.T) {
	all := attempt.Statuses()
	if len(all) != 7 {
		t.Errorf("%d statuses, want 7", len(all))
	}
	for _, s := range all {
		got, err := attempt.ParseStatus(s.String())
		if err != nil || got != s {
			t.Errorf("%s parses to %s, %v", s, got, err)
		}
		if s.Final() && s != attempt.StatusApproved && s.Live() {
			t.Errorf("%s is an end without money and live", s)
		}
	}
	if got := attempt.Status(99).String(); got != "status(99)" {
		t.Errorf("an undefined status is named %q", got)
	}
	for _, text := range []string{"", "Prepared", "paid", "status(99)", " unknown"} {
		if s, err := attempt.ParseStatus(text); err == nil || s != attempt.StatusUnknown {
			t.Errorf("%q parses to %s", text, s)
		}
	}
}

func FuzzParseStatus(f *testing.F) {
	for _, s := range attempt.Statuses() {
		f.Add(s.String())
	}
	f.Add("")
	f.Add("Approved")
	f.Fuzz(func(t *testing.T, text string) {
		s, err := attempt.ParseStatus(text)
		if err != nil {
			if s != attempt.StatusUnknown {
				t.Fatalf("%q: an error and the status %s", text, s)
			}
			return
		}
		if s.String() != text || !slices.Contains(attempt.Statuses(), s) {
			t.Fatalf("%q parses to %s", text, s)
		}
	})
}
