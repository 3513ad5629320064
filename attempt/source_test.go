package attempt_test

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/chargeonce/chargeonce/attempt"
)

const secretText = "tok_S3cr3t-0f-the-payer"

// Whatever prints a value that holds a source or a digest key, and however deep it sits, the secret does not come out.
func TestSecretsCannotBePrinted(t *testing.T) {
	const keyText = "k3y-0f-the-digests-32-bytes-long!"
	key := attempt.DigestKey{ID: "k1", Secret: []byte(keyText)}
	d := digester(t, key, attempt.DigestKey{ID: "k0", Secret: []byte("f0rmer-" + keyText)})
	type hidden struct {
		source   attempt.Source
		digester attempt.Digester
	}
	type shown struct {
		Source   attempt.Source
		Pointer  *attempt.Source
		List     []attempt.Source
		Map      map[string]attempt.Source
		Any      any
		Key      attempt.DigestKey
		Keys     []*attempt.DigestKey
		Digester attempt.Digester
		Start    *attempt.Start
	}
	for name, source := range map[string]attempt.Source{"token": attempt.Token(secretText), "sensitive": attempt.Sensitive(secretText)} {
		intent := attempt.Intent{Order: "1001", Source: source}
		values := map[string]any{
			"source": source, "pointer": &source, "key": key, "key pointer": &key, "digester": d, "digester pointer": &d,
			"intent": intent, "slice": []attempt.Source{source}, "array": [1]attempt.DigestKey{key},
			"map": map[string]attempt.Source{"a": source}, "hidden": hidden{source, d}, "hidden pointer": &hidden{source, d},
			"shown": shown{source, &source, []attempt.Source{source}, map[string]attempt.Source{"a": source}, source, key,
				[]*attempt.DigestKey{&key}, d, &attempt.Start{Intent: intent, Digester: d}},
			"error": fmt.Errorf("pay %v with %v", intent, key), "joined": errors.Join(fmt.Errorf("%v", source), fmt.Errorf("%+v", d)),
			"start": attempt.Start{Intent: intent, Digester: d},
		}
		for what, v := range values {
			for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%X", "% x", "%d", "%o", "%b", "%c", "%U", "%t", "%e", "%T", "%10v", "%-20s|"} {
				mustHide(t, name+" "+what+" "+verb, fmt.Sprintf(verb, v))
			}
			switch what {
			case "key", "key pointer", "array", "shown":
				// A verb that does not fit prints a struct's fields past its Format method. A DigestKey's secret is one, vet
				// reports the verb; what the package itself keeps is safe from that too.
			default:
				for _, verb := range []string{"%w", "%p", "%y", "%!"} {
					mustHide(t, name+" "+what+" "+verb, fmt.Sprintf(verb, v))
				}
			}
			mustHide(t, name+" "+what+" Sprint", fmt.Sprint(v, v), fmt.Sprintln(v))
			var text, js bytes.Buffer
			for _, h := range []slog.Handler{slog.NewTextHandler(&text, nil), slog.NewJSONHandler(&js, nil)} {
				log := slog.New(h).With("with", v).WithGroup("g")
				log.Info("paying", "v", v, slog.Any("any", v), slog.Group("h", "v", v))
				log.Error(fmt.Sprint(v))
			}
			mustHide(t, name+" "+what+" slog", text.String(), js.String())
			if what == "intent" || what == "shown" || what == "start" {
				continue // hold a missing amount or funcs: not for JSON
			}
			out, err := json.Marshal(v)
			if err != nil && what != "error" && what != "joined" {
				t.Errorf("%s: %v", what, err)
			}
			mustHide(t, name+" "+what+" json", string(out))
			out, _ = xml.Marshal(v) // not all kinds of values have an XML form
			mustHide(t, name+" "+what+" xml", string(out))
		}
		if got := fmt.Sprint(source); got != "[source]" {
			t.Errorf("printed as %q", got)
		}
		if source.Reveal() != secretText {
			t.Error("the source itself is lost")
		}
	}
	if got := fmt.Sprintf("%+v", key); got != `digest key "k1"` {
		t.Errorf("printed as %q", got)
	}
}

// mustHide looks for the secrets in every form in which printing could write bytes.
func mustHide(t *testing.T, how string, outputs ...string) {
	t.Helper()
	for _, out := range outputs {
		lower := strings.ToLower(strings.NewReplacer(" ", "", ",", "", "0x", "", "[", "", "]", "").Replace(out))
		for _, part := range []string{"S3cr3t", "k3y-0f", "f0rmer"} {
			numbers := make([]string, 0, len(part))
			for _, b := range []byte(part) {
				numbers = append(numbers, fmt.Sprint(b))
			}
			for _, form := range []string{
				part, strings.ToLower(part), hex.EncodeToString([]byte(part)), strings.Join(numbers, ""),
				strings.ToLower(base64.StdEncoding.EncodeToString([]byte(part))[:6]),
			} {
				if strings.Contains(out, form) || strings.Contains(lower, form) {
					t.Errorf("%s shows %q: %s", how, part, out)
				}
			}
		}
	}
}

func TestSource_Validate(t *testing.T) {
	for _, c := range []struct {
		name   string
		source attempt.Source
		want   string // part of the error; empty: valid
	}{
		{"a token", attempt.Token("tok_visa"), ""},
		{"missing", attempt.Source{}, "empty"},
		{"empty", attempt.Token(""), "empty"},
		{"the longest", attempt.Token(strings.Repeat("a", attempt.MaxSourceLength)), ""},
		{"too long", attempt.Token(strings.Repeat("a", attempt.MaxSourceLength+1)), "4097 bytes"},
		{"a line break", attempt.Token("tok\nvisa"), "control"},
		{"a NUL, which marks the source's place in a stored body", attempt.Sensitive("a\x00b"), "control"},
		{"DEL", attempt.Token("tok\x7f"), "control"},
		{"a C1 control", attempt.Token("tok\u0085"), "control"},
		{"bad UTF-8", attempt.Token("tok\xff"), "UTF-8"},
		{"letters of another alphabet", attempt.Token("цвет"), ""},
		{"a card number as a token", attempt.Token("4242424242424242"), "card number"},
		{"a card number with spaces", attempt.Token("4242 4242 4242 4242"), "card number"},
		{"a card number with hyphens", attempt.Token("5555-5555-5555-4444"), "card number"},
		{"13 digits", attempt.Token("4222222222222"), "card number"},
		{"19 digits", attempt.Token("6304000000000000000"), "card number"},
		{"a card number, said so", attempt.Sensitive("4242424242424242"), ""},
		{"the check digit is wrong: some other number", attempt.Token("4242424242424241"), ""},
		{"12 digits", attempt.Token("000000000000"), ""},
		{"20 digits", attempt.Token("00000000000000000000"), ""},
		{"a card number in a token", attempt.Token("tok_4242424242424242"), "card number"},
	} {
		err := c.source.Validate()
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.name, err, c.want)
		}
		if err != nil && c.source.Reveal() != "" && strings.Contains(err.Error(), c.source.Reveal()) {
			t.Errorf("%s: the error shows the source", c.name)
		}
	}
	if (attempt.Source{}).Reveal() != "" || !(attempt.Source{}).IsZero() || attempt.Token("x").IsZero() {
		t.Error("the zero source is not empty")
	}
	if attempt.Token("x").IsSensitive() || !attempt.Sensitive("x").IsSensitive() {
		t.Error("tokens and sensitive sources are mixed up")
	}
}

func TestDigester(t *testing.T) {
	bare := attempt.Digester{}
	one, two := digester(t, oldKey), digester(t, newKey, oldKey)
	token, card := attempt.Token("4242"), attempt.Sensitive("4242")

	// Stored digests must be recognised by every later release. The sums were computed by another program.
	for _, golden := range []struct {
		name string
		d    attempt.Digester
		s    attempt.Source
		want attempt.Digest
	}{
		{"token, unkeyed", bare, token, attempt.Digest{Sum: "41062aef807171c2e276d1765b31810d85038fb795a31ce07695050b629d8bc4"}},
		{"token, keyed", one, token, attempt.Digest{KeyID: "2025", Sum: "3eb2e01a48c9d5bb702023da05547ceb181e1e5189c273df8f901c910014ebfa"}},
		{"card, keyed", one, card, attempt.Digest{KeyID: "2025", Sum: "c24bda1de73f5b811574d1568e85090d3dcdbe2bf644d6b13cc5d4aa6a411e31"}},
	} {
		got := mustDigest(t, golden.d, golden.s)
		if got != golden.want {
			t.Errorf("%s: %+v", golden.name, got)
		}
		if again := mustDigest(t, golden.d, golden.s); again != got {
			t.Errorf("%s: digested differently each time", golden.name)
		}
	}

	if _, err := bare.Digest(card); !errors.Is(err, attempt.ErrDigestKeyMissing) || strings.Contains(err.Error(), "4242") {
		t.Errorf("sensitive without a key: %v", err)
	}
	sums := map[string]bool{}
	for _, d := range []attempt.Digest{
		mustDigest(t, bare, token), mustDigest(t, one, token), mustDigest(t, two, token), mustDigest(t, one, card),
		mustDigest(t, two, card), mustDigest(t, one, attempt.Token("4243")),
	} {
		if sums[d.Sum] {
			t.Errorf("digest %+v given twice", d)
		}
		sums[d.Sum] = true
	}
	for _, c := range []struct {
		name        string
		d           attempt.Digester
		stored      attempt.Digest
		s           attempt.Source
		same, known bool
	}{
		{"itself", one, mustDigest(t, one, token), token, true, true},
		{"another token", one, mustDigest(t, one, token), attempt.Token("4243"), false, true},
		{"sensitive details of a token's spelling", one, mustDigest(t, one, token), card, false, true},
		{"under a former key", two, mustDigest(t, one, card), card, true, true},
		{"under a key not configured any more", digester(t, newKey), mustDigest(t, one, card), card, false, false},
		{"without any key", bare, mustDigest(t, one, token), token, false, false},
		{"unkeyed, by a client that has keys now", one, mustDigest(t, bare, token), token, true, true},
		{"unkeyed, sensitive", one, mustDigest(t, bare, token), card, false, true},
		{"no digest", one, attempt.Digest{KeyID: "2025"}, token, false, true},
		{"no digest and no key", bare, attempt.Digest{}, attempt.Token("x"), false, true},
	} {
		if same, known := c.d.Same(c.stored, c.s); same != c.same || known != c.known {
			t.Errorf("%s: same %v, known %v", c.name, same, known)
		}
	}

	body := []byte(`{"source":"4242"}`)
	unkeyed, err1 := bare.BodyDigest("", body)
	keyed, err2 := two.BodyDigest("2025", body)
	if err1 != nil || err2 != nil || unkeyed == keyed ||
		keyed != "1800045488660ac6329367df794b113cec2593e16eae3f70f2fd132d759cef73" {
		t.Errorf("body digests %s, %v, %s, %v", unkeyed, err1, keyed, err2)
	}
	if _, err := bare.BodyDigest("2025", body); !errors.Is(err, attempt.ErrDigestKeyMissing) {
		t.Errorf("body digest without its key: %v", err)
	}
	// A body is never taken for a source that reads the same.
	if sum := mustDigest(t, bare, attempt.Token(string(body))).Sum; sum == unkeyed {
		t.Error("a body and a token digest alike")
	}
}

func TestNewDigester(t *testing.T) {
	long := []byte(strings.Repeat("s", 32))
	for _, c := range []struct {
		name string
		keys []attempt.DigestKey
		want []string // parts of the error; nil: valid
	}{
		{"none", nil, nil},
		{"two", []attempt.DigestKey{{ID: "a", Secret: long}, {ID: "b", Secret: long}}, nil},
		{"every mistake at once", []attempt.DigestKey{{ID: "", Secret: long}, {ID: "a", Secret: long[:31]}, {ID: "a", Secret: long}, {ID: "b c", Secret: nil}},
			[]string{`""`, "31 bytes", "twice", `"b c"`, "0 bytes"}},
		{"an id too long", []attempt.DigestKey{{ID: strings.Repeat("a", 41), Secret: long}}, []string{"1 to 40"}},
		{"an id not ASCII", []attempt.DigestKey{{ID: "ключ", Secret: long}}, []string{"ASCII"}},
	} {
		_, err := attempt.NewDigester(c.keys...)
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
	// A caller that wipes its copy does not change the digests.
	secret := bytes.Clone(long)
	d := digester(t, attempt.DigestKey{ID: "a", Secret: secret})
	before := mustDigest(t, d, visa)
	clear(secret)
	if same, known := d.Same(before, visa); !same || !known {
		t.Error("the digester uses the caller's memory")
	}
}
