package events

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"

	"github.com/chargeonce/chargeonce/attempt"
)

// JSONLines returns a func for [attempt.Relay] that writes each event to w as one line: a [Record] as JSON, in UTF-8, ended by
// a line feed (https://jsonlines.org). Each line is one call of Write, and calls do not overlap.
//
// An event is taken when Write has returned no error; where w is a regular file, when the file is synced, so that what was
// taken outlasts a crash. A write that fails half-way leaves a broken line, which ends before the next one begins; its event
// comes again.
func JSONLines(w io.Writer, attempts Reader) func(context.Context, attempt.Event) error {
	l := &lines{w: w, sync: func() error { return nil }}
	if f, ok := w.(*os.File); ok {
		if info, err := f.Stat(); err == nil && info.Mode().IsRegular() {
			l.sync = f.Sync
		}
	}
	return func(ctx context.Context, e attempt.Event) error {
		r, err := RecordOf(ctx, attempts, e)
		if err != nil {
			return fmt.Errorf("events: JSON lines: %w", err)
		}
		line, err := encode(r)
		if err == nil {
			err = l.write(append(line, '\n'))
		}
		if err != nil {
			return fmt.Errorf("events: JSON lines: %w", err)
		}
		return nil
	}
}

type lines struct {
	sync func() error

	mu     sync.Mutex // guards all below
	w      io.Writer
	broken bool // the last line has no end
}

func (l *lines) write(line []byte) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.broken {
		line = append([]byte{'\n'}, line...)
	}
	n, err := l.w.Write(line)
	if err == nil && n < len(line) {
		err = io.ErrShortWrite
	}
	if n > 0 { // else what was broken still is
		l.broken = n < len(line)
	}
	if err != nil {
		return fmt.Errorf("write: %w", err)
	}
	if err := l.sync(); err != nil {
		return fmt.Errorf("sync: %w", err)
	}
	return nil
}

// encode writes JSON as it is, without the escapes that are for HTML.
func encode(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return nil, errors.Join(errors.New("encode"), err)
	}
	return bytes.TrimSuffix(b.Bytes(), []byte{'\n'}), nil
}
