// Package sqlite keeps attempts in one SQLite file, for one process or several on one machine.
//
// It promises what [attempt.Store] does, and this on top:
//
//   - A commit that was reported is on the disk: write-ahead log and synchronous=FULL, on macOS with fullfsync, are set
//     and read back on every connection. Where that cannot be had, [Open] fails with [attempt.ErrNotDurable].
//   - No caller ever sees "database is locked" before its time is up. Write transactions take the lock when they begin;
//     this process has one writer, and between processes it polls for the lock.
//   - Steps that are waiting share one commit, and none of them falls with another.
//   - A database whose file, log or log index is removed, moved away or replaced while the store is open takes nothing more:
//     every step fails with [attempt.ErrUnavailable] until the files are back, so that no key leaves whose record would be
//     lost. What overwrites a file in its place, as cp does, cannot be told from SQLite's own writing and must not happen.
//   - The host may keep its own tables in the same file and commit them together with an attempt, see [Store.InTx].
//
// The file must lie on a local file system: SQLite's write-ahead log does not work over a network
// (https://www.sqlite.org/wal.html).
package sqlite
