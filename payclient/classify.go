package payclient

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"reflect"
	"strings"

	"github.com/chargeonce/chargeonce/attempt"
	"github.com/chargeonce/chargeonce/money"
)

// judge turns a complete answer into the verdict of one send. What the adapter read is believed only as far as it names
// this attempt: an approval must echo reference, amount and currency; a refusal the reference, or be the first answer on
// its connection, where no answer to somebody else's request can arrive.
func judge(a *attempt.Attempt, key KeyCapability, resp Response, reply Reply, reused bool, clean cleaner) attempt.Send {
	s := attempt.Send{Answer: attempt.Answer{
		Verdict: reply.Verdict, Reason: reply.Reason, StatusCode: resp.StatusCode, RequestID: clean.requestID(reply.RequestID),
		Code: clean.text(reply.Code), DeclineCode: clean.text(reply.DeclineCode), Detail: clean.text(reply.Detail), Replayed: reply.Replayed,
	}}
	if reply.Verdict != attempt.Charged && clean.id(reply.Charge.ID) {
		s.ChargeID = reply.Charge.ID // support needs it most where the answer decides nothing
	}
	// A used connection may bring the answer to the request before ours (response desynchronisation): one that does not name
	// us proves nothing there.
	unproven := reused && reply.Reference != a.Reference
	switch reply.Verdict {
	case attempt.Charged:
		judgeCharge(&s, a, key, reply, clean)
	case attempt.Refused, attempt.Rejected:
		judgeRefusal(&s, a, key, reply, unproven)
	case attempt.Running:
		s.Reason = orDefault(s.Reason, attempt.ReasonStillRunning)
		if unproven {
			s.Verdict = attempt.Unavailable
		}
	case attempt.KeyReused:
		s.Reason = orDefault(s.Reason, attempt.ReasonKeyReused)
		if unproven {
			s.Verdict, s.Reason = attempt.Unavailable, attempt.ReasonUnproven
		}
	case attempt.Unavailable:
		s.Reason = orDefault(s.Reason, attempt.ReasonUnavailable)
	case attempt.Violated:
		s.Reason = orDefault(s.Reason, attempt.ReasonUnreadable)
	default: // an adapter that decides nothing
		s.Verdict, s.Reason = attempt.Violated, orDefault(s.Reason, attempt.ReasonUnreadable)
	}
	return s
}

func judgeCharge(s *attempt.Send, a *attempt.Attempt, key KeyCapability, reply Reply, clean cleaner) {
	c, differs, ok := chargeOf(reply.Charge, questionAbout(a), clean)
	s.ChargeID = c.ID
	if !ok {
		s.Verdict, s.Reason, s.Detail = attempt.Violated, orDefault(s.Reason, attempt.ReasonMismatch), differs
		other := reply.Charge.ChargeID
		if a.IsRefund() && other != "" && other != a.Refund.ChargeID && reply.Charge.Reference == a.Reference {
			s.MoneyMoved = c.Status == attempt.ChargeSucceeded // another charge's money went back
		}
		return
	}
	if c.Amount != a.Amount {
		s.Verdict, s.Reason = attempt.Violated, attempt.ReasonMismatch
		s.Detail = fmt.Sprintf("amount: %s, want %s", c.Amount, a.Amount)
		// A charge of ours over nothing or less than nothing contradicts itself: it says nothing about money.
		if c.Amount.Minor() > 0 && c.Status != attempt.ChargeFailed {
			s.MoneyMoved = c.Status == attempt.ChargeSucceeded
			s.Charge = &c
		}
		return
	}
	s.Charge = &c
	s.Kept = key.KeepsEveryAnswer
	switch {
	case c.Status == attempt.ChargeFailed:
		s.Verdict, s.Reason, s.DeclineCode = attempt.Refused, attempt.ReasonDeclined, c.DeclineCode
	case c.Status == attempt.ChargePending && c.NextAction != "":
		s.Reason = attempt.ReasonPayerAction
	case c.Status == attempt.ChargePending:
		s.Reason = orDefault(s.Reason, attempt.ReasonPending)
	default:
		s.Reason = ""
	}
}

func judgeRefusal(s *attempt.Send, a *attempt.Attempt, key KeyCapability, reply Reply, unproven bool) {
	switch {
	case reply.Reference != "" && reply.Reference != a.Reference:
		s.Verdict, s.Reason = attempt.Violated, attempt.ReasonMismatch
		s.Detail = "the refusal names another reference"
	case unproven:
		s.Verdict, s.Reason = attempt.Unavailable, attempt.ReasonUnproven
	case reply.Verdict == attempt.Refused:
		s.Reason = orDefault(s.Reason, attempt.ReasonDeclined)
		// It speaks for other sends under the key only if it is surely the provider's own: a gateway may refuse the repetition of
		// what the provider has booked.
		s.Kept = key.KeepsEveryAnswer && (reply.Reference == a.Reference || reply.Replayed)
	default:
		s.Reason = orDefault(s.Reason, attempt.ReasonRefused)
	}
}

// chargeOf reads a charge or a refund that the provider names. It is ours by its reference, a refund by the charge whose money
// it gives back too; ok is false, and differs says why, for
// one that is not, or that lacks what a charge must have.
func chargeOf(d ChargeData, q question, clean cleaner) (c attempt.Charge, differs string, ok bool) {
	c = attempt.Charge{ID: d.ID, Status: d.Status, DeclineCode: clean.text(d.DeclineCode), NextAction: clean.link(d.NextAction)}
	if !clean.id(d.ID) {
		c.ID = clean.text(d.ID)
		return c, "charge id: not fit to be stored", false
	}
	var wrong []string
	if d.ID == "" {
		wrong = append(wrong, "id: missing")
	}
	if d.Reference != q.reference {
		wrong = append(wrong, "reference: missing or another one")
	}
	if q.refund && (d.ChargeID == "" || q.chargeID != "" && d.ChargeID != q.chargeID) {
		wrong = append(wrong, "charge: missing or another one")
	}
	switch {
	case d.Minor == nil:
		wrong = append(wrong, "amount: missing")
	default:
		amount, err := money.Restore(*d.Minor, d.Currency)
		if err != nil {
			wrong = append(wrong, "currency: missing or unknown")
		}
		c.Amount = amount
	}
	return c, strings.Join(wrong, "; "), len(wrong) == 0
}

// failure says what became of a request that ended without a complete answer. The error is never the evidence: the
// recorder is. It only says why.
func failure(ctx context.Context, cause, err error, rec *recorder, clean cleaner) (s attempt.Send, permanent bool) {
	s.Detail = clean.text(err.Error())
	if rec.provesNotSent() {
		s.Verdict = attempt.NotSent
		s.Reason = attempt.ReasonUnreachable
		var untrusted *tls.CertificateVerificationError
		var refused *proxyError
		switch {
		case errors.As(err, &untrusted):
			s.Reason, permanent = attempt.ReasonCertificate, true
		case isPlainHTTP(err), isCertificateAlert(err):
			permanent = true
		case errors.As(err, &refused):
			permanent = refused.status >= 400 && refused.status <= 499
		case ctx.Err() != nil:
			s.Reason = attempt.ReasonCancelled
		}
		return s, permanent
	}
	s.Verdict = attempt.Lost
	switch {
	case ctx.Err() != nil:
		s.Reason = attempt.ReasonCancelled
	case rec.claimOver.Load():
		s.Reason = attempt.ReasonClaimExpired
	case errors.Is(cause, errSendTimeout):
		s.Reason = attempt.ReasonTimeout
	default:
		s.Reason = attempt.ReasonConnectionLost
	}
	// With TLS 1.3 a client certificate that is refused shows only after the request: nothing was handled, and nothing proves
	// it. Sending again helps as little as before the request.
	return s, isCertificateAlert(err)
}

// isPlainHTTP tells whether the peer answered the TLS handshake with HTTP. Only http.Client makes http.ErrSchemeMismatch of it.
func isPlainHTTP(err error) bool {
	var record tls.RecordHeaderError
	return errors.As(err, &record) && string(record.RecordHeader[:]) == "HTTP/"
}

// isCertificateAlert tells whether the peer ended TLS because of our certificate: alerts 42 to 46, 48, 49 and 116 (RFC 8446
// section 6.2). crypto/tls exports neither the type of the alert nor its numbers.
func isCertificateAlert(err error) bool {
	var op *net.OpError
	if !errors.As(err, &op) || op.Op != "remote error" {
		return false
	}
	alert := reflect.ValueOf(op.Err)
	if alert.Kind() != reflect.Uint8 {
		return false
	}
	switch n := alert.Uint(); {
	case n >= 42 && n <= 46, n == 48, n == 49, n == 116:
		return true
	}
	return false
}
