package settlement

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"time"

	"github.com/chargeonce/chargeonce/money"
)

// Line is one line of a report, in our words: minor units, the signs of our side, UTC.
type Line struct {
	File   string // as the reader was told
	Number int    // the line of the file, from 1, where the record begins

	Kind      Kind
	Type      string // as the report has it
	ID        string // the provider's; empty if the line has none
	Reference string // the merchant's; empty if the line has none

	// Gross is what was charged; refunds are negative. Fee is what the provider keeps of it; a fee that is given back is
	// negative. Net = Gross - Fee, verified where the report has all three and one currency. Fee and Net are the zero
	// Amount where the report tells neither.
	Gross money.Amount
	Fee   money.Amount
	Net   money.Amount

	Created time.Time // UTC; zero if the line has none
	Local   LocalTime // how sure Created is
}

// belongs tells whether the line is about something of ours.
func (l *Line) belongs() bool {
	return l.Kind == KindCharge || l.Kind == KindRefund || l.Kind == KindChargeback
}

// Digest is the SHA-256, in hexadecimal, over all that the line says: whatever the file is called, wherever in it the line
// stands and however it is quoted. Lines that say the same have the same digest.
func (l *Line) Digest() string {
	var room [512]byte
	b := room[:0]
	for _, text := range [...]string{
		string(l.Kind), l.Type, l.ID, l.Reference, l.Gross.Currency(), l.Fee.Currency(), l.Net.Currency(),
	} {
		b = binary.AppendUvarint(b, uint64(len(text)))
		b = append(b, text...)
	}
	for _, a := range [...]money.Amount{l.Gross, l.Fee, l.Net} {
		b = binary.AppendVarint(b, a.Minor())
	}
	if !l.Created.IsZero() {
		b = l.Created.AppendFormat(b, time.RFC3339Nano)
	}
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}
