package batch

import (
	"crypto/sha256"
	"encoding/binary"

	"github.com/chargeonce/chargeonce/attempt"
)

// seenSlots remembers which slots a file has named, and where: 24 bytes for each, in a table that is at most three quarters
// full. Slots are told apart by 128 bits of SHA-256, so that no two orders of a file are ever taken for one.
type seenSlots struct {
	table []seenSlot // its length is a power of two
	used  int
}

type seenSlot struct {
	sum  [16]byte
	line uint64 // 0: free
}

// add remembers a slot, and returns the line on which it was named before, 0 if it was not.
func (s *seenSlots) add(slot attempt.Slot, line int) (before int) {
	if 4*s.used >= 3*len(s.table) {
		s.grow()
	}
	e := seenSlot{sum: slotSum(slot), line: uint64(line)} //nolint:gosec // from 1
	at := s.find(e.sum)
	if s.table[at].line != 0 {
		return int(s.table[at].line) //nolint:gosec // was an int
	}
	s.table[at] = e
	s.used++
	return 0
}

// find returns where the sum is, or the free place where it belongs.
func (s *seenSlots) find(sum [16]byte) int {
	mask := len(s.table) - 1
	at := int(binary.LittleEndian.Uint64(sum[:8])) & mask //nolint:gosec // only the low bits count
	for s.table[at].line != 0 && s.table[at].sum != sum {
		at = (at + 1) & mask
	}
	return at
}

func (s *seenSlots) grow() {
	old := s.table
	s.table = make([]seenSlot, max(1024, 2*len(old)))
	for _, e := range old {
		if e.line != 0 {
			s.table[s.find(e.sum)] = e
		}
	}
}

func slotSum(slot attempt.Slot) [16]byte {
	var b []byte
	for _, part := range [...]string{slot.Account, slot.Order, slot.Purpose} {
		// Each part's length goes before it, so that no two slots give the same bytes.
		b = binary.AppendUvarint(b, uint64(len(part)))
		b = append(b, part...)
	}
	sum := sha256.Sum256(b)
	return [16]byte(sum[:16])
}
