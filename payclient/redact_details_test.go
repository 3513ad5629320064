package payclient

import (
	"slices"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/chargeonce/chargeonce/attempt"
)

// Digits are a card number's whatever stands between them, unless it is a letter.
func TestRedactMasksDigitsHoweverGrouped(t *testing.T) {
	for text, want := range map[string]string{
		"4111.1111.1111.1111":                "[digits]",
		"4111/1111/1111/1111 no":             "[digits] no",
		"4111, 1111, 1111, 1111.":            "[digits].",
		"4111\u200b1111\u200b1111\u200b1111": "[digits]",
		"4111\u202f1111\ufeff1111\u30001111": "[digits]",
		"4111\u20601111\u00ad1111\u200d1111": "[digits]",
		"4_1_1_1_1_1_1_1_1_1_1_1":            "[digits]",
		"４１１１１１１１１１１１１１１１":                   "[digits]",
		"٤١١١ ١١١١ ١١١١ ١١١١":                "[digits]",
		"4\u0332111 1111 1111 1111":          "[digits]",
		"%B4111111111111111^NAME^2912":       "%B[digits]^NAME^2912",
		";4111111111111111=2912101?":         ";[digits]?",
		"card:4111111111111111,next":         "card:[digits],next",
		"12345678901":                        "12345678901", // eleven
		"1234567a8901234":                    "1234567a8901234",
		"at 2026-03-01T12:00:30Z":            "at 2026-03-01T12:00:30Z",
		"limit 1.000,00, was 548,90":         "limit 1.000,00, was 548,90",

		// Addresses, which operators need, and what only looks like them.
		"dial tcp 203.0.113.100:8443: connect: connection refused": "dial tcp 203.0.113.100:8443: connect: connection refused",
		"read tcp 10.0.0.5:43210->203.0.113.10:443: i/o timeout":   "read tcp 10.0.0.5:43210->203.0.113.10:443: i/o timeout",
		"from 203.100.113.100": "from 203.100.113.100",
		"411.111.111.111:1111": "[digits]",
		"41.11.11.11:11111 11": "[digits]",
		"4111:1111:1111::1111": "[digits]",
	} {
		if got := redact(text); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}

const cardJSON = `{"number":"4111 1111 1111 1111","cvc":937,"name":"Işıl CANARYAN","exp":{"month":"11","year":"2029"},
	"list":["true",true,null,"card"],"token":"abcdefghijkl","number":"5500000000000004"}`

// Every word of sensitive details is kept out of texts, whoever wrote them and however.
func TestCleanerTextWithoutDetails(t *testing.T) {
	c := cleaner{source: attempt.Sensitive(cardJSON)}
	for text, want := range map[string]string{
		"cvc 937 is wrong":                 "cvc [redacted] is wrong",
		"cvc ９３７ is wrong":                 "cvc [redacted] is wrong",
		"cvc_937":                          "cvc_[redacted]",
		"ışıl canaryan, IŞIL Canaryan":     "[redacted] [redacted], [redacted] [redacted]",
		"ＣＡＮＡＲＹＡＮ":                         "[redacted]",
		"CANARYANS":                        "[redacted]S",
		"expires 11/2029":                  "expires 11/[redacted]",
		"cut: abcdefgh":                    "cut: [redacted]",
		"cut: abcdefg":                     "cut: abcdefg",
		"4111111111111111":                 "[digits]",
		"4111 x 1111":                      "[redacted] x [redacted]",
		"4a1b1c1d1e1f1g1h1i1j1k1l1m1n1o1p": "[redacted]",
		"no member's name: number, token":  "no member's name: number, token",
		"card_declined is true, not null":  "card_declined is true, not null",
		"insufficient_funds":               "insufficient_funds",
		"from 41.111.111.111:11111":        "from [digits]", // the number in the clothes of an address
		"from 203.0.113.100:8443":          "from 203.0.113.100:8443",
		"":                                 "",
	} {
		if got := c.text(text); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
	if got := c.text(cardJSON); got != "[redacted]" {
		t.Errorf("the whole: %q", got)
	}
	// A token's parts are no secrets: half of the words that support needs would be gone.
	if got := (cleaner{source: attempt.Token("tok_visa_937")}).text("visa 937 tok"); got != "visa 937 tok" {
		t.Errorf("a token's words: %q", got)
	}
}

func TestValuesOf(t *testing.T) {
	for source, want := range map[string][]string{
		cardJSON:                          {"4111 1111 1111 1111", "937", "Işıl CANARYAN", "11", "2029", "true", "card", "abcdefghijkl", "5500000000000004"},
		`"4111"`:                          {"4111"},
		`4111111111111111`:                {"4111111111111111"},
		`["a",["b",{"c":["d",{"e":1}]}]]`: {"a", "b", "d", "1"},
		`{"a":"\u0062\n"}`:                {"b\n"},
		`{}`:                              nil,
		`{"a":"b"} x`:                     {`{"a":"b"} x`},
		`4111 1111`:                       {`4111 1111`}, // two values are no JSON
		`{"a":"b"`:                        {`{"a":"b"`},
		"number=4111&cvc=937":             {"number=4111&cvc=937"},
	} {
		if got := valuesOf(source); !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", source, got, want)
		}
	}
}

// Ids and links are kept whole unless what they hold cannot be there by chance.
func TestCleanerIDsAndLinksWithoutDetails(t *testing.T) {
	for source, ids := range map[string]map[string]bool{
		cardJSON: {
			"ch_937": true, "ch_93720291": true, "2029": true, "8515131751004933": true, "0190b6c8-7a12-7123-8123-123456789012": true,
			"ch_0000000000000001": true, "ch_abcdefg": true, "canary": true, "mastercard": true,
			"4111111111111111": false, "ch_4111111111111111_2": false, "4111-1111-1111-1111": false, "4111x1111x1111x1111": false,
			"411111111111": false, // the first three groups
			"５５０００００００００００００４": false, "5500000000000004": false, "ch_Canaryan": false, "abcdefghijkl": false, "abcdefgh": true, "41111111": true,
		},
		"4242424242424242;12/29;937":            {"ch_1229937": true, "ch_4242424242424242": false, "ch_11442424": true},
		"378282246310005 1229":                  {"378282246310005": false, "3782822463100051229": false},
		"4000 0000 0000 0002":                   {"ch_000000000002": true, "4000000000000002": false},
		`{"iban":"TR330006100519786457841326"}`: {"330006100519786457841326": false, "ch_TR33-0006-1005-1978-6457-8413-26": false, "330006100519": true},
	} {
		c := cleaner{source: attempt.Sensitive(source)}
		for id, fit := range ids {
			if got := c.id(id); got != fit {
				t.Errorf("id %q with %s fit: %t, want %t", id, source, got, fit)
			}
			link := "https://psp.test/3ds?t=" + id
			if got := c.link(link); got != "" && got != link || (got == link) != fit {
				t.Errorf("link %q with %s: %q, want it kept: %t", link, source, got, fit)
			}
		}
	}
	c := cleaner{source: attempt.Sensitive(cardJSON)}
	for link, fit := range map[string]bool{
		"https://acs.mastercard.test/?n=937&exp=11%2F2029": true, "https://psp.test/%zz?x=100%": false, // no URL
		"https://psp.test/?x=%zz": true, "https://psp.test/4111%201111%201111%201111": false,
		"https://psp.test/?x=%zz&n=%34111111111111111": false, "https://psp.test/?n=%43ANARYAN": false,
	} {
		if got := c.link(link); (got == link) != fit {
			t.Errorf("link %q: %q, want it kept: %t", link, got, fit)
		}
	}
}

// Every decimal digit of Unicode has the value that its place among its ten neighbours says.
func TestDigitOf(t *testing.T) {
	for _, tens := range []string{"0123456789", "٠١٢٣٤٥٦٧٨٩", "०१२३४५६७८९", "０１２３４５６７８９", "𝟎𝟏𝟐𝟑𝟒𝟓𝟔𝟕𝟖𝟗", "𝟶𝟷𝟸𝟹𝟺𝟻𝟼𝟽𝟾𝟿"} {
		if got := digitsOf("x" + tens + "-"); got != "0123456789" {
			t.Errorf("%s: %q", tens, got)
		}
	}
	count := 0
	for r := rune(0); r <= unicode.MaxRune; r++ {
		if unicode.IsDigit(r) {
			if got, want := digitOf(r), '0'+rune(count%10); got != want {
				t.Errorf("%U: %c, want %c", r, got, want)
			}
			count++
		}
	}
	if count%10 != 0 || count < 600 {
		t.Errorf("%d digits", count)
	}
}

// Whatever a provider writes around the details: no long number comes through, no word of them, and an id or a link is
// kept as it is or not at all.
func FuzzRedactDetails(f *testing.F) {
	f.Add("4111 1111 1111 1111;12/29;937", "declined: 4111.1111.1111.1111 937")
	f.Add(cardJSON, "Canaryan ９３７")
	f.Add(cardJSON, "https://psp.test/4111%201111%201111%201111")
	f.Add(`{"n":"act digits redacted"}`, "red 123456789012 act")
	f.Add("number=4111&cvc=937", "\xff\u200b937 10.0.0.1:80->10.0.0.2:443")
	f.Fuzz(func(t *testing.T, source, text string) {
		c := cleaner{source: attempt.Sensitive(source)}
		if c.source.Validate() != nil {
			return
		}
		d := c.details()
		got := c.text(text)
		if len(got) > maxDetail || !utf8.ValidString(got) {
			t.Fatalf("%q is too long or no text", got)
		}
		rest := strings.ReplaceAll(strings.ReplaceAll(got, redacted, "\x00"), masked, "\x00")
		rest = strings.TrimSuffix(rest, "…")
		digits := 0
		for run := range strings.FieldsFuncSeq(rest, func(r rune) bool { return unicode.IsLetter(r) || r == 0 }) {
			digits = max(digits, len(digitsOf(run)))
			if digits >= fewestDigits && !isAddress(strings.TrimFunc(run, func(r rune) bool { return !unicode.IsDigit(r) })) {
				t.Fatalf("%q holds the digits %q", got, run)
			}
		}
		folded := strings.Map(fold, rest)
		for _, words := range d.words {
			for _, word := range words {
				if strings.Contains(folded, word) {
					t.Fatalf("%q holds the word %q of %q", got, word, source)
				}
			}
		}
		for _, number := range d.numbers {
			if strings.Contains(digitsOf(rest), number) || c.id("ch_"+number) || c.link("https://psp.test/"+number) != "" {
				t.Fatalf("the number %q of %q is kept, in %q or an id", number, source, got)
			}
		}
		if link := c.link(text); link != "" && link != text {
			t.Fatalf("link %q became %q", text, link)
		}
	})
}
