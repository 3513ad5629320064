package payclient_test

import (
	"fmt"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/chargeonce/chargeonce/fakeprovider"
	"github.com/chargeonce/chargeonce/payclient"
	"github.com/chargeonce/chargeonce/payclient/standard"
)

type countClosings struct {
	*http.Transport
	closed int
}

func (c *countClosings) CloseIdleConnections() {
	c.closed++
	c.Transport.CloseIdleConnections()
}

// A kept connection ignores changes of DNS (F85), and under steady traffic it is never idle for long.
func TestF85ConnectionsAge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var counting *countClosings
		s := open(t, fakeprovider.Config{}, standard.Config{}, func(c *payclient.Config) {
			transport, ok := c.Transport.(*http.Transport)
			if !ok {
				t.Fatalf("%T", c.Transport)
			}
			counting = &countClosings{Transport: transport}
			c.Transport = counting
		})
		for i := range 60 { // ten minutes and a half of steady traffic
			s.want(s.pay(order(fmt.Sprint(i))), payclient.Approved, payclient.MovedYes)
			time.Sleep(10500 * time.Millisecond)
		}
		if counting.closed != 2 {
			t.Errorf("connections were closed %d times in 10.5 minutes, want twice", counting.closed)
		}
		s.wantCharges(60)
	})
}
