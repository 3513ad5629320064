package settlement

import (
	"fmt"
	"time"
)

// LocalTime says how sure the instant of a time without offset is.
type LocalTime uint8

// The cases of RFC 5545 section 3.3.5, whose choice is taken.
const (
	LocalExact   LocalTime = iota // the zone has this time once, or the value has an offset
	LocalSkipped                  // the zone has no such time: it is counted on from before the clocks went forward
	LocalDoubled                  // the zone has it twice: the first is taken
)

// String returns exact, skipped or doubled.
func (l LocalTime) String() string {
	switch l {
	case LocalSkipped:
		return "skipped"
	case LocalDoubled:
		return "doubled"
	}
	return "exact"
}

// clock reads the times of a report.
type clock struct {
	layouts []string
	offset  bool
	zone    *time.Location
	zones   map[string]*time.Location // by the names in the zone column
}

func newClock(t Times) (*clock, error) {
	c := &clock{layouts: t.Layouts, offset: t.Zone == ZoneOffset}
	if t.Zone != "" && !c.offset {
		zone, err := loadZone(t.Zone)
		if err != nil {
			return nil, err
		}
		c.zone = zone
	}
	return c, nil
}

// loadZone is time.LoadLocation without the names that mean something else.
func loadZone(name string) (*time.Location, error) {
	if name == "" || name == "Local" {
		return nil, fmt.Errorf("%q: want an IANA zone, such as Europe/Berlin or UTC", name)
	}
	return time.LoadLocation(name)
}

// named returns the zone of that name. Only so many are remembered: the names come from the file.
func (c *clock) named(name []byte) (*time.Location, error) {
	if zone, ok := c.zones[string(name)]; ok {
		return zone, nil
	}
	zone, err := loadZone(string(name))
	if err != nil {
		return nil, err
	}
	if c.zones == nil || len(c.zones) >= 64 {
		c.zones = make(map[string]*time.Location)
	}
	c.zones[string(name)] = zone
	return zone, nil
}

// parse reads a time, in that zone unless it has an offset, as UTC.
func (c *clock) parse(text []byte, zone *time.Location) (at time.Time, local LocalTime, ok bool) {
	for _, layout := range c.layouts {
		if layout == time.RFC3339 {
			if at.UnmarshalText(text) == nil {
				return at.UTC(), LocalExact, true
			}
			continue
		}
		parsed, err := time.Parse(layout, string(text))
		switch {
		case err != nil:
			continue
		case c.offset:
			return parsed.UTC(), LocalExact, true
		}
		at, local = instant(parsed, zone)
		return at, local, true
	}
	return time.Time{}, LocalExact, false
}

// instant returns when a clock on the wall of that zone shows what wall shows in UTC.
func instant(wall time.Time, zone *time.Location) (time.Time, LocalTime) {
	if zone == time.UTC {
		return wall, LocalExact
	}
	guess := time.Date(wall.Year(), wall.Month(), wall.Day(), wall.Hour(), wall.Minute(), wall.Second(), wall.Nanosecond(), zone)
	from, to := guess.ZoneBounds()
	const far = 48 * time.Hour // no zone's clock was ever moved that much at once
	if (from.IsZero() || guess.Sub(from) > far) && (to.IsZero() || to.Sub(guess) > far) {
		return guess.UTC(), LocalExact
	}
	offsets := []int{offsetAt(guess)}
	if !from.IsZero() {
		offsets = append(offsets, offsetAt(from.Add(-1)))
	}
	if !to.IsZero() {
		offsets = append(offsets, offsetAt(to))
	}
	var first time.Time
	found := 0
	least := offsets[0]
	for i, offset := range offsets {
		least = min(least, offset)
		at := wall.Add(-time.Duration(offset) * time.Second)
		if offsetAt(at.In(zone)) != offset || found > 0 && i > 0 && at.Equal(first) {
			continue
		}
		if found == 0 || at.Before(first) {
			first = at
		}
		found++
	}
	switch found {
	case 0:
		// Clocks go forward where the offset grows: the smaller one is that from before.
		return wall.Add(-time.Duration(least) * time.Second), LocalSkipped
	case 1:
		return first, LocalExact
	}
	return first, LocalDoubled
}

func offsetAt(t time.Time) int {
	_, offset := t.Zone()
	return offset
}
