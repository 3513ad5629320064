package sqlite

import (
	"database/sql/driver"
	"math"
	"slices"
	"sync/atomic"
	"time"

	"github.com/chargeonce/chargeonce/attempt"
)

// clock is the store's clock, with the latest time that it has told or that was seen in the database.
type clock struct {
	now    func() time.Time
	latest atomic.Int64 // microseconds since 1970-01-01 UTC
}

// set sets the clock up; nil means time.Now.
func (c *clock) set(now func() time.Time) {
	if now == nil {
		now = time.Now
	}
	c.now = now
	c.latest.Store(math.MinInt64)
}

// present is the time now, and the latest time known. Now before the latest means that the clock was set back, never that
// others were told a later time meanwhile.
func (c *clock) present() (now, latest time.Time) {
	known := c.latest.Load() // first
	now = c.now().UTC().Truncate(time.Microsecond)
	c.saw(now)
	return now, time.UnixMicro(max(known, now.UnixMicro())).UTC()
}

// saw notes a time that was told somewhere.
func (c *clock) saw(t time.Time) {
	for at := t.UnixMicro(); ; {
		known := c.latest.Load()
		if at <= known || c.latest.CompareAndSwap(known, at) {
			return
		}
	}
}

// sawAttempts notes when attempts that were loaded were written: perhaps by another process.
func (c *clock) sawAttempts(attempts []attempt.Attempt) {
	for i := range attempts {
		c.saw(attempts[i].UpdatedAt)
	}
}

// view is what a step sees that finds this slot with these attempts. They were loaded before, so that none is later than a
// clock that was not set back.
func (c *clock) view(slot slotRow, found []attempt.Attempt) attempt.View {
	c.sawAttempts(found)
	c.saw(slot.closedAt)
	v := attempt.View{ClosedAt: slot.closedAt}
	if !slices.ContainsFunc(found, attempt.Attempt.IsRefund) {
		v.Attempts = found
	} else {
		for _, a := range found {
			v.Add(a)
		}
	}
	v.Now, v.Latest = c.present()
	return v
}

// latestAttempts is how many attempts are looked at for the latest time in a database: the newest ones, so that the cost
// does not follow the number of all. An attempt is never older than its events.
const latestAttempts = 256

const selectLatest = `SELECT max(at) FROM (
		SELECT updated_at AS at FROM (SELECT updated_at FROM chargeonce_attempts ORDER BY seq DESC LIMIT ?)
		UNION ALL SELECT applied_at FROM chargeonce_migrations
	) WHERE typeof(at) = 'integer'`

// latestStored returns the latest time in the database.
func latestStored(s session) (latest time.Time, err error) {
	err = s.query1(selectLatest, func(row []driver.Value) error {
		d := decoder{values: row}
		latest = d.time("at")
		return d.err
	}, int64(latestAttempts))
	return latest, err
}
