package main

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"slices"

	"github.com/chargeonce/chargeonce/attempt"
	"github.com/chargeonce/chargeonce/payclient"
)

// Handler serves the shop:
//
//	POST /orders              {"items":[{"sku":"mug","quantity":2}]}
//	GET  /orders/{id}         the status page
//	POST /orders/{id}/pay     {"source":"tok_visa"}, and "again" to try a card once more that was used before, see View.Attempt
//	POST /orders/{id}/cancel
//	POST /webhooks/payments   for the provider
//
// Who may see and pay which order is for the shop's login to decide, in front of this.
func (s *Shop) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /orders", s.postOrder)
	mux.HandleFunc("GET /orders/{id}", s.getOrder)
	mux.HandleFunc("POST /orders/{id}/pay", s.postPay)
	mux.HandleFunc("POST /orders/{id}/cancel", s.postCancel)
	mux.Handle(webhookPath, s.events)
	return http.NewCrossOriginProtection().Handler(mux) // no other site's page pays or cancels
}

// View is what the customer sees of an order.
type View struct {
	Order   string `json:"order,omitempty"`
	State   State  `json:"state,omitempty"`
	Total   string `json:"total,omitempty"`
	Message string `json:"message"`
	// Attempt names the attempt that this is told of. After a decline, the one on the status page is what "again" must be to try
	// a card once more that was used before.
	Attempt string `json:"attempt,omitempty"`
	Decline string `json:"decline_code,omitempty"`
	// NextAction is where the customer must go to confirm the payment.
	NextAction string `json:"next_action,omitempty"`
}

func view(o Order, res payclient.Result, message string) View {
	v := View{Order: o.ID, State: o.State, Total: o.Total.String(), Message: message, Attempt: res.AttemptID}
	if o.State != StateCancelled {
		v.Decline, v.NextAction = res.DeclineCode, res.NextAction
	}
	return v
}

// givenBack tells whether money of the payment was given back.
func givenBack(res payclient.Result) bool {
	return slices.ContainsFunc(res.Attempt.Charges, func(c attempt.Charge) bool { return c.Refunded > 0 })
}

func (s *Shop) postOrder(w http.ResponseWriter, r *http.Request) {
	var body struct {
		Items []Line `json:"items"`
	}
	if !read(w, r, &body) {
		return
	}
	o, err := s.CreateOrder(r.Context(), body.Items)
	switch {
	case errors.Is(err, errBadOrder):
		write(w, http.StatusBadRequest, View{Message: err.Error()})
	case errors.Is(err, errNoStock):
		write(w, http.StatusConflict, View{Message: err.Error()})
	case err != nil:
		s.failed(w, r, err)
	default:
		w.Header().Set("Location", "/orders/"+o.ID)
		s.writeStatus(w, r, http.StatusCreated, o, nil)
	}
}

func (s *Shop) getOrder(w http.ResponseWriter, r *http.Request) {
	o, err := readOrder(r.Context(), s.store, r.PathValue("id"))
	s.writeStatus(w, r, http.StatusOK, o, err)
}

func (s *Shop) postCancel(w http.ResponseWriter, r *http.Request) {
	// The customer may leave; what was begun for an order is brought to its end.
	ctx := context.WithoutCancel(r.Context())
	o, err := s.CancelOrder(ctx, r.PathValue("id"))
	status := http.StatusOK
	if errors.Is(err, errConfirmed) {
		status, err = http.StatusConflict, nil
	}
	s.writeStatus(w, r, status, o, err)
}

// writeStatus answers with an order and what is known of its payment, or with the error that came instead of the order.
func (s *Shop) writeStatus(w http.ResponseWriter, r *http.Request, status int, o Order, err error) {
	var res payclient.Result
	if err == nil {
		if res, err = s.client.Status(r.Context(), o.slot()); errors.Is(err, attempt.ErrNotFound) {
			err = nil // nobody has tried to pay
		}
	}
	if err != nil {
		s.failed(w, r, err)
		return
	}
	write(w, status, view(o, res, messageOf(o, res)))
}

// messageOf says in the customer's words how an order stands.
func messageOf(o Order, res payclient.Result) string {
	switch o.State {
	case StateConfirmed:
		if givenBack(res) {
			return "Your order was paid, and money was given back."
		}
		return "Paid. Your order is confirmed."
	case StateCancelled:
		switch {
		case res.Moved == payclient.MovedYes:
			return "Cancelled. Your payment is being given back."
		case givenBack(res):
			return "Cancelled. Your payment was given back."
		case res.Moved == payclient.MovedMaybe:
			return "Cancelled. Should your payment still go through, it is given back."
		}
		return "Cancelled. Nothing was charged."
	case StatePending:
		switch {
		case res.NextAction != "":
			return "Please confirm the payment with your bank."
		case res.Moved != payclient.MovedNo:
			return "Your payment is being verified."
		}
	}
	if res.Outcome == payclient.Declined {
		return "Your card was declined. Please try another one."
	}
	return "Waiting for your payment."
}

func (s *Shop) postPay(w http.ResponseWriter, r *http.Request) {
	var body struct {
		Source string `json:"source"`
		Again  string `json:"again"`
	}
	if !read(w, r, &body) {
		return
	}
	// A browser that goes away must not leave a payment open: the call ends by its own time-outs.
	ctx := context.WithoutCancel(r.Context())
	o, res, err := s.PayOrder(ctx, r.PathValue("id"), attempt.Token(body.Source), body.Again)
	if o.ID == "" {
		s.failed(w, r, err)
		return
	}
	w.Header().Set("Location", "/orders/"+o.ID)
	status, message := s.answerOf(o, res, err)
	if status == http.StatusServiceUnavailable || status == http.StatusAccepted {
		w.Header().Set("Retry-After", "2")
	}
	if status >= http.StatusInternalServerError {
		s.log.ErrorContext(ctx, "an order could not be paid", "order", o.ID, "attempt", res.AttemptID, "reason", res.Reason, "error", err)
	}
	write(w, status, view(o, res, message))
}

// answerOf says what a request to pay is answered with: first by what became of the order, then by what became of the payment.
// Nothing is told as failed that may have been paid.
func (s *Shop) answerOf(o Order, res payclient.Result, err error) (status int, message string) {
	switch {
	case o.State == StateCancelled:
		return http.StatusGone, messageOf(o, res)
	case errors.Is(err, attempt.ErrCancelled):
		return http.StatusGone, "Cancelled. Nothing was charged by this request."
	case errors.Is(err, attempt.ErrAlreadyPaid):
		return http.StatusConflict, "The order is paid already; this card was not charged."
	case errors.Is(err, attempt.ErrConflict):
		return http.StatusConflict, "A previous payment is being verified; this card was not charged."
	case errors.Is(err, attempt.ErrRefunded):
		return http.StatusConflict, "The order was paid and the money given back; this card was not charged. Please make a new order."
	case errors.Is(err, attempt.ErrInvalidIntent):
		return http.StatusBadRequest, "This is no card that can be charged."
	case errors.Is(err, attempt.ErrNotPaid) && res.Reason == attempt.ReasonSuperseded:
		return http.StatusConflict, "Another card was used since; this one was not charged."
	case err != nil:
		return http.StatusServiceUnavailable, "Nothing was charged by this request. Please try again."
	case o.State == StateConfirmed:
		return http.StatusOK, messageOf(o, res)
	case res.Outcome == payclient.Declined:
		return http.StatusPaymentRequired, "Your card was declined. Please try another one."
	case res.Outcome == payclient.ContractViolation && res.Moved == payclient.MovedNo:
		return http.StatusBadGateway, "Nothing was charged. We cannot take payments at the moment."
	}
	// Unknown, or approved and not confirmed so far: the relay will.
	o.State = StatePending
	return http.StatusAccepted, messageOf(o, res)
}

// failed answers a request that could not be served.
func (s *Shop) failed(w http.ResponseWriter, r *http.Request, err error) {
	if errors.Is(err, errNoOrder) {
		write(w, http.StatusNotFound, View{Message: err.Error()})
		return
	}
	s.log.ErrorContext(r.Context(), "a request failed", "method", r.Method, "path", r.URL.Path, "error", err)
	w.Header().Set("Retry-After", "2")
	write(w, http.StatusServiceUnavailable, View{Message: "Please try again."})
}

// maxBody bounds a request's body, in bytes.
const maxBody = 16 << 10

// read reads a request's body, or answers what is wrong with it.
func read(w http.ResponseWriter, r *http.Request, into any) bool {
	d := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxBody))
	d.DisallowUnknownFields()
	err := d.Decode(into)
	if err == nil {
		if _, err = d.Token(); errors.Is(err, io.EOF) {
			return true
		}
		err = errors.New("more than one value")
	}
	write(w, http.StatusBadRequest, View{Message: "The request cannot be read: " + err.Error()})
	return false
}

func write(w http.ResponseWriter, status int, v View) {
	body, err := json.Marshal(v)
	if err != nil { // a struct of strings
		panic(err)
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_, _ = w.Write(append(body, '\n')) // a client that has gone is not told
}
