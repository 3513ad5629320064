package attempt

import (
	"fmt"
	"slices"
)

// Status is where an attempt stands. The zero Status is [StatusUnknown]: nothing forgotten can look paid or unpaid.
type Status uint8

// The statuses. docs/state-machine.md draws the moves between them.
const (
	StatusUnknown   Status = iota // a request may have been executed
	StatusPrepared                // stored, nothing can have left
	StatusSending                 // one caller holds a claim to send
	StatusApproved                // the provider holds the charge, and it is the one we asked for
	StatusDeclined                // definite refusal, no money moved
	StatusRejected                // refused as malformed or unauthorised, and nothing before can have been executed
	StatusAbandoned               // never sent, or not found by the rule for abandoning; no money moved
)

var statusNames = [...]string{
	StatusUnknown: "unknown", StatusPrepared: "prepared", StatusSending: "sending", StatusApproved: "approved",
	StatusDeclined: "declined", StatusRejected: "rejected", StatusAbandoned: "abandoned",
}

// Statuses returns all statuses.
func Statuses() []Status {
	return []Status{StatusPrepared, StatusSending, StatusUnknown, StatusApproved, StatusDeclined, StatusRejected, StatusAbandoned}
}

// String returns the status as stores and JSON write it.
func (s Status) String() string {
	if int(s) < len(statusNames) {
		return statusNames[s]
	}
	return fmt.Sprintf("status(%d)", uint8(s))
}

// ParseStatus reads what String wrote.
func ParseStatus(text string) (Status, error) {
	if i := slices.Index(statusNames[:], text); i >= 0 {
		return Status(i), nil
	}
	return StatusUnknown, fmt.Errorf("status %q: want one of %v", text, statusNames)
}

// MarshalText writes the status's name.
func (s Status) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText reads the status's name.
func (s *Status) UnmarshalText(text []byte) error {
	parsed, err := ParseStatus(string(text))
	if err == nil {
		*s = parsed
	}
	return err
}

// Live tells whether an attempt in this status occupies its slot. A slot has at most one live attempt.
func (s Status) Live() bool {
	return s == StatusPrepared || s == StatusSending || s == StatusUnknown || s == StatusApproved
}

// Final tells whether the status is an end. No evidence moves an attempt out of it.
func (s Status) Final() bool {
	return s == StatusApproved || s == StatusDeclined || s == StatusRejected || s == StatusAbandoned
}

// moves is the map of legal moves; a test compares it with the diagram in docs/state-machine.md.
var moves = map[Status][]Status{
	StatusPrepared: {StatusSending, StatusUnknown, StatusApproved, StatusDeclined, StatusRejected, StatusAbandoned},
	StatusSending:  {StatusPrepared, StatusUnknown, StatusApproved, StatusDeclined, StatusRejected, StatusAbandoned},
	StatusUnknown:  {StatusPrepared, StatusSending, StatusApproved, StatusDeclined, StatusRejected, StatusAbandoned},
}

// CanMove tells whether an attempt may go from one status to another. Staying is always legal.
func CanMove(from, to Status) bool {
	return from == to || slices.Contains(moves[from], to)
}
