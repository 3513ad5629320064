package postgres

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// connectError says in one line why a connection cannot be had, and what to do about it. It holds no password.
func connectError(cfg *pgx.ConnConfig, err error) error {
	var said, remedies []string
	add := func(list []string, text string) []string {
		if text == "" || slices.Contains(list, text) {
			return list
		}
		return append(list, text)
	}
	tries := triesOf(err)
	for n, t := range tries {
		// A server without TLS is asked once more without it, unless the URL demands it.
		if t.noTLS() && slices.ContainsFunc(tries[n+1:], func(next try) bool { return next.address == t.address }) {
			continue
		}
		what, remedy := t.explain(cfg)
		said, remedies = add(said, what), add(remedies, remedy)
	}
	text := strings.Join(said, "; ")
	if len(remedies) > 0 {
		text += ": " + strings.Join(remedies, " ")
	}
	clean := errors.New(without(strings.Join(strings.Fields(without(text, cfg.Password)), " "), cfg.Password))
	if why := errors.Join(errorIs(err, context.Canceled), errorIs(err, context.DeadlineExceeded)); why != nil {
		return fmt.Errorf("connect: %w (%w)", clean, why)
	}
	return fmt.Errorf("connect: %w", clean)
}

func errorIs(err, target error) error {
	if errors.Is(err, target) {
		return target
	}
	return nil
}

// try is one address that was tried: a name may have several, and each is tried with TLS and without.
type try struct {
	address string // empty: it came to none
	text    string
	err     error
}

// addressed is the form in which pgconn tells of an address: "127.0.0.1:5432 (localhost): cause".
var addressed = regexp.MustCompile(`^(\S+) \([^)]*\): (.*)$`)

func triesOf(err error) (tries []try) {
	if c := (*pgconn.ConnectError)(nil); errors.As(err, &c) {
		err = c.Unwrap()
	}
	if several, ok := err.(interface{ Unwrap() []error }); ok { //nolint:errorlint // this one only, not what it wraps
		for _, one := range several.Unwrap() {
			tries = append(tries, triesOf(one)...)
		}
		return tries
	}
	text := err.Error()
	if parts := addressed.FindStringSubmatch(text); parts != nil {
		return []try{{parts[1], parts[2], err}}
	}
	return []try{{"", text, err}}
}

func (t try) noTLS() bool { return strings.Contains(t.text, "server refused TLS connection") }

// explain says what has happened, and what to do.
func (t try) explain(cfg *pgx.ConnConfig) (what, remedy string) {
	var refusal *pgconn.PgError
	var unknown *net.DNSError
	var timeout net.Error
	switch {
	case errors.As(t.err, &refusal):
		return t.explainRefusal(cfg, refusal)
	case errors.As(t.err, &unknown) && unknown.IsNotFound:
		return fmt.Sprintf("there is no host %q", unknown.Name), "is it spelt right in the URL?"
	case errors.Is(t.err, syscall.ECONNREFUSED):
		return "nobody listens at " + t.address, "does the server run, and are host and port right?"
	case errors.Is(t.err, fs.ErrNotExist) && strings.HasPrefix(t.address, "/"):
		return "there is no socket " + t.address, "does the server run, and are folder and port right?"
	case errors.Is(t.err, os.ErrPermission) && strings.HasPrefix(t.address, "/"):
		return "this user may not use the socket " + t.address, "what are the rights of " + filepath.Dir(t.address) + "?"
	case errors.Is(t.err, context.Canceled):
		return "given up while " + orElse(t.address, "the server") + " had not answered", ""
	case errors.As(t.err, &timeout) && timeout.Timeout(), errors.Is(t.err, context.DeadlineExceeded):
		return orElse(t.address, "the server") + " does not answer in time", "are host and port right, and does the network let it through? (connect_timeout in the URL waits longer)"
	case t.noTLS():
		return "the server at " + t.address + " has no TLS, and the URL demands it", "set the server up for it; with sslmode=disable all would be sent in clear"
	case errors.Is(t.err, io.EOF), errors.Is(t.err, io.ErrUnexpectedEOF), errors.Is(t.err, syscall.ECONNRESET):
		return "what listens at " + t.address + " hangs up", "is that a PostgreSQL server?"
	}
	if t.address == "" {
		return t.text, ""
	}
	return t.address + ": " + t.text, ""
}

// explainRefusal says what a server has answered instead of letting the role in.
func (t try) explainRefusal(cfg *pgx.ConnConfig, e *pgconn.PgError) (what, remedy string) {
	switch e.Code {
	case codeInvalidPassword:
		if cfg.Password == "" {
			return fmt.Sprintf("the server at %s wants a password of role %q, and none was given", t.address, cfg.User), "set PGPASSWORD, or a line of ~/.pgpass that only its owner can read"
		}
		return fmt.Sprintf("the server at %s refuses the role or its password: %s", t.address, e.Message), "look at the URL, PGPASSWORD and ~/.pgpass"
	case codeInvalidAuthorization:
		return fmt.Sprintf("the server at %s refuses the role: %s", t.address, e.Message), "is its name right in the URL, and does pg_hba.conf let it in from here?"
	case codeUndefinedObject: // its message has the parameter's name, which may be the rest of a password with an & in it
		return fmt.Sprintf("the server at %s does not know a parameter that the URL names", t.address), "is it spelt right? " + escapeRemedy
	case codeNoDatabase:
		return fmt.Sprintf("there is no such database on the server at %s: %s", t.address, e.Message), "is its name right in the URL? createdb makes one"
	}
	return fmt.Sprintf("the server at %s answers: %s (SQLSTATE %s)", t.address, e.Message, e.Code), ""
}

func orElse(text, otherwise string) string {
	if text == "" {
		return otherwise
	}
	return text
}
