package settlement

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

func TestProfilesOfThePackageAreValid(t *testing.T) {
	for _, name := range BuiltinNames() {
		p, ok := Builtin(name)
		if !ok || p.Name != name {
			t.Errorf("%s: %v, %q", name, ok, p.Name)
		}
		if err := p.Validate(); err != nil {
			t.Error(err)
		}
		text, err := json.Marshal(p)
		if err != nil {
			t.Fatal(err)
		}
		if back, err := ParseProfile(text); err != nil || !reflect.DeepEqual(back, p) {
			t.Errorf("%s\nread back as %+v, %v", text, back, err)
		}
	}
	if _, ok := Builtin("none"); ok {
		t.Error("a profile of no name")
	}
	p, _ := Builtin("fake")
	p.Types["x"] = Type{}
	if again, _ := Builtin("fake"); len(again.Types) != 2 {
		t.Error("who changed a profile has changed it for all")
	}
}

// Every mistake is told at once.
func TestValidateTellsAllMistakes(t *testing.T) {
	p := Profile{
		Name: "a b", Encoding: "latin", Delimiter: ";;", PreambleLines: 2, FindHeader: true,
		Columns: Columns{
			ID: "a", Type: "a", Gross: AmountColumn{Column: "g", Debit: "d"}, Fees: []string{""}, Net: AmountColumn{Credit: "c"},
			Currency: "cur", Created: []string{" t"},
		},
		Required: []string{"reference", "amount"},
		Currency: "EUR",
		Types:    map[string]Type{"x": {Kind: "sale", GrossSign: "-"}},
		Amounts:  Amounts{Unit: UnitMajor, GroupingMark: "..", Negative: "red", Decimals: map[string]int{"eur": 2, "ISK": 9}},
		Times:    Times{Layouts: []string{"02.01.", "2006-01-02 03:04", "2006-01-02 15:04 MST", "2006-01-02 15:04 -0700"}, Zone: "Berlin"},
		Trailer:  &Trailer{Marker: " ", Fields: []string{"count", "count", "sum"}},
	}
	err := p.Validate()
	var wrong *ProfileError
	if !errors.As(err, &wrong) {
		t.Fatal(err)
	}
	for _, want := range []string{
		`name: "a b"`, `encoding: "latin"`, "quotes: missing", `delimiter: ";;"`, "preamble_lines, find_header: want one",
		`columns: type: "a" is id already`, "columns: gross: want column, or both", "columns: fees: an empty name", "columns: net: want column, or both",
		`columns: created: " t"`, "required: reference has no column", `required: "amount"`, "currency, columns.currency: want one of them",
		`types: "x": kind: "sale"`, `types: "x": gross_sign: "-"`, "amounts: decimal_mark: missing", `grouping_mark: ".."`, `amounts: negative: "red"`,
		`decimals: "eur"`, "decimals: ISK: 9", "fee_sign: missing", "times: zone: unknown time zone Berlin", `layout "02.01." does not hold a whole date`,
		`layout "2006-01-02 03:04" has a clock of 12 hours`, `layout "2006-01-02 15:04 MST": abbreviations`, `layout "2006-01-02 15:04 -0700" has an offset`,
		`trailer: marker: " "`, "trailer: fields: the first is the marker's", "trailer: fields: count twice", `trailer: fields: "sum"`,
	} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("does not tell %s", want)
		}
	}
	if t.Failed() {
		t.Log(err)
	}
}

func TestValidate(t *testing.T) {
	for want, change := range map[string]func(*Profile){
		"name: missing":                          func(p *Profile) { p.Name = "" },
		"encoding: missing":                      func(p *Profile) { p.Encoding = "" },
		`delimiter: "": want one`:                func(p *Profile) { p.Delimiter = "" },
		`delimiter: "\"": want one`:              func(p *Profile) { p.Delimiter = `"` },
		"preamble_lines: 101":                    func(p *Profile) { p.PreambleLines = 101 },
		"columns: gross: missing":                func(p *Profile) { p.Columns.Gross = AmountColumn{} },
		"want id or reference, or nothing":       func(p *Profile) { p.Columns.ID, p.Columns.Reference, p.Required = "", "", nil },
		"net_currency: there is no net":          func(p *Profile) { p.Columns.NetCurrency, p.Columns.Net = "nc", AmountColumn{} },
		"currency: missing":                      func(p *Profile) { p.Columns.Currency = "" },
		"currency: money":                        func(p *Profile) { p.Columns.Currency, p.Currency = "", "XXX" },
		"types: missing":                         func(p *Profile) { p.Types = nil },
		`want one entry, for ""`:                 func(p *Profile) { p.Columns.Type = "" },
		"minor units have none":                  func(p *Profile) { p.Amounts.Unit = UnitMinor },
		`grouping_mark: "."`:                     func(p *Profile) { p.Amounts.GroupingMark = "." },
		`grouping_mark: "0"`:                     func(p *Profile) { p.Amounts.GroupingMark = "0" },
		"there are no fee columns":               func(p *Profile) { p.Columns.Fees = nil },
		"there are no created columns":           func(p *Profile) { p.Columns.Created, p.Required = nil, nil },
		"times: layouts: missing":                func(p *Profile) { p.Times.Layouts = nil },
		"times: zone: missing":                   func(p *Profile) { p.Times.Zone = "" },
		`zone: "Local": want an IANA`:            func(p *Profile) { p.Times.Zone = "Local" },
		"zone, columns: zone: want one of them":  func(p *Profile) { p.Columns.Zone = "z" },
		`has no offset, zone is "offset"`:        func(p *Profile) { p.Times.Layouts = []string{"2006-01-02 15:04"} },
		"nothing could be verified":              func(p *Profile) { p.Trailer.Fields = []string{"", "currency"} },
		"fee and net may be in another currency": func(p *Profile) { p.Columns.NetCurrency = "nc" },
		"has neither an id column nor": func(p *Profile) {
			p.Columns.ID, p.Columns.Reference = "", ""
			p.Types["x"] = Type{Kind: KindFee, ID: "i"}
		},
		"trim_spaces: blanks are the delimiter":           func(p *Profile) { p.Delimiter, p.TrimSpaces = " ", true },
		`column " i": want single blanks, and none aroun`: func(p *Profile) { p.Types["x"] = Type{Kind: KindFee, ID: " i"} },
	} {
		p := Fake()
		change(&p)
		if err := p.Validate(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("want %s, got %v", want, err)
		}
		if _, err := NewReader(strings.NewReader(""), "f", p); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("NewReader: want %s, got %v", want, err)
		}
	}
}

func TestParseProfileIsStrict(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("..", "..", "testdata", "settlement", "berlin.json"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := ParseProfile(text); err != nil {
		t.Fatal(err)
	}
	for what, change := range map[string][2]string{
		"a repeated name":  {`"unit"`, `"unit": "minor", "unit"`},
		"an unknown name":  {`"unit"`, `"units"`},
		"another case":     {`"unit"`, `"Unit"`},
		"text behind":      {"]}\n}", "]}\n} x"},
		"another type":     {`"major"`, `1`},
		"an invalid value": {`"major"`, `"cents"`},
	} {
		changed := strings.Replace(string(text), change[0], change[1], 1)
		if changed == string(text) {
			t.Fatalf("%s: nothing changed", what)
		}
		p, err := ParseProfile([]byte(changed))
		var wrong *ProfileError
		if !errors.As(err, &wrong) || !reflect.DeepEqual(p, Profile{}) {
			t.Errorf("%s: %+v, %v", what, p, err)
		}
	}
}
