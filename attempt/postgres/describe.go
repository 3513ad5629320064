package postgres

import (
	"net"
	"net/url"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5"
)

// Describe tells where a URL leads, as postgres://user@host:port/database, for people: without the password, and without its other
// parameters. What the URL leaves out is what the environment (PGHOST, PGUSER, ...) or libpq's defaults say. Nobody is asked.
//
// It fails for what is no URL of a PostgreSQL database. The error holds no password.
func Describe(rawURL string) (string, error) {
	cfg, _, err := parse(rawURL)
	if err != nil {
		return "", err
	}
	hosts, socket := hostsOf(cfg)
	u := url.URL{Scheme: "postgres", Path: "/" + cfg.Database}
	if cfg.User != "" {
		u.User = url.User(cfg.User)
	}
	if socket { // a folder is no host of a URL
		u.RawQuery = "host=" + strings.Join(hosts, ",")
	} else {
		u.Host = strings.Join(hosts, ",")
	}
	return u.String(), nil
}

// hostsOf lists the servers that a URL names, in their order, each once; socket: one of them is the folder of a socket.
func hostsOf(cfg *pgx.ConnConfig) (hosts []string, socket bool) {
	add := func(host string, port uint16) {
		name := host
		if strings.HasPrefix(host, "/") || strings.HasPrefix(host, "@") {
			socket = true
		} else {
			name = net.JoinHostPort(host, strconv.Itoa(int(port)))
		}
		if len(hosts) == 0 || hosts[len(hosts)-1] != name {
			hosts = append(hosts, name)
		}
	}
	add(cfg.Host, cfg.Port)
	for _, f := range cfg.Fallbacks {
		add(f.Host, f.Port)
	}
	return hosts, socket
}
