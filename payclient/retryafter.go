package payclient

import (
	"net/http"
	"strconv"
	"time"
)

// maxRetryAfter bounds what a Retry-After may ask for; more is no hint any more.
const maxRetryAfter = 24 * time.Hour

// retryAfter reads a Retry-After header in both its forms, seconds and a date (RFC 9110 section 10.2.3). A date is taken
// relative to the answer's own Date, so that a clock that is wrong on either side does no harm. Anything else, a negative,
// broken or overlong value, is no hint: zero.
func retryAfter(h http.Header, now time.Time) time.Duration {
	text := h.Get("Retry-After")
	if text == "" {
		return 0
	}
	if digitsOnly(text) {
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil || n > int64(maxRetryAfter/time.Second) {
			return 0
		}
		return time.Duration(n) * time.Second
	}
	at, err := http.ParseTime(text)
	if err != nil {
		return 0
	}
	if sent, err := http.ParseTime(h.Get("Date")); err == nil {
		now = sent
	}
	wait := at.Sub(now)
	if wait < 0 || wait > maxRetryAfter {
		return 0
	}
	return wait
}

func digitsOnly(text string) bool {
	for i := range len(text) {
		if text[i] < '0' || text[i] > '9' {
			return false
		}
	}
	return text != ""
}
