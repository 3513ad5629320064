package settlement

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/iotest"
	"time"
	"unicode/utf16"
)

// c49 is the profile of a report whose fees are negative.
func c49() Profile {
	return Profile{
		Name: "c49", Encoding: UTF8, Delimiter: ",", Quotes: QuotesRFC4180,
		Columns: Columns{
			Reference: "reference", Type: "type", Gross: AmountColumn{Column: "gross"}, Fees: []string{"fee"},
			Net: AmountColumn{Column: "net"}, Currency: "currency",
		},
		Types:   map[string]Type{"charge": {Kind: KindCharge}, "refund": {Kind: KindRefund}},
		Amounts: Amounts{Unit: UnitMajor, DecimalMark: ".", GroupingMark: ",", Negative: NegativeMinus},
		FeeSign: FeeAdded,
	}
}

// told writes what Read yields, a line for each.
func told(in io.Reader, p Profile) string {
	var b strings.Builder
	for l, err := range Read(in, "f", p) {
		if err != nil {
			fmt.Fprintln(&b, err)
			continue
		}
		fmt.Fprintf(&b, "%d %s %s|%s %s-%s=%s", l.Number, l.Kind, l.ID, l.Reference, l.Gross, l.Fee.Decimal(), l.Net.Decimal())
		if !l.Created.IsZero() {
			fmt.Fprintf(&b, " %s", l.Created.Format(time.RFC3339Nano))
		}
		if l.Local != LocalExact {
			fmt.Fprintf(&b, " %s", l.Local)
		}
		fmt.Fprintln(&b)
	}
	return b.String()
}

// expect compares what is read, also where the file comes in single bytes.
func expect(t *testing.T, file string, p Profile, want string) {
	t.Helper()
	want = strings.TrimPrefix(want, "\n")
	if got := told(strings.NewReader(file), p); got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
	if got := told(iotest.OneByteReader(strings.NewReader(file)), p); got != want {
		t.Errorf("by single bytes: got\n%swant\n%s", got, want)
	}
}

func TestC49AmountColumns(t *testing.T) {
	const file = `reference,type,gross,fee,net,currency
ord-1001,charge,"1,560.00",-68.94,"1,491.06",USD
ord-1002,charge,"1.560,00","-68,94","1.491,06",EUR
ord-1003,refund,50.00,0.00,50.00,EUR
ord-1004,refund,-50.00,0.00,-50.00,EUR
ord-1005,charge,"5` + "\u00a0" + `000,00` + "\u00a0" + `EUR",0,"5` + "\u00a0" + `000,00` + "\u00a0" + `EUR",EUR
ord-1006,charge,55.50,0,55.50,JPY
ord-1007,charge,(19.99),0,(19.99),EUR
ord-1008,charge,1.234,0.000,1.234,EUR
`
	const style = `want digits, in groups of three by "," or not grouped, at most 2 of them behind "."; negative as -1`
	expect(t, file, c49(), strings.ReplaceAll(`
2 charge |ord-1001 1560.00 USD-68.94=1491.06
f:3: column "gross": "1.560,00": STYLE
f:4: column "gross": "50.00": a refund that brings money: the sign is not as declared
5 refund |ord-1004 -50.00 EUR-0.00=-50.00
f:6: column "gross": "5\u00a0000,00\u00a0EUR": STYLE
f:7: column "gross": "55.50": the currency has no decimals
f:8: column "gross": "(19.99)": STYLE
f:9: column "gross": "1.234": more decimals than the currency has (2)
`, "STYLE", style))
}

// What is an error undeclared is an amount where the profile declares it.
func TestC49Declared(t *testing.T) {
	p := c49()
	p.Amounts = Amounts{Unit: UnitMajor, DecimalMark: ",", GroupingMark: "\u00a0", Negative: NegativeParentheses, EmptyFeeIsZero: true}
	p.FeeSign = FeeDeducted
	p.Delimiter = ";"
	p.Types["refund"] = Type{Kind: KindRefund, GrossSign: SignOpposite, NetSign: SignOpposite}
	expect(t, "reference;type;gross;fee;net;currency\n"+
		"a;charge;5\u00a0000,00;0,30;4\u00a0999,70;eur\n"+
		"b;refund;50,00;;50,00;EUR\n"+
		"c;refund;(50,00);;(50,00);EUR\n"+
		"d;refund;50,00;(0,30);49,70;EUR\n"+
		"e;charge;35,200;;35,2;KWD\n", p, `
2 charge |a 5000.00 EUR-0.30=4999.70
3 refund |b -50.00 EUR-0.00=-50.00
f:4: column "gross": "(50,00)": a refund that brings money: the sign is not as declared
5 refund |d -50.00 EUR--0.30=-49.70
6 charge |e 35.200 KWD-0.000=35.200
`)
}

func TestGrossMinusFeeIsNet(t *testing.T) {
	expect(t, "reference,type,gross,fee,net,currency\n"+
		"a,charge,10.00,-0.30,9.70,EUR\n"+
		"b,charge,10.00,0.30,9.70,EUR\n"+
		"c,charge,10.00,-0.30,9.71,EUR\n"+
		"d,charge,92233720368547758.07,-92233720368547758.07,0.00,USD\n"+
		"e,charge,92233720368547758.08,0,0,EUR\n", c49(), `
2 charge |a 10.00 EUR-0.30=9.70
f:3: column "net": "9.70": gross 1000 minus fee -30 is not net 970, in minor units of EUR
f:4: column "net": "9.71": gross 1000 minus fee 30 is not net 971, in minor units of EUR
5 charge |d 92233720368547758.07 USD-92233720368547758.07=0.00
f:6: column "gross": "[long number].08": out of range
`)
}

func TestAmountStyles(t *testing.T) {
	point := Amounts{Unit: UnitMajor, DecimalMark: ".", GroupingMark: ",", Negative: NegativeMinus}
	plain := Amounts{Unit: UnitMajor, DecimalMark: ".", Negative: NegativeMinus}
	swiss := Amounts{Unit: UnitMajor, DecimalMark: ".", GroupingMark: "’", Negative: NegativeTrailingMinus, Plus: true}
	minor := Amounts{Unit: UnitMinor, Negative: NegativeMinus}
	for _, tt := range []struct {
		style    Amounts
		text     string
		decimals int
		want     int64
		ok       bool
	}{
		{plain, "10.00", 2, 1000, true}, {plain, "10", 2, 1000, true}, {plain, "10.5", 2, 1050, true}, {plain, "0.00", 2, 0, true},
		{plain, "-0.01", 2, -1, true}, {plain, "0", 0, 0, true}, {plain, "1.2345", 4, 12345, true}, {plain, "80", 0, 80, true},
		{plain, "", 2, 0, false}, {plain, "-", 2, 0, false}, {plain, ".50", 2, 0, false}, {plain, "5.", 2, 0, false},
		{plain, "5.001", 2, 0, false}, {plain, "5.000", 2, 0, false}, {plain, "80.0", 0, 0, false}, {plain, "1,560.00", 2, 0, false},
		{plain, "007.00", 2, 0, false}, {plain, "00", 2, 0, false}, {plain, "+5.00", 2, 0, false}, {plain, "5.00-", 2, 0, false},
		{plain, "--5", 2, 0, false}, {plain, "1e3", 2, 0, false}, {plain, " 5", 2, 0, false}, {plain, "5 ", 2, 0, false},
		{plain, "5.0.0", 2, 0, false}, {plain, "٥", 2, 0, false}, {plain, "−5", 2, 0, false}, {plain, "(5)", 2, 0, false}, {plain, "NaN", 2, 0, false},
		{plain, "92233720368547758.07", 2, 9223372036854775807, true}, {plain, "92233720368547758.08", 2, 0, false},
		{plain, "9223372036854775807", 2, 0, false}, {plain, "99999999999999999999999", 2, 0, false},
		{point, "1,560.00", 2, 156000, true}, {point, "1,234,567", 0, 1234567, true}, {point, "1234567.00", 2, 123456700, true},
		{point, "1234,567.00", 2, 0, false}, {point, "1,23", 2, 0, false}, {point, "1,2345", 0, 0, false}, {point, ",123", 0, 0, false},
		{point, "1,,234", 0, 0, false}, {point, "1,234,", 0, 0, false}, {point, "1,234.5,6", 2, 0, false}, {point, "0,123", 0, 0, false},
		{point, "1,234,56.00", 2, 0, false}, {point, "-1,000", 0, -1000, true}, {point, "1.560,00", 2, 0, false},
		{swiss, "1’560.00-", 2, -156000, true}, {swiss, "+5.00", 2, 500, true}, {swiss, "-5.00", 2, 0, false}, {swiss, "+5.00-", 2, 0, false},
		{minor, "5489", 2, 5489, true}, {minor, "-5489", 3, -5489, true}, {minor, "54.89", 2, 0, false}, {minor, "05489", 2, 0, false},
	} {
		s := newAmountStyle(tt.style)
		got, reason := s.parse([]byte(tt.text), tt.decimals)
		if got != tt.want || (reason == "") != tt.ok {
			t.Errorf("%q with %d decimals: %d, %q; want %d, ok %v", tt.text, tt.decimals, got, reason, tt.want, tt.ok)
		}
	}
}

// Providers count some currencies in another unit than ISO 4217 does.
func TestDecimalsOfTheProvider(t *testing.T) {
	p := c49()
	p.Amounts.Decimals = map[string]int{"ISK": 2, "CVE": 0}
	expect(t, "reference,type,gross,fee,net,currency\n"+
		"a,charge,55.00,0,55,ISK\n"+
		"b,charge,55.50,0,55.50,ISK\n"+
		"c,charge,55,0,55,CVE\n"+
		"d,charge,55.00,0,55,CVE\n", p, `
2 charge |a 55 ISK-0=55
f:3: column "gross": "55.50": not a whole number of ISK's minor units
4 charge |c 55.00 CVE-0.00=55.00
f:5: column "gross": "55.00": the currency has no decimals
`)
}

const fakeHead = "Settlement report,fakeprovider\nPeriod,2026-01-01T00:00:00Z,2026-01-02T00:00:00Z\nid,reference,type,gross,fee,net,currency,created\n"

func TestFakeReport(t *testing.T) {
	expect(t, fakeHead+`ch_000001,ord-1,charge,10.00,0.39,9.61,EUR,2026-01-01T10:00:00.5Z
re_000001,ref-1,refund,-4.00,0.00,-4.00,EUR,2026-01-01T11:00:00Z
TOTAL,2,,6.00,0.39,5.61,EUR,
`, Fake(), `
4 charge ch_000001|ord-1 10.00 EUR-0.39=9.61 2026-01-01T10:00:00.5Z
5 refund re_000001|ref-1 -4.00 EUR-0.00=-4.00 2026-01-01T11:00:00Z
`)
	expect(t, fakeHead+`ch_000001,ord-1,charge,10.00,0.39,9.61,EUR,2026-01-01T10:00:00Z
ch_000002,ord-2,charge,80,26,54,JPY,2026-01-01T11:00:00Z
TOTAL,2,,,,,,
`, Fake(), `
4 charge ch_000001|ord-1 10.00 EUR-0.39=9.61 2026-01-01T10:00:00Z
5 charge ch_000002|ord-2 80 JPY-26=54 2026-01-01T11:00:00Z
`)
}

// Each of these refuses the report whole: the last thing told is the file's error.
func TestRefusedWhole(t *testing.T) {
	const row = "ch_1,ord-1,charge,10.00,0.39,9.61,EUR,2026-01-01T10:00:00Z\n"
	const total = "TOTAL,1,,10.00,0.39,9.61,EUR,\n"
	for name, tt := range map[string]struct{ file, want string }{
		"empty":                  {"", "f: ends before the header"},
		"preamble only":          {"a\nb\n", "f:2: ends before the header"},
		"missing column":         {"a\nb\nid,reference,type,gross,fee,currency\n", `f:3: header: without column "net", "created"`},
		"column twice":           {"a\nb\nid,reference,type,gross,fee,net,currency,created,net\n", `f:3: header: more than one column "net"`},
		"missing trailer":        {fakeHead + row, `f:4: ends without its trailer, "TOTAL"`},
		"cut off in a line":      {fakeHead + row[:20], `f:4: ends without its trailer, "TOTAL"`},
		"trailer counts less":    {fakeHead + row + row + total, "f:6: trailer: says 1 lines, the file has 2"},
		"trailer counts more":    {fakeHead + total, "f:4: trailer: says 1 lines, the file has 0"},
		"trailer's sum":          {fakeHead + row + "TOTAL,1,,10.01,0.39,9.61,EUR,\n", "f:5: trailer: says gross 1001 in minor units of EUR, the lines come to 1000"},
		"trailer's fee":          {fakeHead + row + "TOTAL,1,,10.00,0.38,9.61,EUR,\n", "f:5: trailer: says fee 38 in minor units of EUR, the lines come to 39"},
		"trailer's currency":     {fakeHead + row + "TOTAL,1,,10.00,0.39,9.61,USD,\n", "f:5: trailer: says gross 1000 in minor units of USD, the lines come to 0"},
		"trailer's style":        {fakeHead + row + "TOTAL,1,,\"10,00\",,,EUR,\n", `f:5: trailer: gross "10,00": want digits, at most 2 of them behind "."; negative as -1`},
		"trailer's count":        {fakeHead + row + "TOTAL,x,,,,,,\n", `f:5: trailer: count "x": want digits only; no sign`},
		"trailer's fields":       {fakeHead + row + "TOTAL,1\n", "f:5: trailer: 2 fields, want 8"},
		"a line behind trailer":  {fakeHead + row + total + row, "f:6: goes on behind its trailer"},
		"header again":           {fakeHead + row + fakeHead[strings.Index(fakeHead, "id,"):], "f:5: has its header again: more than one report in the file?"},
		"NUL":                    {fakeHead + "ch_1\x00" + row + total, "f:4: a NUL byte"},
		"NUL in quotes":          {fakeHead + "\"ch_1\n\x00\"" + row + total, "f:5: a NUL byte"},
		"not UTF-8":              {fakeHead + "ch_\xe9" + row + total, "f:4: not valid UTF-8"},
		"byte order mark":        {"\ufeff" + fakeHead + row + total, "f:1: begins with the byte order mark of utf-8-bom, the profile says utf-8"},
		"UTF-16":                 {"\xff\xfei\x00d\x00", "f:1: begins with the byte order mark of utf-16, the profile says utf-8"},
		"quote never closed":     {fakeHead + "\"ch_1,\n" + row + total, "f:4: a field in quotes has no end up to line 6, the last"},
		"a record without end":   {fakeHead + strings.Repeat("x", MaxRecord+1), fmt.Sprintf("f:4: longer than %d bytes", MaxRecord)},
		"a quote over the limit": {fakeHead + "\"" + strings.Repeat(strings.Repeat("x", 99)+"\n", MaxRecord/100+1), fmt.Sprintf("f:4: longer than %d bytes: a quote is never closed?", MaxRecord)},
		"malformed header":       {"a\nb\nid,\"reference\"x\n", "f:3: header: text behind the closing quote of a field"},
	} {
		t.Run(name, func(t *testing.T) {
			got := strings.Split(strings.TrimSpace(told(strings.NewReader(tt.file), Fake())), "\n")
			if last := got[len(got)-1]; last != tt.want {
				t.Errorf("got  %s\nwant %s", last, tt.want)
			}
			_, err := Check(strings.NewReader(tt.file), "f", Fake())
			var refused *FileError
			if !errors.As(err, &refused) || err.Error() != tt.want {
				t.Errorf("Check: %v", err)
			}
		})
	}
}

// Each of these is one line's error: the lines around it are read, and the report is whole.
func TestRefusedLine(t *testing.T) {
	const before = "ch_1,ord-1,charge,10.00,0.39,9.61,EUR,2026-01-01T10:00:00Z\n"
	const after = "ch_2,ord-2,charge,20.00,0.53,19.47,EUR,2026-01-01T10:00:00Z\nTOTAL,3,,,,,,\n"
	for name, tt := range map[string]struct{ row, want string }{
		"type":               {"ch_x,o,chargee,10.00,0.39,9.61,EUR,2026-01-01T10:00:00Z", `column "type": "chargee": a type that the profile does not have`},
		"fields":             {"ch_x,o,charge,10.00,0.39,9.61,EUR", "7 fields, the header has 8"},
		"a delimiter":        {"ch_x,o,charge,10,00,0.39,9.61,EUR,2026-01-01T10:00:00Z", "9 fields, the header has 8"},
		"currency":           {"ch_x,o,charge,10.00,0.39,9.61,EURO,2026-01-01T10:00:00Z", `column "currency": "EURO": unknown currency`},
		"no currency":        {"ch_x,o,charge,10.00,0.39,9.61,,2026-01-01T10:00:00Z", `column "currency": "": unknown currency`},
		"gold":               {"ch_x,o,charge,10.00,0.39,9.61,XAU,2026-01-01T10:00:00Z", `column "currency": "XAU": currency without minor unit`},
		"no gross":           {"ch_x,o,charge,,0.39,9.61,EUR,2026-01-01T10:00:00Z", `column "gross": "": empty`},
		"no fee":             {"ch_x,o,charge,10.00,,9.61,EUR,2026-01-01T10:00:00Z", `column "fee": "": empty`},
		"no id":              {",o,charge,10.00,0.39,9.61,EUR,2026-01-01T10:00:00Z", `column "id": "": empty`},
		"no reference":       {"ch_x,,charge,10.00,0.39,9.61,EUR,2026-01-01T10:00:00Z", `column "reference": "": empty`},
		"no time":            {"ch_x,o,charge,10.00,0.39,9.61,EUR,", `column "created": "": empty`},
		"a time":             {"ch_x,o,charge,10.00,0.39,9.61,EUR,2026-01-01 10:00", `column "created": "2026-01-01 10:00": want a time like 2026-11-23T17:48:59+02:00`},
		"no such day":        {"ch_x,o,charge,10.00,0.39,9.61,EUR,2026-02-30T10:00:00Z", `column "created": "2026-02-30T10:00:00Z": want a time like 2026-11-23T17:48:59+02:00`},
		"blank in id":        {"ch_x ,o,charge,10.00,0.39,9.61,EUR,2026-01-01T10:00:00Z", `column "id": "ch_x ": a blank at its beginning or end`},
		"control":            {"ch\t_x,o,charge,10.00,0.39,9.61,EUR,2026-01-01T10:00:00Z", `column "id": "ch\t_x": a control character`},
		"long id":            {strings.Repeat("x", 501) + ",o,charge,10.00,0.39,9.61,EUR,2026-01-01T10:00:00Z", `column "id": "` + strings.Repeat("x", 40) + `...": longer than 500 bytes`},
		"quote inside":       {`ch_"x,o,charge,10.00,0.39,9.61,EUR,2026-01-01T10:00:00Z`, "a quote inside a field that does not begin with one"},
		"behind a quote":     {`"ch_x"y,o,charge,10.00,0.39,9.61,EUR,2026-01-01T10:00:00Z`, "text behind the closing quote of a field"},
		"a CR":               {"ch_x,o\rp,charge,10.00,0.39,9.61,EUR,2026-01-01T10:00:00Z", "a CR inside the line"},
		"two problems":       {"ch_x ,o,charge,10.0.0,0.39,9.61,EUR,2026-01-01T10:00:00Z", `column "id": "ch_x ": a blank at its beginning or end; column "gross": "10.0.0": want digits, at most 2 of them behind "."; negative as -1`},
		"a card number":      {"4242 4242 4242 4242,o,charge,x,0.39,9.61,EUR,4242424242424242", `column "gross": "x": want digits, at most 2 of them behind "."; negative as -1; column "created": "[long number]": want a time like 2026-11-23T17:48:59+02:00`},
		"a charge taken":     {"ch_x,o,charge,-10.00,0.00,-10.00,EUR,2026-01-01T10:00:00Z", `column "gross": "-10.00": a charge that takes money away: the sign is not as declared`},
		"marker not at once": {"x,TOTAL,charge,", "4 fields, the header has 8"},
	} {
		t.Run(name, func(t *testing.T) {
			expect(t, fakeHead+before+tt.row+"\n"+after, Fake(), `
4 charge ch_1|ord-1 10.00 EUR-0.39=9.61 2026-01-01T10:00:00Z
f:5: `+tt.want+`
6 charge ch_2|ord-2 20.00 EUR-0.53=19.47 2026-01-01T10:00:00Z
`)
			s, err := Check(strings.NewReader(fakeHead+before+tt.row+"\n"+after), "f", Fake())
			if err != nil || s.Lines != 3 || s.Refused != 1 || s.Kinds[KindCharge] != 2 || !s.CountVerified || s.SumsVerified {
				t.Errorf("%+v, %v", s, err)
			}
		})
	}
}

// The line told is that of the file, also behind fields that go on over line ends, empty lines and CR LF.
func TestLinesOfTheFile(t *testing.T) {
	expect(t, strings.ReplaceAll(fakeHead, "\n", "\r\n")+
		"\r\n\"ch_1\",\"o,1\",charge,\"10.00\",0.39,9.61,EUR,2026-01-01T10:00:00Z\r\n"+
		"ch_2,\"or\"\"d\n\n2\",charge,10.00,0.39,9.61,EUR,2026-01-01T10:00:00Z\n\n"+
		"ch_3,\"o\"\"3\",charge,10.00,0.39,9.61,EUR,\"2026-01-01T10:00:00Z\"\r\n"+
		"TOTAL,3,,,,,,", Fake(), `
5 charge ch_1|o,1 10.00 EUR-0.39=9.61 2026-01-01T10:00:00Z
f:6: column "reference": "or\"d\n\n2": a control character
10 charge ch_3|o"3 10.00 EUR-0.39=9.61 2026-01-01T10:00:00Z
`)
}

func TestEncodings(t *testing.T) {
	p := Profile{
		Name: "p", Delimiter: ";", Quotes: QuotesNone, Currency: "EUR",
		Columns: Columns{Reference: "Bestellung", Type: "Art", Gross: AmountColumn{Column: "Betrag €"}},
		Types:   map[string]Type{"Erlös": {Kind: KindCharge}},
		Amounts: Amounts{Unit: UnitMajor, DecimalMark: ",", Negative: NegativeMinus},
	}
	const text = "Bestellung;Art;Betrag €\n\"ä;Erlös;5,00\n\U0001f600;Erlös;6,00\n"
	const want = "2 charge |\"ä 5.00 EUR-=\n3 charge |\U0001f600 6.00 EUR-=\n"
	wide := func(high int) string {
		var b []byte
		for _, u := range utf16.Encode([]rune(text)) {
			pair := [2]byte{}
			pair[high], pair[1-high] = byte(u>>8), byte(u)
			b = append(b, pair[:]...)
		}
		return string(b)
	}
	narrow := strings.NewReplacer("€", "\x80", "ä", "\xe4", "ö", "\xf6", "\U0001f600", "?").Replace(text)
	for _, tt := range []struct {
		name     string
		encoding Encoding
		file     string
		want     string
	}{
		{"utf-8", UTF8, text, want},
		{"utf-8 with a mark", UTF8BOM, "\ufeff" + text, want},
		{"utf-8 without the mark", UTF8BOM, text, "f:1: begins without a byte order mark, the profile says utf-8-bom\n"},
		{"utf-16 little", UTF16, "\xff\xfe" + wide(1), want},
		{"utf-16 big", UTF16, "\xfe\xff" + wide(0), want},
		{"utf-16le", UTF16LE, wide(1), want},
		{"utf-16be", UTF16BE, wide(0), want},
		{"utf-16 without mark", UTF16, wide(1), "f:1: begins without a byte order mark, the profile says utf-16\n"},
		{"utf-16le with mark", UTF16LE, "\xff\xfe" + wide(1), "f:1: begins with the byte order mark of utf-16, the profile says utf-16le\n"},
		{"utf-16 cut", UTF16LE, wide(1) + "x", want + "f:4: ends within a character of UTF-16\n"},
		{"utf-16 half", UTF16LE, wide(1) + "\x3d\xd8x\x00", want + "f:4: half a character of UTF-16\n"},
		{"windows-1252", Windows1252, narrow, strings.ReplaceAll(want, "\U0001f600", "?")},
		{"windows-1252, no character", Windows1252, narrow + "\x81", strings.ReplaceAll(want, "\U0001f600", "?") + "f:4: byte 0x81 is no character of windows-1252\n"},
		{"windows-1252 as iso-8859-1", ISO88591, narrow, "f:1: byte 0x80 is no character of iso-8859-1\n"},
		{"windows-1252 as utf-8", UTF8, narrow, "f:1: not valid UTF-8\n"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p.Encoding = tt.encoding
			expect(t, tt.file, p, tt.want)
		})
	}
	p.Encoding = ISO88591
	p.Columns.Gross.Column = "Betrag"
	expect(t, "Bestellung;Art;Betrag\n\xe4;Erl\xf6s;5,00\n", p, "2 charge |ä 5.00 EUR-=\n")
}

func TestHeaderFoundByItsNames(t *testing.T) {
	p := c49()
	p.FindHeader = true
	const header = "x, net , currency,type,\"fee\",reference,gross\n"
	const row = ",9.70,EUR,charge,-0.30,a,10.00\n"
	expect(t, "Report of \"today\nreference,type\n\n"+header+row, p, "5 charge |a 10.00 EUR-0.30=9.70\n")
	expect(t, strings.Repeat("x\n", 101)+header+row, p,
		"f: none of the first 101 lines names all columns: want [\"reference\" \"type\" \"gross\" \"net\" \"currency\" \"fee\"]\n")
}

// Blanks in a column's name are not seen by those who write the profile.
func TestHeaderBlanks(t *testing.T) {
	p := c49()
	p.Columns.Reference = "Merchant Reference"
	expect(t, "Merchant  Reference ,type,gross,fee,net,currency\na,charge,1.00,0.00,1.00,EUR\n", p, "2 charge |a 1.00 EUR-0.00=1.00\n")
}

// Debit and credit columns, fees in several columns, the type's own id column, an exchanged amount, a zone per line.
func TestDebitCreditReport(t *testing.T) {
	p := Profile{
		Name: "acme", Encoding: UTF8, Delimiter: ",", Quotes: QuotesRFC4180,
		Columns: Columns{
			ID: "Psp Reference", Reference: "Merchant Reference", Type: "Type",
			Gross:    AmountColumn{Debit: "Gross Debit (GC)", Credit: "Gross Credit (GC)"},
			Fees:     []string{"Commission (NC)", "Markup (NC)"},
			Net:      AmountColumn{Debit: "Net Debit (NC)", Credit: "Net Credit (NC)"},
			Currency: "Gross Currency", NetCurrency: "Net Currency", Created: []string{"Creation Date"}, Zone: "TimeZone",
		},
		Types: map[string]Type{
			"Settled":        {Kind: KindCharge},
			"Refunded":       {Kind: KindRefund, ID: "Modification Reference"},
			"Chargeback":     {Kind: KindChargeback},
			"Fee":            {Kind: KindFee},
			"MerchantPayout": {Kind: KindPayout},
			"Balance":        {Kind: KindIgnored},
		},
		Amounts: Amounts{Unit: UnitMajor, DecimalMark: ".", Negative: NegativeMinus, EmptyFeeIsZero: true},
		FeeSign: FeeDeducted,
		Times:   Times{Layouts: []string{"2006-01-02 15:04:05"}},
	}
	const header = "Psp Reference,Merchant Reference,Creation Date,TimeZone,Type,Modification Reference,Gross Currency,Gross Debit (GC),Gross Credit (GC),Net Currency,Net Debit (NC),Net Credit (NC),Commission (NC),Markup (NC)\n"
	expect(t, header+
		"P1,r1,2026-03-28 10:00:00,Europe/Amsterdam,Settled,,EUR,,10.00,EUR,,9.50,0.30,0.20\n"+
		"P1,r1,2026-03-28 10:00:00,Europe/Amsterdam,Refunded,M1,EUR,4.00,0.00,EUR,4.30,,0.30,\n"+
		"P2,r2,2026-03-28 10:00:00,UTC,Settled,,USD,,10.00,EUR,,8.50,0.30,\n"+
		"P3,r3,2026-03-28 10:00:00,Mars/Base,Settled,,EUR,,10.00,EUR,,10.00,,\n"+
		"P4,r4,2026-03-28 10:00:00,UTC,Settled,,EUR,1.00,10.00,EUR,,9.00,,\n"+
		"P5,r5,2026-03-28 10:00:00,UTC,Settled,,EUR,,,EUR,,9.00,,\n"+
		"P6,r6,2026-03-28 10:00:00,UTC,Settled,,EUR,,-9.00,EUR,9.00,,,\n"+
		"P1,r1,2026-03-28 10:00:00,UTC,Chargeback,,EUR,10.00,,EUR,25.00,,15.00,\n"+
		",,2026-03-28 10:00:00,UTC,Fee,,EUR,0.00,,EUR,5.00,,5.00,\n"+
		",,,,MerchantPayout,,EUR,100.00,,EUR,100.00,,,\n"+
		",,,,Balance,,whatever,x,,,,,,\n", p, `
2 charge P1|r1 10.00 EUR-0.50=9.50 2026-03-28T09:00:00Z
3 refund M1|r1 -4.00 EUR-0.30=-4.30 2026-03-28T09:00:00Z
4 charge P2|r2 10.00 USD-0.30=8.50 2026-03-28T10:00:00Z
f:5: column "TimeZone": "Mars/Base": no IANA zone
f:6: column "Gross Debit (GC)": "1.00": debit and credit in one line
f:7: column "Gross Debit (GC)": "": empty, and so is "Gross Credit (GC)"
f:8: column "Gross Debit (GC)": "": a sign in a column for debit or credit
9 chargeback P1|r1 -10.00 EUR-15.00=-25.00 2026-03-28T10:00:00Z
10 fee | 0.00 EUR-5.00=-5.00 2026-03-28T10:00:00Z
11 payout | -100.00 EUR-0.00=-100.00
`)
}

func TestC51WhoseMidnight(t *testing.T) {
	p := Profile{
		Name: "p", Encoding: UTF8, Delimiter: ",", Quotes: QuotesNone, Currency: "EUR",
		Columns: Columns{ID: "id", Gross: AmountColumn{Column: "gross"}, Created: []string{"date", "time"}},
		Types:   map[string]Type{"": {Kind: KindCharge}},
		Amounts: Amounts{Unit: UnitMinor, Negative: NegativeNone},
		Times:   Times{Layouts: []string{"2006-01-02 15:04:05", "2006-01-02 15:04"}, Zone: "Europe/Berlin"},
	}
	expect(t, `id,gross,date,time
near,1,2026-03-29,00:30:00
skipped,1,2026-03-29,02:30
doubled,1,2026-10-25,02:30
doubled again,1,2026-10-25,02:30
before,1,2026-10-25,01:59:59
after,1,2026-10-25,03:00:00
year end,1,2026-12-31,23:59:59
new year,1,2027-01-01,00:00:00
no time,1,2026-10-25,
neither,1,,
`, p, `
2 charge near| 0.01 EUR-= 2026-03-28T23:30:00Z
3 charge skipped| 0.01 EUR-= 2026-03-29T01:30:00Z skipped
4 charge doubled| 0.01 EUR-= 2026-10-25T00:30:00Z doubled
5 charge doubled again| 0.01 EUR-= 2026-10-25T00:30:00Z doubled
6 charge before| 0.01 EUR-= 2026-10-24T23:59:59Z
7 charge after| 0.01 EUR-= 2026-10-25T02:00:00Z
8 charge year end| 0.01 EUR-= 2026-12-31T22:59:59Z
9 charge new year| 0.01 EUR-= 2026-12-31T23:00:00Z
f:10: column "date": "2026-10-25 ": want a time like 2026-11-23 17:48:59
11 charge neither| 0.01 EUR-=
`)
}

// Every minute of days on which clocks were moved has an instant, whose clock shows that minute unless it was skipped.
func TestMovedClocks(t *testing.T) {
	for _, tt := range []struct {
		zone             string
		day              string
		skipped, doubled int
	}{
		{"Europe/Berlin", "2026-03-29", 60, 0},
		{"Europe/Berlin", "2026-10-25", 0, 60},
		{"America/New_York", "2026-03-08", 60, 0},
		{"Australia/Lord_Howe", "2026-04-05", 0, 30},
		{"Pacific/Apia", "2011-12-30", 24 * 60, 0},
		{"America/St_Johns", "1987-10-25", 0, 1}, // at 00:01: the other minutes are of the day before
		{"Asia/Kolkata", "2026-03-29", 0, 0},
		{"UTC", "2026-03-29", 0, 0},
	} {
		zone, err := time.LoadLocation(tt.zone)
		if err != nil {
			t.Fatal(err)
		}
		day, err := time.Parse(time.DateOnly, tt.day)
		if err != nil {
			t.Fatal(err)
		}
		count := map[LocalTime]int{}
		for m := range 24 * 60 {
			wall := day.Add(time.Duration(m) * time.Minute)
			at, local := instant(wall, zone)
			count[local]++
			shows := at.In(zone).Format(time.DateTime)
			if local != LocalSkipped && shows != wall.Format(time.DateTime) {
				t.Errorf("%s: %s became %s, %s", tt.zone, wall, at, local)
			}
			if before := at.Add(-time.Duration(tt.doubled) * time.Minute); local == LocalDoubled && before.In(zone).Format(time.DateTime) == shows {
				t.Errorf("%s: %s became %s, the second", tt.zone, wall, at)
			}
		}
		if count[LocalSkipped] != tt.skipped || count[LocalDoubled] != tt.doubled {
			t.Errorf("%s on %s: %v, want %d skipped and %d doubled", tt.zone, tt.day, count, tt.skipped, tt.doubled)
		}
	}
}

func TestSummary(t *testing.T) {
	p := Fake()
	p.Types["adjustment"] = Type{Kind: KindIgnored}
	s, err := Check(strings.NewReader(fakeHead+`ch_1,ord-1,charge,10.00,0.39,9.61,EUR,2026-01-01T12:00:00Z
re_1,ref-1,refund,-4.00,0.00,-4.00,EUR,2026-01-01T11:00:00Z
x,,adjustment,?,,,,
ch_2,ord-2,charge,20.00,0.53,19.47,EUR,2026-01-01T11:30:00Z
TOTAL,4,,26.00,0.92,25.08,EUR,
`), "f", p)
	if err != nil {
		t.Fatal(err)
	}
	want := Summary{
		File: "f", Lines: 4, Kinds: map[Kind]int{KindCharge: 2, KindRefund: 1, KindIgnored: 1},
		Totals: map[string]Totals{"EUR": {Lines: 3, Gross: 2600, Fee: 92, Net: 2508}},
		First:  time.Date(2026, 1, 1, 11, 0, 0, 0, time.UTC), Last: time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC),
		CountVerified: true, SumsVerified: true,
	}
	if fmt.Sprintf("%+v", s) != fmt.Sprintf("%+v", want) {
		t.Errorf("got  %+v\nwant %+v", s, want)
	}
}

// Signs are those of the columns in the trailer too; and where a line is refused, nobody knows what the sums should be.
func TestTrailerOfNegativeFees(t *testing.T) {
	p := c49()
	p.Types["refund"] = Type{Kind: KindRefund, FeeSign: SignOpposite}
	p.Trailer = &Trailer{Marker: "Sum", Fields: []string{"", "", "gross", "fee", "net", "currency"}}
	const head = "reference,type,gross,fee,net,currency\n"
	const rows = "a,charge,10.00,-0.30,9.70,EUR\nb,refund,-4.00,0.10,-4.10,EUR\n"
	s, err := Check(strings.NewReader(head+rows+"Sum,,6.00,-0.40,5.60,EUR\n"), "f", p)
	if err != nil || !s.SumsVerified || s.Totals["EUR"] != (Totals{Lines: 2, Gross: 600, Fee: 40, Net: 560}) {
		t.Errorf("%+v, %v", s, err)
	}
	if _, err := Check(strings.NewReader(head+rows+"Sum,,6.00,0.40,5.60,EUR\n"), "f", p); err == nil {
		t.Error("a fee of the other sign was taken")
	}
	s, err = Check(strings.NewReader(head+rows+"c,charge,x,0,1.00,EUR\nSum,,7.00,-0.40,6.60,EUR\n"), "f", p)
	if err != nil || s.SumsVerified || s.Refused != 1 {
		t.Errorf("%+v, %v", s, err)
	}
}

// A trailer for each currency, as some reports have it.
func TestTrailerPerCurrency(t *testing.T) {
	p := Fake()
	p.Trailer.Fields = []string{"", "gross", "currency"}
	const rows = fakeHead + "ch_1,o,charge,10.00,0.39,9.61,EUR,2026-01-01T12:00:00Z\nch_2,o,charge,80,26,54,JPY,2026-01-01T12:00:00Z\n"
	if s, err := Check(strings.NewReader(rows+"TOTAL,10.00,EUR\nTOTAL,80,JPY\n"), "f", p); err != nil || !s.SumsVerified || s.CountVerified {
		t.Errorf("%+v, %v", s, err)
	}
	if _, err := Check(strings.NewReader(rows+"TOTAL,10.00,EUR\nTOTAL,81,JPY\n"), "f", p); err == nil {
		t.Error("a wrong sum was not noticed")
	}
	if _, err := Check(strings.NewReader(rows+"TOTAL,10.00,\n"), "f", p); err == nil {
		t.Error("a sum without currency was taken")
	}
}

func TestReaderFails(t *testing.T) {
	failed := errors.New("disk on fire")
	for _, in := range []io.Reader{
		iotest.ErrReader(failed),
		io.MultiReader(strings.NewReader("a\n"), iotest.ErrReader(failed)),
		io.MultiReader(strings.NewReader(fakeHead+"ch_1,o"), iotest.ErrReader(failed)),
	} {
		_, err := Check(in, "f", Fake())
		var refused *FileError
		if !errors.Is(err, failed) || !errors.As(err, &refused) {
			t.Errorf("%v", err)
		}
	}
	if _, err := Check(stuck{}, "f", Fake()); !errors.Is(err, io.ErrNoProgress) {
		t.Errorf("%v, want io.ErrNoProgress", err)
	}
}

type stuck struct{ io.Reader }

func (stuck) Read(to []byte) (int, error) {
	if len(to) > 3 {
		return 0, nil
	}
	return copy(to, "abc"), nil
}

// The end stays the end.
func TestNextAfterTheEnd(t *testing.T) {
	r, err := NewReader(strings.NewReader(fakeHead+"TOTAL,0,,,,,,\n"), "f", Fake())
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if _, err := r.Next(); !errors.Is(err, io.EOF) {
			t.Error(err)
		}
	}
	r, err = NewReader(strings.NewReader(fakeHead), "f", Fake())
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		var refused *FileError
		if _, err := r.Next(); !errors.As(err, &refused) {
			t.Error(err)
		}
	}
	for range Read(bytes.NewReader([]byte(fakeHead+"x\nx\nTOTAL,2,,,,,,\n")), "f", Fake()) { //nolint:errcheck // it is left at once
		break // an iterator that ignores the end of the loop would panic here
	}
}

// A whole report of another kind, with its profile in a file.
func TestReportInAFile(t *testing.T) {
	dir := filepath.Join("..", "..", "testdata", "settlement")
	text, err := os.ReadFile(filepath.Join(dir, "berlin.json"))
	if err != nil {
		t.Fatal(err)
	}
	p, err := ParseProfile(text)
	if err != nil {
		t.Fatal(err)
	}
	file, err := os.ReadFile(filepath.Join(dir, "berlin.csv"))
	if err != nil {
		t.Fatal(err)
	}
	expect(t, string(file), p, `
4 charge T-1|ord-1 1560.00 EUR-68.94=1491.06 2026-03-28T23:30:00Z
5 charge T-2|ord-2;a 5.00 EUR-0.00=5.00 2026-03-29T01:30:00Z skipped
6 refund T-3| -50.00 EUR-0.00=-50.00 2026-03-29T02:00:00Z
f:7: column "Brutto": "-50,00": a refund that brings money: the sign is not as declared
8 payout A-1| -1446.06 EUR-0.00=-1446.06 2026-03-29T21:00:00Z
`)
}
