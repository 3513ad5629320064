package attempt_test

import (
	"errors"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/chargeonce/chargeonce/attempt"
	"github.com/chargeonce/chargeonce/money"
)

func TestSlot_Validate(t *testing.T) {
	for _, c := range []struct {
		name string
		slot attempt.Slot
		want []string // parts of the error; nil: valid
	}{
		{"an order", attempt.Slot{Order: "1001"}, nil},
		{"all parts", attempt.Slot{Account: "shop-a", Order: "1001", Purpose: "deposit"}, nil},
		{"letters of another alphabet", attempt.Slot{Order: "заказ-1001 ₺"}, nil},
		{"combining marks and joined emoji", attempt.Slot{Order: "cafe\u0301 👨\u200d👩\u200d👧"}, nil},
		{"inner spaces", attempt.Slot{Order: "10 01"}, nil},
		{"the longest", attempt.Slot{Account: strings.Repeat("a", 100), Order: strings.Repeat("o", 200), Purpose: strings.Repeat("p", 100)}, nil},
		{"every mistake at once", attempt.Slot{Account: strings.Repeat("a", 101), Purpose: "a\x01"}, []string{"order: empty", "account: 101 bytes", "purpose: control"}},
		{"too long", attempt.Slot{Order: strings.Repeat("o", 201)}, []string{"201 bytes"}},
		{"counted in bytes", attempt.Slot{Order: strings.Repeat("ö", 101)}, []string{"202 bytes"}},
		{"a space", attempt.Slot{Order: " "}, []string{"order"}},
		{"a space before", attempt.Slot{Order: " 1001"}, []string{"space"}},
		{"a space after", attempt.Slot{Account: "a ", Order: "1001"}, []string{"account"}},
		{"a no-break space after", attempt.Slot{Order: "1001\u00a0"}, []string{"space"}},
		{"a line separator after", attempt.Slot{Order: "1001\u2028"}, []string{"space"}},
		{"the byte order mark of a file", attempt.Slot{Order: "\ufeff1001"}, []string{"invisible"}},
		{"a zero width space after", attempt.Slot{Order: "1001\u200b"}, []string{"invisible"}},
		{"a direction mark before", attempt.Slot{Order: "\u202e1001"}, []string{"invisible"}},
		{"a tab", attempt.Slot{Order: "10\t01"}, []string{"control character at byte 2"}},
		{"a line break", attempt.Slot{Order: "1001\n"}, []string{"control"}},
		{"NUL", attempt.Slot{Order: "1001\x00"}, []string{"control"}},
		{"DEL", attempt.Slot{Order: "\x7f1001"}, []string{"control"}},
		{"a C1 control", attempt.Slot{Order: "10\u008501"}, []string{"control"}},
		{"bad UTF-8", attempt.Slot{Order: "1001\xff"}, []string{"UTF-8 at byte 4"}},
		{"half a letter", attempt.Slot{Order: "1001\xc3"}, []string{"UTF-8"}},
		{"a surrogate", attempt.Slot{Order: "\xed\xa0\x80"}, []string{"UTF-8"}},
		{"the replacement character, itself a letter", attempt.Slot{Order: "\ufffd"}, nil},
	} {
		err := c.slot.Validate()
		if (err == nil) != (c.want == nil) {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		for _, part := range c.want {
			if !strings.Contains(err.Error(), part) {
				t.Errorf("%s: %q does not say %q", c.name, err, part)
			}
		}
	}
}

func TestSlot_Text(t *testing.T) {
	for want, slot := range map[string]attempt.Slot{
		"1001":                  {Order: "1001"},
		"1002":                  {Order: "1002", Purpose: "charge"},
		"shop-a/1001":           {Account: "shop-a", Order: "1001"},
		"shop-a/1001 (deposit)": {Account: "shop-a", Order: "1001", Purpose: "deposit"},
	} {
		if got := slot.String(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	if got := (attempt.Slot{Order: "1"}).WithDefaults().Purpose; got != attempt.PurposeCharge {
		t.Errorf("default purpose %q", got)
	}
	if got := (attempt.Slot{Order: "1", Purpose: "tip"}).WithDefaults().Purpose; got != "tip" {
		t.Errorf("purpose %q", got)
	}
}

func FuzzSlot_Validate(f *testing.F) {
	for _, text := range []string{"1001", "", " 1", "\ufeff1", "a\x00", "é", "\xff", strings.Repeat("x", 201)} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if (attempt.Slot{Order: text}).Validate() != nil {
			return
		}
		if text == "" || len(text) > attempt.MaxOrderLength || !utf8.ValidString(text) || strings.TrimSpace(text) != text ||
			strings.ContainsAny(text, "\x00\n\r\t\x7f\u0085") {
			t.Fatalf("%q names a slot", text)
		}
	})
}

func TestIntent_Validate(t *testing.T) {
	valid := attempt.Intent{Order: "1001", Amount: asked, Source: visa, Description: "Two chairs 🪑"}
	withdrawn, err := money.Restore(100, "HRK")
	if err != nil {
		t.Fatal(err)
	}
	negative, err := money.New(-1, "EUR")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name   string
		change func(*attempt.Intent)
		want   []string
	}{
		{"valid", func(*attempt.Intent) {}, nil},
		{"nothing", func(i *attempt.Intent) { *i = attempt.Intent{} }, []string{"order: empty", "source: empty", "amount: missing"}},
		{"nothing to pay", func(i *attempt.Intent) { i.Amount = amountOf(0, "EUR") }, []string{"not positive"}},
		{"less than nothing", func(i *attempt.Intent) { i.Amount = negative }, []string{"not positive"}},
		{"a currency that is gone", func(i *attempt.Intent) { i.Amount = withdrawn }, []string{"HRK", "since"}},
		{"a card as a token", func(i *attempt.Intent) { i.Source = attempt.Token("4242424242424242") }, []string{"card number"}},
		{"a card in the description", func(i *attempt.Intent) { i.Description = "paid with 4242-4242-4242-4242, thanks" }, []string{"description", "card number"}},
		{"a long description", func(i *attempt.Intent) { i.Description = strings.Repeat("x", 501) }, []string{"description: 501"}},
		{"a line break in the description", func(i *attempt.Intent) { i.Description = "a\nb" }, []string{"description: control"}},
	} {
		i := valid
		c.change(&i)
		err := i.Validate()
		if (err == nil) != (c.want == nil) {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		for _, part := range c.want {
			if !strings.Contains(err.Error(), part) {
				t.Errorf("%s: %q does not say %q", c.name, err, part)
			}
		}
		if err != nil && (strings.Contains(err.Error(), "4242424242424242") || strings.Contains(err.Error(), "4242-4242")) {
			t.Error("the error shows the card")
		}
	}
	i := valid
	i.Amount = withdrawn
	if err := i.Validate(); !errors.Is(err, money.ErrWithdrawnCurrency) {
		t.Errorf("error %v", err)
	}
	if got, want := valid.Slot(), (attempt.Slot{Order: "1001", Purpose: "charge"}); got != want {
		t.Errorf("slot %+v", got)
	}
}
