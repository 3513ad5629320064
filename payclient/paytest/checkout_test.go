package paytest_test

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/chargeonce/chargeonce/attempt"
	"github.com/chargeonce/chargeonce/fakeprovider"
	"github.com/chargeonce/chargeonce/money"
	"github.com/chargeonce/chargeonce/payclient"
	"github.com/chargeonce/chargeonce/payclient/paytest"
)

// checkout is a host's handler: POST /orders/{order}/payment with the card's token as the form value "card".
func checkout(client *payclient.Client) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /orders/{order}/payment", func(w http.ResponseWriter, r *http.Request) {
		res, err := client.Pay(r.Context(), attempt.Intent{
			Order: r.PathValue("order"), Amount: money.MustParse("548.90", "TRY"), Source: attempt.Token(r.FormValue("card")),
		})
		switch {
		case errors.Is(err, attempt.ErrConflict), errors.Is(err, attempt.ErrAlreadyPaid):
			http.Error(w, "a payment of this order is under way or made", http.StatusConflict)
		case err != nil:
			http.Error(w, "not paid, nothing was charged; try again", http.StatusServiceUnavailable)
		case res.Outcome == payclient.Approved:
			w.WriteHeader(http.StatusOK)
		case res.Open():
			w.WriteHeader(http.StatusAccepted) // "your payment is being verified"
		default:
			http.Error(w, "declined: "+res.DeclineCode, http.StatusPaymentRequired)
		}
	})
	return mux
}

// pay posts a payment and returns the status.
func pay(p *paytest.Kit, order, card string) int {
	w := httptest.NewRecorder()
	r := httptest.NewRequest(http.MethodPost, "/orders/"+order+"/payment", strings.NewReader("card="+card))
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	checkout(p.Client).ServeHTTP(w, r)
	return w.Code
}

func TestCheckout(t *testing.T) {
	for _, tt := range []struct {
		what    string
		card    string
		fault   fakeprovider.Fault
		want    int
		charges int
	}{
		{"all is well", "tok_visa", fakeprovider.Answer, http.StatusOK, 1},
		{"the answer is lost", "tok_visa", fakeprovider.LoseAnswer, http.StatusOK, 1},
		{"the provider is slow", "tok_slow_5s", fakeprovider.Answer, http.StatusOK, 1},
		{"the card is declined", "tok_insufficient_funds", fakeprovider.Answer, http.StatusPaymentRequired, 0},
	} {
		t.Run(tt.what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := paytest.New(t)
				p.Bank.Script(tt.fault)
				if got := pay(p, "1001", tt.card); got != tt.want {
					t.Errorf("status %d, want %d", got, tt.want)
				}
				p.WantCharges("1001", tt.charges)
			})
		})
	}
}

func TestCheckoutWhileThePaymentIsVerified(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := paytest.New(t)
		if got := pay(p, "1001", "tok_book_after_15s"); got != http.StatusAccepted {
			t.Errorf("status %d, want 202", got)
		}
		if got := pay(p, "1001", "tok_mastercard"); got != http.StatusConflict {
			t.Errorf("another card: status %d, want 409", got)
		}
		time.Sleep(15 * time.Second) // in the bubble: the provider books
		if open := p.Settle(); open != 0 {
			t.Errorf("%d payments are still open", open)
		}
		if got := pay(p, "1001", "tok_book_after_15s"); got != http.StatusOK {
			t.Errorf("the same card again: status %d, want 200", got)
		}
		p.WantCharges("1001", 1)
	})
}
