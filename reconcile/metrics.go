package reconcile

import (
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/chargeonce/chargeonce/attempt"
)

// Names of the metrics, described in docs/metrics.md. They are a contract: the rules in docs/alerts rely on them.
const (
	MetricOpen           = "chargeonce_open_attempts"
	MetricOldestOpen     = "chargeonce_oldest_open_seconds"
	MetricOldestPrepared = "chargeonce_oldest_prepared_seconds"
	MetricPending        = "chargeonce_pending_attempts"
	MetricOldestPending  = "chargeonce_oldest_pending_seconds"
	MetricAskingEnded    = "chargeonce_asking_ended_attempts"
	MetricDuties         = "chargeonce_open_duties"
	MetricOldestDuty     = "chargeonce_oldest_duty_seconds"
	MetricOverdue        = "chargeonce_overdue_attempts"
	MetricOldestOverdue  = "chargeonce_oldest_overdue_seconds"
)

// Sample is one value of a metric.
type Sample struct {
	Name  string
	Label string // "status" or "kind"; empty: none
	Of    string // the label's value
	Value float64
}

// metric is a metric with its help text and its values.
type metric struct {
	name, help string
	samples    []Sample
}

func (h Health) metrics() []metric {
	one := func(name, help string, v float64) metric { return metric{name, help, []Sample{{Name: name, Value: v}}} }
	age := func(o Oldest) float64 { return o.Age.Seconds() }
	open := metric{name: MetricOpen, help: "Attempts that have not ended, refunds among them."}
	for _, s := range attempt.Statuses() {
		if !s.Final() {
			open.samples = append(open.samples, Sample{MetricOpen, "status", s.String(), float64(h.Open[s])})
		}
	}
	duties := metric{name: MetricDuties, help: "Open duties: money that should not be there."}
	oldestDuty := metric{name: MetricOldestDuty, help: "Age of the oldest open duty; 0 where there is none."}
	for _, kind := range []attempt.DutyKind{attempt.DutyRefund, attempt.DutyReview} {
		duties.samples = append(duties.samples, Sample{MetricDuties, "kind", string(kind), float64(h.Duties[kind])})
		oldestDuty.samples = append(oldestDuty.samples, Sample{MetricOldestDuty, "kind", string(kind), age(h.OldestDuty[kind])})
	}
	return []metric{
		open,
		one(MetricOldestOpen, "Time since the last possible send of the oldest attempt whose outcome nobody knows; 0 where there is none.", age(h.OldestOpen)),
		one(MetricOldestPrepared, "Age of the oldest attempt that was stored and not sent; 0 where there is none.", age(h.OldestPrepared)),
		one(MetricPending, "Open attempts of which the provider holds a charge that is not final.", float64(h.Pending)),
		one(MetricOldestPending, "Time since the last possible send of the oldest of these; 0 where there is none.", age(h.OldestPending)),
		one(MetricAskingEnded, "Open attempts that are not asked about any more: a person must decide.", float64(h.AskingEnded)),
		duties,
		oldestDuty,
		one(MetricOverdue, "Attempts that are due and were taken by no reconciler.", float64(h.Overdue)),
		one(MetricOldestOverdue, "Time since the oldest of these was due; 0 where there is none.", age(h.OldestOverdue)),
	}
}

// Samples returns the metrics' values. Every metric has its values, also where nothing is open.
func (h Health) Samples() []Sample {
	var all []Sample
	for _, m := range h.metrics() {
		all = append(all, m.samples...)
	}
	return all
}

// WritePrometheus writes the metrics in the Prometheus text exposition format, version 0.0.4
// (https://prometheus.io/docs/instrumenting/exposition_formats/).
func (h Health) WritePrometheus(w io.Writer) error {
	var b strings.Builder
	for _, m := range h.metrics() {
		fmt.Fprintf(&b, "# HELP %s %s\n# TYPE %s gauge\n", m.name, m.help, m.name)
		for _, s := range m.samples {
			b.WriteString(s.String())
			b.WriteByte('\n')
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// String writes the sample as a line of the exposition format.
func (s Sample) String() string {
	name := s.Name
	if s.Label != "" {
		name += fmt.Sprintf("{%s=%q}", s.Label, s.Of)
	}
	return name + " " + strconv.FormatFloat(s.Value, 'f', -1, 64)
}
