package postgres

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/chargeonce/chargeonce/attempt"
	"github.com/jackc/pgx/v5/pgconn"
)

// errHeld: somebody else is working on the slot or the event. Nothing was written; to be tried again in a moment.
var errHeld = errors.New("another transaction holds it")

// SQLSTATEs, https://www.postgresql.org/docs/current/errcodes-appendix.html
const (
	codeSerializationFailure = "40001"
	codeDeadlock             = "40P01"
	codeLockNotAvailable     = "55P03"
	codeReadOnly             = "25006"
	codeDivisionByZero       = "22012" // how our own statements say that a row is not as it was read
	codeUndefinedTable       = "42P01"
	codeInvalidSchema        = "3F000"
	codeDuplicateColumn      = "42701"
	codeDuplicateTable       = "42P07"
	codeDuplicateObject      = "42710"
	codeUndefinedObject      = "42704" // a setting too
	codeInsufficient         = "42501"
	codeInFailedTransaction  = "25P02"
	codeFrozen               = "25P03" // idle in a transaction for too long
	codeInvalidPassword      = "28P01"
	codeInvalidAuthorization = "28000"
	codeNoDatabase           = "3D000"
	codeStatementIsThere     = "42P05" // a prepared statement, of another client's
	codeNoStatement          = "26000" // that another server process has prepared
)

func code(err error) string {
	var e *pgconn.PgError
	if errors.As(err, &e) {
		return e.Code
	}
	return ""
}

// passing tells whether an error may be gone in a moment: of the connection, of a server that ends or begins, or of what others
// do at the same time.
func passing(err error) bool {
	c := code(err)
	if c == "" {
		return !errors.As(err, new(*rowError)) && !errors.As(err, new(*attempt.StepError))
	}
	switch c[:2] {
	case "08", "53", "57", "58": // connection, resources, operator's intervention, system
		return true
	}
	switch c {
	case codeSerializationFailure, codeDeadlock, codeLockNotAvailable, codeReadOnly, codeDivisionByZero, codeFrozen:
		return true
	}
	return false
}

// mayBeWritten tells whether what a statement or a commit was to write may be there although it failed: its end was not heard, or
// the server ended it while committing.
func mayBeWritten(err error) bool {
	c := code(err)
	if errors.As(err, new(*noConnError)) {
		return false
	}
	return err != nil && (c == "" && !errors.As(err, new(*rowError)) || c[:2] == "08" || c[:2] == "57" || c[:2] == "58") && !pgconn.SafeToRetry(err)
}

// unusable tells whether a connection must not be used any more after an error of the server's.
func unusable(err error) bool {
	c := code(err)
	return c == codeReadOnly || c == codeFrozen || c != "" && (c[:2] == "08" || c[:2] == "57" || c[:2] == "58")
}

// unavailable wraps an error of the database's, and says what to do about those that a person has to do something about.
func (s *Store) unavailable(err error) error {
	if err == nil || errors.Is(err, attempt.ErrUnavailable) || errors.Is(err, attempt.ErrNotDurable) {
		return err
	}
	return fmt.Errorf("%w: PostgreSQL: %w", attempt.ErrUnavailable, s.explain(err))
}

// remedyForDamage: what the tables held is what keeps a payment from being made twice.
const remedyForDamage = "was it dropped, or restored in part? `chargeonce migrate validate` lists all that is amiss. " +
	"Bring it back from a backup before anything is paid; where nothing was ever paid, drop the schema and let `chargeonce migrate up` make it anew"

// explain adds the remedy to an error that names none.
func (s *Store) explain(err error) error {
	switch code(err) {
	case codeReadOnly:
		return fmt.Errorf("the server takes no writes, it is a read-only replica or default_transaction_read_only is on; name the primary, or all hosts: %w", err)
	case codeUndefinedTable, codeInvalidSchema:
		return fmt.Errorf("a table is missing in schema %q that was made there: %s: %w", s.opts.Schema, remedyForDamage, err)
	case codeStatementIsThere, codeNoStatement:
		return fmt.Errorf("a transaction pooler that keeps no prepared statements stands before the server: leave default_query_exec_mode out of the URL, or set it to exec: %w", err)
	case codeInsufficient:
		return fmt.Errorf("the role lacks a right in schema %q: migrations need its owner, or who may make it; for the rest postgres.Grants and `chargeonce migrate sql --grant ROLE` write the statements: %w", s.opts.Schema, err)
	}
	return err
}

// sleep waits, not longer than ctx.
func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-t.C:
		return nil
	}
}
