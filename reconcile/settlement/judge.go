package settlement

import (
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/chargeonce/chargeonce/attempt"
	"github.com/chargeonce/chargeonce/money"
)

// pending is a line on its way to its result.
type pending struct {
	line    Line
	file    int
	refused *LineError
	item    Item
	record  *attempt.Record // what the line tells the attempt
	step    *attempt.Step
}

// pending returns an empty one.
func (m *matcher) pending() *pending {
	n := len(m.spare)
	if n == 0 {
		return new(pending)
	}
	p := m.spare[n-1]
	m.spare = m.spare[:n-1]
	*p = pending{}
	return p
}

// judge gives the batch its results.
func (m *matcher) judge() error {
	if len(m.batch) == 0 {
		return nil
	}
	if err := m.lookUp(); err != nil {
		return err
	}
	for _, p := range m.batch {
		m.classify(p)
	}
	if err := m.recordBatch(); err != nil {
		return err
	}
	for _, p := range m.batch {
		if err := m.finish(p); err != nil {
			return err
		}
	}
	m.spare = append(m.spare, m.batch...)
	m.batch = m.batch[:0]
	return nil
}

// known are the attempts that a batch may be about.
type known struct {
	byCharge map[string]holders
	byID     map[string]*attempt.Brief
	ask      []string
}

// holders are the attempts that a charge has approved: one, but for a mistake.
type holders struct {
	first *attempt.Brief
	more  []*attempt.Brief
}

// lookUp asks the store by charge id, and by reference where that does not say all.
func (m *matcher) lookUp() error {
	k := &m.known
	if k.byCharge == nil {
		k.byCharge, k.byID = make(map[string]holders), make(map[string]*attempt.Brief)
	}
	clear(k.byCharge)
	clear(k.byID)
	k.ask = k.ask[:0]
	for _, p := range m.batch {
		if id := p.line.ID; id != "" {
			if _, asked := k.byCharge[id]; !asked {
				k.byCharge[id] = holders{}
				k.ask = append(k.ask, id)
			}
		}
	}
	if len(k.ask) > 0 {
		briefs, err := m.store.Briefs(m.ctx, nil, k.ask)
		if err != nil {
			return err
		}
		for i := range briefs {
			b := &briefs[i]
			h := k.byCharge[b.ChargeID]
			if h.first == nil {
				h.first = b
			} else {
				h.more = append(h.more, b)
			}
			k.byCharge[b.ChargeID] = h
		}
	}
	k.ask = k.ask[:0]
	for _, p := range m.batch {
		if h := k.byCharge[p.line.ID]; h.first != nil && h.more == nil && h.first.Reference == p.line.Reference {
			continue
		}
		id, ok := attempt.IDOf(p.line.Reference)
		if _, asked := k.byID[id]; ok && !asked {
			k.byID[id] = nil
			k.ask = append(k.ask, id)
		}
	}
	if len(k.ask) > 0 {
		briefs, err := m.store.Briefs(m.ctx, k.ask, nil)
		if err != nil {
			return err
		}
		for i := range briefs {
			k.byID[briefs[i].ID] = &briefs[i]
		}
	}
	return nil
}

// find returns the attempt that a line is about, or why there is none.
func (m *matcher) find(l *Line) (b *attempt.Brief, why string) {
	var holder, other *attempt.Brief // of the charge
	if l.ID != "" {
		h := m.known.byCharge[l.ID]
		for i := -1; i < len(h.more); i++ {
			b := h.first
			if i >= 0 {
				b = h.more[i]
			}
			if b == nil {
				break
			}
			switch not := m.unfit(b, l); {
			case not != "":
				why = not
			case b.Reference == l.Reference:
				return b, ""
			case holder == nil:
				holder = b
			default:
				other = b
			}
		}
	}
	var named *attempt.Brief // by the reference
	if id, ok := attempt.IDOf(l.Reference); ok {
		if b := m.known.byID[id]; b != nil && b.Reference == l.Reference {
			named = b
		} else if b != nil {
			why = fmt.Sprintf("attempt %s has another reference", b.ID)
		}
	}
	switch {
	case other != nil:
		return nil, fmt.Sprintf("attempts %s and %s hold this charge", holder.ID, other.ID)
	case holder != nil && named != nil && named.ID != holder.ID:
		return nil, fmt.Sprintf("attempt %s holds this charge, the reference is that of attempt %s", holder.ID, named.ID)
	case holder != nil:
		return holder, ""
	case named == nil && why == "":
		return nil, "no attempt has this charge or this reference"
	case named == nil:
		return nil, why
	}
	if not := m.unfit(named, l); not != "" {
		return nil, not
	}
	return named, ""
}

// unfit says why a line cannot be an attempt's; empty: it can.
func (m *matcher) unfit(b *attempt.Brief, l *Line) string {
	switch refund := b.Refund.AttemptID != ""; {
	case b.Place != m.o.Place:
		return fmt.Sprintf("attempt %s belongs to another provider, account or environment", b.ID)
	case refund && l.Kind != KindRefund:
		return fmt.Sprintf("attempt %s is a refund, the line is not", b.ID)
	case !refund && l.Kind == KindRefund:
		return fmt.Sprintf("attempt %s is a charge, the line is a refund", b.ID)
	}
	return ""
}

// classify finds the line's attempt and says what comes of it, as far as that needs no writing.
func (m *matcher) classify(p *pending) {
	p.item.Line = p.line
	if p.refused != nil {
		p.item.Result, p.item.Err, p.item.Reason = LineRefused, p.refused, p.refused.Error()
		return
	}
	b, why := m.find(&p.line)
	if b != nil {
		p.item.Attempt = *b
	}
	if twice := m.repeated[subject(&p.line)]; twice != nil {
		digest := p.line.Digest()
		m.equal[digest]++
		p.item.LineID = lineID(digest, m.equal[digest])
		if twice.seen {
			p.item.Result, p.item.Reason = Duplicate, fmt.Sprintf("line %d%s is about the same", twice.line, m.ofFile(twice.file, p.file))
			return
		}
		twice.seen = true
	}
	if b == nil {
		p.item.Result, p.item.Reason = TheirsOnly, why
		return
	}
	l := &p.line
	amount, err := ofAttempt(l)
	if err != nil {
		p.item.Result, p.item.Reason = TheirsOnly, err.Error()
		return
	}
	approved := b.Status == attempt.StatusApproved
	charge := attempt.Charge{ID: l.ID, Status: attempt.ChargeSucceeded, Amount: amount}
	switch {
	case l.Kind == KindChargeback:
		p.item.Result, p.item.Reason = Chargeback, fmt.Sprintf("%s of the attempt's %s", l.Gross, b.Amount)
		if !approved || b.ChargeID == "" || amount != b.Amount {
			return // which charge, or how much of it, is for a person to see
		}
		charge.ID, charge.Status = b.ChargeID, attempt.ChargeReversed
	case approved && (l.ID == "" || l.ID == b.ChargeID):
		m.vote(b, l, amount)
		p.compare(amount)
		return
	case l.ID == "":
		p.item.Result = TheirsOnly
		p.item.Reason = fmt.Sprintf("attempt %s is %s, and the line names no charge that could settle it", b.ID, b.Status)
		return
	default:
		m.vote(b, l, amount)
		p.wouldBe(amount)
	}
	if m.o.ReadOnly {
		return
	}
	p.record = &attempt.Record{
		ID: b.ID, Who: m.o.Who,
		Evidence: attempt.Evidence{Kind: attempt.EvidenceSettlement, Charges: []attempt.Charge{charge}},
	}
}

func (m *matcher) ofFile(first, file int) string {
	if first == file {
		return ""
	}
	return " of " + m.report.Files[first].File
}

// ofAttempt returns gross as an attempt has it: what a refund gives back, and what a chargeback takes, is positive there.
func ofAttempt(l *Line) (money.Amount, error) {
	if l.Kind == KindCharge {
		return l.Gross, nil
	}
	minor, ok := subtract(0, l.Gross.Minor())
	if !ok {
		return money.Amount{}, errors.New("gross is out of range")
	}
	return money.Restore(minor, l.Gross.Currency())
}

// compare gives the result of a line whose charge is the attempt's.
func (p *pending) compare(amount money.Amount) {
	p.item.Result = Matched
	if b := &p.item.Attempt; amount != b.Amount {
		p.item.Result, p.item.Reason = AmountDiffers, fmt.Sprintf("the line says %s, attempt %s is over %s", amount, b.ID, b.Amount)
	}
}

// vote counts whether a line agrees with the attempt that it names.
func (m *matcher) vote(b *attempt.Brief, l *Line, amount money.Amount) {
	switch {
	case b.ChargeID == "" || l.ID == "":
	case b.ChargeID == l.ID:
		m.sameID++
	default:
		m.otherID++
	}
	if amount == b.Amount {
		m.sameAmount++
	} else {
		m.otherAmount++
	}
}

// doubt says why what a line tells is not to be believed; empty: it is. A few are no ground: a day may have one line.
func (m *matcher) doubt(p *pending) string {
	const few = 3
	switch {
	case m.otherID >= few && m.otherID > m.sameID:
		return "most lines have another charge id than the attempts that they name: is the profile's id the charge's?"
	case m.otherAmount >= few && m.otherAmount > m.sameAmount && p.item.Result == AmountDiffers:
		return "most lines have another amount than the attempts that they name: is the profile's unit right?"
	}
	return ""
}

// wouldBe says what a line would come to, if it could be recorded.
func (p *pending) wouldBe(amount money.Amount) {
	b := &p.item.Attempt
	switch p.compare(amount); {
	case p.item.Result == AmountDiffers:
	case b.Status == attempt.StatusApproved:
		p.item.Result, p.item.Reason = Duplicate, secondCharge(b)
	case b.Status.Final():
		p.item.Result, p.item.Reason = TheirsOnly, stands(b)
	default:
		p.item.Reason = stands(b)
	}
}

func stands(b *attempt.Brief) string { return fmt.Sprintf("attempt %s is %s", b.ID, b.Status) }

func secondCharge(b *attempt.Brief) string {
	return fmt.Sprintf("a second charge of attempt %s, which %s has paid", b.ID, b.ChargeID)
}

// recordBatch stores what the batch's lines tell their attempts.
func (m *matcher) recordBatch() error {
	var steps []*attempt.Step
	for _, p := range m.batch {
		if p.record == nil {
			continue
		}
		if why := m.doubt(p); why != "" {
			p.record = nil
			p.item.Reason = strings.TrimPrefix(p.item.Reason+"; not recorded: "+why, "; ")
			m.report.Doubtful++
			continue
		}
		if p.item.LineID == "" {
			p.item.LineID = lineID(p.line.Digest(), 1)
		}
		data, err := json.Marshal(noteOfLine{
			File: p.line.File, Line: p.line.Number, Kind: p.line.Kind, ID: p.line.ID, Gross: p.line.Gross.String(),
		})
		if err != nil {
			return err
		}
		p.record.Once = &attempt.Once{Scope: scope("lines", m.o.Place), ID: p.item.LineID, Data: data}
		p.step = p.record.Step(nil)
		steps = append(steps, p.step)
	}
	if len(steps) == 0 {
		return nil
	}
	if err := m.store.Apply(m.ctx, steps...); err != nil && attempt.JoinStepErrors(steps) == nil {
		return err // else each step has its own
	}
	for _, p := range m.batch {
		if p.record == nil {
			continue
		}
		if err := m.recorded(p); err != nil {
			return err
		}
	}
	return nil
}

// noteOfLine is kept with the evidence that a line became.
type noteOfLine struct {
	File  string `json:"file"`
	Line  int    `json:"line"`
	Kind  Kind   `json:"kind"`
	ID    string `json:"id"`
	Gross string `json:"gross"`
}

// recorded gives the result of a line that was told to its attempt, now or when the report was matched before.
func (m *matcher) recorded(p *pending) error {
	before := p.item.Attempt
	a := p.record.Attempt
	switch err := p.step.Err; {
	case err == nil:
		m.report.Recorded++
	case errors.Is(err, attempt.ErrSeen):
		if a, err = m.store.Attempt(m.ctx, before.ID); err != nil {
			return err
		}
	default:
		return fmt.Errorf("match: record line %d of %s: %w", p.line.Number, p.line.File, err)
	}
	b := a.Brief()
	p.item.Attempt = b
	if p.step.Err == nil && !before.Status.Final() && b.Status.Final() {
		p.item.Settled = true
		m.report.Settled++
	}
	var duties []string
	for _, d := range p.record.Duties {
		if p.step.Err == nil {
			duties = append(duties, string(d.Kind)+" "+d.Why)
		}
	}
	if p.line.Kind != KindChargeback {
		amount, err := ofAttempt(&p.line)
		if err != nil {
			return err
		}
		p.item.Reason = ""
		switch p.compare(amount); {
		case p.item.Result == AmountDiffers:
		case b.Status == attempt.StatusApproved && b.ChargeID != p.line.ID:
			p.item.Result, p.item.Reason = Duplicate, secondCharge(&b)
		case b.Status != attempt.StatusApproved:
			p.item.Reason = stands(&b)
			if how := doneWith(a, p.line.ID); how != "" {
				p.item.Reason += ", and the money of its charge " + how
			} else {
				p.item.Result = TheirsOnly
			}
		}
	}
	if len(duties) > 0 {
		p.item.Reason = strings.TrimPrefix(p.item.Reason+"; duty opened: "+strings.Join(duties, ", "), "; ")
	}
	return nil
}

// doneWith says what became of money that came after its attempt had ended without it; empty: nothing so far.
func doneWith(a attempt.Attempt, chargeID string) string {
	c, ok := a.Charge(chargeID)
	switch {
	case !ok:
		return ""
	case c.Amount.Valid() && c.Refunded >= c.Amount.Minor():
		return "was given back"
	case a.Tell(a.UpdatedAt).Reason == attempt.ReasonKept:
		return "is kept as the order's payment"
	}
	return ""
}

// finish counts a result and tells it.
func (m *matcher) finish(p *pending) error {
	m.report.Counts[p.item.Result]++
	if p.item.Attempt.ID != "" && p.line.Kind != KindChargeback {
		value := int64(hadOther)
		if p.item.Result == Matched {
			value = hadMatch
		}
		if err := m.had(p.item.Attempt.ID, value); err != nil {
			return err
		}
	}
	if m.o.Tell == nil || p.item.Result == Matched && !m.o.TellAll {
		return nil
	}
	if p.item.LineID == "" && p.refused == nil {
		p.item.LineID = lineID(p.line.Digest(), 1)
	}
	return m.o.Tell(p.item)
}

func lineID(digest string, n int) string { return digest + "." + strconv.Itoa(n) }

// keyOf turns an attempt's id, a UUID, into 16 bytes.
func keyOf(id string) (key [16]byte, err error) {
	bad := len(id) != 36
	n := 0
	for i := 0; i < len(id) && !bad; i++ {
		c := id[i]
		switch dash := i == 8 || i == 13 || i == 18 || i == 23; {
		case dash:
			bad = c != '-'
			continue
		case c >= '0' && c <= '9':
			c -= '0'
		case c >= 'a' && c <= 'f':
			c -= 'a' - 10
		default:
			bad = true
		}
		key[n/2] |= c << (4 - 4*(n%2))
		n++
	}
	if bad {
		return [16]byte{}, fmt.Errorf("match: attempt %s has an id that is no UUID", quote([]byte(id)))
	}
	return key, nil
}

// idOf is the inverse of keyOf.
func idOf(key [16]byte) string {
	h := hex.EncodeToString(key[:])
	return h[:8] + "-" + h[8:12] + "-" + h[12:16] + "-" + h[16:20] + "-" + h[20:]
}
