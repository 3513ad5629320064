package fakeprovider

import (
	"bufio"
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"strings"
)

// ID names the books: 16 hexadecimal digits, drawn when they are begun, by New,
// by Open where it makes the file, and by Reset. It tells whether two
// addresses, or two files, are one provider: a payment may only be asked about
// where it was sent, for "there is no such charge" in other books means
// nothing.
//
// It stays in the file over restarts. A copy of the file has the same id and is
// the same provider to whoever looks: of two copies, pay with one only. A file
// begun by a release that gave no ids has none, the empty text.
//
// GET /_fake/id tells it as {"id":"0123456789abcdef"}. The whole API is also
// under /_fake/books/{id}, for clients that mean these books and no others: of
// other books every request there is answered with 410 Gone and the code
// "other_books", and nothing is done.
func (p *Provider) ID() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.id
}

// ReadID returns the id of the books in a file as [Provider.ID] does, without
// opening them: it makes no file and needs no lock, so that another provider
// may have them meanwhile. An error that is [fs.ErrNotExist] means that there
// are no books, and that Open would begin some with an id of their own.
func ReadID(file string) (id string, err error) {
	info, err := os.Stat(file)
	if err != nil {
		return "", err
	}
	if !info.Mode().IsRegular() { // to open a pipe would wait for somebody to write
		return "", fmt.Errorf("fake provider's ledger %s: no regular file", file)
	}
	f, err := os.Open(file)
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	none := &fs.PathError{Op: "read", Path: file, Err: fs.ErrNotExist}
	r := bufio.NewReader(io.LimitReader(f, maxFirstLine))
	b, err := r.ReadBytes('\n')
	if errors.Is(err, io.EOF) {
		return "", none // empty, or torn before anything was answered
	}
	if err != nil {
		return "", err
	}
	var first line
	if err := json.Unmarshal(b, &first); err != nil {
		if _, more := r.Peek(1); errors.Is(more, io.EOF) {
			return "", none
		}
		return "", fmt.Errorf("fake provider's ledger %s: line 1 is damaged: %w", file, err)
	}
	if first.T != lineBooks {
		return "", nil
	}
	if err := checkID(first.ID); err != nil {
		return "", fmt.Errorf("fake provider's ledger %s: line 1: %w", file, err)
	}
	return first.ID, nil
}

const idBytes = 8

// maxFirstLine bounds what is read of a file to learn its id. A line of an earlier release, which has none, is shorter.
const maxFirstLine = 1 << 20

func newID() string {
	b := make([]byte, idBytes)
	_, _ = rand.Read(b) // it never fails: https://pkg.go.dev/crypto/rand#Read
	return hex.EncodeToString(b)
}

func checkID(id string) error {
	b, err := hex.DecodeString(id)
	if err != nil || len(b) != idBytes || strings.ToLower(id) != id {
		return fmt.Errorf("%q is no id of books", id)
	}
	return nil
}

// lineBooks is the first line of a file, which says whose books follow.
const lineBooks = "books"

// booksLines are the lines that name the books, none where they have no id. The
// caller holds the lock.
func (p *Provider) booksLines() []line {
	if p.id == "" {
		return nil
	}
	return []line{{T: lineBooks, ID: p.id}}
}

// booksPath is where the API of certain books is.
const booksPath = "/_fake/books/"

// ofBooks takes the id off a path under booksPath. It reports false if these
// are other books; any other path stays as it is.
func (p *Provider) ofBooks(u *url.URL) (*url.URL, bool) {
	rest, named := strings.CutPrefix(u.Path, booksPath)
	if !named {
		return u, true
	}
	id, _, _ := strings.Cut(rest, "/")
	if id == "" || id != p.ID() {
		return u, false
	}
	plain := *u
	plain.Path, plain.RawPath = strings.TrimPrefix(rest, id), ""
	return &plain, true
}

// booksKey marks the context of a request with the id of the books that it means.
type booksKey struct{}

// addressed is ofBooks for a request. It carries the id along: the books may be others when it is executed.
func (p *Provider) addressed(r *http.Request) (*http.Request, bool) {
	u, mine := p.ofBooks(r.URL)
	if u == r.URL {
		return r, mine
	}
	id, _, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, booksPath), "/")
	plain := r.WithContext(context.WithValue(r.Context(), booksKey{}, id))
	plain.URL = u
	return plain, mine
}

// booksOf is the id of the books that a request means; empty: any.
func booksOf(r *http.Request) string {
	id, _ := r.Context().Value(booksKey{}).(string)
	return id
}
