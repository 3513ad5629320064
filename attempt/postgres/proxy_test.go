package postgres

import (
	"fmt"
	"net"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5"
)

// proxy stands between a store and the server, and cuts connections.
type proxy struct {
	listener net.Listener
	dial     func() (net.Conn, error)
	// answers counts down with each answer of the server's while it is positive: the one that makes it zero is swallowed and its
	// connection cut, so that what was asked for is done and nobody hears of it. requests does so with what the store sends.
	answers, requests atomic.Int64
	cuts              atomic.Int64
	wg                sync.WaitGroup
}

// testProxy starts a proxy and returns it with the URL that leads through it.
func testProxy(t *testing.T) (*proxy, string) {
	t.Helper()
	cfg, err := pgx.ParseConfig(testURL(t))
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy{dial: func() (net.Conn, error) {
		if strings.HasPrefix(cfg.Host, "/") {
			return net.Dial("unix", filepath.Join(cfg.Host, fmt.Sprintf(".s.PGSQL.%d", cfg.Port)))
		}
		return net.Dial("tcp", net.JoinHostPort(cfg.Host, fmt.Sprint(cfg.Port)))
	}}
	if p.listener, err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
		t.Fatal(err)
	}
	p.wg.Go(p.serve)
	t.Cleanup(func() {
		_ = p.listener.Close()
		p.wg.Wait()
	})
	return p, fmt.Sprintf("postgres://%s:%s@%s/%s?sslmode=disable", cfg.User, cfg.Password, p.listener.Addr(), cfg.Database)
}

func (p *proxy) serve() {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return
		}
		server, err := p.dial()
		if err != nil {
			_ = client.Close()
			continue
		}
		p.wg.Go(func() { p.pass(client, server, &p.requests) })
		p.wg.Go(func() { p.pass(server, client, &p.answers) })
	}
}

func (p *proxy) pass(from, to net.Conn, left *atomic.Int64) {
	defer from.Close()
	defer to.Close()
	buf := make([]byte, 1<<20)
	for {
		n, err := from.Read(buf)
		if n > 0 && left.Load() > 0 && left.Add(-1) == 0 {
			p.cuts.Add(1)
			return
		}
		if n > 0 {
			if _, err := to.Write(buf[:n]); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}
