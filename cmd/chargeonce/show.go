package main

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/chargeonce/chargeonce/attempt"
)

// show writes an attempt and its history for a person.
func (a *app) show(ctx context.Context, store attempt.Store, one attempt.Attempt) error {
	events, err := store.Events(ctx, one.ID)
	if err != nil {
		return err
	}
	r := attemptRecordOf(one, time.Now())
	var b strings.Builder
	field := func(name, value string) {
		if value != "" {
			fmt.Fprintf(&b, "%-14s%s\n", name, cleanField(value))
		}
	}
	field("attempt", one.ID)
	field("version", fmt.Sprint(one.Version))
	field("order", one.Slot.String())
	if one.IsRefund() {
		field("refund", fmt.Sprintf("%s of charge %s, attempt %s", one.Refund.ID, one.Refund.ChargeID, one.Refund.AttemptID))
	}
	field("amount", one.Amount.String())
	field("status", one.Status.String())
	field("outcome", fmt.Sprintf("%s, money moved: %s", r.Outcome, r.Moved))
	field("reason", string(r.Reason))
	if r.StatusCode != 0 {
		field("last answer", strings.Join(nonEmpty([]string{fmt.Sprint(r.StatusCode), r.Code, r.Detail}), ", "))
	}
	field("decline code", r.DeclineCode)
	field("provider", placeText(one.Place()))
	if one.IsRefund() {
		field("refund at it", r.ProviderID)
	} else {
		field("charge", r.ProviderID)
	}
	for _, c := range one.Charges {
		if c.Refunded != 0 {
			field("given back", fmt.Sprintf("%s of the %s of charge %s", refundedOf(c), c.Amount, c.ID))
		}
	}
	field("reference", one.Reference)
	field("key", one.Key)
	field("request id", r.RequestID)
	field("next action", r.NextAction)
	field("description", one.Description)
	field("sends", fmt.Sprint(one.Sends))
	field("created", stamp(one.CreatedAt))
	field("last sent", stamp(one.LastSentAt))
	field("next check", stamp(one.NextCheckAt))
	if !one.AskingEndedAt.IsZero() {
		field("asking ended", stamp(one.AskingEndedAt)+": a person has to decide, see attempts resolve")
	}
	if !one.UnwantedAt.IsZero() {
		field("cancelled", stamp(one.UnwantedAt)+": the order takes no payment any more")
	}
	for _, d := range one.Duties {
		field("duty", dutyText(d))
	}
	b.WriteString("\nhistory\n")
	for _, e := range events {
		writeEvent(&b, e)
	}
	_, err = io.WriteString(a.out, b.String())
	return err
}

func stamp(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format("2006-01-02T15:04:05.000Z")
}

func dutyText(d attempt.Duty) string {
	text := fmt.Sprintf("%s of charge %s, %s (%s), since %s", d.Kind, d.ChargeID, d.Amount, d.Why, stamp(d.OpenedAt))
	if !d.MetAt.IsZero() {
		text += ", " + orElse(d.How, "met") + " " + stamp(d.MetAt)
	}
	return text
}

// writeEvent writes one change and what was learnt by it.
func writeEvent(b *strings.Builder, e attempt.Event) {
	move := e.To.String()
	if e.From != e.To && e.Version > 1 {
		move = e.From.String() + " -> " + move
	}
	fmt.Fprintf(b, "%3d  %s  %-16s %s  by %s\n", e.Version, stamp(e.At), cleanField(string(e.What)), move, cleanField(e.Who))
	line := func(parts ...string) {
		fmt.Fprintf(b, "     %s\n", cleanField(strings.Join(nonEmpty(parts), ", ")))
	}
	if e.Evidence != nil {
		for _, s := range e.Evidence.Sends {
			line(append([]string{"send: " + s.Verdict.String(), "took " + s.Took.Round(100*time.Microsecond).String()}, answerParts(s.Answer)...)...)
		}
		if e.Evidence.Kind == attempt.EvidenceLookup {
			line("lookup: " + e.Evidence.Lookup.String())
		} else if d := e.Evidence.Resolution; d != nil {
			about, proof := "", ""
			if d.ChargeID != "" {
				about = "charge " + d.ChargeID
			}
			if d.Proof != "" {
				proof = "evidence: " + d.Proof
			}
			line("decision: "+string(d.Kind), about, d.Why, proof)
		} else if e.Evidence.Kind != attempt.EvidenceSends {
			line(string(e.Evidence.Kind))
		}
		if e.Evidence.Answer != nil {
			line(append([]string{"answer: " + e.Evidence.Answer.Verdict.String()}, answerParts(*e.Evidence.Answer)...)...)
		}
		for _, c := range e.Evidence.Charges {
			line("charge "+c.ID+": "+c.Status.String(), amountText(c), c.DeclineCode)
		}
	}
	for _, d := range e.Duties {
		line("duty: " + dutyText(d))
	}
}

func amountText(c attempt.Charge) string {
	if !c.Amount.Valid() {
		return ""
	}
	return c.Amount.String()
}

func answerParts(a attempt.Answer) []string {
	parts := []string{string(a.Reason)}
	if a.StatusCode != 0 {
		parts = append(parts, fmt.Sprint(a.StatusCode))
	}
	replayed := ""
	if a.Replayed {
		replayed = "replayed"
	}
	return append(parts, a.Code, a.DeclineCode, a.ChargeID, replayed, a.RequestID, a.Detail)
}

func nonEmpty(parts []string) []string {
	var kept []string
	for _, p := range parts {
		if p != "" {
			kept = append(kept, p)
		}
	}
	return kept
}
