package payclient

import (
	"fmt"
	"time"

	"github.com/chargeonce/chargeonce/attempt"
)

// Refunder is what an adapter implements beside [Provider] where the provider can give money back; Capabilities.Refunds says
// so. What Capabilities say of keys, references and lookups holds for refunds too. All methods are pure, as those of
// Provider are.
type Refunder interface {
	// RefundBody renders the body of a refund request: the attempt's amount, of the charge Refund.ChargeID, under its
	// reference. It holds no payment source and no NUL byte. It fails for a refund that the provider cannot take; nothing is
	// stored or sent then.
	RefundBody(a attempt.Attempt) ([]byte, error)
	// RefundRequest says where the body goes, and sets headers, credentials among them.
	RefundRequest(a attempt.Attempt) Request
	// ReadRefund reads the answer. Its Charge is the refund: ChargeData.ChargeID names the charge whose money it gives back.
	ReadRefund(r Response) Reply

	// RefundLookupRequest asks for the refunds with a reference; cursor is empty for the first page. It is called only if
	// Capabilities say that the provider can be asked.
	RefundLookupRequest(reference, cursor string) Request
	// ReadRefundLookup reads one page of the answer.
	ReadRefundLookup(r Response) LookupPage
}

// Voider is what an adapter implements beside [Provider] where the provider can cancel a charge that is not final, once and
// for all: the charge has failed then, and cannot succeed any more. Capabilities.Voids says so. Asking twice must do no harm,
// because a request whose answer is lost is repeated.
type Voider interface {
	// VoidRequest asks to cancel a charge of the attempt. The request has no body and no key.
	VoidRequest(a attempt.Attempt, chargeID string) Request
	// ReadVoid reads the answer. Only Charged with the charge, whole and failed, confirms; everything else leaves it as it is.
	ReadVoid(r Response) Reply
}

// Lister is what an adapter implements beside [Provider] where the provider lists its charges by time; Capabilities.Lists says
// so. A listing finds charges, a hundred with one question, and never proves that there is none.
type Lister interface {
	// ListRequest asks for the charges made from a time on and before another, by the provider's clock, whatever their
	// reference; cursor is empty for the first page.
	ListRequest(from, to time.Time, cursor string) Request
	// ReadList reads one page of the answer.
	ReadList(r Response) LookupPage
}

// abilities are what the adapter declares beside charges; nil where it does not.
type abilities struct {
	refunder Refunder
	voider   Voider
	lister   Lister
}

// abilitiesOf takes what the adapter both declares and implements. It fails where it declares more.
func abilitiesOf(p Provider, caps Capabilities) (a abilities, errs []error) {
	check := func(implemented bool, what, name string) {
		if !implemented {
			errs = append(errs, fmt.Errorf("Provider: declares %s, and is no %s; what wraps another must have its methods, or not declare them", what, name))
		}
	}
	ok := false
	if caps.Refunds {
		a.refunder, ok = p.(Refunder)
		check(ok, "refunds", "Refunder")
	}
	if caps.Voids {
		a.voider, ok = p.(Voider)
		check(ok, "voids", "Voider")
	}
	if caps.Lists {
		a.lister, ok = p.(Lister)
		check(ok, "lists", "Lister")
	}
	return a, errs
}
