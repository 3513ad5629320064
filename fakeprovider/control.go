package fakeprovider

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
)

// Script is what POST /_fake/faults takes. The short form {"steps":[...]}
// scripts the next POSTs.
//
//	{"rules":[
//	  {"match":{"merchant_reference":"ord-1"},"steps":["lose-answer","answer"]},
//	  {"match":{"method":"GET"},"always":"status:503"}],
//	 "draw":{"seed":7,"rate":0.2,"faults":["close","status:500"]}}
type Script struct {
	Steps []Fault   `json:"steps,omitempty"`
	Rules []Rule    `json:"rules,omitempty"`
	Draw  *DrawRule `json:"draw,omitempty"`
	Clear bool      `json:"clear,omitempty"` // take every earlier fault away first
}

// Rule is one rule of a Script: steps in order, or one fault for good.
type Rule struct {
	Match  Match   `json:"match"`
	Steps  []Fault `json:"steps,omitempty"`
	Always Fault   `json:"always,omitempty"`
}

// DrawRule is Draw in a Script.
type DrawRule struct {
	Seed   uint64  `json:"seed"`
	Rate   float64 `json:"rate"`
	Faults []Fault `json:"faults,omitempty"`
	Match  Match   `json:"match"`
}

// Apply adds a script's faults. It reports every fault that ParseFault
// refuses, and then changes nothing.
func (p *Provider) Apply(s Script) error {
	var errs []error
	parse := func(steps []Fault) []*plan {
		var plans []*plan
		for _, f := range steps {
			plan, err := parsePlan(f)
			errs = append(errs, err)
			plans = append(plans, plan)
		}
		return plans
	}
	type parsed struct {
		match         Match
		steps, always []*plan
	}
	rules := []parsed{{steps: parse(s.Steps)}}
	for _, r := range s.Rules {
		rule := parsed{match: r.Match, steps: parse(r.Steps)}
		if r.Always != "" {
			rule.always = parse([]Fault{r.Always})
		}
		rules = append(rules, rule)
	}
	var draw Draw
	var drawn []*plan
	if s.Draw != nil {
		draw = Draw(*s.Draw)
		if draw.Faults == nil {
			draw.Faults = DrawnFaults()
		}
		if draw.Rate < 0 || draw.Rate > 1 {
			errs = append(errs, fmt.Errorf("draw: the rate %v is not between 0 and 1", draw.Rate))
		}
		drawn = parse(draw.Faults)
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if s.Clear {
		p.script.clear()
		p.rescript()
	}
	for _, r := range rules {
		if len(r.steps) > 0 {
			p.addRule(r.match, r.steps)
		}
		if r.always != nil {
			p.setAlways(r.match, r.always)
		}
	}
	if s.Draw != nil {
		p.setDraw(draw, drawn)
	}
	return nil
}

// control serves the control endpoints, which are for tests and no part of
// the API:
//
//	GET  /_fake/ledger   the Ledger as JSON
//	GET  /_fake/faults   the Catalogue, the sources and the steps not used yet
//	POST /_fake/faults   a Script
//	POST /_fake/settle   {"id":"ch_000001","status":"succeeded"}
//	POST /_fake/reset    empties everything
func (p *Provider) control(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(io.LimitReader(r.Body, 1<<20+1))
	a := problem(probTooLarge)
	if err == nil && len(body) <= 1<<20 {
		a = p.controlAnswer(r.Method, r.URL.Path, body)
	}
	writePlain(w, a, nil)
}

func (p *Provider) controlAnswer(method, path string, body []byte) answer {
	bad := func(err error) answer { return problem(probMalformed, detail(err.Error())) }
	switch method + " " + path {
	case "GET /_fake/ledger":
		return jsonAnswer(p.Ledger())
	case "GET /_fake/faults":
		return jsonAnswer(map[string]any{"catalogue": Catalogue(), "sources": Sources(), "unused": p.Unused()})
	case "POST /_fake/faults":
		var s Script
		if err := strictDecode(body, &s); err != nil {
			return bad(err)
		}
		if err := p.Apply(s); err != nil {
			return bad(err)
		}
		return jsonAnswer(map[string]any{"unused": p.Unused()})
	case "POST /_fake/settle":
		var s struct {
			ID     string `json:"id"`
			Status State  `json:"status"`
		}
		if err := strictDecode(body, &s); err != nil {
			return bad(err)
		}
		if err := p.Settle(s.ID, s.Status); err != nil {
			return bad(err)
		}
		return jsonAnswer(s)
	case "POST /_fake/reset":
		if err := p.Reset(); err != nil {
			return problem(prob{500, "internal_error", "The ledger could not be emptied"}, detail(err.Error()))
		}
		return jsonAnswer(struct{}{})
	}
	return problem(probNotFound, detail(method+" "+path))
}

func strictDecode(body []byte, v any) error {
	if _, err := scanObject(body); err != nil {
		return err
	}
	d := json.NewDecoder(bytes.NewReader(body))
	d.DisallowUnknownFields()
	return d.Decode(v)
}

func jsonAnswer(v any) answer {
	b, err := json.Marshal(v)
	if err != nil { // cannot happen: these types always marshal
		return problem(prob{500, "internal_error", "JSON"}, detail(err.Error()))
	}
	return answer{status: 200, ctype: typeJSON, body: b}
}

func (p *Provider) controlRoundTrip(req *http.Request) (*http.Response, error) {
	body, err := readRequestBody(req)
	if err != nil {
		return nil, err
	}
	a := p.controlAnswer(req.Method, req.URL.Path, body)
	return &http.Response{
		Status: fmt.Sprintf("%d %s", a.status, http.StatusText(a.status)), StatusCode: a.status,
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: http.Header{"Content-Type": {a.ctype}}, Request: req,
		Body: io.NopCloser(bytes.NewReader(a.body)), ContentLength: int64(len(a.body)),
	}, nil
}
