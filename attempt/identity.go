package attempt

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"

	"github.com/google/uuid"
)

// Identity is what makes an attempt itself: minted once, with the attempt, and never changed.
type Identity struct {
	ID        string
	Key       string
	Reference string
}

// NewIdentity mints a random identity: UUIDs of version 7 (RFC 9562 section 5.7), which sort by time and so keep a store's
// indexes fast. The reference is the id behind the prefix. It fails only if the system has no randomness.
func NewIdentity(referencePrefix string) (Identity, error) {
	id, err := uuid.NewV7()
	if err != nil {
		return Identity{}, fmt.Errorf("mint an attempt id: %w", err)
	}
	key, err := uuid.NewV7()
	if err != nil {
		return Identity{}, fmt.Errorf("mint an idempotency key: %w", err)
	}
	text := id.String()
	return Identity{ID: text, Key: key.String(), Reference: referencePrefix + text}, nil
}

// DeriveIdentity derives the identity of a slot's n-th attempt: UUIDs of version 8 (RFC 9562 section 5.8) from SHA-256
// over namespace, slot and ordinal. After a lost store a rerun of a slot's first attempt sends the same key and
// reference, and the provider's own record answers. Later attempts are not protected by this: which number they have is
// lost with the store. A namespace belongs to one environment of one merchant and must never change.
func DeriveIdentity(namespace uuid.UUID, referencePrefix string, slot Slot, ordinal int) Identity {
	slot = slot.WithDefaults()
	id := derive(namespace, "id", slot, ordinal)
	return Identity{ID: id, Key: derive(namespace, "key", slot, ordinal), Reference: referencePrefix + id}
}

func derive(namespace uuid.UUID, kind string, slot Slot, ordinal int) string {
	h := sha256.New()
	h.Write(namespace[:])
	var length [8]byte
	for _, part := range [...]string{kind, slot.Account, slot.Order, slot.Purpose} {
		// Each part's length goes before it, so that no two slots give the same bytes.
		binary.BigEndian.PutUint64(length[:], uint64(len(part)))
		h.Write(length[:])
		h.Write([]byte(part))
	}
	binary.BigEndian.PutUint64(length[:], uint64(ordinal))
	h.Write(length[:])
	var u uuid.UUID
	copy(u[:], h.Sum(nil))
	u[6] = u[6]&0x0f | 0x80 // version 8
	u[8] = u[8]&0x3f | 0x80 // variant 10
	return u.String()
}
