package postgres

import (
	"strings"
	"testing"
)

func TestDescribe(t *testing.T) {
	for _, name := range []string{"PGHOST", "PGPORT", "PGUSER", "PGDATABASE", "PGPASSWORD", "PGSERVICE"} {
		t.Setenv(name, "")
	}
	for _, tt := range []struct{ url, want string }{
		{"postgres://app:geheim@db.example:6432/shop?sslmode=disable", "postgres://app@db.example:6432/shop"},
		{"postgresql://app@db.example/shop?password=geheim", "postgres://app@db.example:5432/shop"},
		{"postgres://app:geheim@one,two:5433/shop", "postgres://app@one:5432,two:5433/shop"},
		{"postgres://app:geheim@/shop?host=/run/postgresql", "postgres://app@/shop?host=/run/postgresql"},
		{"host=db.example user=app password=geheim dbname=shop", "postgres://app@db.example:5432/shop"},
	} {
		got, err := Describe(tt.url)
		if err != nil || got != tt.want {
			t.Errorf("%s: %q, %v; want %q", tt.url, got, err, tt.want)
		}
	}
	for _, url := range []string{
		"postgres://app:geheim@db.example:port/shop",
		"postgres://app:geheim@db.example/shop?sslmode=perhaps",
		"postgres://app:ge%zzheim@db.example/shop",
		"postgres://app:geheim@db.example/shop?sslrootcert=/nowhere/ca.pem&sslmode=verify-full",
		"postgres:app:geheim@db.example",
		"geheim",
		"host=db.example password='geheim",
	} {
		got, err := Describe(url)
		switch {
		case err == nil:
			t.Errorf("%s: %q, want an error", url, got)
		case url != "geheim" && strings.Contains(err.Error(), "heim"):
			t.Errorf("%s: the error tells the password: %v", url, err)
		case !strings.Contains(err.Error(), "want postgres://"):
			t.Errorf("%s: the error does not say what is wanted: %v", url, err)
		}
	}
}
