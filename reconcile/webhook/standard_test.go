package webhook_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/chargeonce/chargeonce/attempt"
	"github.com/chargeonce/chargeonce/reconcile/webhook"
)

// The vector of the reference libraries' tests of their Sign, the same in all languages
// (https://github.com/standard-webhooks/standard-webhooks/blob/main/libraries/go/webhook_test.go, TestWebhookSign).
const (
	vectorID        = "msg_p5jXN8AQM9LWM0D4loKWxJek"
	vectorTime      = 1614265330
	vectorBody      = `{"test": 2432232314}`
	vectorSignature = "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="
	wrongSignature  = "v1,Ceo5qEr07ixe2NLpvHk3FH9bwy/WavXrAFQ/9tdO6mc=" // of the same tests
)

func vectorHeader() http.Header {
	return http.Header{
		"Webhook-Id": {vectorID}, "Webhook-Timestamp": {strconv.Itoa(vectorTime)}, "Webhook-Signature": {vectorSignature},
	}
}

func newStandard(t testing.TB, secrets ...string) *webhook.Standard {
	t.Helper()
	var hidden []webhook.Secret
	for _, s := range secrets {
		hidden = append(hidden, webhook.NewSecret(s))
	}
	s, err := webhook.NewStandard(0, hidden...)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestStandardVector(t *testing.T) {
	id, err := newStandard(t, secretText).Verify(vectorHeader(), []byte(vectorBody), time.Unix(vectorTime, 0))
	if id != vectorID || err != nil {
		t.Errorf("%q, %v", id, err)
	}
}

func TestStandardSignatureLists(t *testing.T) {
	for _, tt := range []struct {
		what string
		list string
		want error
	}{
		{"one", vectorSignature, nil},
		{"several, as in the reference libraries' tests", strings.Join([]string{wrongSignature, strings.Replace(wrongSignature, "v1", "v2", 1), vectorSignature, wrongSignature}, " "), nil},
		{"beside an asymmetric one, as in the specification's example", vectorSignature + " v1a,hnO3f9T8Ytu9HwrXslvumlUpqtNVqkhqw/enGzPCXe5BdqzCInXqYXFymVJaA7AZdpXwVLPo3mNl8EM+m7TBAg==", nil},
		{"spaces around", "  " + vectorSignature + "  ", nil},
		{"wrong", wrongSignature, webhook.ErrForged},
		{"only of another version", strings.Replace(vectorSignature, "v1", "v2", 1), webhook.ErrForged},
		{"as an asymmetric one", strings.Replace(vectorSignature, "v1", "v1a", 1), webhook.ErrForged},
		{"upper-case version", strings.Replace(vectorSignature, "v1", "V1", 1), webhook.ErrForged},
		{"no version", strings.TrimPrefix(vectorSignature, "v1,"), webhook.ErrForged},
		{"nothing after the version", "v1,", webhook.ErrForged},
		{"cut off", vectorSignature[:8], webhook.ErrForged},
		{"no padding", strings.TrimSuffix(vectorSignature, "="), webhook.ErrForged},
		{"more padding", vectorSignature + "=", webhook.ErrForged},
		{"another last letter that decodes to the same bytes", strings.Replace(vectorSignature, "OE=", "OF=", 1), webhook.ErrForged},
		{"the alphabet for URLs", strings.NewReplacer("+", "-", "/", "_").Replace(vectorSignature), webhook.ErrForged},
		{"separated by commas", wrongSignature + "," + vectorSignature, webhook.ErrForged},
		{"separated by a tab", wrongSignature + "\t" + vectorSignature, webhook.ErrMalformed},
		{"with a line break", vectorSignature + "\r\n", webhook.ErrMalformed},
		{"in quotes", `"` + vectorSignature + `"`, webhook.ErrForged},
		{"a field more", vectorSignature + ",v1", webhook.ErrForged},
		{"empty", "", webhook.ErrMalformed},
		{"only spaces", "   ", webhook.ErrForged},
		{"endless", strings.Repeat(wrongSignature+" ", 200) + vectorSignature, webhook.ErrMalformed},
	} {
		t.Run(tt.what, func(t *testing.T) {
			h := vectorHeader()
			h["Webhook-Signature"] = []string{tt.list}
			id, err := newStandard(t, secretText).Verify(h, []byte(vectorBody), time.Unix(vectorTime, 0))
			if !errors.Is(err, tt.want) || (err == nil) != (id == vectorID) {
				t.Errorf("%q, %v, want %v", id, err, tt.want)
			}
		})
	}
}

func TestStandardRotation(t *testing.T) {
	const third = "whsec_EBESExQVFhcYGRobHB0eHyAhIiMkJSYnKCkqKywtLi8="
	body := []byte(vectorBody)
	at := time.Unix(vectorTime, 0)
	signedBy := func(secrets ...string) http.Header {
		h := vectorHeader()
		var list []string
		for _, s := range secrets {
			list = append(list, signature(s, vectorID, strconv.Itoa(vectorTime), body))
		}
		h["Webhook-Signature"] = []string{strings.Join(list, " ")}
		return h
	}
	for _, tt := range []struct {
		what   string
		header http.Header
		want   error
	}{
		{"the first", signedBy(secretText), nil},
		{"the second", signedBy(otherText), nil},
		{"both", signedBy(secretText, otherText), nil},
		{"an old one and the second", signedBy(third, otherText), nil},
		{"another one", signedBy(third), webhook.ErrForged},
	} {
		t.Run(tt.what, func(t *testing.T) {
			if _, err := newStandard(t, secretText, otherText).Verify(tt.header, body, at); !errors.Is(err, tt.want) {
				t.Errorf("%v, want %v", err, tt.want)
			}
		})
	}
	if _, err := newStandard(t, third).Verify(signedBy(third), body, at); err != nil {
		t.Errorf("a key of 32 bytes: %v", err)
	}
}

// Whatever bit of what is signed, or of the signature, is another: the request is not the provider's.
func TestStandardEveryBitCounts(t *testing.T) {
	s := newStandard(t, secretText, otherText)
	at := time.Unix(vectorTime, 0)
	refused := func(what string, h http.Header, body []byte) {
		t.Helper()
		if id, err := s.Verify(h, body, at); err == nil || id != "" {
			t.Fatalf("%s was taken: %q", what, id)
		}
	}
	for i := range len(vectorBody) {
		for bit := range 8 {
			body := []byte(vectorBody)
			body[i] ^= 1 << bit
			refused(fmt.Sprintf("bit %d of byte %d of the body", bit, i), vectorHeader(), body)
		}
	}
	for name := range vectorHeader() {
		value := vectorHeader().Get(name)
		for i := range len(value) {
			for bit := range 8 {
				text := []byte(value)
				text[i] ^= 1 << bit
				h := vectorHeader()
				h[name] = []string{string(text)}
				refused(fmt.Sprintf("bit %d of byte %d of %s", bit, i, name), h, []byte(vectorBody))
			}
		}
	}
	refused("a body with a byte more", vectorHeader(), []byte(vectorBody+"\n"))
	refused("a body with a byte less", vectorHeader(), []byte(vectorBody[:len(vectorBody)-1]))
	refused("no body", vectorHeader(), nil)
	refused("the body in another order of spaces", vectorHeader(), []byte(`{"test":2432232314}`))
}

// With full stops in an id, what is signed could be read in another way: id, timestamp and body could change places.
func TestStandardReadsWhatIsSignedInOneWayOnly(t *testing.T) {
	s := newStandard(t, secretText)
	at := time.Unix(vectorTime, 0)
	ts := strconv.Itoa(vectorTime)
	// Signed: id "a", this timestamp, body "1614265330.{}". Read as: id "a.1614265330", the same timestamp, body "{}".
	h := http.Header{"Webhook-Id": {"a." + ts}, "Webhook-Timestamp": {ts}, "Webhook-Signature": {signature(secretText, "a", ts, []byte(ts+".{}"))}}
	if _, err := s.Verify(h, []byte("{}"), at); !errors.Is(err, webhook.ErrMalformed) {
		t.Errorf("%v, want it to be malformed", err)
	}
}

func TestStandardTimestamps(t *testing.T) {
	now := time.Unix(vectorTime, 0)
	const tolerance = 300
	for _, tt := range []struct {
		what      string
		timestamp string
		want      error
	}{
		{"now", strconv.Itoa(vectorTime), nil},
		{"as old as allowed", strconv.Itoa(vectorTime - tolerance), nil},
		{"a second older", strconv.Itoa(vectorTime - tolerance - 1), webhook.ErrStale},
		{"a second younger", strconv.Itoa(vectorTime - tolerance + 1), nil},
		{"as far ahead as allowed", strconv.Itoa(vectorTime + tolerance), nil},
		{"a second further", strconv.Itoa(vectorTime + tolerance + 1), webhook.ErrStale},
		{"a second less far", strconv.Itoa(vectorTime + tolerance - 1), nil},
		{"zero", "0", webhook.ErrStale},
		{"the year 33658", "999999999999", webhook.ErrStale},
		{"milliseconds", strconv.Itoa(vectorTime) + "000", webhook.ErrMalformed},
		{"plus", "+" + strconv.Itoa(vectorTime), webhook.ErrMalformed},
		{"minus", "-" + strconv.Itoa(vectorTime), webhook.ErrMalformed},
		{"a fraction", strconv.Itoa(vectorTime) + ".0", webhook.ErrMalformed},
		{"an exponent", "1e9", webhook.ErrMalformed},
		{"hexadecimal", "0x60379a72", webhook.ErrMalformed},
		{"an underscore", "1_614_265_330", webhook.ErrMalformed},
		{"a space before", " " + strconv.Itoa(vectorTime), webhook.ErrMalformed},
		{"a space after", strconv.Itoa(vectorTime) + " ", webhook.ErrMalformed},
		{"Arabic digits", "١٦١٤٢٦٥٣٣٠", webhook.ErrMalformed},
		{"a date", "2021-02-25T15:02:10Z", webhook.ErrMalformed},
		{"a word", "hello", webhook.ErrMalformed},
		{"empty", "", webhook.ErrMalformed},
	} {
		t.Run(tt.what, func(t *testing.T) {
			h := vectorHeader()
			h["Webhook-Timestamp"] = []string{tt.timestamp}
			h["Webhook-Signature"] = []string{signature(secretText, vectorID, tt.timestamp, []byte(vectorBody))}
			id, err := newStandard(t, secretText).Verify(h, []byte(vectorBody), now)
			if !errors.Is(err, tt.want) || (err == nil) != (id == vectorID) {
				t.Errorf("%q, %v, want %v", id, err, tt.want)
			}
			// Without a signature it is never called stale: it says nothing of any clock.
			h["Webhook-Signature"] = []string{wrongSignature}
			if _, err := newStandard(t, secretText).Verify(h, []byte(vectorBody), now); errors.Is(err, webhook.ErrStale) || err == nil {
				t.Errorf("unsigned: %v", err)
			}
		})
	}
	t.Run("within a second", func(t *testing.T) {
		s, err := webhook.NewStandard(time.Second, webhook.NewSecret(secretText))
		if err != nil {
			t.Fatal(err)
		}
		for age, want := range map[time.Duration]error{
			time.Second: nil, time.Second + 1: webhook.ErrStale, -time.Second: nil, -time.Second - 1: webhook.ErrStale,
		} {
			if _, err := s.Verify(vectorHeader(), []byte(vectorBody), now.Add(age)); !errors.Is(err, want) {
				t.Errorf("%s old: %v, want %v", age, err, want)
			}
		}
	})
}

func TestStandardHeaders(t *testing.T) {
	for _, name := range []string{"Webhook-Id", "Webhook-Timestamp", "Webhook-Signature"} {
		for what, values := range map[string][]string{
			"missing":        nil,
			"empty":          {""},
			"the same twice": {vectorHeader().Get(name), vectorHeader().Get(name)},
			"another beside": {vectorHeader().Get(name), "x"},
			"another before": {"x", vectorHeader().Get(name)},
			"as a list":      {vectorHeader().Get(name) + ", " + vectorHeader().Get(name)},
			"with a NUL":     {vectorHeader().Get(name) + "\x00"},
			"not ASCII":      {vectorHeader().Get(name) + "é"},
		} {
			t.Run(name+" "+what, func(t *testing.T) {
				h := vectorHeader()
				h[name] = values
				id, err := newStandard(t, secretText).Verify(h, []byte(vectorBody), time.Unix(vectorTime, 0))
				if what == "as a list" && name == "Webhook-Signature" {
					if err != nil { // a list is what this header is, and one of its entries is right
						t.Error(err)
					}
				} else if !errors.Is(err, webhook.ErrMalformed) || id != "" {
					t.Errorf("%q, %v, want it to be malformed", id, err)
				}
			})
		}
	}
	t.Run("a long id", func(t *testing.T) {
		for n, want := range map[int]error{attempt.MaxNoticeIDLength: nil, attempt.MaxNoticeIDLength + 1: webhook.ErrMalformed} {
			id := strings.Repeat("x", n)
			h := signedHeader(secretText, id, time.Unix(vectorTime, 0), nil)
			if _, err := newStandard(t, secretText).Verify(h, nil, time.Unix(vectorTime, 0)); !errors.Is(err, want) {
				t.Errorf("%d bytes: %v, want %v", n, err, want)
			}
		}
	})
}

func TestSecrets(t *testing.T) {
	for _, tt := range []struct {
		what   string
		secret string
		want   string // empty: it is good
	}{
		{"24 bytes", secretText, ""},
		{"64 bytes", "whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8gISIjJCUmJygpKissLS4vMDEyMzQ1Njc4OTo7PD0+Pw==", ""},
		{"23 bytes", "whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRY=", "stands for 23 bytes"},
		{"65 bytes", "whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8gISIjJCUmJygpKissLS4vMDEyMzQ1Njc4OTo7PD0+P0A=", "stands for 65 bytes"},
		{"bits beyond the last byte", "whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRZ=", "no base64"},
		{"no prefix", strings.TrimPrefix(secretText, "whsec_"), "does not start with whsec_"},
		{"another prefix", "whpk_" + strings.TrimPrefix(secretText, "whsec_"), "does not start with whsec_"},
		{"nothing after the prefix", "whsec_", "stands for 0 bytes"},
		{"empty", "", "empty"},
		{"no base64", "whsec_" + strings.Repeat("!", 32), "no base64"},
		{"base64 for URLs", "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLa-_", "no base64"},
		{"no padding", "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSwAA", "no base64"},
		{"a line break", secretText + "\n", "line break"},
		{"a space", secretText + " ", "no base64"},
	} {
		t.Run(tt.what, func(t *testing.T) {
			_, err := webhook.NewStandard(0, webhook.NewSecret(tt.secret))
			if tt.want == "" {
				if err != nil {
					t.Error(err)
				}
				return
			}
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("%v, want %q", err, tt.want)
			}
			if secret := strings.TrimPrefix(tt.secret, "whsec_"); err != nil && secret != "" && strings.Contains(err.Error(), secret) {
				t.Errorf("the error shows the secret: %v", err)
			}
		})
	}
	if _, err := webhook.NewStandard(0, webhook.Secret{}); err == nil {
		t.Error("the zero Secret was taken")
	}
}

func TestSecretsCannotBePrinted(t *testing.T) {
	secret := webhook.NewSecret(secretText)
	standard := newStandard(t, secretText)
	handler := newRig(t).handler
	cfg := webhook.Config{Secrets: []webhook.Secret{secret}}
	key := "MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
	raw := "\x31\xf2\x90\xf6\xbf\x06\x29\x8a\xab\x4f\x08\xd4\x3c\x3f\x08\x2c\xf6\x48\xa3\x62\xda\x2d\xa4\xb0" // what it stands for
	check := func(how, text string) {
		t.Helper()
		for _, part := range []string{key, raw, fmt.Sprintf("%x", raw), fmt.Sprint([]byte(raw)), strings.Trim(fmt.Sprint([]byte(raw)), "[]")} {
			if strings.Contains(text, part) {
				t.Errorf("%s shows the secret", how)
			}
		}
	}
	for _, v := range []any{secret, &secret, cfg, &cfg, standard, *standard, handler, []webhook.Secret{secret}, map[string]any{"s": secret}} {
		for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%d"} {
			check(fmt.Sprintf("%s of %T", verb, v), fmt.Sprintf(verb, v))
		}
		var log strings.Builder
		slog.New(slog.NewTextHandler(&log, nil)).Info("x", "v", v)
		check(fmt.Sprintf("log of %T", v), log.String())
	}
	text, err := json.Marshal(map[string]any{"s": secret})
	if err != nil || string(text) != `{"s":"[secret]"}` {
		t.Errorf("as JSON: %s, %v", text, err)
	}
}

func TestNewReportsEveryMistake(t *testing.T) {
	_, err := webhook.New(webhook.Config{
		MaxBody: -1, Tolerance: -time.Second,
		Secrets: []webhook.Secret{webhook.NewSecret("x"), webhook.NewSecret(secretText), webhook.NewSecret(secretText)},
	})
	if err == nil {
		t.Fatal("no error")
	}
	for _, want := range []string{"Store: missing", "Client: missing", "Read: missing", "MaxBody: -1", "Tolerance: -1s", "Secrets[0]", "Secrets[2]: given twice"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%v\nsays nothing of %q", err, want)
		}
	}
	good := webhook.Config{Store: new(attempt.Memory), Place: place, Read: readEvent}
	if _, err := webhook.New(good); err == nil || !strings.Contains(err.Error(), "Secrets: none") {
		t.Errorf("without secrets: %v", err)
	}
	good.Verifier = newStandard(t, secretText)
	if _, err := webhook.New(good); err != nil {
		t.Error(err)
	}
	good.Tolerance = time.Minute
	if _, err := webhook.New(good); err == nil || !strings.Contains(err.Error(), "Verifier: given beside") {
		t.Errorf("a tolerance that nobody reads: %v", err)
	}
}
