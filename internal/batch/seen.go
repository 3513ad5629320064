package batch

import (
	"crypto/sha256"
	"encoding/binary"
	"hash/maphash"

	"github.com/chargeonce/chargeonce/attempt"
)

// seenSlots remembers which slots a file has named, and where: 32 bytes for each, in a table that is at most three quarters
// full. Slots are told apart by 128 bits of SHA-256, so that no two orders of a file are ever taken for one.
type seenSlots struct {
	seed  maphash.Seed
	table []seenSlot // its length is a power of two
	used  int
}

type seenSlot struct {
	sum    [16]byte
	line   uint64 // 0: free
	amount uint32 // what stood there, cut short: enough to say in what two rows of one order differ; 0: unknown
	source uint32
}

// add remembers a row's slot and what is to be paid; intent is nil where the row is malformed. It returns what was remembered
// of the slot before, with line 0 if nothing was, and what it would have remembered now.
func (s *seenSlots) add(slot attempt.Slot, line int, intent *attempt.Intent) (before, now seenSlot) {
	if 4*s.used >= 3*len(s.table) {
		s.grow()
	}
	now = seenSlot{sum: slotSum(slot), line: uint64(line)} //nolint:gosec // from 1
	if intent != nil {
		now.amount, now.source = s.short(intent.Amount.String()), s.short(intent.Source.Reveal())
	}
	at := s.find(now.sum)
	if before = s.table[at]; before.line == 0 {
		s.table[at] = now
		s.used++
	}
	return before, now
}

// short cuts a text to 32 bits that are not zero.
func (s *seenSlots) short(text string) uint32 {
	return uint32(maphash.String(s.seed, text)) | 1 //nolint:gosec // cut on purpose
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
	if old == nil {
		s.seed = maphash.MakeSeed()
	}
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
