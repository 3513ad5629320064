package payclient

import (
	"net/http"
	"strconv"
	"time"
)

// maxRetryAfter is the longest wait that a Retry-After can ask for. Longer ones count as this, which no call waits for.
const maxRetryAfter = 24 * time.Hour

// retryAfter reads a Retry-After header in both its forms, seconds and a date (RFC 9110 section 10.2.3). A date is taken
// relative to the answer's own Date, so that a clock that is wrong on either side does no harm. Anything else, a negative or
// broken value, is no hint: zero. Whoever asks for more than maxRetryAfter is not asked again earlier for that.
func retryAfter(h http.Header, now time.Time) time.Duration {
	text := h.Get("Retry-After")
	if text == "" {
		return 0
	}
	if digitsOnly(text) {
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil || n > int64(maxRetryAfter/time.Second) {
			return maxRetryAfter // digits only: it can fail by its size alone
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
	return min(max(at.Sub(now), 0), maxRetryAfter)
}

func digitsOnly(text string) bool {
	for i := range len(text) {
		if text[i] < '0' || text[i] > '9' {
			return false
		}
	}
	return text != ""
}
