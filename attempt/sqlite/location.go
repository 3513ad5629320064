package sqlite

import (
	"errors"
	"fmt"
	"io/fs"
)

// location is where the database lies: the names of its files, and which files those were when the store was opened. SQLite
// goes on writing to a file that was deleted or moved away, and nobody who opens the database afterwards finds what it wrote
// (https://www.sqlite.org/howtocorrupt.html section 4). While the store has the database open nobody makes the log or its
// index anew, so that all of the files stay the same until Close.
type location struct {
	files []placed // the database, its log and the log's index; none: not known yet
}

type placed struct {
	name string
	was  identity
}

// errMoved: what is written now would be lost.
var errMoved = errors.New("the database file was removed or replaced; nothing of this was stored")

// remember notes which files stand under these names.
func (l *location) remember(names ...string) error {
	files := make([]placed, len(names))
	for i, name := range names {
		was, err := identify(name)
		if err != nil {
			return err
		}
		files[i] = placed{name, was}
	}
	l.files = files
	return nil
}

// check fails if one of the files is gone, or another one stands under its name.
func (l *location) check() error {
	for _, f := range l.files {
		is, err := identify(f.name)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return fmt.Errorf("%w (%s is gone)", errMoved, f.name)
		case err != nil:
			return fmt.Errorf("the database file cannot be looked at; nothing of this was stored: %w", err)
		case !f.was.same(is):
			return fmt.Errorf("%w (%s is another file)", errMoved, f.name)
		}
	}
	return nil
}
