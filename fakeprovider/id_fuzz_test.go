package fakeprovider

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
)

// FuzzReadID: whatever a file holds, looking at it and opening it agree on whose books these are, and looking changes nothing.
func FuzzReadID(f *testing.F) {
	for _, seed := range []string{
		"", "\n", "{}\n", `{"t":"books","id":"0123456789abcdef"}` + "\n", `{"t":"books","id":"0123456789abcdef"}`, `{"t":"books","id":"0123456789ABCDEF"}` + "\n",
		`{"t":"books"}` + "\n", `{"t":"books","id":"../../../../etc"}` + "\n", `{"t":"count","count":{"requests":3,"keys":1}}` + "\n",
		`{"t":"count","count":{"requests":3,"keys":1}}` + "\n" + `{"t":"books","id":"0123456789abcdef"}` + "\n",
		`{"t":"books","id":"0123456789abcdef"}` + "\n" + `{"t":"boo`, `{"t":"books","id":"0123456789abcdef"}` + "\n" + `{"t":"books","id":"fedcba9876543210"}` + "\n",
		"\x00\x01\n", `{"t":"books","id":"0123456789abcdef"` + "\n" + "{}\n",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		file := filepath.Join(t.TempDir(), "ledger")
		if err := os.WriteFile(file, data, 0o600); err != nil {
			t.Fatal(err)
		}
		id, err := ReadID(file)
		if left, readErr := os.ReadFile(file); readErr != nil || string(left) != string(data) {
			t.Fatalf("the file was changed: %q, %v", left, readErr)
		}
		if id != "" && (err != nil || checkID(id) != nil) {
			t.Fatalf("id %q, %v", id, err)
		}
		p, openErr := Open(file, Config{})
		if openErr != nil {
			return
		}
		defer p.Close()
		switch {
		case errors.Is(err, fs.ErrNotExist):
			if checkID(p.ID()) != nil {
				t.Fatalf("books that are begun have the id %q", p.ID())
			}
		case err != nil:
			t.Fatalf("opened, although a look says: %v", err)
		case p.ID() != id:
			t.Fatalf("the books are those of %q, a look says %q", p.ID(), id)
		}
	})
}
