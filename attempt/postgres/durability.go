package postgres

import "context"

// Durability is how a server keeps what it has committed.
type Durability struct {
	Version           string // of the server, as it writes it: "17.2"
	SynchronousCommit string // "off": a commit that was reported can be lost in a crash; the store then starts nothing
	Standbys          string // synchronous_standby_names; empty: replication is asynchronous, and a fail-over can lose commits
	Fsync             bool   // false: a crash of the machine can destroy the database
	FullPageWrites    bool   // false: so can one in the middle of a write
	Pooled            bool   // a connection pooler stands before the server
}

// Durability asks the server. It fails with [attempt.ErrUnavailable].
func (s *Store) Durability(ctx context.Context) (d Durability, err error) {
	err = s.ask(ctx, answerLimit, query{
		text: "SELECT current_setting('server_version'), current_setting('synchronous_commit'), current_setting('synchronous_standby_names')," +
			" current_setting('fsync') = 'on', current_setting('full_page_writes') = 'on'",
		row: func(row []any) error {
			r := decoder{values: row}
			d = Durability{r.text("server_version"), r.text("synchronous_commit"), r.text("synchronous_standby_names"), r.bool("fsync"), r.bool("full_page_writes"), s.pooled.Load()}
			return r.err
		},
	})
	return d, err
}
