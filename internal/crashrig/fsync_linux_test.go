//go:build amd64 || arm64

package crashrig

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"
)

// durable checks a trace: before the first byte of each request with a key, the key was written to the log, and an fsync of
// the log that began after that write has ended well. It returns the keys in the order of their first requests.
func durable(events []event) (keys []string, wrong []string) {
	for i, e := range events {
		if e.Kind != wireRequest || !bytes.HasPrefix(e.Data, []byte("POST ")) {
			continue
		}
		key := keyOf(e.Data)
		switch {
		case key == "":
			wrong = append(wrong, fmt.Sprintf("event %d: a request without a key", i))
			continue
		case slices.Contains(keys, key): // sent again
			continue
		}
		keys = append(keys, key)
		if !syncedBefore(events, key, i) {
			wrong = append(wrong, fmt.Sprintf("event %d: the request with key %s leaves before its row is on disk", i, key))
		}
	}
	return keys, wrong
}

// syncedBefore tells whether the key is in the log, and the log on disk, before the event with the number.
func syncedBefore(events []event, key string, request int) bool {
	for _, w := range events[:request] {
		if w.Kind != storeWrite || w.File != "wal" || w.Ended == 0 || w.Ended > request || !bytes.Contains(w.Data, []byte(key)) {
			continue
		}
		// A sync that began before the write ended may not have it: those that count come later.
		for _, s := range events[w.Ended:request] {
			if s.Kind == storeSync && s.File == "wal" && s.Ended > 0 && s.Ended <= request {
				return true
			}
		}
	}
	return false
}

// keyOf reads the idempotency key of a request.
func keyOf(data []byte) string {
	head, _, _ := bytes.Cut(data, []byte("\r\n\r\n"))
	for line := range strings.SplitSeq(string(head), "\r\n") {
		if name, value, _ := strings.Cut(line, ":"); strings.EqualFold(name, "Idempotency-Key") {
			return strings.Trim(value, ` "`)
		}
	}
	return ""
}

// C07: what a power failure must not take is on disk before the provider hears of it: every charge, and every refund, by
// several callers at once who share commits.
func TestRowIsOnDiskBeforeTheFirstByte(t *testing.T) {
	b, err := openBank(t.Context(), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer b.stop()
	var rows strings.Builder
	const payments = 40
	for n := range payments {
		fmt.Fprintf(&rows, "%d,5.00,EUR,%s\n", n, []string{"tok_visa", "tok_visa", "tok_lost_answer", "tok_declined"}[n%4])
	}
	w, err := newWorld(t.TempDir(), b, nil, rows.String())
	if err != nil {
		t.Fatal(err)
	}
	charged, _, err := w.traced(t.Context(), aim{}, true, "pay", "{rows}", "--concurrency", "8")
	needTrace(t, err)
	if charged.Code != 3 {
		t.Errorf("pay ends with %d", charged.Code)
	}
	keys, wrong := durable(charged.Events)
	if len(keys) != payments || len(wrong) > 0 {
		t.Errorf("%d of %d keys were sent; %s", len(keys), payments, strings.Join(wrong, "; "))
	}
	refunded, _, err := w.traced(t.Context(), aim{}, true, "refund", "0", "--id", "R1")
	if err != nil {
		t.Fatal(err)
	}
	again, wrong := durable(refunded.Events)
	if len(again) != 1 || len(wrong) > 0 || refunded.Code != 0 {
		t.Errorf("refund ends with %d, %d keys sent; %s", refunded.Code, len(again), strings.Join(wrong, "; "))
	}
	syncs := 0
	for _, e := range charged.Events {
		if e.Kind == storeSync && e.File == "wal" {
			syncs++
		}
	}
	t.Logf("%d keys on disk before their requests, by %d syncs of the log", len(keys)+len(again), syncs)

	// The log itself is in its folder's list of files before anything is sent: the folder is synced after the log is made.
	made, listed := false, false
	for _, e := range charged.Events {
		switch {
		case e.Kind == storeWrite && e.File == "wal":
			made = true
		case e.Kind == storeSync && e.File == "folder" && e.Ended > 0:
			listed = listed || made
		case e.Kind == wireRequest && !listed:
			t.Fatal("a request leaves before the folder of the log is synced")
		}
	}
}

// The check finds what is wrong where it is.
func TestDurableSeesWhatIsMissing(t *testing.T) {
	request := event{Kind: wireRequest, Data: []byte("POST /v1/charges HTTP/1.1\r\nHost: x\r\nIdempotency-Key: \"key-1\"\r\n\r\n{}"), Ended: 9}
	write := func(ended int, data string) event {
		return event{Kind: storeWrite, File: "wal", Ended: ended, Data: []byte(data)}
	}
	sync := func(ended int, file string) event { return event{Kind: storeSync, File: file, Ended: ended} }
	for name, c := range map[string]struct {
		events []event
		good   bool
	}{
		"written, synced, sent":          {[]event{write(1, "..key-1.."), sync(2, "wal"), request}, true},
		"never written":                  {[]event{write(1, "..key-2.."), sync(2, "wal"), request}, false},
		"never synced":                   {[]event{write(1, "..key-1.."), request}, false},
		"synced before it was written":   {[]event{sync(1, "wal"), write(2, "..key-1.."), request}, false},
		"written while the sync ran":     {[]event{sync(2, "wal"), write(2, "..key-1.."), request}, false},
		"synced while it was written":    {[]event{write(2, "..key-1.."), sync(2, "wal"), request}, false},
		"the sync fails":                 {[]event{write(1, "..key-1.."), sync(0, "wal"), request}, false},
		"the sync ends after":            {[]event{write(1, "..key-1.."), sync(3, "wal"), request}, false},
		"the write fails":                {[]event{write(0, "..key-1.."), sync(2, "wal"), request}, false},
		"another file is synced":         {[]event{write(1, "..key-1.."), sync(2, "db"), request}, false},
		"synced after":                   {[]event{write(1, "..key-1.."), request, sync(3, "wal")}, false},
		"another is durable, this isn't": {[]event{write(1, "..key-2.."), sync(2, "wal"), write(3, "..key-1.."), request}, false},
	} {
		keys, wrong := durable(c.events)
		if (len(wrong) == 0) != c.good || len(keys) != 1 {
			t.Errorf("%s: %v, %v", name, keys, wrong)
		}
	}
	bare := event{Kind: wireRequest, Data: []byte("POST /v1/charges HTTP/1.1\r\nHost: x\r\n\r\n{}")}
	if _, wrong := durable([]event{bare}); len(wrong) != 1 {
		t.Errorf("a request without a key: %v", wrong)
	}
}
