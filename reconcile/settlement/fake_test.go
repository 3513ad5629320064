package settlement

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/chargeonce/chargeonce/attempt"
	"github.com/chargeonce/chargeonce/fakeprovider"
	"github.com/chargeonce/chargeonce/money"
)

// bank is the fake provider, and how its charges are made.
type bank struct {
	t *testing.T
	*fakeprovider.Provider
	made int
}

func (b *bank) post(path string, body map[string]any) (id string) {
	b.t.Helper()
	text, err := json.Marshal(body)
	if err != nil {
		b.t.Fatal(err)
	}
	r, err := http.NewRequestWithContext(b.t.Context(), http.MethodPost, "http://bank"+path, bytes.NewReader(text))
	if err != nil {
		b.t.Fatal(err)
	}
	b.made++
	r.Header.Set("Authorization", "Bearer shop")
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Idempotency-Key", fmt.Sprintf(`"key-%d"`, b.made))
	res, err := b.RoundTrip(r)
	if err != nil {
		b.t.Fatal(err)
	}
	defer res.Body.Close()
	answer, err := io.ReadAll(res.Body)
	if err != nil || res.StatusCode != http.StatusCreated {
		b.t.Fatalf("%s %s, %v", res.Status, answer, err)
	}
	var made struct {
		ID string `json:"id"`
	}
	if err := json.Unmarshal(answer, &made); err != nil {
		b.t.Fatal(err)
	}
	return made.ID
}

func (b *bank) charge(n int, minor int64, currency string) string {
	return b.post("/v1/charges", map[string]any{
		"amount": minor, "currency": currency, "source": "tok_visa", "merchant_reference": "shop-" + idNumber(n),
	})
}

func (b *bank) refund(n int, charge string, minor int64) string {
	return b.post("/v1/refunds", map[string]any{"amount": minor, "currency": "EUR", "charge": charge, "merchant_reference": "shop-" + idNumber(n)})
}

func (b *bank) report(o fakeprovider.ReportOptions) Source {
	b.t.Helper()
	var file bytes.Buffer
	if err := b.WriteReport(&file, o); err != nil {
		b.t.Fatal(err)
	}
	return Source{Name: "report.csv", Open: func() (io.ReadCloser, error) { return io.NopCloser(strings.NewReader(file.String())), nil }}
}

// What the fake provider settles is what we have, in every currency; what it reports wrongly is told.
func TestR10FakeProvidersReport(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &bank{t: t, Provider: fakeprovider.New(fakeprovider.Config{})}
		defer func() {
			if err := b.Close(); err != nil {
				t.Error(err)
			}
		}()
		s := &shop{t: t, store: new(attempt.Memory)}
		have := func(n int, status attempt.Status, minor int64, currency, charge string, change ...func(*attempt.Attempt)) {
			s.put(n, status, "1.00", time.Now(), append(change, func(a *attempt.Attempt) {
				var err error
				if a.Amount, err = money.New(minor, currency); err != nil {
					t.Fatal(err)
				}
				if status == attempt.StatusApproved {
					a.ChargeID, a.Charges[0].ID, a.Charges[0].Amount = charge, charge, a.Amount
				}
			})...)
		}
		euro := b.charge(1, 54890, "EUR")
		have(1, attempt.StatusApproved, 54890, "EUR", euro)
		yen := b.charge(2, 80, "JPY")
		have(2, attempt.StatusApproved, 80, "JPY", yen)
		time.Sleep(time.Minute)
		dinar := b.charge(3, 35200, "KWD")
		have(3, attempt.StatusUnknown, 35200, "KWD", dinar) // the answer was lost
		back := b.refund(4, euro, 4890)
		have(4, attempt.StatusApproved, 4890, "EUR", back, refund(4, 1))
		time.Sleep(time.Minute)

		_, text := s.match(Options{Margin: time.Nanosecond, ReadOnly: true}, b.report(fakeprovider.ReportOptions{
			LeaveOut: []string{yen}, Double: []string{back}, Amounts: map[string]int64{euro: 54891}, Foreign: 1, From: time.Now().Add(-time.Hour),
		}))
		same(t, text, `
4 amount_differs 1 approved: the line says 548.91 EUR, attempt #1 is over 548.90 EUR
5 matched 3 unknown: attempt #3 is unknown
6 matched 1 approved
7 duplicate 1 approved: line 6 is about the same
8 theirs_only: no attempt has this charge or this reference
ours_only 2 approved: approved, and no report has it
`)

		report, text := s.match(Options{}, b.report(fakeprovider.ReportOptions{}))
		same(t, text, `
4 matched 1 approved
5 matched 2 approved
6 matched 3 approved settled
7 matched 1 approved
`)
		if s.get(3).ChargeID != dinar || report.Files[0].SumsVerified || !report.Files[0].CountVerified {
			t.Errorf("%+v\n%+v", s.get(3), report)
		}
		_, _, err := s.try(Options{}, b.report(fakeprovider.ReportOptions{NoTrailer: true}))
		var refused *FileError
		if !errors.As(err, &refused) {
			t.Errorf("a report that was cut off: %v", err)
		}
	})
}
