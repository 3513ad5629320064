// Package postgres keeps attempts in PostgreSQL 13 or later, for any number of processes on any number of machines.
//
// It promises what [attempt.Store] does, and this on top:
//
//   - A commit that was reported is as durable as the server makes commits with synchronous_commit on. Where the setting is off, the
//     very statement that would start or claim an attempt writes nothing and fails with [attempt.ErrNotDurable]; outcomes are
//     written durably all the same. What a fail-over to an asynchronous replica can lose is said below.
//   - An order's first attempt is started and claimed in one round trip, and its outcome is recorded in one. Steps that find all
//     connections for them busy travel and commit together; a lone step goes alone; none of them falls with another; outcomes
//     have connections of their own.
//   - No step waits on the server for a lock. Where another transaction holds the slot, the step is tried again after a few
//     milliseconds, and holds neither a connection nor a lock meanwhile: a host's slow transaction holds its own slot and nothing
//     else, and there are no deadlocks.
//   - A connection that is lost in a commit leaves no doubt: what was written is looked for before anything is written again.
//   - Times are the server's, whatever the clocks of the machines say.
//   - Nothing is kept in a session, so that a transaction pooler may stand between; see [Options].
//
// [Open] needs the tables that [Migrate] makes, in a schema of the host's choosing. A host writes an order and its attempt in one
// transaction with [Store.Tx] or [Store.SQLTx].
//
// # Rights
//
// Migrations need a role that owns the schema. The store's own role needs less; [Grants] writes the statements, for the schema
// "chargeonce" and the role app these:
//
//	GRANT USAGE ON SCHEMA chargeonce TO app;
//	GRANT SELECT, INSERT, UPDATE ON chargeonce.chargeonce_slots TO app;
//	GRANT SELECT, INSERT, UPDATE ON chargeonce.chargeonce_attempts TO app;
//	GRANT SELECT, INSERT ON chargeonce.chargeonce_events TO app;
//	GRANT SELECT, INSERT, UPDATE ON chargeonce.chargeonce_notes TO app;
//	GRANT SELECT, INSERT, DELETE ON chargeonce.chargeonce_relays TO app;
//	GRANT SELECT, INSERT, UPDATE, DELETE ON chargeonce.chargeonce_outbox TO app;
//	GRANT SELECT ON chargeonce.chargeonce_migrations TO app;
//
// It can neither delete an attempt nor change an event.
//
// # Fail-over
//
// A URL that names several hosts finds the one that takes writes. If the replica that is promoted has not received a commit, because
// replication is asynchronous (synchronous_standby_names is empty, or synchronous_commit is local), the attempt is gone, and what
// was sent under it is found only by the provider's own records; a derived identity ([attempt.DeriveIdentity]) lets a slot's first
// attempt be sent again under the same key. With synchronous replication nothing that was reported is lost. [Store.Durability] tells how
// a server is set up. See https://www.postgresql.org/docs/current/runtime-config-wal.html#GUC-SYNCHRONOUS-COMMIT.
package postgres
