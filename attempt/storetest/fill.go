package storetest

import (
	"encoding"
	"fmt"
	"reflect"
	"time"

	"github.com/chargeonce/chargeonce/attempt"
	"github.com/chargeonce/chargeonce/money"
)

// filler fills every field of a value with something of its own, those that are added to the types later included: what a
// store forgets does not come back.
type filler struct {
	n int
}

// attempt fills what a change may change; what is settled when an attempt is made, it fills in a new one only.
func (f *filler) attempt(a *attempt.Attempt) {
	before := *a
	f.fill(reflect.ValueOf(a).Elem())
	a.ID, a.Slot, a.Ordinal, a.Version = before.ID, before.Slot, before.Ordinal, before.Version
	a.CreatedAt, a.UpdatedAt, a.Refund = before.CreatedAt, before.UpdatedAt, before.Refund
	if before.Version > 0 {
		a.Key, a.Reference, a.Amount, a.Source, a.Description = before.Key, before.Reference, before.Amount, before.Source, before.Description
		a.Provider, a.ProviderAccount, a.Environment = before.Provider, before.ProviderAccount, before.Environment
	}
}

// event fills evidence, duties and who.
func (f *filler) event(e *attempt.Event) {
	at := e.At
	e.Evidence = new(attempt.Evidence)
	for _, field := range []any{&e.Evidence, &e.Duties, &e.Who, &e.What} {
		f.fill(reflect.ValueOf(field).Elem())
	}
	e.Evidence.At = at
}

// Amounts that are easily spoilt: withdrawn, without decimals, with three, negative, too large for a float64.
var amounts = []money.Amount{
	restore(123, "HRK"), restore(80, "JPY"), restore(12345, "KWD"), restore(-1, "TRY"), restore(1<<62+1, "EUR"), restore(0, "USD"),
}

func restore(minor int64, currency string) money.Amount {
	a, err := money.Restore(minor, currency)
	if err != nil {
		panic(err)
	}
	return a
}

func (f *filler) fill(v reflect.Value) {
	f.n++
	switch p := v.Addr().Interface().(type) {
	case *money.Amount:
		*p = amounts[f.n%len(amounts)]
		return
	case *time.Time:
		*p = time.Date(2026, 1, 2, 3, 4, 5, 678901000, time.UTC).Add(time.Duration(f.n) * 7777777 * time.Microsecond)
		return
	case encoding.TextUnmarshaler:
		f.fillNamed(v, p)
		return
	}
	switch v.Kind() {
	case reflect.String:
		v.SetString(fmt.Sprintf("text %d: \u00fcn\u00efc\u00f6de \U0001F4B3 \"quoted\" \\ <b>&amp;</b> 'x' %%s \u2028 tab\t line\n", f.n))
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int, reflect.Int64:
		v.SetInt(int64(f.n))
	case reflect.Uint8:
		v.SetUint(uint64(f.n % 256))
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		f.fill(v.Elem())
	case reflect.Slice:
		n := 2
		if v.Type().Elem().Kind() == reflect.Uint8 {
			n = 300 // a body: every byte there is
		}
		v.Set(reflect.MakeSlice(v.Type(), n, n))
		for i := range n {
			f.fill(v.Index(i))
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).Tag.Get("json") != "-" { // said to be not stored
				f.fill(v.Field(i))
			}
		}
	default:
		panic(fmt.Sprintf("storetest: no value for a %s", v.Type()))
	}
}

// fillNamed gives a named number a value other than zero that has a name.
func (f *filler) fillNamed(v reflect.Value, p encoding.TextUnmarshaler) {
	known := func(n int) bool {
		v.SetUint(uint64(n))
		text, err := v.Interface().(encoding.TextMarshaler).MarshalText()
		return err == nil && p.UnmarshalText(text) == nil
	}
	count := 0
	for known(count) {
		count++
	}
	v.SetUint(uint64(1 + f.n%(count-1)))
}
