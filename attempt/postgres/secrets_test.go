package postgres

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/chargeonce/chargeonce/attempt"
)

// No part of a password is in an error or in what is printed of a URL, however it was written and whatever else is wrong. Nobody listens at
// the addresses.
func TestNoPasswordInErrors(t *testing.T) {
	t.Setenv("PGPASSWORD", "")
	const one, two = "Hunterxx", "Secretyy"
	nobody := nobodyListens(t)
	host, port, _ := net.SplitHostPort(nobody)
	for _, between := range []string{
		"", "/", "#", "?", "@", ":", " ", "%", "&", "=", "'", `\`, "`", "//", "[", "]", "%zz", "%40", ",", "\t", `"`, "@/", "?x=", "\x01", "\n", "`: invalid port", " (", ";",
	} {
		password := one + between + two
		for _, text := range []string{
			"postgres://u:" + password + "@" + nobody + "/db",
			"postgres://u:" + password + "@" + nobody + "," + nobody + "/db",
			"postgres://u:" + password + "@" + host + ":abc/db",
			"postgres://u:" + url.QueryEscape(password) + "@" + nobody + "/db",
			"postgres://" + nobody + "/db?password=" + password,
			"postgres://" + nobody + "/db?user=x&sslpassword=" + password + "&sslmode=bogus",
			"postgres://" + nobody + "/db?sslmode=bogus&password=" + password,
			"postgres://" + host + ":x/db?password=" + password,
			"postgres://" + nobody + "," + nobody + "/db?password=" + password,
			"postgres://" + nobody + "/db?pass%77ord=" + password + "&port=zz",
			"postgres://" + nobody + "/db?sslmode=require&sslcert=/nonexistent&sslkey=/nonexistent&sslpassword=" + password,
			"host=" + host + " port=x password=" + password,
			"host=" + host + " port=" + port + " password = '" + password + "' port=zz",
			"host=" + host + " port=" + port + " password='" + password,
			"host=" + host + " port=" + port + " password=" + password + " bogus",
			"postgres//u:" + password + "@" + host + "/db", "postgres:/u:" + password + "@" + host + "/db",
			"postgresql://u:" + password + "@[::1/db", "postgresql://u:" + password + "@ho st/db",
			"postgres://u:" + password + "@h/db?connect_timeout=zz", "postgres://u:" + password + "@" + nobody + "/db?default_query_exec_mode=bogus",
			"postgres://u:" + password + "@" + nobody + "/db?statement_cache_capacity=bogus",
		} {
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
			said := map[string]string{}
			s, err := Open(ctx, text, Options{})
			if err == nil {
				s.Close()
				t.Fatalf("%q: opened", text)
			}
			said["Open"] = err.Error()
			_, err = Migrate(ctx, text, MigrateOptions{})
			said["Migrate"] = err.Error()
			if said["Describe"], err = Describe(text); err != nil {
				said["Describe"] = err.Error()
			}
			cancel()
			for who, what := range said {
				if strings.Contains(what, one) || strings.Contains(what, two) || strings.Contains(what, "\n") {
					t.Errorf("%s(%q): %q", who, text, what)
				}
			}
		}
	}
}

// A server, or what stands before it, may repeat what it was told.
func TestNoPasswordOfAServersWords(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				repeatPassword(c)
			}()
		}
	}()
	_, err = Open(t.Context(), fmt.Sprintf("postgres://u:Hunter%%20Secret@%s/db?sslmode=disable", l.Addr()), Options{})
	wantError(t, "Open", err, attempt.ErrUnavailable)
	if strings.Contains(err.Error(), "Hunter") || !strings.Contains(err.Error(), "no user u with ... here") {
		t.Error(err)
	}
}

// repeatPassword asks for a password in clear and refuses it with an error that has it.
// https://www.postgresql.org/docs/current/protocol-message-formats.html
func repeatPassword(c net.Conn) {
	var size [4]byte
	if _, err := io.ReadFull(c, size[:]); err != nil {
		return
	}
	startup := make([]byte, binary.BigEndian.Uint32(size[:])-4)
	if _, err := io.ReadFull(c, startup); err != nil {
		return
	}
	_, _ = c.Write([]byte{'R', 0, 0, 0, 8, 0, 0, 0, 3}) // AuthenticationCleartextPassword
	var head [5]byte
	if _, err := io.ReadFull(c, head[:]); err != nil {
		return
	}
	password := make([]byte, binary.BigEndian.Uint32(head[1:])-4)
	if _, err := io.ReadFull(c, password); err != nil {
		return
	}
	text := "SFATAL\x00C28P01\x00Mno user u with " + strings.TrimSuffix(string(password), "\x00") + " here\x00\x00"
	_, _ = c.Write(append(binary.BigEndian.AppendUint32([]byte{'E'}, uint32(len(text)+4)), text...))
}

// nobodyListens is an address of this machine at which nobody listens.
func nobodyListens(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}
