package settlement

import (
	"time"

	"github.com/chargeonce/chargeonce/attempt"
)

// tellOurs tells the approved attempts that no report has.
func (m *matcher) tellOurs() error {
	if m.report.To.IsZero() { // no report had a line
		return nil
	}
	since := m.since()
	if err := m.readHad(since); err != nil {
		return err
	}
	if err := m.listOurs(since); err != nil {
		return err
	}
	final := m.latest().Add(-m.o.Margin)
	var had, ours []entry
	var missing []entry
	for cut := range cutCount {
		var err error
		if had, err = m.hadLine.load(cut, had); err != nil {
			return err
		}
		if ours, err = m.ours.load(cut, ours); err != nil {
			return err
		}
		if err := m.tellMatchedTwice(had); err != nil {
			return err
		}
		i := 0
		for _, o := range ours {
			for i < len(had) && compareKeys(&had[i].key, &o.key) < 0 {
				i++
			}
			if i < len(had) && had[i].key == o.key {
				continue
			}
			if missing = append(missing, o); len(missing) == batchSize {
				if err := m.tellMissing(missing, final); err != nil {
					return err
				}
				missing = missing[:0]
			}
		}
	}
	return m.tellMissing(missing, final)
}

// listOurs notes the approved attempts of the place and when they were sent.
func (m *matcher) listOurs(since time.Time) error {
	for sent, err := range m.store.Sent(m.ctx, m.o.Place, since, m.report.To) {
		if err != nil {
			return err
		}
		key, err := keyOf(sent.ID)
		if err != nil {
			return err
		}
		if err := m.ours.add(entry{key, sent.At.UnixMicro()}); err != nil {
			return err
		}
	}
	return nil
}

// tellMatchedTwice tells the attempts that more than one line has matched: where the lines have no ids, nothing else tells
// one from the other.
func (m *matcher) tellMatchedTwice(had []entry) error {
	for i := 1; i < len(had); i++ {
		if had[i].value != hadMatch || had[i-1] != had[i] || i > 1 && had[i-2] == had[i] {
			continue
		}
		briefs, err := m.store.Briefs(m.ctx, []string{idOf(had[i].key)}, nil)
		if err != nil {
			return err
		}
		for _, b := range briefs {
			m.report.Counts[Duplicate]++
			if m.o.Tell == nil {
				continue
			}
			if err := m.o.Tell(Item{Result: Duplicate, Attempt: b, Reason: "more than one line matches the attempt"}); err != nil {
				return err
			}
		}
	}
	return nil
}

// tellMissing tells attempts without a line.
func (m *matcher) tellMissing(missing []entry, final time.Time) error {
	if len(missing) == 0 {
		return nil
	}
	ids := make([]string, len(missing))
	for i, e := range missing {
		ids[i] = idOf(e.key)
	}
	briefs, err := m.store.Briefs(m.ctx, ids, nil)
	if err != nil {
		return err
	}
	found := make(map[string]attempt.Brief, len(briefs))
	for _, b := range briefs {
		found[b.ID] = b
	}
	for i, e := range missing {
		at := time.UnixMicro(e.value).UTC()
		item := Item{Result: OursOnly, Attempt: found[ids[i]], At: at, Reason: "approved, and no report has it"}
		if at.After(final) {
			item.Result, item.Reason = Waiting, "approved, and the next report may have it"
		}
		m.report.Counts[item.Result]++
		if m.o.Tell == nil {
			continue
		}
		if err := m.o.Tell(item); err != nil {
			return err
		}
	}
	return nil
}
