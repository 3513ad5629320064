package batch_test

import (
	"errors"
	"fmt"
	"io"
	"regexp"
	"runtime"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/chargeonce/chargeonce/internal/batch"
)

// read reads a whole file and writes what became of it: a line for each row, refused or not, and for the error at the end.
func read(format batch.Format, text string) []string {
	var got []string
	r, err := batch.NewReader(strings.NewReader(text), format)
	if err != nil {
		return []string{"refused: " + err.Error()}
	}
	for {
		row, err := r.Next()
		var bad *batch.RowError
		switch {
		case errors.Is(err, io.EOF):
			return got
		case errors.As(err, &bad):
			got = append(got, fmt.Sprintf("%d-%d %s [%s]: %s", bad.Line, bad.LastLine, bad.Why, bad.Slot, bad.Error()))
		case err != nil:
			return append(got, "error: "+err.Error())
		default:
			i := row.Intent
			got = append(got, fmt.Sprintf("%d %s %s %s %q", row.Line, i.Slot(), i.Amount, i.Source.Reveal(), i.Description))
		}
	}
}

const header = "order,amount,currency,source\n"

func TestRowsAreReadExactly(t *testing.T) {
	for _, c := range []struct{ name, text, want string }{
		{"plain", header + "1001,548.90,TRY,tok_visa\n", `2 1001 548.90 TRY tok_visa ""`},
		{"any order of columns, all of them",
			"source,description,purpose,account,currency,amount,order\ntok_visa,\"two, with a \"\"quote\"\"\",deposit,shop-a,EUR,5.5,1\n",
			`2 shop-a/1 (deposit) 5.50 EUR tok_visa "two, with a \"quote\""`},
		{"empty optional fields", "order,amount,currency,source,purpose,account,description\n1,1.00,EUR,t,,,\n", `2 1 1.00 EUR t ""`},
		{"CR LF, quoted last field, no line end at the end", "order,amount,currency,source\r\n1,1.00,EUR,a\r\n2,1.00,EUR,\"b\"\r\n3,1.00,EUR,c",
			"2 1 1.00 EUR a \"\"\n3 2 1.00 EUR b \"\"\n4 3 1.00 EUR c \"\""},
		{"byte order mark", "\xEF\xBB\xBF" + header + "1,1.00,EUR,t\n", `2 1 1.00 EUR t ""`},
		{"empty lines", header + "\n\r\n1,1.00,EUR,t\n\n", `4 1 1.00 EUR t ""`},
		{"C36: exponents of currencies", header + "1,80,JPY,t\n2,35.200,KWD,t\n3,10.00,eur,t\n",
			"2 1 80 JPY t \"\"\n3 2 35.200 KWD t \"\"\n4 3 10.00 EUR t \"\""},
		{"C35: amounts that floats lose", header + "1,19.99,EUR,t\n2,8.20,EUR,t\n3,1.15,EUR,t\n4,4.35,EUR,t\n5,0.10,EUR,t\n6,1.70,EUR,t\n",
			"2 1 19.99 EUR t \"\"\n3 2 8.20 EUR t \"\"\n4 3 1.15 EUR t \"\"\n5 4 4.35 EUR t \"\"\n6 5 0.10 EUR t \"\"\n7 6 1.70 EUR t \"\""},
		{"no rows", header, ""},
		{"a currency withdrawn since may be asked about", header + "1,10.00,HRK,t\n", `2 1 10.00 HRK t ""`},
		{"the same order for another purpose is another payment",
			"order,amount,currency,source,purpose\n1,1.00,EUR,t,\n1,1.00,EUR,t,deposit\n",
			"2 1 1.00 EUR t \"\"\n3 1 (deposit) 1.00 EUR t \"\""},
		{"a token with digits is no card number", header + "1,1.00,EUR,tok_4242424242424241\n", `2 1 1.00 EUR tok_4242424242424241 ""`},
	} {
		if got := strings.Join(read(batch.CSV, c.text), "\n"); got != c.want {
			t.Errorf("%s:\n got %s\nwant %s", c.name, got, c.want)
		}
	}
}

func TestMalformedRowsAreReportedAndTheRestGoesOn(t *testing.T) {
	const good = "9,1.00,EUR,t\n"
	for _, c := range []struct{ name, row, want string }{
		{"C35: thousands comma", `1,"1,234.56",EUR,t`, `amount: "1,234.56": not a plain decimal number`},
		{"C35: decimal comma", `1,"800,00",EUR,t`, `amount: "800,00": not a plain decimal number`},
		{"C35: point and comma", `1,"1.234,56",EUR,t`, `amount: "1.234,56"`},
		{"C35: exponent", "1,1e3,EUR,t", `amount: "1e3"`},
		{"C35: other digits", "1,١٢,EUR,t", `amount: "\u0661\u0662"`},
		{"C35: sign", "1,+5,EUR,t", `amount: "+5"`},
		{"C35: negative", "1,-1.00,EUR,t", `amount: "-1.00"`},
		{"C35: spaces", "1, 5.00 ,EUR,t", `amount: " 5.00 "`},
		{"C35: too many decimals", "1,5.001,EUR,t", `amount: "5.001": too many decimals: want at most 2 decimals`},
		{"C35: out of range", "1,92233720368547758.08,EUR,t", `amount: "92233720368547758.08": out of range`},
		{"C35: nothing", "1,0.00,EUR,t", "amount: 0.00 EUR is not positive"},
		{"C36: decimals of a yen", "1,1.00,JPY,t", `amount: "1.00": too many decimals: want no decimals`},
		{"C36: unknown currency", "1,5.00,XYZ,t", `currency: "XYZ": unknown currency`},
		{"currency without minor unit", "1,5.00,XAU,t", `currency: "XAU": currency without minor unit`},
		{"all that is wrong at once", ",,,", "order: empty, want a text of 1 to 200 bytes; amount: empty; currency: empty; source: empty, want a payment source"},
		{"too few fields", "1,1.00,EUR", "3 fields, the header has 4"},
		{"too many fields", "1,1.00,EUR,t,", "5 fields, the header has 4"},
		{"decimal comma without quotes", "1,1,00,EUR,t", "5 fields, the header has 4"},
		{"line of spaces", "  ", "1 field, the header has 4"},
		{"NUL byte", "1,1.00,EUR,t\x00", "a NUL byte"},
		{"invalid UTF-8 in order", "\xFF,1.00,EUR,t", "order: not valid UTF-8 at byte 0"},
		{"invalid UTF-8 in source", "1,1.00,EUR,\xFF", "source: "},
		{"control character", "1\x1b[31m,1.00,EUR,t", "order: control character at byte 1"},
		{"CR inside", "1,1.00,EUR,t\rx", "source: control character"},
		{"outer space makes another order of it", " 1,1.00,EUR,t", "order: starts or ends with a space"},
		{"quote inside a plain field", `1,1.00,EUR,t"x"`, "a quote inside a field that does not begin with one"},
		{"text behind a quote", `1,1.00,EUR,"t"x,"y`, "text behind the closing quote of a field"},
		{"too long", "1,1.00,EUR," + strings.Repeat("t", batch.MaxRow), "longer than 65536 bytes"},
		{"order too long", strings.Repeat("1", 201) + ",1.00,EUR,t", "order: 201 bytes long, want at most 200"},
		{"card number", "1,1.00,EUR,4242424242424242", "source: holds a card number, want a token"},
		{"card number in groups, with its expiry", "1,1.00,EUR,4242 4242 4242 4242 12 27", "source: holds a card number, want a token"},
		{"card number with more", "1,1.00,EUR,4242-4242-4242-4242|123", "source: holds a card number, want a token"},
		{"card number as an order", "4242424242424242,1.00,EUR,t", "order: holds what looks like a card number"},
		{"card number in an order", "card 4242 4242 4242 4242,1.00,EUR,t", "order: holds what looks like a card number"},
	} {
		got := read(batch.CSV, header+c.row+"\n"+good)
		if len(got) != 2 || !strings.HasPrefix(got[0], "2-2 malformed") || !strings.Contains(got[0], c.want) || got[1] != `3 9 1.00 EUR t ""` {
			t.Errorf("%s:\n got %q\nwant line 2 refused for %s, and line 3 read", c.name, got, c.want)
		}
		if joined := strings.Join(got, "\n"); strings.Contains(joined, "4242") || strings.ContainsAny(joined, "\x1b\x00") || !utf8.ValidString(joined) {
			t.Errorf("%s: the message echoes what it must not: %q", c.name, joined)
		}
	}
}

// A card number that stands in another column because the columns were shifted is not printed either.
func TestNoMessageEchoesACardNumber(t *testing.T) {
	const card = "4242 4242 4242 4242"
	for _, row := range []string{
		card + ",1.00,XYZ,t", "1," + card + ",EUR,t", "1,1.00," + card + ",t", "1,1.00,EUR," + card,
		"1,1.00,EUR,t," + card, `1,1.00,EUR,t"` + card,
	} {
		for _, line := range read(batch.CSV, header+row+"\n") {
			if strings.Contains(line, "4242") {
				t.Errorf("row %q: %s", row, line)
			}
		}
	}
	for _, line := range []string{
		`{"order":"` + card + `"}`, `{"order":"1","amount":"` + card + `","currency":"EUR","source":"t"}`,
		`{"` + card + `":"1"}`, `{"source":"` + card + `","source":"` + card + `"}`, `{"source":"` + card + `\x"}`, card,
	} {
		for _, got := range read(batch.JSONL, line+"\n") {
			if strings.Contains(got, "4242") {
				t.Errorf("line %q: %s", line, got)
			}
		}
	}
}

// A card number is refused wherever it would be stored, and told from numbers that only look like one.
func TestACardNumberIsRefusedInEveryColumn(t *testing.T) {
	digits := regexp.MustCompile("[0-9]{3}")
	for _, card := range []string{
		"4242424242424242", "4242 4242 4242 4242", "4242-4242-4242-4242", "378282246310005", "5555555555554444", "2223003122003222",
		"6011111111111117", "30569309025904", "9792030394440796", "paid by 4222222222222 on Monday", "4000 0000 0000 0000 006",
	} {
		for _, column := range []string{"order", "account", "purpose", "description"} {
			values := map[string]string{"order": "1", column: card}
			row := fmt.Sprintf("%s,%s,%s,%s,1.00,EUR,t\n", values["order"], values["account"], values["purpose"], values["description"])
			got := read(batch.CSV, "order,account,purpose,description,amount,currency,source\n"+row)
			if len(got) != 1 || !strings.Contains(got[0], column+": holds what looks like a card number") || digits.MatchString(got[0]) {
				t.Errorf("%q as %s: got %q, want it refused and not repeated", card, column, got)
			}
		}
	}
	for _, id := range []string{ // all but the last four have a right check digit
		"20241130123454", "2024113012345673", "1732968000007", "8600000000000007", "00000000000000", "2721000000000004",
		"inv4242424242424242", "4242424242424241", "424242424242", "42424242424242424242",
	} {
		if got := read(batch.CSV, header+id+",1.00,EUR,t\n"); len(got) != 1 || !strings.HasPrefix(got[0], "2 "+id) {
			t.Errorf("order %s: got %q, want it taken", id, got)
		}
	}
}

// What stands in quotes is text, also where it looks like a row: a description must not pay an order.
func TestAQuotedLineEndIsNeverTakenForARow(t *testing.T) {
	const columns = "order,amount,currency,source,description\n"
	got := read(batch.CSV, columns+"1,1.00,EUR,t,\"first\n2,9.00,EUR,t,x\nlast\"\n3,1.00,EUR,t,\n")
	want := []string{
		"2-4 malformed [(no order)]: line 2: a field in quotes goes on over the end of the line",
		`5 3 1.00 EUR t ""`,
	}
	if len(got) != 2 || !strings.HasPrefix(got[0], "2-4 malformed") || !strings.Contains(got[0], "goes on over the end of the line") || got[1] != want[1] {
		t.Errorf("got %q, want %q", got, want)
	}

	got = read(batch.CSV, columns+"1,1.00,EUR,t,\"no end\n2,9.00,EUR,t,x\n")
	if len(got) != 1 || !strings.HasPrefix(got[0], "2-3 malformed") || !strings.Contains(got[0], "has no end") {
		t.Errorf("a quote without an end: got %q, want lines 2 to 3 refused", got)
	}

	long := strings.Repeat("x", batch.MaxRow)
	got = read(batch.CSV, columns+"1,1.00,EUR,t,\""+long+"\n2,9.00,EUR,t,x\n\"\n3,1.00,EUR,t,\n")
	if len(got) != 2 || !strings.HasPrefix(got[0], "2-4 malformed") || got[1] != `5 3 1.00 EUR t ""` {
		t.Errorf("a quoted field too long: got %.200q, want lines 2 to 4 refused and line 5 read", got)
	}
}

func TestAnOrderThatComesTwiceIsReported(t *testing.T) {
	got := read(batch.CSV, header+"7,1.00,EUR,t\n8,1.00,EUR,t\n7,1.00,EUR,t\n9,x,EUR,t\n9,1.00,EUR,t\n"+
		"7,2.00,EUR,t\n7,1.00,USD,t\n7,1.00,EUR,u\n7,1.0,eur,t\n8,1.00,EUR,\n")
	want := []string{
		`2 7 1.00 EUR t ""`,
		`3 8 1.00 EUR t ""`,
		"4-4 duplicate [7]: line 4: duplicate of line 2",
		`5-5 malformed [9]: line 5: amount: "x": not a plain decimal number: want only the digits 0 to 9 and at most one '.', without sign, spaces or grouping`,
		"6-6 duplicate [9]: line 6: duplicate of line 5, which is malformed",
		"7-7 conflict [7]: line 7: conflict: line 2 has another amount",
		"8-8 conflict [7]: line 8: conflict: line 2 has another amount",
		"9-9 conflict [7]: line 9: conflict: line 2 has another source",
		"10-10 duplicate [7]: line 10: duplicate of line 2",
		"11-11 malformed [8]: line 11: source: empty, want a payment source; order: the same as on line 3",
	}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func TestAFileWithoutKnownColumnsIsRefusedWhole(t *testing.T) {
	const row = "1,1.00,EUR,t\n"
	for _, c := range []struct{ name, text, want string }{
		{"empty", "", "line 1: header: missing, the file is empty"},
		{"only a mark", "\xEF\xBB\xBF", "header: missing"},
		{"no header", row, "header: none of the columns is known: does the file begin without a header line?; want order,amount"},
		{"missing column", "order,amount,source\n" + row, `column "currency" is missing`},
		{"missing columns", "order,amount\n" + row, `header: columns "currency", "source" are missing; want`},
		{"twice", "order,amount,currency,source,amount\n" + row, `column "amount" twice, as 2 and 5`},
		{"unknown column", "order,amount,currency,source,note\n" + row, `unknown column "note"`},
		{"another case", "Order,AMOUNT,currency,source\n" + row, `header: columns are written in lower case, not "Order", "AMOUNT"; want`},
		{"a space", "order,amount,currency, source\n" + row, `header: a space before or behind the name of column " source"; want`},
		{"spaces", "order , Amount,currency,source\n" + row, `not "Amount"; spaces before or behind the names of columns "order ", " Amount"; want`},
		{"all that is wrong at once", "order,Amount,cur,source,note\n" + row,
			`line 1: header: columns are written in lower case, not "Amount"; unknown columns "cur", "note"; column "currency" is missing; want order,amount,currency,source[,account][,purpose][,description]; the file is refused, nothing of it was sent`},
		{"a comma at the end", "order,amount,currency,source,\n1,1.00,EUR,t,\n", "header: the last column has no name: a comma at the end of the line?; want"},
		{"a column without a name", "order,,amount,currency,source\n" + row, "header: column 2 has no name; want"},
		{"semicolons", "order;amount;currency;source\n1;1.00;EUR;t\n", "the columns are separated by ';', want ','"},
		{"tabs", "order\tamount\tcurrency\tsource\n", "the columns are separated by tabs, want ','"},
		{"UTF-16", "\xFF\xFEo\x00r\x00", "UTF-16"},
		{"UTF-16 without a mark", "o\x00r\x00d\x00e\x00r\x00", "UTF-16"},
		{"a spreadsheet", "PK\x03\x04....", "spreadsheet"},
		{"CR alone", "order,amount,currency,source\r1,1.00,EUR,t\r", "the lines end with CR alone"},
		{"a quote without an end", "\"order,amount\n" + row, "header: a field in quotes goes on over the end of the line"},
		{"after empty lines", "\n\norder\n", "line 3: header: "},
	} {
		got := read(batch.CSV, c.text)
		if len(got) != 1 || !strings.HasPrefix(got[0], "refused: ") || !strings.Contains(got[0], c.want) || strings.Contains(got[0], "\n") || strings.Count(got[0], "header: ") > 1 {
			t.Errorf("%s: got %q, want the file refused for %q", c.name, got, c.want)
		}
	}
	// What stands where the header should be may be a payment: its source is not repeated.
	if got := read(batch.CSV, "1001,548.90,TRY,tok_live_secret\n"); len(got) != 1 || strings.Contains(got[0], "secret") {
		t.Errorf("no header: got %q, want no source in it", got)
	}
	if got := read(batch.JSONL, "[\n{}]"); len(got) != 1 || !strings.Contains(got[0], "a JSON array") {
		t.Errorf("a JSON array: got %q, want the file refused", got)
	}
}

func TestJSONLines(t *testing.T) {
	const good = `{"order":"9","amount":"1.00","currency":"EUR","source":"t"}`
	for _, c := range []struct{ name, line, want string }{
		{"all fields", `{"source":"t","description":"d\u00e9","purpose":"deposit","account":"a","currency":"JPY","amount":"80","order":"1"}`, `1 a/1 (deposit) 80 JPY t "dé"`},
		{"amount as a number", `{"order":"1","amount":1.00,"currency":"EUR","source":"t"}`, `amount: want a text with the amount in major units, "548.90"`},
		{"amount in minor units", `{"order":"1","amount":54890,"currency":"EUR","source":"t"}`, "amount: want a text with the amount in major units"},
		{"null", `{"order":"1","amount":"1.00","currency":"EUR","source":null}`, "source: want a text"},
		{"missing", `{"order":"1","currency":"EUR"}`, "amount: missing; source: missing"},
		{"unknown field", `{"order":"1","amount":"1.00","currency":"EUR","source":"t","note":"x"}`, `unknown field "note"`},
		{"another case", `{"Order":"1","amount":"1.00","currency":"EUR","source":"t"}`, `unknown field "Order", did you mean "order"`},
		{"twice", `{"order":"1","order":"2","amount":"1.00","currency":"EUR","source":"t"}`, "a field comes twice"},
		{"twice, written differently", `{"order":"1","\u006frder":"2","amount":"1.00","currency":"EUR","source":"t"}`, "a field comes twice"},
		{"text behind it", `{"order":"1","amount":"1.00","currency":"EUR","source":"t"}{}`, "text behind the object"},
		{"no object", `"1"`, "not a JSON object"},
		{"cut", `{"order":"1","amount":"1.0`, "JSON"},
		{"invalid UTF-8", "{\"order\":\"\xFF\"}", "not valid JSON at byte"},
		{"NUL byte", "{\"order\":\"1\"}\x00", "text behind the object"},
		{"escaped NUL", `{"order":"1\u0000","amount":"1.00","currency":"EUR","source":"t"}`, "order: control character"},
		{"too long", `{"order":"` + strings.Repeat("1", batch.MaxRow) + `"}`, "longer than 65536 bytes"},
	} {
		got := read(batch.JSONL, c.line+"\r\n \n"+good)
		if len(got) != 2 || !strings.Contains(got[0], c.want) || got[1] != `3 9 1.00 EUR t ""` {
			t.Errorf("%s:\n got %q\nwant %s, and line 3 read", c.name, got, c.want)
		}
	}
	if got := read(batch.JSONL, ""); len(got) != 0 {
		t.Errorf("an empty file: got %q, want no rows", got)
	}
}

// rows is an endless source of rows, that counts what was read of it.
type rows struct {
	left, n int
	rest    []byte
}

func (r *rows) Read(p []byte) (int, error) {
	if len(r.rest) == 0 {
		if r.left == 0 {
			return 0, io.EOF
		}
		r.left--
		r.n++
		r.rest = fmt.Appendf(nil, "order-%d,1.00,EUR,tok_visa,%s\n", r.n, strings.Repeat("x", 400))
	}
	n := copy(p, r.rest)
	r.rest = r.rest[n:]
	return n, nil
}

// A file many times as large as what is kept of it is read without being held.
func TestALargeFileIsNotHeldInMemory(t *testing.T) {
	const n = 100_000
	r, err := batch.NewReader(io.MultiReader(strings.NewReader("order,amount,currency,source,description\n"), &rows{left: n}), batch.CSV)
	if err != nil {
		t.Fatal(err)
	}
	heap := func() uint64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	before, got := heap(), 0
	for {
		if _, err := r.Next(); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		got++
	}
	// 32 bytes for each row, in a table that is three eighths full at the least.
	if kept := int64(heap()) - int64(before); got != n || kept > 9<<20 { //nolint:gosec // far below the limits
		t.Errorf("read %d rows of %d and kept %d bytes, want at most 9 MiB", got, n, kept)
	}
	runtime.KeepAlive(r)
}

type brokenDisk struct{ io.Reader }

func (b brokenDisk) Read(p []byte) (int, error) {
	n, err := b.Reader.Read(p)
	if errors.Is(err, io.EOF) {
		err = errors.New("input/output error")
	}
	return n, err
}

// A file that cannot be read to its end must not look complete.
func TestAReadErrorIsNotTheEndOfTheFile(t *testing.T) {
	r, err := batch.NewReader(brokenDisk{strings.NewReader(header + "1,1.00,EUR,t\n2,1.00,EUR,tok_vi")}, batch.CSV)
	if err != nil {
		t.Fatal(err)
	}
	if row, err := r.Next(); err != nil || row.Intent.Order != "1" {
		t.Fatalf("first row: %v, %v", row, err)
	}
	for range 2 {
		if _, err := r.Next(); err == nil || errors.Is(err, io.EOF) || !strings.Contains(err.Error(), "input/output error") {
			t.Errorf("got error %v, want that of the disk, each time", err)
		}
	}
}

// A shop's own order numbers may look like card numbers; whoever knows that says so.
func TestCardLikeOrders(t *testing.T) {
	for _, tt := range []struct {
		order   string
		allowed bool
		problem bool
	}{
		{"4111111111111111", false, true},
		{"4111111111111111", true, false},
		{"4111 1111 1111 1111", true, true}, // nobody numbers orders like that
		{"o-4111111111111111", true, true},
		{"1001", false, false},
	} {
		r, err := batch.NewReader(strings.NewReader("order,amount,currency,source\n"+tt.order+",1.00,EUR,tok_visa\n"), batch.CSV)
		if err != nil {
			t.Fatal(err)
		}
		r.CardLikeOrders = tt.allowed
		_, err = r.Next()
		if (err != nil) != tt.problem {
			t.Errorf("%s, allowed %t: %v", tt.order, tt.allowed, err)
		}
	}
}
