package fakeprovider_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/chargeonce/chargeonce/fakeprovider"
)

var plainID = regexp.MustCompile(`^[0-9a-f]{16}$`)

func readID(t *testing.T, file string) string {
	t.Helper()
	id, err := fakeprovider.ReadID(file)
	if err != nil {
		t.Fatal(err)
	}
	return id
}

// Two providers never look like one, and one never like two.
func TestBooksHaveAnID(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "a")
	bank := open(t, file, fakeprovider.Config{RecordRequests: 10})
	id := bank.ID()
	if !plainID.MatchString(id) {
		t.Fatalf("id %q", id)
	}
	want(t, "read while it is in use", readID(t, file), id)
	others := map[string]string{id: "a", open(t, filepath.Join(dir, "b"), fakeprovider.Config{}).ID(): "b", fakeprovider.New(fakeprovider.Config{}).ID(): "memory"}
	if len(others) != 3 || others[""] != "" {
		t.Errorf("ids: %v", others)
	}

	c := call(t, bank)
	for range 1200 { // so that the file is written anew at the start
		c.find("r")
	}
	size := func() int64 {
		info, err := os.Stat(file)
		if err != nil {
			t.Fatal(err)
		}
		return info.Size()
	}
	bank.Close()
	long := size()
	for range 2 {
		bank = open(t, file, fakeprovider.Config{RecordRequests: 10})
		want(t, "after a restart", bank.ID(), id)
		bank.Close()
	}
	if size() > long/10 {
		t.Errorf("%d bytes were %d: it was not written anew", size(), long)
	}
	want(t, "read", readID(t, file), id)

	whole, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	copied := filepath.Join(dir, "copy")
	if err := os.WriteFile(copied, whole, 0o600); err != nil {
		t.Fatal(err)
	}
	want(t, "a copy", open(t, copied, fakeprovider.Config{}).ID(), id)
}

// Emptied books are others: they know nothing of what was paid before.
func TestResetBeginsOtherBooks(t *testing.T) {
	file := filepath.Join(t.TempDir(), "ledger")
	bank := open(t, file, fakeprovider.Config{})
	before := bank.ID()
	call(t, bank).pay("k", "r", "tok_visa")
	if err := bank.Reset(); err != nil {
		t.Fatal(err)
	}
	after := bank.ID()
	if after == before || !plainID.MatchString(after) {
		t.Errorf("id %q after %q", after, before)
	}
	want(t, "in the file", readID(t, file), after)
	bank.Close()
	want(t, "after a restart", open(t, file, fakeprovider.Config{}).ID(), after)
}

// Books that an earlier release has begun have no id, and keep none; where that release has written nothing, they begin now.
func TestOlderBooksHaveNoID(t *testing.T) {
	file := filepath.Join(t.TempDir(), "ledger")
	config := fakeprovider.Config{RecordRequests: 10}
	bank := open(t, file, config)
	c := call(t, bank)
	c.pay("k", "r", "tok_visa")
	for range 1200 {
		c.find("r")
	}
	bank.Close()
	whole, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	first, older, _ := strings.Cut(string(whole), "\n")
	if !strings.HasPrefix(first, `{"t":"books"`) {
		t.Fatalf("the first line: %s", first)
	}
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(older)
	for range 2 { // the first time it is written anew
		want(t, "read", readID(t, file), "")
		bank = open(t, file, config)
		want(t, "id", bank.ID(), "")
		want(t, "charges", charges(bank), 1)
		bank.Close()
	}

	// Wherever a crash has torn the very first line, there are no books yet, and then there are.
	for _, text := range []string{"", first[:1], first[:len(first)/2], first, first[:5] + "\n"} {
		write(text)
		if id, err := fakeprovider.ReadID(file); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%q: id %q, %v", text, id, err)
		}
		bank = open(t, file, config)
		id := bank.ID()
		if !plainID.MatchString(id) || strings.Contains(text, id) {
			t.Errorf("%q: id %q", text, id)
		}
		bank.Close()
		bank = open(t, file, config)
		want(t, "after a restart", bank.ID(), id)
		want(t, "read", readID(t, file), id)
		bank.Close()
	}

	for text, says := range map[string]string{
		`{"t":"books"}`:                           "no id of books",
		`{"t":"books","id":"0123456789ABCDEF"}`:   "no id of books",
		`{"t":"books","id":"../../etc"}`:          "no id of books",
		`{"t":"books","id":"0123456789abcdef00"}`: "no id of books",
		`{"t":"count","count":{}}` + "\n" + first: "other books begin here",
		first + "\n" + first:                      "other books begin here",
		`{"t":"bo` + "\n" + first:                 "line 1 is damaged",
	} {
		write(text + "\n")
		if _, err := fakeprovider.Open(file, config); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v, want %q", text, err, says)
		}
		if id, err := fakeprovider.ReadID(file); err == nil && id != "" && !strings.HasPrefix(text, first) {
			t.Errorf("%s: id %q", text, id)
		}
	}
	if _, err := fakeprovider.ReadID(filepath.Join(t.TempDir(), "none")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no file: %v", err)
	}
}

// The API of certain books answers for no others, under every way in.
func TestAPIOfCertainBooks(t *testing.T) {
	bank := fakeprovider.New(fakeprovider.Config{})
	server := httptest.NewServer(bank)
	defer server.Close()
	defer bank.Close()
	for name, way := range map[string]struct {
		rt   http.RoundTripper
		base string
	}{
		"memory": {bank.RoundTripper(), "http://bank"},
		"pipe":   {bank.Transport(), "http://bank"},
		"socket": {&http.Transport{DisableKeepAlives: true}, server.URL},
	} {
		t.Run(name, func(t *testing.T) {
			c := call(t, way.rt)
			c.base = way.base
			told := c.do("GET", "/_fake/id", "", "")
			var answer struct{ ID string }
			if err := json.Unmarshal([]byte(told.body), &answer); err != nil || answer.ID != bank.ID() {
				t.Errorf("GET /_fake/id: %s %q", told, told.body)
			}
			plain := c.base
			c.base = plain + "/_fake/books/" + bank.ID()
			want(t, "the same id", c.do("GET", "/_fake/id", "", "").body, told.body)
			want(t, "pay", c.pay("k-"+name, "r-"+name, "tok_visa"), "201")
			want(t, "find", len(bank.Charges("r-"+name)), 1)
			if c.find("r-"+name).ids() == "" {
				t.Error("not found under the books' own address")
			}
			requests := bank.RequestCount()
			for _, other := range []string{"0123456789abcdef", "", bank.ID()[:15], bank.ID() + "0"} {
				c.base = plain + "/_fake/books/" + other
				want(t, "pay", fmt.Sprint(c.pay("k2", "r2", "tok_visa")), "410")
				want(t, "find", c.find("r-"+name).field("code"), "other_books")
				want(t, "reset", c.do("POST", "/_fake/reset", "", ""), "410")
			}
			want(t, "requests", bank.RequestCount(), requests)
			want(t, "charges", charges(bank, "r2"), 0)
		})
	}
	before := bank.ID()
	c := call(t, bank)
	c.base += "/_fake/books/" + before
	if err := bank.Reset(); err != nil {
		t.Fatal(err)
	}
	want(t, "find after a reset", c.find("r-memory"), "410")
}
