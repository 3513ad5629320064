package fakeprovider

import (
	"fmt"
	"slices"
	"strings"
)

// Match says which requests a script is for. Every field that is set has to
// agree; the zero Match is any POST.
type Match struct {
	// Method is an HTTP method, "" for POST, "*" for any.
	Method string `json:"method,omitempty"`
	// Path is a request path such as /v1/refunds; one that ends in "*"
	// stands for everything that begins so.
	Path      string `json:"path,omitempty"`
	Client    string `json:"client,omitempty"`
	Key       string `json:"key,omitempty"` // without quotes
	Reference string `json:"merchant_reference,omitempty"`
	Source    string `json:"source,omitempty"`
	// Reused asks for a connection that has carried a request before.
	Reused bool `json:"reused,omitempty"`
}

// Lookups matches every GET.
var Lookups = Match{Method: "GET"}

// Any matches every request.
var Any = Match{Method: "*"}

// String writes the fields that are set.
func (m Match) String() string {
	method := m.Method
	if method == "" {
		method = "POST"
	}
	parts := []string{method}
	for _, f := range []struct{ name, value string }{
		{"", m.Path}, {"client ", m.Client}, {"key ", m.Key}, {"reference ", m.Reference}, {"source ", m.Source},
	} {
		if f.value != "" {
			parts = append(parts, f.name+f.value)
		}
	}
	if m.Reused {
		parts = append(parts, "on a reused connection")
	}
	return strings.Join(parts, " ")
}

// misses lists what in m disagrees with the request.
func (m Match) misses(in *inbound) []string {
	var list []string
	miss := func(wrong bool, what string) {
		if wrong {
			list = append(list, what)
		}
	}
	method := m.Method
	if method == "" {
		method = "POST"
	}
	miss(method != "*" && method != in.method, "method")
	if prefix, ok := strings.CutSuffix(m.Path, "*"); ok {
		miss(!strings.HasPrefix(in.path, prefix), "path")
	} else {
		miss(m.Path != "" && m.Path != in.path, "path")
	}
	miss(m.Client != "" && m.Client != in.client, "client")
	miss(m.Key != "" && m.Key != in.key, "key")
	miss(m.Reference != "" && m.Reference != in.reference, "reference")
	miss(m.Source != "" && m.Source != in.source, "source")
	miss(m.Reused && !in.reused, "reused")
	return list
}

// weight is how particular a match is: the most particular one wins.
func (m Match) weight() int {
	n := 0
	for _, set := range []bool{m.Method != "", m.Path != "", m.Client != "", m.Source != "", m.Reused} {
		if set {
			n++
		}
	}
	if m.Reference != "" {
		n += 10
	}
	if m.Key != "" {
		n += 20
	}
	return n
}

// needsBody reports whether the match cannot be decided on headers alone.
func (m Match) needsBody() bool { return m.Reference != "" || m.Source != "" }

type rule struct {
	match Match
	steps []*plan // an always rule has one
	given int     // steps in all
}

type script struct {
	rules  []*rule // with steps
	always []*rule
	draw   *drawing
	strict bool
}

func (s *script) clear() {
	s.rules, s.always, s.draw = nil, nil, nil
}

func (s *script) active() bool {
	return s.strict || len(s.rules) > 0 || len(s.always) > 0 || s.draw != nil
}

// Script queues one fault for each of the next POSTs, in order; Answer is a
// POST without a fault. It panics on a Fault that ParseFault refuses.
func (p *Provider) Script(steps ...Fault) { p.ScriptFor(Match{}, steps...) }

// ScriptFor queues one fault for each of the next requests that match. Where
// several scripts match, the most particular one gives the step: key before
// reference before the rest, then the older. A second call with an equal
// Match appends. It panics on a Fault that ParseFault refuses.
func (p *Provider) ScriptFor(m Match, steps ...Fault) {
	plans := mustPlans(steps)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.addRule(m, plans)
}

func (p *Provider) addRule(m Match, plans []*plan) {
	defer p.rescript()
	for _, r := range p.script.rules {
		if r.match == m {
			r.steps = append(r.steps, plans...)
			r.given += len(plans)
			return
		}
	}
	p.script.rules = append(p.script.rules, &rule{m, plans, len(plans)})
}

// Always gives every request that matches this fault, unless a script or a
// draw has one for it. A second call with an equal Match replaces the first;
// Answer takes it away. It panics on a Fault that ParseFault refuses.
func (p *Provider) Always(m Match, f Fault) {
	plans := mustPlans([]Fault{f})
	p.mu.Lock()
	defer p.mu.Unlock()
	p.setAlways(m, plans)
}

func (p *Provider) setAlways(m Match, plans []*plan) {
	defer p.rescript()
	s := &p.script
	s.always = slices.DeleteFunc(s.always, func(r *rule) bool { return r.match == m })
	if plans[0].fault != Answer && plans[0].fault != "" {
		s.always = append(s.always, &rule{m, plans, 1})
	}
}

// ClearFaults takes away every script, draw and standing fault. The books
// stay.
func (p *Provider) ClearFaults() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.script.clear()
	p.rescript()
}

// Unused lists the scripted steps that no request has used, each with what
// it waits for.
func (p *Provider) Unused() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.script.unused()
}

func (s *script) unused() []string {
	var list []string
	for _, r := range s.rules {
		for _, step := range r.steps {
			list = append(list, fmt.Sprintf("%s for %s", step.fault, r.match))
		}
	}
	return list
}

func (p *Provider) rescript() { p.busy.Store(p.script.active()) }

func mustPlans(steps []Fault) []*plan {
	plans := make([]*plan, len(steps))
	for i, f := range steps {
		var err error
		if plans[i], err = parsePlan(f); err != nil {
			panic("fakeprovider: " + err.Error())
		}
	}
	return plans
}

// best is the most particular of the rules that match and that pass.
func best(rules []*rule, in *inbound, pass func(*rule) bool) *rule {
	var won *rule
	for _, r := range rules {
		if len(r.steps) > 0 && (won == nil || r.match.weight() > won.match.weight()) &&
			pass(r) && len(r.match.misses(in)) == 0 {
			won = r
		}
	}
	return won
}

func anyRule(*rule) bool { return true }

// choose picks a request's fault: its script's next step, else a drawn one,
// else the standing one. In strict mode a POST without a step gets an answer
// of its own. The caller holds the lock.
func (p *Provider) choose(in *inbound) choice {
	s := &p.script
	if !s.active() {
		return choice{plan: honest}
	}
	if r := best(s.rules, in, anyRule); r != nil {
		return choice{plan: r.next()}
	}
	if plan := s.draw.pick(in); plan != nil {
		return choice{plan: plan}
	}
	if r := best(s.always, in, anyRule); r != nil {
		return choice{plan: r.steps[0]}
	}
	if s.strict && in.method == "POST" && (s.draw == nil || len(s.draw.match.misses(in)) > 0) {
		text := p.explain(in)
		p.config.Strict.Helper()
		p.config.Strict.Errorf("fakeprovider: %s", text)
		a := problem(probUnscripted, detail(text))
		return choice{honest, &a}
	}
	return choice{plan: honest}
}

// choice is what a script decides about a request. The zero choice is still
// to be made.
type choice struct {
	plan   *plan
	refuse *answer // strict mode's answer to what no script covers
}

// pick is choose for a transport that has to know before the request is sent.
func (p *Provider) pick(in *inbound) choice {
	if !p.busy.Load() {
		return choice{plan: honest}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.choose(in)
}

func (r *rule) next() *plan {
	plan := r.steps[0]
	r.steps = r.steps[1:]
	return plan
}

// chooseEarly picks a step that acts before the body is read, if the next
// step of the scripts that headers alone decide is one.
func (p *Provider) chooseEarly(in *inbound) *plan {
	if !p.busy.Load() {
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	early := func(r *rule) bool { return !r.match.needsBody() }
	if r := best(p.script.rules, in, early); r != nil {
		if r.steps[0].early {
			return r.next()
		}
		return nil
	}
	if r := best(p.script.always, in, early); r != nil && r.steps[0].early {
		return r.steps[0]
	}
	return nil
}

// chooseDial picks a step for a dial, of which nothing is known but that it
// happens: the next step of the script for any POST or for any request.
func (p *Provider) chooseDial() *plan {
	if !p.busy.Load() {
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, r := range p.script.rules {
		if (r.match == Match{} || r.match == Any) && len(r.steps) > 0 && r.steps[0].dial != dialOK {
			return r.next()
		}
	}
	for _, r := range p.script.always {
		if (r.match == Match{} || r.match == Any) && r.steps[0].dial != dialOK {
			return r.steps[0]
		}
	}
	return nil
}

// explain says why a request has no step and which came closest.
func (p *Provider) explain(in *inbound) string {
	asked := Match{Method: in.method, Path: in.path, Client: in.client, Key: in.key, Reference: in.reference, Source: in.source}
	var closest *rule
	var misses []string
	used := 0
	for _, r := range p.script.rules {
		used += r.given - len(r.steps)
		if len(r.steps) == 0 {
			continue
		}
		if m := r.match.misses(in); closest == nil || len(m) < len(misses) {
			closest, misses = r, m
		}
	}
	switch {
	case closest != nil:
		return fmt.Sprintf("no step for %s; the closest is %q for %s, which differs in %s",
			asked, closest.steps[0].fault, closest.match, strings.Join(misses, ", "))
	case used > 0:
		return fmt.Sprintf("no step for %s; all %d scripted steps are used up", asked, used)
	}
	return fmt.Sprintf("no step for %s; nothing is scripted", asked)
}
