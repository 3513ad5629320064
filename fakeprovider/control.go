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
	Steps []Fault `json:"steps,omitempty"`
	Rules []Rule  `json:"rules,omitempty"`
	Draw  *Draw   `json:"draw,omitempty"`
	Clear bool    `json:"clear,omitempty"` // take every earlier fault away first
}

// Rule is one rule of a Script: steps in order, or one fault for good.
type Rule struct {
	Match  Match   `json:"match"`
	Steps  []Fault `json:"steps,omitempty"`
	Always Fault   `json:"always,omitempty"`
}

// parsed is a Script that has been checked.
type parsed struct {
	clear bool
	rules []parsedRule
	draw  *Draw
	drawn []*plan
}

type parsedRule struct {
	match         Match
	steps, always []*plan
}

// parse checks every fault of a script.
func (s Script) parse() (parsed, error) {
	var errs []error
	plans := func(steps []Fault) []*plan {
		var list []*plan
		for _, f := range steps {
			plan, err := parsePlan(f)
			errs = append(errs, err)
			list = append(list, plan)
		}
		return list
	}
	out := parsed{clear: s.Clear, rules: []parsedRule{{steps: plans(s.Steps)}}}
	for _, r := range s.Rules {
		rule := parsedRule{match: r.Match, steps: plans(r.Steps)}
		if r.Always != "" {
			rule.always = plans([]Fault{r.Always})
		}
		out.rules = append(out.rules, rule)
	}
	if s.Draw != nil {
		d := *s.Draw
		if d.Faults == nil {
			d.Faults = DrawnFaults()
		}
		if !(d.Rate >= 0 && d.Rate <= 1) {
			errs = append(errs, fmt.Errorf("draw: the rate %v is not between 0 and 1", d.Rate))
		}
		out.draw, out.drawn = &d, plans(d.Faults)
	}
	return out, errors.Join(errs...)
}

// Apply adds a script's faults. It reports every fault that ParseFault
// refuses, and then changes nothing.
func (p *Provider) Apply(s Script) error {
	checked, err := s.parse()
	if err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.apply(checked)
	return nil
}

// apply adds a checked script. The caller holds the lock.
func (p *Provider) apply(s parsed) {
	if s.clear {
		p.script.clear()
	}
	for _, r := range s.rules {
		if len(r.steps) > 0 {
			p.addRule(r.match, r.steps)
		}
		if r.always != nil {
			p.setAlways(r.match, r.always)
		}
	}
	if s.draw != nil {
		p.setDraw(*s.draw, s.drawn)
	}
	p.rescript()
}

// control serves the control endpoints, which are for tests and no part of
// the API:
//
//	GET  /_fake/id       {"id":"0123456789abcdef"}, see ID
//	GET  /_fake/ledger   the Ledger as JSON
//	GET  /_fake/faults   the Catalogue, the sources and the steps not used yet
//	GET  /_fake/report   a settlement report, see WriteReport; from and to are times
//	                     as in a listing; client, leave_out, double, amount=ID:MINOR,
//	                     foreign, no_trailer are the fields of ReportOptions
//	POST /_fake/faults   a Script
//	GET  /_fake/webhooks what was delivered, and how many events wait
//	POST /_fake/settle   {"id":"ch_000001","status":"succeeded"}
//	POST /_fake/reset    empties everything: other books, with another id
func (p *Provider) control(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(io.LimitReader(r.Body, 1<<20+1))
	if isReport(r) {
		p.sendReport(w, r)
		return
	}
	a := problem(probTooLarge)
	if err == nil && len(body) <= 1<<20 {
		a = p.controlAnswer(r.Method, r.URL.Path, body)
	}
	writePlain(w, a, nil)
}

func (p *Provider) controlAnswer(method, path string, body []byte) answer {
	bad := func(err error) answer { return problem(probMalformed, detail(err.Error())) }
	switch method + " " + path {
	case "GET /_fake/id":
		return jsonAnswer(map[string]string{"id": p.ID()})
	case "GET /_fake/ledger":
		return jsonAnswer(p.Ledger())
	case "GET /_fake/faults":
		return jsonAnswer(map[string]any{"catalogue": Catalogue(), "sources": Sources(), "unused": p.Unused()})
	case "GET /_fake/webhooks":
		return jsonAnswer(map[string]any{"deliveries": p.Webhooks(), "waiting": p.WaitingWebhooks()})
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
	if isReport(req) {
		o, err := reportQuery(req.URL.RawQuery)
		if err == nil {
			return controlResponse(req, 200, typeCSV, p.newReport(o), -1), nil
		}
		a := problem(probQuery, detail(err.Error()))
		return controlResponse(req, a.status, a.ctype, bytes.NewReader(a.body), len(a.body)), nil
	}
	a := p.controlAnswer(req.Method, req.URL.Path, body)
	return controlResponse(req, a.status, a.ctype, bytes.NewReader(a.body), len(a.body)), nil
}

func controlResponse(req *http.Request, status int, ctype string, body io.Reader, length int) *http.Response {
	return &http.Response{
		Status: fmt.Sprintf("%d %s", status, http.StatusText(status)), StatusCode: status,
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: http.Header{"Content-Type": {ctype}}, Request: req,
		Body: io.NopCloser(body), ContentLength: int64(length),
	}
}

// isReport finds the one control request whose answer has no bound.
func isReport(r *http.Request) bool {
	return (r.Method == http.MethodGet || r.Method == "") && r.URL.Path == "/_fake/report"
}

func (p *Provider) sendReport(w http.ResponseWriter, r *http.Request) {
	o, err := reportQuery(r.URL.RawQuery)
	if err != nil {
		writePlain(w, problem(probQuery, detail(err.Error())), nil)
		return
	}
	w.Header().Set("Content-Type", typeCSV)
	if err := p.WriteReport(w, o); err != nil {
		panic(http.ErrAbortHandler) // so that nobody takes it for the whole
	}
}
