package postgres

import (
	"encoding/binary"
	"hash/fnv"

	"github.com/chargeonce/chargeonce/attempt"
)

// Advisory locks stand for what has no row yet: a slot that is about to be made, a note that is about to be kept. They are
// held until the end of the transaction. Two names with the same number only wait for each other now and then. Every release
// must count alike.

// lockOf is the number of a lock in the store's schema.
func (s *Store) lockOf(what string, parts ...string) int64 {
	h := fnv.New64a()
	var length [4]byte
	for _, p := range append([]string{"chargeonce", s.opts.Schema, what}, parts...) {
		binary.BigEndian.PutUint32(length[:], uint32(len(p)))
		h.Write(length[:])
		h.Write([]byte(p))
	}
	return int64(h.Sum64())
}

func (s *Store) lockOfSlot(slot attempt.Slot) int64 {
	return s.lockOf("slot", slot.Order, slot.Account, slot.Purpose)
}

func (s *Store) lockOfNote(once *attempt.Once) int64 {
	return s.lockOf("note", once.Scope, once.ID)
}
