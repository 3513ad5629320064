package postgres

import (
	"fmt"
	"slices"
	"strings"
)

// column is a column of a table or of a statement's input, with its type.
type column struct{ name, kind string }

func columns(kind string, names ...string) []column {
	all := make([]column, len(names))
	for i, n := range names {
		all[i] = column{n, kind}
	}
	return all
}

// The columns of an attempt, in groups, so that a payment writes no column that has nothing in it or does not change.
var (
	idColumn     = columns("uuid", "id")
	slotColumns  = columns("text", "order_id", "account", "purpose")
	fixedColumns = slices.Concat( // never change after the insert
		idColumn, columns("integer", "ordinal"), columns("text", "idempotency_key", "reference"), columns("bigint", "amount"),
		columns("text", "currency"), columns("integer", "decimals"),
		columns("text", "source_key", "source_digest", "description", "provider", "provider_account", "environment"),
		columns("timestamptz", "created_at"),
	)
	stateColumns = slices.Concat( // change with every version
		columns("text", "status", "reason"), columns("integer", "version"), columns("timestamptz", "updated_at"),
		columns("json", "claims"), columns("timestamptz", "next_check_at"),
	)
	claimColumns = slices.Concat( // change when a claim is granted
		columns("bytea", "body"), columns("text", "body_digest"), columns("integer", "fence"), columns("timestamptz", "first_claim_at"),
	)
	resultColumns = slices.Concat( // empty until a request was sent
		columns("integer", "sends", "maybe_sends"), columns("timestamptz", "last_sent_at"), columns("json", "answer", "charges"),
		columns("text", "charge_id"),
	)
	rareColumns = slices.Concat( // empty while all goes well
		columns("json", "refusal", "none_asked_at"), columns("integer", "asks"), columns("timestamptz", "asking_ended_at"),
		columns("json", "duties"), columns("integer", "duties_open"), columns("timestamptz", "unwanted_at"),
	)
	refundColumns = slices.Concat( // of a refund, never change after the insert
		columns("uuid", "refund_of"), columns("text", "refund_charge", "refund_id"),
	)
	attemptColumns = slices.Concat(fixedColumns, stateColumns, claimColumns, resultColumns, rareColumns, refundColumns)

	eventColumns = slices.Concat( // besides the attempt's id and version
		columns("text", "what", "from_status", "to_status"), columns("timestamptz", "at"), columns("text", "who"),
		columns("json", "evidence", "duties"),
	)

	// decidedColumn is the time that a step on belief was decided at; a statement that runs too far from that writes nothing.
	decidedColumn = columns("timestamptz", "decided")
	// freesColumn says whether the slot has room for another attempt from now on.
	freesColumn = columns("boolean", "frees")
	// guardColumns are what an attempt must still be like, so that no update is lost.
	guardColumns = slices.Concat(columns("integer", "old_version"), columns("timestamptz", "old_next_check_at"))
)

// eventInput are the event's columns beside the attempt's in one input.
func eventInput() []column {
	all := slices.Clone(eventColumns)
	for i := range all {
		all[i].name = "event_" + all[i].name
	}
	return all
}

// names lists columns, each behind a prefix.
func names(prefix string, cols []column) string {
	var b strings.Builder
	for i, c := range cols {
		if i > 0 {
			b.WriteString(", ")
		}
		b.WriteString(prefix + c.name)
	}
	return b.String()
}

// source is where a statement's values come from: its arguments themselves, or, where it writes many rows, an input named i.
type source struct {
	in   []column
	many bool
}

// value is a column's value in the type of the table's.
func (s source) value(c column) string {
	text := "i." + c.name
	if !s.many {
		text = fmt.Sprintf("$%d::%s", 1+slices.IndexFunc(s.in, func(o column) bool { return o.name == c.name }), c.passed())
	}
	if c.kind == "json" || c.kind == "uuid" {
		text += "::" + c.kind
	}
	return text
}

// named is a column's value by its name, in the type in which it travels.
func (s source) named(name string) string {
	c := s.in[slices.IndexFunc(s.in, func(o column) bool { return o.name == name })]
	return s.value(column{c.name, c.passed()})
}

// values lists columns' values.
func (s source) values(cols []column) string {
	all := make([]string, len(cols))
	for i, c := range cols {
		all[i] = s.value(c)
	}
	return strings.Join(all, ", ")
}

// set is the list of assignments of an update.
func (s source) set(cols []column) string {
	all := make([]string, len(cols))
	for i, c := range cols {
		all[i] = c.name + " = " + s.value(c)
	}
	return strings.Join(all, ", ")
}

// passed is the type in which a column's value travels.
func (c column) passed() string {
	switch c.kind {
	case "json", "uuid":
		return "text"
	case "integer":
		return "bigint"
	}
	return c.kind
}

// given are the rows that are given as arrays, one for each column, as a table named i.
func given(cols []column) string {
	var b strings.Builder
	b.WriteString("unnest(")
	for i, c := range cols {
		if i > 0 {
			b.WriteString(", ")
		}
		fmt.Fprintf(&b, "$%d::%s[]", i+1, c.passed())
	}
	return b.String() + ") AS i(" + names("", cols) + ")"
}
