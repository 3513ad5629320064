package fakeprovider

import (
	"hash/maphash"
)

// What happened to a key.
const (
	keyFree   uint8 = iota // the slot of a forgotten key
	keySeen                // a request carried it, none was executed
	keyLocked              // the first request has not been executed yet
	keyDone                // executed; until end its answer is still out
)

// What a key's answer is about.
const (
	kindCharge uint8 = iota
	kindRefund
)

// keyEntry is one key of one client, kept small.
type keyEntry struct {
	key    string
	print  [16]byte // fingerprint: method, path and body
	end    int64    // locked: when the lock times out; done: when the first request ended
	next   uint32   // another key with the same hash
	client uint32
	record uint32
	kind   uint8
	state  uint8
}

// keyring finds keys by client and text.
type keyring struct {
	list     table[keyEntry]
	byHash   map[uint64]uint32
	free     []uint32
	answers  map[uint32]answer   // stored answers that no record can tell
	retired  map[uint64]struct{} // keys that were seen and then cleaned up
	distinct int
	sweepAt  uint32
}

func (k *keyring) reset() {
	*k = keyring{byHash: map[uint64]uint32{}, answers: map[uint32]answer{}, retired: map[uint64]struct{}{}}
}

func keyHash(seed maphash.Seed, client uint32, key string) uint64 {
	return maphash.String(seed, key) ^ uint64(client)*0x9e3779b97f4a7c15
}

func (k *keyring) find(h uint64, client uint32, key string) uint32 {
	for n := k.byHash[h]; n != 0; {
		e := k.list.at(n)
		if e.client == client && e.key == key {
			return n
		}
		n = e.next
	}
	return 0
}

// see notes that a request carried the key and returns its number.
func (k *keyring) see(h uint64, client uint32, key string) uint32 {
	n := k.find(h, client, key)
	if n == 0 {
		if _, old := k.retired[h]; old {
			delete(k.retired, h)
		} else {
			k.distinct++
		}
		n = k.insert(h, keyEntry{key: key, client: client, state: keySeen})
	}
	return n
}

func (k *keyring) insert(h uint64, e keyEntry) uint32 {
	e.next = k.byHash[h]
	var n uint32
	if last := len(k.free) - 1; last >= 0 {
		n = k.free[last]
		k.free = k.free[:last]
		*k.list.at(n) = e
	} else {
		n = k.list.add(e)
	}
	k.byHash[h] = n
	return n
}

// remove cleans an entry up; that the key was once seen is remembered.
func (k *keyring) remove(seed maphash.Seed, n uint32) {
	e := k.list.at(n)
	h := keyHash(seed, e.client, e.key)
	if head := k.byHash[h]; head == n {
		if e.next == 0 {
			delete(k.byHash, h)
		} else {
			k.byHash[h] = e.next
		}
	} else {
		for m := head; m != 0; m = k.list.at(m).next {
			if other := k.list.at(m); other.next == n {
				other.next = e.next
				break
			}
		}
	}
	k.retired[h] = struct{}{}
	delete(k.answers, n)
	*e = keyEntry{}
	k.free = append(k.free, n)
}

// sweep looks at the next few entries in turn and cleans up those whose time
// is over: a share of the work with each new key, never a long pause.
func (k *keyring) sweep(seed maphash.Seed, now, retention int64) {
	k.sweepSome(seed, now, retention, 4)
}

func (k *keyring) sweepSome(seed maphash.Seed, now, retention int64, entries int) {
	for range min(entries, k.list.len()) {
		k.sweepAt++
		if int(k.sweepAt) > k.list.len() {
			k.sweepAt = 1
		}
		if e := k.list.at(k.sweepAt); e.state == keyDone && now-e.end >= retention {
			k.remove(seed, k.sweepAt)
		}
	}
}
