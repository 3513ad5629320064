package fakeprovider

import (
	"crypto/sha256"
	"encoding/binary"
)

// Draw has faults drawn at random, yet the same on every run: what the n-th
// request of a key gets depends on Seed, the key and n alone, never on the
// order in which requests of different keys arrive. A request without a key
// is known by its reference, else by its body, else by its path.
type Draw struct {
	Seed uint64 `json:"seed"`
	// Rate is the share of requests that get a fault, 0 to 1.
	Rate float64 `json:"rate"`
	// Faults to draw from, each as likely as the others. Nil: DrawnFaults.
	Faults []Fault `json:"faults,omitempty"`
	// Match says which requests take part. Zero: any POST.
	Match Match `json:"match"`
}

// DrawnFaults are what Draw uses unless told otherwise: requests lost before
// and after the charge, server errors before and after it, a cut answer. None
// waits.
func DrawnFaults() []Fault {
	return []Fault{
		LoseRequest, LoseAnswer, Reset, Book.And(Reset),
		Status(500), Book.And(Status(500)), Status(503), CutBody(30),
	}
}

// Draw switches drawing on, or off with a zero Rate. It panics on a Fault that
// ParseFault refuses.
func (p *Provider) Draw(d Draw) {
	if d.Faults == nil {
		d.Faults = DrawnFaults()
	}
	plans := mustPlans(d.Faults)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.setDraw(d, plans)
}

func (p *Provider) setDraw(d Draw, plans []*plan) {
	p.script.draw = nil
	if d.Rate > 0 && len(plans) > 0 {
		p.script.draw = &drawing{d.Seed, d.Rate, d.Match, plans, map[string]uint64{}}
	}
	p.rescript()
}

type drawing struct {
	seed  uint64
	rate  float64
	match Match
	plans []*plan
	nth   map[string]uint64 // requests per key so far
}

// pick draws for a request; nil means no fault.
func (d *drawing) pick(in *inbound) *plan {
	if d == nil || len(d.match.misses(in)) > 0 {
		return nil
	}
	identity := "key " + in.key
	if in.key == "" {
		identity = "reference " + in.reference
		if in.reference == "" {
			identity = "body " + string(in.body)
			if len(in.body) == 0 { // a void
				identity = "path " + in.path
			}
		}
	}
	d.nth[identity]++
	var numbers [16]byte
	binary.BigEndian.PutUint64(numbers[:8], d.seed)
	binary.BigEndian.PutUint64(numbers[8:], d.nth[identity])
	sum := sha256.Sum256(append(numbers[:], identity...))
	if chance := float64(binary.BigEndian.Uint64(sum[:8])>>11) / (1 << 53); chance >= d.rate {
		return nil
	}
	return d.plans[binary.BigEndian.Uint64(sum[8:16])%uint64(len(d.plans))]
}
