package settlement

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/chargeonce/chargeonce/attempt"
	"github.com/chargeonce/chargeonce/attempt/sqlite"
	"github.com/chargeonce/chargeonce/money"
)

var (
	here = attempt.Place{Provider: "fake", Environment: "test"}
	day1 = time.Date(2026, 3, 28, 0, 0, 0, 0, time.UTC)
)

// shop is a store with attempts in it, whose clock stands.
type shop struct {
	t      *testing.T
	store  attempt.Store
	now    time.Time
	spills bool // with next to no memory
}

// forStores runs a test on each store.
func forStores(t *testing.T, test func(t *testing.T, s *shop)) {
	t.Run("memory", func(t *testing.T) {
		s := &shop{t: t, now: day1.Add(48 * time.Hour)}
		s.store = &attempt.Memory{Now: func() time.Time { return s.now }}
		test(t, s)
	})
	t.Run("sqlite", func(t *testing.T) {
		s := &shop{t: t, now: day1.Add(48 * time.Hour), spills: true}
		store, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "a.db"), sqlite.Options{Now: func() time.Time { return s.now }})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := store.Close(); err != nil {
				t.Error(err)
			}
		})
		s.store = store
		test(t, s)
	})
}

func idNumber(n int) string { return fmt.Sprintf("0190a1b2-0000-7000-8000-%012d", n) }

// put stores an attempt of order n.
func (s *shop) put(n int, status attempt.Status, amount string, at time.Time, change ...func(*attempt.Attempt)) attempt.Attempt {
	s.t.Helper()
	a := attempt.Attempt{
		ID: idNumber(n), Key: fmt.Sprintf("key-%d", n), Reference: "shop-" + idNumber(n), Ordinal: 1, Version: 1,
		Slot:   attempt.Slot{Order: fmt.Sprintf("order-%d", n), Purpose: attempt.PurposeCharge},
		Amount: money.MustParse(amount, "EUR"), Provider: here.Provider, Environment: here.Environment,
		Status: status, CreatedAt: at, UpdatedAt: at, FirstClaimAt: at, LastSentAt: at, Sends: 1, Fence: 1,
	}
	switch status {
	case attempt.StatusApproved:
		a.ChargeID = fmt.Sprintf("ch_%d", n)
		a.Charges = []attempt.Charge{{ID: a.ChargeID, Status: attempt.ChargeSucceeded, Amount: a.Amount, SeenAt: at}}
	case attempt.StatusUnknown:
		a.MaybeSends, a.NextCheckAt = 1, at
	case attempt.StatusDeclined:
		a.Refusal.Verdict, a.Reason = attempt.Refused, attempt.ReasonDeclined
	}
	for _, c := range change {
		c(&a)
	}
	step := attempt.Step{Slot: a.Slot, Do: func(attempt.View) ([]attempt.Write, error) {
		return []attempt.Write{{Attempt: &a, Event: attempt.Event{AttemptID: a.ID, Version: 1, What: attempt.WhatStarted, From: a.Status, To: a.Status, At: at}}}, nil
	}}
	if err := s.store.Apply(s.t.Context(), &step); err != nil {
		s.t.Fatal(err)
	}
	return a
}

// refund makes the attempt that gives order n's money back.
func refund(n, of int) func(*attempt.Attempt) {
	return func(a *attempt.Attempt) {
		a.Slot.Order = fmt.Sprintf("order-%d", of)
		a.Ordinal = 100 + n
		a.Refund = attempt.RefundOf{AttemptID: idNumber(of), ChargeID: fmt.Sprintf("ch_%d", of), ID: fmt.Sprint(n)}
		if a.ChargeID != "" {
			a.ChargeID = fmt.Sprintf("re_%d", n)
			a.Charges[0].ID = a.ChargeID
		}
	}
}

// charged is a line of a charge as the fake provider writes it.
func charged(n int, gross string, at time.Time) string {
	return fmt.Sprintf("ch_%d,shop-%s,charge,%s,0.00,%s,EUR,%s", n, idNumber(n), gross, gross, at.Format(time.RFC3339))
}

func refunded(n int, gross string, at time.Time) string {
	return strings.NewReplacer("charge", "refund", "ch_", "re_").Replace(charged(n, gross, at))
}

// file is a report of these lines.
func file(name string, lines ...string) Source {
	text := fakeHead
	for _, l := range lines {
		text += l + "\n"
	}
	text += fmt.Sprintf("TOTAL,%d,,,,,,\n", len(lines))
	return Source{Name: name, Open: func() (io.ReadCloser, error) { return io.NopCloser(strings.NewReader(text)), nil }}
}

// match tells everything, a line each, lines first and then attempts by id.
func (s *shop) match(o Options, reports ...Source) (Report, string) {
	s.t.Helper()
	report, text, err := s.try(o, reports...)
	if err != nil {
		s.t.Fatal(err)
	}
	return report, text
}

func (s *shop) try(o Options, reports ...Source) (Report, string, error) {
	s.t.Helper()
	if o.Profile.Name == "" {
		o.Profile = Fake()
	}
	o.Place, o.Who, o.TellAll = here, "tester", true
	o.TempDir = s.t.TempDir()
	if o.inMemory = 0; s.spills {
		o.inMemory = 2
	}
	defer func() {
		if files, err := os.ReadDir(o.TempDir); err != nil || len(files) > 0 {
			s.t.Errorf("%v left behind, %v", files, err)
		}
	}()
	var lines, attempts []string
	o.Tell = func(i Item) error {
		text := string(i.Result)
		if i.Attempt.ID != "" {
			text += " " + strings.TrimPrefix(i.Attempt.Slot.Order, "order-") + " " + i.Attempt.Status.String()
		}
		if i.Settled {
			text += " settled"
		}
		if i.Reason != "" {
			text += ": " + strings.ReplaceAll(i.Reason, "0190a1b2-0000-7000-8000-00000000000", "#")
		}
		if i.Line.File == "" {
			attempts = append(attempts, text+"\n")
			return nil
		}
		lines = append(lines, fmt.Sprintf("%d %s\n", i.Line.Number, text))
		if (i.LineID == "") != (i.Result == LineRefused) {
			s.t.Errorf("%+v: LineID", i)
		}
		return nil
	}
	report, err := Match(s.t.Context(), s.store, reports, o)
	slices.Sort(attempts)
	told := 0
	for _, n := range report.Counts {
		told += n
	}
	if err == nil && told != len(lines)+len(attempts) {
		s.t.Errorf("%d items counted, %d told", told, len(lines)+len(attempts))
	}
	return report, strings.Join(lines, "") + strings.Join(attempts, ""), err
}

func (s *shop) get(n int) attempt.Attempt {
	s.t.Helper()
	a, err := s.store.Attempt(s.t.Context(), idNumber(n))
	if err != nil {
		s.t.Fatal(err)
	}
	return a
}

func same(t *testing.T, got, want string) {
	t.Helper()
	if want = strings.TrimPrefix(want, "\n"); got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
}

// R10: every line has an approved attempt and every approved attempt a line, or it is listed.
func TestR10DailyReport(t *testing.T) {
	forStores(t, func(t *testing.T, s *shop) {
		noon := day1.Add(12 * time.Hour)
		s.put(1, attempt.StatusApproved, "10.00", noon)
		s.put(2, attempt.StatusApproved, "20.00", noon)
		s.put(3, attempt.StatusApproved, "30.00", noon)                   // no line
		s.put(4, attempt.StatusApproved, "4.00", noon, refund(4, 1))      // a refund
		s.put(5, attempt.StatusUnknown, "50.00", noon)                    // settled by its line
		s.put(6, attempt.StatusDeclined, "60.00", noon)                   // late money
		s.put(7, attempt.StatusApproved, "70.00", noon.Add(10*time.Hour)) // no line yet
		s.put(8, attempt.StatusUnknown, "80.00", noon, refund(8, 3))      // a refund of another amount
		s.put(10, attempt.StatusUnknown, "1.00", noon, refund(10, 1))     // a refund, settled
		s.put(9, attempt.StatusUnknown, "9.00", noon)                     // no line: stays open
		report, text := s.match(Options{To: day1.Add(24 * time.Hour), Margin: 6 * time.Hour}, file("day1.csv",
			charged(1, "10.00", noon),
			charged(2, "20.01", noon),
			refunded(4, "-4.00", noon),
			charged(5, "50.00", noon),
			charged(6, "60.00", noon),
			charged(77, "5.00", noon),
			"ch_x,x,charge,5.0.0,0,5.00,EUR,2026-03-28T12:00:00Z",
			"re_8,shop-"+idNumber(8)+",refund,-20.00,0.00,-20.00,EUR,2026-03-28T12:00:00Z",
			charged(1, "10.00", noon),
			refunded(10, "-1.00", noon),
		))
		same(t, text, `
4 matched 1 approved
5 amount_differs 2 approved: the line says 20.01 EUR, attempt #2 is over 20.00 EUR
6 matched 1 approved
7 matched 5 approved settled
8 theirs_only 6 declined: attempt #6 is declined; duty opened: refund late_money
9 theirs_only: no attempt has this charge or this reference
10 line_error: day1.csv:10: column "gross": "5.0.0": want digits, at most 2 of them behind "."; negative as -1
11 amount_differs 3 unknown: the line says 20.00 EUR, attempt #8 is over 80.00 EUR; duty opened: review different
12 duplicate 1 approved: line 4 is about the same
13 matched 1 approved settled
ours_only 3 approved: approved, and no report has it
waiting 7 approved: approved, and the next report may have it
`)
		if report.Settled != 2 || report.Recorded != 4 || report.Doubtful != 0 || !report.Differences() {
			t.Errorf("%+v", report)
		}
		if want := map[string]Totals{"EUR": {Lines: 9, Gross: 13001, Net: 13001}}; !reflect.DeepEqual(report.Totals, want) {
			t.Errorf("%+v", report.Totals)
		}
		settled := s.get(5)
		if settled.Status != attempt.StatusApproved || settled.ChargeID != "ch_5" {
			t.Errorf("%+v", settled)
		}
		events, err := s.store.Events(t.Context(), settled.ID)
		if err != nil || len(events) != 2 || events[1].Evidence.Kind != attempt.EvidenceSettlement || events[1].Who != "tester" {
			t.Errorf("%+v, %v", events, err)
		}
		if a := s.get(9); a.Status != attempt.StatusUnknown || a.Version != 1 {
			t.Errorf("an attempt without a line was changed: %+v", a)
		}
		if a := s.get(2); a.Version != 1 {
			t.Errorf("an approved attempt was changed by another amount: %+v", a)
		}
	})
}

func TestMatchedOnly(t *testing.T) {
	forStores(t, func(t *testing.T, s *shop) {
		s.put(1, attempt.StatusApproved, "10.00", day1)
		report, text := s.match(Options{}, file("f", charged(1, "10.00", day1)))
		same(t, text, "4 matched 1 approved\n")
		if report.Differences() {
			t.Errorf("%+v", report)
		}
	})
}

// The same report again, under another name, adds nothing and tells the same.
func TestImportedAgain(t *testing.T) {
	forStores(t, func(t *testing.T, s *shop) {
		s.put(1, attempt.StatusUnknown, "10.00", day1)
		s.put(2, attempt.StatusDeclined, "20.00", day1)
		s.put(3, attempt.StatusApproved, "30.00", day1)
		lines := []string{charged(1, "10.00", day1), charged(2, "20.00", day1), strings.Replace(charged(3, "30.00", day1), "ch_3", "ch_33", 1)}
		first, text := s.match(Options{}, file("a.csv", lines...))
		same(t, text, `
4 matched 1 approved settled
5 theirs_only 2 declined: attempt #2 is declined; duty opened: refund late_money
6 duplicate 3 approved: a second charge of attempt #3, which ch_3 has paid; duty opened: review second_charge
`)
		before := s.everything()
		again, text := s.match(Options{}, file("b.csv", lines...))
		same(t, text, `
4 matched 1 approved
5 theirs_only 2 declined: attempt #2 is declined
6 duplicate 3 approved: a second charge of attempt #3, which ch_3 has paid
`)
		if after := s.everything(); after != before {
			t.Errorf("before\n%s\nafter\n%s", before, after)
		}
		if first.Recorded != 3 || len(first.Again) != 0 || again.Recorded != 0 || again.Settled != 0 || !slices.Equal(again.Again, []string{"a.csv"}) {
			t.Errorf("%+v\n%+v", first, again)
		}
		// The lines in another file, beside another one: still the same lines.
		third, _ := s.match(Options{}, file("c.csv", append([]string{charged(99, "1.00", day1)}, lines...)...))
		if third.Recorded != 0 || third.Settled != 0 {
			t.Errorf("%+v", third)
		}
	})
}

// everything writes all attempts, events and notes.
func (s *shop) everything() string {
	var b strings.Builder
	for a, err := range s.store.List(s.t.Context(), attempt.Filter{}) {
		if err != nil {
			s.t.Fatal(err)
		}
		events, err := s.store.Events(s.t.Context(), a.ID)
		if err != nil {
			s.t.Fatal(err)
		}
		fmt.Fprintf(&b, "%+v\n%+v\n", a, len(events))
	}
	for _, what := range []string{"lines", "had", "files"} {
		notes, err := s.store.Notes(s.t.Context(), attempt.NoteFilter{Scope: scope(what, here)})
		if err != nil {
			s.t.Fatal(err)
		}
		fmt.Fprintf(&b, "%+v\n", notes)
	}
	return b.String()
}

// Equal lines of one file both survive: one is the charge's, the other is told.
func TestEqualLinesSurvive(t *testing.T) {
	forStores(t, func(t *testing.T, s *shop) {
		s.put(1, attempt.StatusUnknown, "10.00", day1)
		line := charged(1, "10.00", day1)
		var ids []string
		o := Options{Profile: Fake(), Place: here, TellAll: true, Tell: func(i Item) error {
			ids = append(ids, string(i.Result)+" "+i.LineID)
			return nil
		}}
		report, err := Match(t.Context(), s.store, []Source{file("a", line, line), file("b", line)}, o)
		if err != nil {
			t.Fatal(err)
		}
		l, err := Read(strings.NewReader(fakeHead+line), "f", Fake()), error(nil)
		var digest string
		for first := range l { //nolint:errcheck // the first line is whole
			digest = first.Digest()
			break
		}
		want := []string{"matched " + digest + ".1", "duplicate " + digest + ".2", "duplicate " + digest + ".3"}
		if err != nil || !slices.Equal(ids, want) || report.Totals["EUR"].Gross != 3000 || report.Settled != 1 {
			t.Errorf("%q, %+v, %v; want %q", ids, report, err, want)
		}
	})
}

// C51: who is missing in one day's report is in the other one's; and only the report after tells that somebody is missing.
func TestC51MissingIsNotFinalBeforeTheNextReport(t *testing.T) {
	forStores(t, func(t *testing.T, s *shop) {
		day := func(n int) time.Time { return day1.AddDate(0, 0, n-1) }
		s.put(6, attempt.StatusApproved, "6.00", day(0).Add(10*time.Hour)) // before the first report: not its affair
		s.put(1, attempt.StatusApproved, "1.00", day(1).Add(10*time.Hour))
		s.put(2, attempt.StatusApproved, "2.00", day(1).Add(23*time.Hour+30*time.Minute)) // in the second report
		s.put(3, attempt.StatusApproved, "3.00", day(1).Add(23*time.Hour+40*time.Minute)) // in none
		s.put(4, attempt.StatusApproved, "4.00", day(2).Add(10*time.Hour))
		s.put(5, attempt.StatusApproved, "5.00", day(3).Add(10*time.Hour))
		reports := [][]string{
			{charged(1, "1.00", day(1).Add(10*time.Hour)), "re_x,r,refund,-1.00,0.00,-1.00,EUR," + day(1).Add(24*time.Hour-1e9).Format(time.RFC3339)},
			{charged(2, "2.00", day(2).Add(30*time.Minute)), charged(4, "4.00", day(2).Add(20*time.Hour))},
			{charged(5, "5.00", day(3).Add(20*time.Hour))},
		}
		want := []string{`
4 matched 1 approved
5 theirs_only: no attempt has this charge or this reference
waiting 2 approved: approved, and the next report may have it
waiting 3 approved: approved, and the next report may have it
`, `
4 matched 2 approved
5 matched 4 approved
waiting 3 approved: approved, and the next report may have it
`, `
4 matched 5 approved
ours_only 3 approved: approved, and no report has it
`}
		for i, lines := range reports {
			_, text := s.match(Options{}, file(fmt.Sprintf("day%d.csv", i+1), lines...))
			same(t, text, want[i])
		}
		// The first report again, now that later ones are known.
		_, text := s.match(Options{}, file("day1.csv", reports[0]...))
		same(t, text, `
4 matched 1 approved
5 theirs_only: no attempt has this charge or this reference
ours_only 3 approved: approved, and no report has it
`)
		// All at once, in a store that remembers nothing: the same ends.
		_, text = s.match(Options{ReadOnly: true}, file("a", reports[0]...), file("b", reports[1]...), file("c", reports[2]...))
		same(t, text, `
4 matched 1 approved
5 theirs_only: no attempt has this charge or this reference
4 matched 2 approved
5 matched 4 approved
4 matched 5 approved
ours_only 3 approved: approved, and no report has it
`)
	})
}

// A report without a line covers no time: what came before the first one with lines is still not its affair.
func TestEmptyReport(t *testing.T) {
	forStores(t, func(t *testing.T, s *shop) {
		s.put(1, attempt.StatusApproved, "10.00", day1)
		s.put(2, attempt.StatusApproved, "20.00", day1.Add(-time.Hour))
		report, text := s.match(Options{}, file("empty.csv"))
		if text != "" || report.Differences() || len(report.Files) != 1 {
			t.Errorf("%s%+v", text, report)
		}
		_, text = s.match(Options{}, file("f", charged(1, "10.00", day1)))
		same(t, text, "4 matched 1 approved\n")
		// A quiet day, said to be one: then who has no line is told.
		_, text = s.match(Options{From: day1, To: day1.Add(24 * time.Hour), ReadOnly: true}, file("empty.csv"))
		same(t, text, "")
		s.put(3, attempt.StatusApproved, "30.00", day1.Add(time.Hour))
		_, text = s.match(Options{From: day1, To: day1.Add(24 * time.Hour), Margin: time.Hour, ReadOnly: true}, file("empty.csv"))
		same(t, text, "ours_only 3 approved: approved, and no report has it\n")
	})
}

// A refused report is refused before anything of it, or of those beside it, is imported.
func TestRefusedReportImportsNothing(t *testing.T) {
	forStores(t, func(t *testing.T, s *shop) {
		s.put(1, attempt.StatusUnknown, "10.00", day1)
		before := s.everything()
		good := file("good.csv", charged(1, "10.00", day1))
		cut := Source{Name: "cut.csv", Open: func() (io.ReadCloser, error) {
			return io.NopCloser(strings.NewReader(fakeHead + charged(1, "10.00", day1) + "\n")), nil
		}}
		missing := File(filepath.Join(t.TempDir(), "missing.csv"))
		for _, bad := range []Source{cut, missing} {
			_, text, err := s.try(Options{}, good, bad)
			var refused *FileError
			if !errors.As(err, &refused) || refused.File != bad.Name || text != "" {
				t.Errorf("%q, %v", text, err)
			}
		}
		if _, _, err := s.try(Options{}, missing); !errors.Is(err, os.ErrNotExist) {
			t.Error(err)
		}
		wrong := Fake()
		wrong.Delimiter = ""
		var invalid *ProfileError
		if _, _, err := s.try(Options{Profile: wrong}, good); !errors.As(err, &invalid) {
			t.Error(err)
		}
		if after := s.everything(); after != before {
			t.Errorf("before\n%s\nafter\n%s", before, after)
		}
	})
}

func TestReadOnlyRecordsNothing(t *testing.T) {
	forStores(t, func(t *testing.T, s *shop) {
		s.put(1, attempt.StatusUnknown, "10.00", day1)
		s.put(2, attempt.StatusDeclined, "20.00", day1)
		s.put(3, attempt.StatusApproved, "30.00", day1)
		s.put(4, attempt.StatusUnknown, "40.00", day1)
		before := s.everything()
		_, text := s.match(Options{ReadOnly: true}, file("f", charged(1, "10.00", day1), charged(2, "20.00", day1),
			strings.Replace(charged(3, "30.00", day1), "ch_3", "ch_33", 1), charged(4, "41.00", day1)))
		same(t, text, `
4 matched 1 unknown: attempt #1 is unknown
5 theirs_only 2 declined: attempt #2 is declined
6 duplicate 3 approved: a second charge of attempt #3, which ch_3 has paid
7 amount_differs 4 unknown: the line says 41.00 EUR, attempt #4 is over 40.00 EUR
`)
		if after := s.everything(); after != before {
			t.Errorf("before\n%s\nafter\n%s", before, after)
		}
	})
}

// By the charge first, then by the reference; of this place, and a charge is no refund.
func TestWhoseLine(t *testing.T) {
	forStores(t, func(t *testing.T, s *shop) {
		s.put(1, attempt.StatusApproved, "10.00", day1)
		s.put(2, attempt.StatusApproved, "20.00", day1)
		s.put(3, attempt.StatusApproved, "30.00", day1, func(a *attempt.Attempt) { a.Environment = "live" })
		s.put(4, attempt.StatusUnknown, "40.00", day1, func(a *attempt.Attempt) { a.ProviderAccount = "other" })
		s.put(5, attempt.StatusApproved, "1.00", day1, refund(5, 1))
		s.put(6, attempt.StatusUnknown, "60.00", day1)
		row := func(id, reference, kind, gross string) string {
			return fmt.Sprintf("%s,%s,%s,%s,0.00,%s,EUR,2026-03-28T00:00:00Z", id, reference, kind, gross, gross)
		}
		_, text := s.match(Options{},
			file("f",
				row("ch_1", "their own text", "charge", "10.00"),
				row("ch_2", "shop-"+idNumber(1), "charge", "20.00"),
				row("ch_3", "shop-"+idNumber(3), "charge", "30.00"),
				row("ch_4", "shop-"+idNumber(4), "charge", "40.00"),
				row("re_5", "shop-"+idNumber(5), "charge", "1.00"),
				row("ch_7", "shop-"+idNumber(6), "refund", "-60.00"),
				row("ch_8", "pos-"+idNumber(6), "charge", "60.00"),
				row("ch_9", idNumber(6)+"-1", "charge", "60.00"),
				row("re_5", "shop-"+idNumber(5), "refund", "-1.00"),
			))
		same(t, text, `
4 matched 1 approved
5 theirs_only: attempt #2 holds this charge, the reference is that of attempt #1
6 theirs_only: attempt #3 belongs to another provider, account or environment
7 theirs_only: attempt #4 belongs to another provider, account or environment
8 theirs_only: attempt #5 is a refund, the line is not
9 theirs_only: attempt #6 is a charge, the line is a refund
10 theirs_only: attempt #6 has another reference
11 theirs_only: no attempt has this charge or this reference
12 matched 1 approved
waiting 2 approved: approved, and the next report may have it
`)
		for _, n := range []int{4, 6} {
			if a := s.get(n); a.Version != 1 {
				t.Errorf("a line of somebody else's settled %+v", a)
			}
		}
	})
}

func TestChargeback(t *testing.T) {
	forStores(t, func(t *testing.T, s *shop) {
		s.put(1, attempt.StatusApproved, "10.00", day1)
		s.put(2, attempt.StatusApproved, "20.00", day1)
		p := Fake()
		p.Types["chargeback"] = Type{Kind: KindChargeback}
		lines := []string{
			charged(1, "10.00", day1), charged(2, "20.00", day1),
			strings.Replace(charged(1, "-10.00", day1), "charge", "chargeback", 1),
			strings.Replace(charged(1, "10.00", day1), "charge", "chargeback", 1),
			strings.Replace(charged(2, "-5.00", day1), "charge", "chargeback", 1),
		}
		_, text := s.match(Options{Profile: p}, file("f", lines...))
		same(t, text, `
4 matched 1 approved
5 matched 2 approved
6 chargeback 1 approved: -10.00 EUR of the attempt's 10.00 EUR; duty opened: review reversed
7 chargeback 1 approved: 10.00 EUR of the attempt's 10.00 EUR
8 chargeback 2 approved: -5.00 EUR of the attempt's 20.00 EUR
`)
		again, _ := s.match(Options{Profile: p}, file("f", lines...))
		if again.Recorded != 0 || len(s.get(1).Duties) != 1 || len(s.get(2).Duties) != 0 {
			t.Errorf("%+v, %+v", again, s.get(1).Duties)
		}
	})
}

// A profile whose id is another one than the charge's, or whose unit is wrong, must not fill the store with duties.
func TestWrongProfileRecordsNothing(t *testing.T) {
	forStores(t, func(t *testing.T, s *shop) {
		var bookings, cents []string
		for n := 1; n <= 5; n++ {
			status := attempt.StatusApproved
			if n == 5 {
				status = attempt.StatusUnknown
			}
			s.put(n, status, "10.00", day1)
			bookings = append(bookings, strings.Replace(charged(n, "10.00", day1), "ch_", "txn_", 1))
			cents = append(cents, charged(n, "1000.00", day1))
		}
		before := s.everything()
		for _, lines := range [][]string{bookings, cents} {
			report, text := s.match(Options{}, file("f", lines...))
			if report.Recorded != 0 || report.Settled != 0 || report.Doubtful == 0 || !report.Differences() {
				t.Errorf("%+v\n%s", report, text)
			}
		}
		for n := 1; n <= 5; n++ {
			if a := s.get(n); a.Version != 1 {
				t.Errorf("%+v", a)
			}
		}
		if strings.Count(before, "Version:1 ") != 5 {
			t.Error(before)
		}
	})
}

// Where a report has no ids, the attempts tell that two lines are the same one's.
func TestReportWithoutIDs(t *testing.T) {
	forStores(t, func(t *testing.T, s *shop) {
		s.put(1, attempt.StatusApproved, "10.00", day1)
		s.put(2, attempt.StatusUnknown, "20.00", day1)
		p := Fake()
		p.Required = nil
		_, text := s.match(Options{Profile: p}, file("f",
			charged(1, "10.00", day1), strings.Replace(charged(1, "10.00", day1), "ch_1", "", 1), strings.Replace(charged(2, "20.00", day1), "ch_2", "", 1)))
		same(t, text, `
4 matched 1 approved
5 matched 1 approved
6 theirs_only 2 unknown: attempt #2 is unknown, and the line names no charge that could settle it
duplicate 1 approved: more than one line matches the attempt
`)
	})
}

// A report that changes between the two readings is noticed, and is no FileError: something may have been imported.
func TestReportChanges(t *testing.T) {
	for name, second := range map[string]string{
		"other lines": fakeHead + charged(2, "10.00", day1) + "\n" + charged(3, "10.00", day1) + "\nTOTAL,2,,,,,,\n",
		"cut off":     fakeHead + charged(1, "10.00", day1) + "\n",
		"no header":   "x",
	} {
		t.Run(name, func(t *testing.T) {
			s := &shop{t: t, now: day1, store: new(attempt.Memory)}
			text := fakeHead + charged(1, "10.00", day1) + "\nTOTAL,1,,,,,,\n"
			_, _, err := s.try(Options{}, Source{Name: "f", Open: func() (io.ReadCloser, error) {
				now := text
				text = second
				return io.NopCloser(strings.NewReader(now)), nil
			}})
			var refused *FileError
			if err == nil || errors.As(err, &refused) || !strings.Contains(err.Error(), "f was whole when it was checked") {
				t.Error(err)
			}
		})
	}
}

func TestOptionsAreChecked(t *testing.T) {
	s := new(attempt.Memory)
	for want, o := range map[string]Options{
		"no provider": {Profile: Fake()},
		"negative":    {Profile: Fake(), Place: here, Margin: -1},
		"is after to": {Profile: Fake(), Place: here, From: day1.Add(1), To: day1},
	} {
		if _, err := Match(t.Context(), s, nil, o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("want %s, got %v", want, err)
		}
	}
	p := c49()
	_, err := Match(t.Context(), s, []Source{{Name: "f", Open: func() (io.ReadCloser, error) {
		return io.NopCloser(strings.NewReader("reference,type,gross,fee,net,currency\na,charge,1,0,1,EUR\n")), nil
	}}}, Options{Profile: p, Place: here})
	if err == nil || !strings.Contains(err.Error(), "no times") {
		t.Error(err)
	}
	if r, err := Match(t.Context(), s, nil, Options{Profile: p, Place: here}); err != nil || r.Differences() {
		t.Errorf("%+v, %v", r, err)
	}
}

// The store's failure, and Tell's, end the matching; run again, all comes to the same as if nothing had happened.
func TestFailuresAndRerun(t *testing.T) {
	lines := make([]string, 0, 1200)
	for n := 1; n <= 1200; n++ {
		lines = append(lines, charged(n, "10.00", day1.Add(time.Duration(n)*time.Minute)))
	}
	fill := func() *shop {
		s := &shop{t: t, now: day1.Add(72 * time.Hour)}
		s.store = &attempt.Memory{Now: func() time.Time { return s.now }}
		for n := 1; n <= 1201; n++ {
			status := attempt.StatusApproved
			if n%100 == 0 {
				status = attempt.StatusUnknown
			}
			s.put(n, status, "10.00", day1.Add(time.Duration(n%1200)*time.Minute))
		}
		return s
	}
	o := Options{To: day1.Add(48 * time.Hour)}
	want := fill()
	report, text := want.match(o, file("f", lines...))
	if report.Settled != 12 || report.Counts[Matched] != 1200 || report.Counts[OursOnly] != 1 {
		t.Fatalf("%+v\n%s", report, text)
	}
	all := want.everything()
	broken := errors.New("broken")
	for after := 0; ; after++ {
		s := fill()
		good := s.store
		f := &failing{Store: good, left: after, err: broken}
		s.store = f
		_, _, err := s.try(o, file("f", lines...))
		if err == nil {
			if after < 8 {
				t.Errorf("only %d calls", after)
			}
			break
		}
		if !errors.Is(err, broken) {
			t.Fatalf("after %d calls: %v", after, err)
		}
		s.store = good
		again, _ := s.match(o, file("f", lines...))
		if !reflect.DeepEqual(again.Counts, report.Counts) || s.everything() != all {
			t.Errorf("failed after %d calls, run again: %+v", after, again)
		}
	}
	s := fill()
	if _, err := Match(t.Context(), s.store, []Source{file("f", lines...)}, Options{
		Profile: Fake(), Place: here, TellAll: true, Tell: func(Item) error { return broken },
	}); !errors.Is(err, broken) {
		t.Error(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Match(ctx, s.store, []Source{file("f", lines...)}, Options{Profile: Fake(), Place: here}); err == nil {
		t.Error("a cancelled context was not noticed")
	}
}

// failing is a store that breaks after so many calls.
type failing struct {
	attempt.Store
	left int
	err  error
}

func (f *failing) fails() bool {
	f.left--
	return f.left < 0
}

func (f *failing) Briefs(ctx context.Context, ids, chargeIDs []string) ([]attempt.Brief, error) {
	if f.fails() {
		return nil, f.err
	}
	return f.Store.Briefs(ctx, ids, chargeIDs)
}

func (f *failing) Sent(ctx context.Context, place attempt.Place, from, to time.Time) iter.Seq2[attempt.Sent, error] {
	if f.fails() {
		return func(yield func(attempt.Sent, error) bool) { yield(attempt.Sent{}, f.err) }
	}
	return f.Store.Sent(ctx, place, from, to)
}

func (f *failing) Notes(ctx context.Context, filter attempt.NoteFilter) ([]attempt.Note, error) {
	if f.fails() {
		return nil, f.err
	}
	return f.Store.Notes(ctx, filter)
}

func (f *failing) Apply(ctx context.Context, steps ...*attempt.Step) error {
	if f.fails() {
		for _, s := range steps {
			s.Err = f.err
		}
		return f.err
	}
	return f.Store.Apply(ctx, steps...)
}
