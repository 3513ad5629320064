package bench

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/chargeonce/chargeonce/attempt"
	"github.com/chargeonce/chargeonce/attempt/sqlite"
)

// logStore runs every step on what the caller believes, like noStore, and appends what it writes to a file. It returns when
// that is on the disk; callers who wait together share one fdatasync. It is the least that a durable store can do: it
// cannot be asked, and forgets who has paid.
type logStore struct {
	noStore
	file *os.File

	mu      sync.Mutex
	pending bytes.Buffer
	waiting []chan error
	writing bool
}

func (l *logStore) Apply(ctx context.Context, steps ...*attempt.Step) error {
	var line bytes.Buffer
	for _, s := range steps {
		v := attempt.View{Now: time.Now().UTC().Truncate(time.Microsecond)}
		if s.Guess != nil {
			v.Attempts = []attempt.Attempt{*s.Guess}
		}
		writes, err := s.Do(v)
		if err != nil {
			s.Err = err
			return err
		}
		for _, w := range writes {
			if err := json.NewEncoder(&line).Encode(struct {
				A *attempt.Attempt
				E attempt.Event
			}{w.Attempt, w.Event}); err != nil {
				return err
			}
		}
	}
	done := make(chan error, 1)
	l.mu.Lock()
	l.pending.Write(line.Bytes())
	l.waiting = append(l.waiting, done)
	lead := !l.writing
	l.writing = true
	l.mu.Unlock()
	for lead {
		l.mu.Lock()
		if len(l.waiting) == 0 {
			l.writing = false
			l.mu.Unlock()
			break
		}
		batch, waiting := bytes.Clone(l.pending.Bytes()), l.waiting
		l.pending.Reset()
		l.waiting = nil
		l.mu.Unlock()
		_, err := l.file.Write(batch)
		if err == nil {
			err = datasync(l.file)
		}
		for _, w := range waiting {
			w <- err
		}
	}
	return <-done
}

// BenchmarkDurable compares whole payments of many callers at a provider that answers after 20 ms: on the SQLite store, and
// the same calls over a bare append-only log.
func BenchmarkDurable(b *testing.B) {
	const callers = 256
	dir := b.TempDir()
	file, err := os.Create(filepath.Join(dir, "log"))
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = file.Close() }()
	store, err := sqlite.Open(b.Context(), filepath.Join(dir, "payments.db"), sqlite.Options{})
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = store.Close() }()
	url := rawBank(b, &bank{delay: 20 * time.Millisecond})
	for range b.N {
		pair(b, callers, 6000, 7,
			chargeonce(b, "log", url, transport(callers), &logStore{file: file}),
			chargeonce(b, "sqlite", url, transport(callers), store),
		)
	}
}
