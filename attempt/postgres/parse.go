package postgres

import (
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// connectTimeout is for URLs that name none.
const connectTimeout = 5 * time.Second

// parse reads a URL. chosen: it says itself how statements are executed. Its errors repeat nothing of the URL: where that cannot be
// read, nobody can tell which part of it is a password.
func parse(text string) (cfg *pgx.ConnConfig, chosen bool, err error) {
	cfg, err = pgx.ParseConfig(text)
	if err != nil {
		return nil, false, unusableURL(err)
	}
	hosts := []string{cfg.Host}
	for _, f := range cfg.Fallbacks {
		hosts = append(hosts, f.Host)
	}
	if slices.ContainsFunc(hosts, isNoHost) {
		return nil, false, fmt.Errorf("%w: a host in it is none. %s", errURL, escapeRemedy)
	}
	if strings.Contains(text, "://") && strings.ContainsAny(cfg.Database, "@/") {
		return nil, false, fmt.Errorf("%w: the database in it is none. %s", errURL, escapeRemedy)
	}
	if cfg.ConnectTimeout == 0 {
		cfg.ConnectTimeout = connectTimeout
	}
	if cfg.DefaultQueryExecMode != pgx.QueryExecModeCacheStatement {
		return cfg, true, nil
	}
	raw, err := pgconn.ParseConfig(text) // without what pgx makes of it
	if err != nil {
		return nil, false, unusableURL(err)
	}
	_, chosen = raw.RuntimeParams["default_query_exec_mode"]
	return cfg, chosen, nil
}

var errURL = errors.New("the URL cannot be used, want postgres://user@host:port/database")

const escapeRemedy = "In a URL a password has @ as %40, / as %2F, : as %3A, ? as %3F, # as %23, & as %26, % as %25; PGPASSWORD and ~/.pgpass take it as it is"

// mistakes are what pgconn says of a URL, in words that are always the same.
var mistakes = []string{
	"invalid port", "invalid connect_timeout", "failed to configure TLS", "invalid sslcertmode", "unknown target_session_attrs", "invalid default_query_exec_mode",
	"cannot parse statement_cache_capacity", "cannot parse description_cache_capacity", "failed to read service", "invalid min_protocol_version",
	"invalid max_protocol_version", "min_protocol_version cannot be greater", "unknown channel_binding", "invalid require_auth", "could not match",
}

// unusableURL says what pgx has against a URL, without repeating what it quotes.
func unusableURL(err error) error {
	var file *fs.PathError
	if errors.As(err, &file) {
		return fmt.Errorf("%w: %w", errURL, file)
	}
	for _, m := range mistakes {
		if strings.Contains(err.Error(), "`: "+m) {
			return fmt.Errorf("%w: %s. %s", errURL, m, escapeRemedy)
		}
	}
	return fmt.Errorf("%w. %s", errURL, escapeRemedy)
}

// isNoHost tells what cannot be a host, but may be the rest of a password with an @ in it.
func isNoHost(host string) bool {
	if strings.HasPrefix(host, "/") || strings.HasPrefix(host, "@") { // the folder of a socket
		return false
	}
	if _, err := netip.ParseAddr(host); err == nil {
		return false
	}
	return strings.ContainsFunc(host, func(r rune) bool { return r <= ' ' || strings.ContainsRune("@/\\?#%&=:;,'\"`<>[]{}", r) })
}

// without is a text without a password, in whatever way it was written: a server or a proxy may repeat it.
func without(text, password string) string {
	const shortest = 3 // what is shorter is in every text
	for _, p := range []string{password, url.QueryEscape(password), url.PathEscape(password), strings.Join(strings.Fields(password), " ")} {
		if len(p) >= shortest {
			text = strings.ReplaceAll(text, p, "...")
		}
	}
	return text
}
