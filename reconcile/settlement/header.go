package settlement

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
)

// amountPlace is where in a record an amount stands; -1: nowhere.
type amountPlace struct{ column, debit, credit int }

func (p amountPlace) given() bool { return p.column >= 0 || p.debit >= 0 }

// typePlan is a type with its places.
type typePlan struct {
	value     string
	kind      Kind
	opposite  struct{ gross, fee, net bool }
	id        int
	reference int
}

// layout is where everything stands in a record of this file.
type layout struct {
	names []string // by place

	typ                   int // -1: no type column
	gross, net            amountPlace
	fees                  []int
	currency, netCurrency int
	created               []int
	zone                  int
	types                 map[string]*typePlan
}

// readHeader takes the preamble and the header.
func (r *Reader) readHeader() error {
	if r.p.FindHeader {
		return r.findHeader()
	}
	for range r.p.PreambleLines {
		if _, err := r.in.rawLine(); err != nil {
			return r.headerEnd(err)
		}
	}
	if err := r.in.next(); err != nil {
		return r.headerEnd(err)
	}
	if r.in.problem != "" {
		return r.refuse(r.in.first, "header: "+r.in.problem)
	}
	return r.takeHeader(r.in.first, r.in.fields)
}

func (r *Reader) headerEnd(err error) error {
	if errors.Is(err, io.EOF) {
		return r.refuse(r.in.line, "ends before the header")
	}
	return r.broken(err)
}

// findHeader looks for the first line that names every column.
func (r *Reader) findHeader() error {
	want := r.columns()
	for range maxPreamble + 1 {
		line, err := r.in.rawLine()
		if err != nil {
			return r.headerEnd(err)
		}
		one := newSplitter(bytes.NewReader(line), r.in.delimiter, r.in.quotes)
		if one.next() != nil || one.problem != "" {
			continue // no header, whatever else it is
		}
		found := make(map[string]bool)
		for _, name := range one.fields {
			found[spaced(string(name))] = true
		}
		all := true
		for _, name := range want {
			all = all && found[name]
		}
		if all {
			return r.takeHeader(r.in.line, one.fields)
		}
	}
	return r.refuse(0, fmt.Sprintf("none of the first %d lines names all columns: want %q", maxPreamble+1, want))
}

// columns returns the columns that the profile names, each once.
func (r *Reader) columns() []string {
	c := &r.p.Columns
	all := []string{c.ID, c.Reference, c.Type, c.Gross.Column, c.Gross.Debit, c.Gross.Credit, c.Net.Column, c.Net.Debit, c.Net.Credit,
		c.Currency, c.NetCurrency, c.Zone}
	all = append(append(all, c.Fees...), c.Created...)
	for _, t := range r.p.Types {
		all = append(all, t.ID, t.Reference)
	}
	seen := map[string]bool{"": true}
	names := all[:0]
	for _, name := range all {
		if !seen[name] {
			seen[name] = true
			names = append(names, name)
		}
	}
	return names
}

// takeHeader finds each column's place.
func (r *Reader) takeHeader(line int, fields [][]byte) error {
	place := make(map[string]int)
	l := layout{}
	for i, field := range fields {
		name := spaced(string(field))
		l.names = append(l.names, name)
		if _, twice := place[name]; twice {
			place[name] = -1
		} else {
			place[name] = i
		}
	}
	var missing, twice []string
	for _, name := range r.columns() {
		switch i, ok := place[name]; {
		case !ok:
			missing = append(missing, quote([]byte(name)))
		case i < 0:
			twice = append(twice, quote([]byte(name)))
		}
	}
	switch {
	case len(missing) > 0:
		return r.refuse(line, "header: without column "+strings.Join(missing, ", "))
	case len(twice) > 0:
		return r.refuse(line, "header: more than one column "+strings.Join(twice, ", "))
	}
	at := func(name string) int {
		if name == "" {
			return -1
		}
		return place[name]
	}
	amount := func(c AmountColumn) amountPlace { return amountPlace{at(c.Column), at(c.Debit), at(c.Credit)} }
	c := &r.p.Columns
	l.typ, l.currency, l.netCurrency, l.zone = at(c.Type), at(c.Currency), at(c.NetCurrency), at(c.Zone)
	l.gross, l.net = amount(c.Gross), amount(c.Net)
	for _, name := range c.Fees {
		l.fees = append(l.fees, at(name))
	}
	for _, name := range c.Created {
		l.created = append(l.created, at(name))
	}
	l.types = make(map[string]*typePlan, len(r.p.Types))
	for value, t := range r.p.Types {
		plan := &typePlan{value: value, kind: t.Kind, id: at(c.ID), reference: at(c.Reference)}
		plan.opposite.gross, plan.opposite.fee, plan.opposite.net = t.GrossSign == SignOpposite, t.FeeSign == SignOpposite, t.NetSign == SignOpposite
		if t.ID != "" {
			plan.id = at(t.ID)
		}
		if t.Reference != "" {
			plan.reference = at(t.Reference)
		}
		l.types[value] = plan
	}
	r.layout = l
	return nil
}

// headerAgain tells whether a record repeats the header: two reports in one file.
func (r *Reader) headerAgain() bool {
	if len(r.in.fields) != len(r.layout.names) {
		return false
	}
	for i, field := range r.in.fields {
		name := r.layout.names[i]
		if string(field) == name {
			continue
		}
		if !bytes.ContainsAny(field, " \t") || spaced(string(field)) != name {
			return false
		}
	}
	return true
}
