package batch

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/chargeonce/chargeonce/attempt"
)

type askedKey struct{}

// Asked is the payclient.Observer.Asked of a run's client. By it a run learns for which rows the provider was asked, also
// where Pay asked before it decided; without it [Result.Existing] holds also for those.
func Asked(ctx context.Context, _ string, answer attempt.LookupAnswer, _ time.Duration) {
	if asked, ok := ctx.Value(askedKey{}).(*atomic.Bool); ok && answer != attempt.LookupNotAsked {
		asked.Store(true)
	}
}
