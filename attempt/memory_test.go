package attempt_test

import (
	"testing"
	"time"

	"github.com/chargeonce/chargeonce/attempt"
	"github.com/chargeonce/chargeonce/attempt/storetest"
)

func TestMemory(t *testing.T) {
	storetest.Run(t, func(*testing.T) attempt.Store { return new(attempt.Memory) },
		storetest.WithClock(func(_ *testing.T, now func() time.Time) attempt.Store { return &attempt.Memory{Now: now} }),
		storetest.Without(storetest.Database, "it forgets with the process, and one handle is all there is"),
		storetest.Without(storetest.Transactions, "there is no transaction that a host could bring"))
}
