package fakeprovider_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/chargeonce/chargeonce/fakeprovider"
)

// A crash while a finished key is asked about again loses nothing: its answer was stored before.
func TestACrashKeepsAFinishedKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		bank := fakeprovider.New(fakeprovider.Config{LockTimeout: time.Second})
		defer bank.Close()
		c := call(t, bank)
		bank.Script(fakeprovider.Answer, "crash", fakeprovider.Answer)
		const key = "key-of-one-payment-1"
		want(t, "first", c.pay(key, "r1", "tok_visa").status, 201)
		c.pay(key, "r1", "tok_visa")
		time.Sleep(time.Minute)
		again := c.pay(key, "r1", "tok_visa")
		want(t, "again", again.status, 201)
		want(t, "replayed", again.replayed, true)
		want(t, "charges", len(bank.Charges("r1")), 1)
	})
}
