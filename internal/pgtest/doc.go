// Package pgtest starts PostgreSQL servers of a test's own, to be ended and started again.
package pgtest
