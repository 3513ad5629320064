package fakeprovider

import (
	"errors"
	"fmt"
	"net/url"
	"sort"
	"strconv"
	"time"
)

// span is the time a listing or a report is about: from, inclusive, to,
// exclusive, as Unix nanoseconds.
type span struct{ from, to int64 }

var always = span{-1 << 63, 1<<63 - 1}

// listing finds a client's records by time. It is made up to date when it is
// asked, so that a charge costs nothing before anybody lists, and a page
// costs what is new and what it shows, however full the books are.
type listing struct {
	upTo     uint32     // records that are in byClient
	byClient [][]uint32 // numbers by client, ordered by time, then by number
}

// of returns the numbers of a client's records, oldest first.
func (l *listing) of(s *shelf, client uint32) []uint32 {
	for n := l.upTo + 1; int(n) <= s.list.len(); n++ {
		r := s.list.at(n)
		for int(r.client) >= len(l.byClient) {
			l.byClient = append(l.byClient, nil)
		}
		list := append(l.byClient[r.client], n)
		// Almost always the youngest. It is not when Config.Now was set back.
		at := len(list) - 1
		for at > 0 && s.list.at(list[at-1]).booked > r.booked {
			at--
		}
		copy(list[at+1:], list[at:])
		list[at] = n
		l.byClient[r.client] = list
		l.upTo = n
	}
	if int(client) >= len(l.byClient) {
		return nil
	}
	return l.byClient[client]
}

// visible reports whether a search finds record n now.
func (x *exchange) visible(s *shelf, n uint32, r *record) bool {
	return r.booked <= x.now.Add(-x.p.config.SearchLag).UnixNano() && s.hidden[n] <= x.now.UnixNano()
}

// byTime finds up to limit of the client's records made in a span, oldest
// first, those after record `after` if it is not 0, and says whether there
// are more.
func (x *exchange) byTime(s *shelf, t span, after uint32, limit int) (found []uint32, more bool) {
	list := s.listing.of(s, x.p.client(x.in.client))
	i := sort.Search(len(list), func(i int) bool { return s.list.at(list[i]).booked >= t.from })
	if after != 0 {
		last := s.list.at(after)
		i = max(i, sort.Search(len(list), func(i int) bool {
			r := s.list.at(list[i])
			return r.booked > last.booked || r.booked == last.booked && list[i] > after
		}))
	}
	for ; i < len(list); i++ {
		r := s.list.at(list[i])
		if r.booked >= t.to {
			break
		}
		if !x.visible(s, list[i], r) {
			continue
		}
		if len(found) == limit {
			return found, true
		}
		found = append(found, list[i])
	}
	return found, false
}

// parseSpan reads the two bounds of a query; one that is not given is open.
func parseSpan(q url.Values, from, to string) (span, error) {
	t := always
	for _, bound := range []struct {
		name string
		at   *int64
	}{{from, &t.from}, {to, &t.to}} {
		if v := q.Get(bound.name); v != "" {
			var err error
			if *bound.at, err = parseTime(v); err != nil {
				return t, fmt.Errorf("%s: %w", bound.name, err)
			}
		}
	}
	if t.from > t.to {
		return t, fmt.Errorf("%s is after %s", from, to)
	}
	return t, nil
}

// parseTime reads a bound of a listing or a report: Unix seconds or RFC 3339.
func parseTime(s string) (int64, error) {
	t, err := time.Parse(time.RFC3339, s)
	if err != nil {
		seconds, notNumber := strconv.ParseInt(s, 10, 64)
		if notNumber != nil {
			return 0, errors.New("want Unix seconds or an RFC 3339 time (a + written as %2B)")
		}
		t = time.Unix(seconds, 0)
	}
	if y := t.UTC().Year(); y < 1678 || y > 2261 {
		return 0, errors.New("want a time in the years 1678 to 2261")
	}
	return t.UnixNano(), nil
}
