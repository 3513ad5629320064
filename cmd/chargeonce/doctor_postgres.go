package main

import (
	"context"
	"errors"

	"github.com/chargeonce/chargeonce/attempt"
	"github.com/chargeonce/chargeonce/attempt/postgres"
)

// postgres looks at a PostgreSQL database as one to pay with: a replica, or a role that may only read, is a problem.
func (d *diagnosis) postgres(ctx context.Context, s settings) attempt.Store {
	const subject = "database"
	store, err := s.db.openPostgres(ctx, false)
	if err != nil {
		d.problem(exitFatal, subject, err)
		return nil
	}
	if err := s.db.validate(ctx); err != nil {
		d.problem(exitFatal, subject, err)
	} else {
		d.ok(subject, "%s, schema %s: up to date; the role has every right that paying needs", s.db, s.db.schemaName())
	}
	if promised, err := store.Durability(ctx); err != nil {
		d.problem(exitFatal, subject, s.db.of(err))
	} else {
		d.durability(promised)
	}
	d.payments(ctx, store)
	return store
}

// durability says what the server promises of a commit that it has reported.
func (d *diagnosis) durability(promised postgres.Durability) {
	const subject = "database"
	d.ok(subject, "PostgreSQL %s, the primary, takes writes; synchronous_commit is %s: %s",
		promised.Version, promised.SynchronousCommit, syncText(promised.SynchronousCommit, promised.Standbys))
	if promised.Pooled {
		d.ok(subject, "a connection pooler stands before the server: statements are sent unprepared, unless the URL's default_query_exec_mode says otherwise")
	}
	if !promised.Fsync {
		d.problem(exitFatal, subject, errors.New("fsync is off: a crash of the machine can destroy the database, and the knowledge of what was sent with it; set it to on"))
	}
	if !promised.FullPageWrites {
		d.problem(exitFatal, subject, errors.New("full_page_writes is off: a crash in the middle of a write can destroy the database; set it to on, unless the file system never tears a page"))
	}
	if promised.Standbys == "" || promised.SynchronousCommit == "local" {
		d.note(subject, "replication is asynchronous, if there is any: a fail-over can lose the last commits, and with them that payments were sent. "+
			"Name standbys in synchronous_standby_names; or set derive_from, so that an order's first attempt is sent again under the same key")
	} else {
		d.ok(subject, "a commit waits for the standbys in synchronous_standby_names (%s): a fail-over to one that has confirmed it loses none", promised.Standbys)
	}
}

// syncText says what a commit has waited for when it is reported.
// https://www.postgresql.org/docs/current/runtime-config-wal.html#GUC-SYNCHRONOUS-COMMIT
func syncText(setting, standbys string) string {
	const here = "what is committed is on this server's disk"
	switch {
	case standbys == "" || setting == "local":
		return here
	case setting == "remote_write":
		return here + ", and in the memory of a standby's machine"
	case setting == "remote_apply":
		return here + ", and can be read on a standby"
	}
	return here + ", and on a standby's"
}
