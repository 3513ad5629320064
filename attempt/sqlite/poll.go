package sqlite

import (
	"context"
	"math/rand/v2"
	"time"
)

// lockLimit is how long a start waits for the writer or for another process's lock.
const lockLimit = 5 * time.Second

// pollPause is how long to wait before the lock is tried again: a millisecond on average. SQLite's own handler sleeps
// longer and longer, and so loses to whoever has just come.
func pollPause() time.Duration {
	return time.Duration(500+rand.IntN(1000)) * time.Microsecond
}

// pollBusy repeats f while it fails because another connection holds the lock, at most for limit (0: as long as ctx
// allows).
func pollBusy(ctx context.Context, limit time.Duration, f func() error) error {
	var end time.Time
	for {
		err := f()
		if !isBusy(err) {
			return err
		}
		now := time.Now()
		if end.IsZero() {
			end = now.Add(limit)
		}
		if limit > 0 && !now.Before(end) {
			return err
		}
		if sleep(ctx, pollPause()) != nil {
			return ctx.Err()
		}
	}
}

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
