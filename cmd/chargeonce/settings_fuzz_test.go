package main

import (
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// FuzzConfigFile: whatever a config file holds, it is taken or refused: only known keys are taken, no secret among them, and
// each setting takes its text or says why not.
func FuzzConfigFile(f *testing.F) {
	for _, seed := range []string{
		"", "concurrency = 8\nsettle = \"300ms\"\n" + shortTimings, "settle = 3", "settle = 3.5", "timings = 3", "[timings]\nretries = -1",
		"[timings]\nask_waits = \"1s,2s\"", "[timings]\nask_waits = \",\"", "[timings.deeper]\nx = 1", "[standard]\ntoken = \"geheim\"", "digest_key = \"a:b\"",
		"derive_from = \"6f2c1a5e-0d3b-4c7e-9a51-2b8d4e6f7a90\"", "db = \"postgres://u:p@h/d\"", "url = \"http://x\"", "unknown = 1", "a = [1, 2]",
		"a = 2026-03-01", "[[timings]]", "\"timings.retries\" = 1", "x = \"", "= 1", "\x00", "\xff = 1", "[timings]\nabandon_after = \"never\"",
	} {
		f.Add(seed)
	}
	file := filepath.Join(f.TempDir(), "c.toml")
	f.Fuzz(func(t *testing.T, text string) {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		values, err := readConfigFile(file)
		for key, value := range values {
			i := slices.IndexFunc(allSettings, func(o setting) bool { return o.key == key })
			if i < 0 || allSettings[i].secret {
				t.Fatalf("%s is taken from a file", key)
			}
			if allSettings[i].path {
				continue // the file may be anything
			}
			s := defaults()
			if err := allSettings[i].set(&s, value); err != nil && err.Error() == "" {
				t.Fatalf("%s = %q is refused without a word", key, value)
			}
		}
		if err != nil && strings.Contains(err.Error(), "geheim") {
			t.Fatalf("a secret is repeated: %v", err)
		}
	})
}

// FuzzParseDB: no password is printed, whether the text is taken or refused, and a file is always one.
func FuzzParseDB(f *testing.F) {
	for _, seed := range []string{
		"chargeonce.db", "sqlite:chargeonce.db", "sqlite:", ":memory:", "file:x?mode=memory", "C:/x.db", "c:x", "postgres://u:geheimnis@h/d",
		"postgresql://u:geheimnis@h:5432/d?sslmode=disable", "postgres://u:geheimnis@h:x/d", "postgres://u:geheim%zznis@h/d", "postgres:///d?host=/tmp&password=geheimnis",
		"mysql://u:geheimnis@h/d", "postgres://", "", "a\x00b", "sqlite:postgres://x", "postgres://h/d?sslmode=nonsense",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		d, err := parseDB(text)
		said := d.String()
		if err != nil {
			said = err.Error()
		}
		if u, e := url.Parse(text); e == nil {
			if p, _ := u.User.Password(); len(p) >= 8 && isPostgres(text) && strings.Count(text, p) == 1 && strings.Contains(said, p) {
				t.Fatalf("%q: the password is in %q", text, said)
			}
		}
		if err == nil && !d.isPostgres() && (d.file == "" || d.file == ":memory:" || strings.ContainsAny(d.file, "\x00?")) {
			t.Fatalf("%q: the file %q is none", text, d.file)
		}
	})
}

// FuzzParseMoment: a moment that is taken is one, and prints as one that is the same.
func FuzzParseMoment(f *testing.F) {
	for _, seed := range []string{"", "2026-03-01", "2026-03-01T12:00:00Z", "2026-03-01T12:00:00.5+02:00", "2026-02-30", "0000-00-00", "2026-03-01T24:00:00Z", "1.3.2026", "yesterday"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		at, err := parseMoment(text)
		if err != nil || at.IsZero() {
			return
		}
		again, err := parseMoment(at.Format(time.RFC3339Nano))
		if year := at.Year(); year >= 0 && year <= 9999 && (err != nil || !again.Equal(at)) {
			t.Fatalf("%q: %v, printed and read again %v, %v", text, at, again, err)
		}
	})
}
