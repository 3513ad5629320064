package settlement

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/go-json-experiment/json"

	"github.com/chargeonce/chargeonce/money"
)

// ProfileError lists everything that is wrong with a profile. Nothing was read with it.
type ProfileError struct {
	Profile string
	Err     error // all mistakes, joined
}

// Error writes one mistake per line.
func (e *ProfileError) Error() string {
	return fmt.Sprintf("settlement profile %q: %v", e.Profile, e.Err)
}

// Unwrap returns the mistakes.
func (e *ProfileError) Unwrap() error { return e.Err }

// ParseProfile reads a profile from JSON (RFC 8259) and validates it. Unknown and repeated names are mistakes. Its error is
// a [*ProfileError].
func ParseProfile(text []byte) (Profile, error) {
	var p Profile
	if err := json.Unmarshal(text, &p, json.RejectUnknownMembers(true)); err != nil {
		return Profile{}, &ProfileError{Profile: p.Name, Err: err}
	}
	if err := p.Validate(); err != nil {
		return Profile{}, err
	}
	return p, nil
}

// Validate reports every mistake at once, as a [*ProfileError].
func (p Profile) Validate() error {
	err := errors.Join(
		p.validateName(), p.validateFile(), p.validateColumns(), p.validateRequired(), p.validateCurrency(),
		p.validateTypes(), p.validateAmounts(), p.validateFee(), p.validateTimes(), p.validateTrailer(),
	)
	if err != nil {
		return &ProfileError{Profile: p.Name, Err: err}
	}
	return nil
}

func (p Profile) validateName() error {
	if p.Name == "" {
		return errors.New("name: missing")
	}
	for _, c := range p.Name {
		if !(c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || strings.ContainsRune("._-", c)) {
			return fmt.Errorf("name: %q: want letters, digits, '.', '_' and '-'", p.Name)
		}
	}
	return nil
}

func (p Profile) validateFile() error {
	errs := []error{
		oneOf("encoding", p.Encoding, UTF8, UTF8BOM, ISO88591, Windows1252, UTF16, UTF16LE, UTF16BE),
		oneOf("quotes", p.Quotes, QuotesRFC4180, QuotesNone),
	}
	switch d := p.Delimiter; {
	case len(d) != 1 || d[0] >= utf8.RuneSelf || strings.ContainsAny(d, "\"\r\n\x00"):
		errs = append(errs, fmt.Errorf("delimiter: %q: want one ASCII character", d))
	case d == " " && p.TrimSpaces:
		errs = append(errs, errors.New("trim_spaces: blanks are the delimiter"))
	}
	switch {
	case p.PreambleLines < 0 || p.PreambleLines > maxPreamble:
		errs = append(errs, fmt.Errorf("preamble_lines: %d: want 0 to %d", p.PreambleLines, maxPreamble))
	case p.PreambleLines > 0 && p.FindHeader:
		errs = append(errs, errors.New("preamble_lines, find_header: want one of them"))
	}
	return errors.Join(errs...)
}

const maxPreamble = 100

func (p Profile) validateColumns() error {
	var errs []error
	c := p.Columns
	named := map[string]string{}
	add := func(role, column string) {
		switch {
		case column == "":
		case column != spaced(column):
			errs = append(errs, fmt.Errorf("columns: %s: %q: want single blanks, and none around", role, column))
		case named[column] != "":
			errs = append(errs, fmt.Errorf("columns: %s: %q is %s already", role, column, named[column]))
		default:
			named[column] = role
		}
	}
	for _, a := range []struct {
		role     string
		column   AmountColumn
		required bool
	}{{"gross", c.Gross, true}, {"net", c.Net, false}} {
		switch one, two := a.column.Column != "", a.column.Debit != "" && a.column.Credit != ""; {
		case !a.column.given():
			if a.required {
				errs = append(errs, errors.New("columns: gross: missing"))
			}
		case one && (a.column.Debit != "" || a.column.Credit != ""), !one && !two:
			errs = append(errs, fmt.Errorf("columns: %s: want column, or both debit and credit", a.role))
		}
		add(a.role, a.column.Column)
		add(a.role+" debit", a.column.Debit)
		add(a.role+" credit", a.column.Credit)
	}
	add("id", c.ID)
	add("reference", c.Reference)
	add("type", c.Type)
	add("currency", c.Currency)
	add("net_currency", c.NetCurrency)
	add("zone", c.Zone)
	for _, f := range c.Fees {
		if f == "" {
			errs = append(errs, errors.New("columns: fees: an empty name"))
		}
		add("fees", f)
	}
	for _, t := range c.Created {
		if t == "" {
			errs = append(errs, errors.New("columns: created: an empty name"))
		}
		add("created", t)
	}
	if c.NetCurrency != "" && !c.Net.given() {
		errs = append(errs, errors.New("columns: net_currency: there is no net column"))
	}
	return errors.Join(errs...)
}

func (p Profile) validateRequired() error {
	var errs []error
	has := map[string]bool{
		"id": p.Columns.ID != "", "reference": p.Columns.Reference != "", "created": len(p.Columns.Created) > 0,
	}
	for _, t := range p.Types {
		has["id"] = has["id"] || t.ID != ""
		has["reference"] = has["reference"] || t.Reference != ""
	}
	for _, r := range p.Required {
		if given, known := has[r]; !known {
			errs = append(errs, fmt.Errorf("required: %q: want id, reference or created", r))
		} else if !given {
			errs = append(errs, fmt.Errorf("required: %s has no column", r))
		}
	}
	if !has["id"] && !has["reference"] {
		errs = append(errs, errors.New("columns: want id or reference, or nothing can be matched"))
	}
	return errors.Join(errs...)
}

func (p Profile) validateCurrency() error {
	switch column := p.Columns.Currency != ""; {
	case column && p.Currency != "":
		return errors.New("currency, columns.currency: want one of them")
	case column:
		return nil
	case p.Currency == "":
		return errors.New("currency: missing, and there is no column for it")
	}
	if _, err := money.Restore(0, p.Currency); err != nil {
		return fmt.Errorf("currency: %w", err)
	}
	return nil
}

func (p Profile) validateTypes() error {
	var errs []error
	if len(p.Types) == 0 {
		errs = append(errs, errors.New("types: missing"))
	}
	if _, empty := p.Types[""]; p.Columns.Type == "" && (!empty || len(p.Types) != 1) {
		errs = append(errs, errors.New(`types: there is no type column: want one entry, for ""`))
	}
	for _, value := range slices.Sorted(maps.Keys(p.Types)) {
		t := p.Types[value]
		field := fmt.Sprintf("types: %q", value)
		errs = append(errs,
			oneOf(field+": kind", t.Kind, KindCharge, KindRefund, KindChargeback, KindFee, KindPayout, KindOther, KindIgnored),
			oneOf(field+": gross_sign", t.GrossSign, SignAsWritten, SignOpposite),
			oneOf(field+": fee_sign", t.FeeSign, SignAsWritten, SignOpposite),
			oneOf(field+": net_sign", t.NetSign, SignAsWritten, SignOpposite))
		for _, column := range []string{t.ID, t.Reference} {
			if column != spaced(column) {
				errs = append(errs, fmt.Errorf("%s: column %q: want single blanks, and none around", field, column))
			}
		}
		belongs := t.Kind == KindCharge || t.Kind == KindRefund || t.Kind == KindChargeback
		if belongs && p.Columns.ID == "" && t.ID == "" && p.Columns.Reference == "" && t.Reference == "" {
			errs = append(errs, fmt.Errorf("%s: has neither an id column nor one for the reference", field))
		}
	}
	return errors.Join(errs...)
}

func (p Profile) validateAmounts() error {
	a := p.Amounts
	errs := []error{
		oneOf("amounts: unit", a.Unit, UnitMinor, UnitMajor),
		oneOf("amounts: negative", a.Negative, NegativeMinus, NegativeTrailingMinus, NegativeParentheses, NegativeNone),
	}
	if a.Unit == UnitMinor && (a.DecimalMark != "" || a.GroupingMark != "") {
		errs = append(errs, errors.New("amounts: decimal_mark, grouping_mark: minor units have none"))
	}
	if a.Unit == UnitMajor {
		errs = append(errs, oneOf("amounts: decimal_mark", a.DecimalMark, ".", ","))
	}
	if g := a.GroupingMark; g != "" {
		r, size := utf8.DecodeRuneInString(g)
		if size != len(g) || r == utf8.RuneError || r < ' ' || r == 0x7f || strings.ContainsAny(g, "0123456789+-()\"") || g == a.DecimalMark {
			errs = append(errs, fmt.Errorf("amounts: grouping_mark: %q: want one character that is no digit, sign or decimal mark", g))
		}
	}
	for _, code := range slices.Sorted(maps.Keys(a.Decimals)) {
		if n := a.Decimals[code]; n < 0 || n > 6 {
			errs = append(errs, fmt.Errorf("amounts: decimals: %s: %d: want 0 to 6", code, n))
		}
		if _, ok := money.Decimals(code); !ok || code != strings.ToUpper(code) {
			errs = append(errs, fmt.Errorf("amounts: decimals: %q: want an ISO 4217 code in capitals", code))
		}
	}
	return errors.Join(errs...)
}

func (p Profile) validateFee() error {
	if len(p.Columns.Fees) > 0 {
		return oneOf("fee_sign", p.FeeSign, FeeDeducted, FeeAdded)
	}
	if p.FeeSign != "" || p.Amounts.EmptyFeeIsZero {
		return errors.New("fee_sign, amounts.empty_fee_is_zero: there are no fee columns")
	}
	return nil
}

func (p Profile) validateTimes() error {
	t, c := p.Times, p.Columns
	if len(c.Created) == 0 {
		if t.Zone != "" || len(t.Layouts) > 0 || c.Zone != "" {
			return errors.New("times, columns.zone: there are no created columns")
		}
		return nil
	}
	var errs []error
	if len(t.Layouts) == 0 {
		errs = append(errs, errors.New("times: layouts: missing"))
	}
	switch {
	case t.Zone == "" && c.Zone == "":
		errs = append(errs, errors.New("times: zone: missing, and there is no column for it"))
	case t.Zone != "" && c.Zone != "":
		errs = append(errs, errors.New("times: zone, columns: zone: want one of them"))
	case t.Zone != "" && t.Zone != ZoneOffset:
		if _, err := loadZone(t.Zone); err != nil {
			errs = append(errs, fmt.Errorf("times: zone: %w", err))
		}
	}
	for _, layout := range t.Layouts {
		errs = append(errs, validateLayout(layout, t.Zone == ZoneOffset))
	}
	return errors.Join(errs...)
}

// validateLayout writes a time whose parts cannot be mixed up, and looks at what can be read back.
func validateLayout(layout string, offset bool) error {
	if strings.Contains(layout, "MST") {
		return fmt.Errorf("times: layout %q: abbreviations of zones are ambiguous: want an offset, or zone", layout)
	}
	east := time.FixedZone("", 3*3600+45*60)
	at := time.Date(2026, 11, 23, 17, 48, 59, 0, east)
	text := at.Format(layout)
	back, err := time.Parse(layout, text)
	if err != nil {
		return fmt.Errorf("times: layout %q: cannot be read back: %w", layout, err)
	}
	_, seconds := back.Zone()
	switch hasOffset := seconds != 0; {
	case hasOffset && !offset:
		return fmt.Errorf("times: layout %q has an offset: want zone %q", layout, ZoneOffset)
	case !hasOffset && offset:
		return fmt.Errorf("times: layout %q has no offset, zone is %q", layout, ZoneOffset)
	case back.Year() != 2026 || back.YearDay() != at.YearDay():
		return fmt.Errorf("times: layout %q does not hold a whole date", layout)
	case back.Hour() != 0 && back.Hour() != at.Hour():
		return fmt.Errorf("times: layout %q has a clock of 12 hours without PM", layout)
	}
	return nil
}

func (p Profile) validateTrailer() error {
	t := p.Trailer
	if t == nil {
		return nil
	}
	var errs []error
	if t.Marker == "" || t.Marker != strings.TrimSpace(t.Marker) {
		errs = append(errs, fmt.Errorf("trailer: marker: %q: want a text without blanks around", t.Marker))
	}
	if len(t.Fields) == 0 || t.Fields[0] != "" {
		errs = append(errs, errors.New(`trailer: fields: the first is the marker's: want ""`))
	}
	seen := map[string]bool{}
	for _, f := range t.Fields {
		if !slices.Contains([]string{"", "count", "gross", "fee", "net", "currency"}, f) {
			errs = append(errs, fmt.Errorf("trailer: fields: %q: want count, gross, fee, net, currency or an empty text", f))
		}
		if f != "" && seen[f] {
			errs = append(errs, fmt.Errorf("trailer: fields: %s twice", f))
		}
		seen[f] = true
	}
	if !seen["count"] && !seen["gross"] && !seen["fee"] && !seen["net"] {
		errs = append(errs, errors.New("trailer: fields: want count, or a sum: nothing could be verified"))
	}
	if p.Columns.NetCurrency != "" && (seen["fee"] || seen["net"]) {
		errs = append(errs, errors.New("trailer: fields: fee and net may be in another currency than gross: leave them out"))
	}
	return errors.Join(errs...)
}

func oneOf[T ~string](field string, got T, want ...T) error {
	if slices.Contains(want, got) {
		return nil
	}
	if got == "" {
		return fmt.Errorf("%s: missing, want one of %q", field, want)
	}
	return fmt.Errorf("%s: %q: want one of %q", field, got, want)
}

// spaced writes a column's name with single blanks and none around: headers differ in that only by accident.
func spaced(name string) string { return strings.Join(strings.Fields(name), " ") }
