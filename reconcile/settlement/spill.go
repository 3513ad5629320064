package settlement

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
)

// spill holds many entries in little memory: those above a limit go into a temporary file, cut by key, so that one cut at a
// time can be looked at.
type spill struct {
	dir   string
	limit int // entries kept in memory

	cuts   [cutCount][]entry
	held   int
	file   *os.File
	size   int64
	chunks [cutCount][]chunk
	buf    []byte
}

// entry is a key of 16 bytes and a number that belongs to it.
type entry struct {
	key   [16]byte
	value int64
}

// chunk is where entries of a cut stand in the file.
type chunk struct {
	at int64
	n  int
}

const (
	cutCount  = 256
	entrySize = 24
	// spillLimit bounds the memory of one spill to 1.5 MiB and the room for one cut.
	spillLimit = 1 << 16
)

func newSpill(dir string, limit int) *spill { return &spill{dir: dir, limit: limit} }

// add adds an entry. Keys that are equal go into the same cut; the last byte says which, because the first bytes of
// attempt ids are a time.
func (s *spill) add(e entry) error {
	cut := e.key[15]
	s.cuts[cut] = append(s.cuts[cut], e)
	if s.held++; s.held < s.limit {
		return nil
	}
	return s.flush()
}

// flush writes all that is in memory.
func (s *spill) flush() error {
	if s.file == nil {
		file, err := os.CreateTemp(s.dir, "chargeonce-match-*")
		if err != nil {
			return fmt.Errorf("make a temporary file: %w", err)
		}
		s.file = file
	}
	s.buf = s.buf[:0]
	for cut := range s.cuts {
		entries := s.cuts[cut]
		if len(entries) == 0 {
			continue
		}
		s.chunks[cut] = append(s.chunks[cut], chunk{s.size + int64(len(s.buf)), len(entries)})
		for _, e := range entries {
			s.buf = append(s.buf, e.key[:]...)
			s.buf = binary.LittleEndian.AppendUint64(s.buf, uint64(e.value))
		}
		s.cuts[cut] = entries[:0]
	}
	n, err := s.file.WriteAt(s.buf, s.size)
	s.size += int64(n)
	s.held = 0
	if err != nil {
		return fmt.Errorf("write a temporary file: %w", err)
	}
	return nil
}

// load returns all entries of a cut, sorted by key and then by value. They are valid until the next call with the same room.
func (s *spill) load(cut int, room []entry) ([]entry, error) {
	room = append(room[:0], s.cuts[cut]...)
	for _, c := range s.chunks[cut] {
		s.buf = slices.Grow(s.buf[:0], c.n*entrySize)[:c.n*entrySize]
		if _, err := io.ReadFull(io.NewSectionReader(s.file, c.at, int64(len(s.buf))), s.buf); err != nil {
			return nil, fmt.Errorf("read a temporary file: %w", err)
		}
		for b := s.buf; len(b) > 0; b = b[entrySize:] {
			room = append(room, entry{[16]byte(b), int64(binary.LittleEndian.Uint64(b[16:]))})
		}
	}
	slices.SortFunc(room, func(a, b entry) int {
		if c := compareKeys(&a.key, &b.key); c != 0 {
			return c
		}
		return cmp.Compare(a.value, b.value)
	})
	return room, nil
}

func compareKeys(a, b *[16]byte) int {
	if c := cmp.Compare(binary.BigEndian.Uint64(a[:]), binary.BigEndian.Uint64(b[:])); c != 0 {
		return c
	}
	return cmp.Compare(binary.BigEndian.Uint64(a[8:]), binary.BigEndian.Uint64(b[8:]))
}

// close forgets all entries and removes the file.
func (s *spill) close() error {
	file := s.file
	*s = spill{dir: s.dir, limit: s.limit}
	if file == nil {
		return nil
	}
	return errors.Join(file.Close(), os.Remove(file.Name()))
}
