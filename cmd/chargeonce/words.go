package main

import (
	"errors"
	"fmt"
	"strings"
)

// goNames are the names by which the packages below call what a user knows by its key in the config file or by its flag.
var goNames = strings.NewReplacer(
	"payclient configuration; nothing was sent:\n", "",
	"BaseURL", "--url", "DigestKeys", "digest_key", "ReferencePrefix", "reference_prefix", "Provider: ", "provider: ",
	"SendTimeout", "timings.send_timeout", "CallTimeout", "timings.call_timeout", "FirstWait", "timings.first_wait",
	"MaxWait", "timings.max_wait", "RecordTimeout", "timings.record_timeout", "MinAge", "timings.min_age",
	"AbandonAfter", "timings.abandon_after", "PreparedAfter", "timings.prepared_after", "RetentionMargin", "timings.retention_margin",
	"AskWaits", "timings.ask_waits", "AskFor", "timings.ask_for", "WatchFor", "timings.watch_for", "RefundGrace", "timings.refund_grace",
	"reconcile configuration; nobody was asked:\n", "", "Every:", "reconcile.every:", "Concurrency:", "--concurrency:",
	"Breaker.FailurePercent", "breaker.failure_percent", "Breaker.MinRequests", "breaker.min_requests",
	"Breaker.Period", "breaker.period", "Breaker.OpenFor", "breaker.open_for",
	"standard: Token", "standard.token", "standard: KeyRetention", "standard.key_retention",
	"standard: LookupLag", "standard.lookup_lag", "standard: IdleTimeout", "standard.idle_timeout",
	"Webhook.URL:", "--webhook-url:", "Webhook.Secret:", "--webhook-secret-file:",
	"setting Listen:", "--listen:", "Listen:", "--listen:", "setting Mode:", "--mode:", "Mode:", "--mode:",
	"setting Delay:", "--delay:", "Delay:", "--delay:", "setting FaultRate:", "--fault-rate:", "FaultRate:", "--fault-rate:",
)

// inOwnWords says what is wrong with a configuration in the words of this program's settings.
func inOwnWords(err error) error {
	if err == nil {
		return nil
	}
	return errors.New(goNames.Replace(err.Error()))
}

// plural writes a number and what it counts: "1 row", "2 rows".
func plural(n int, what string) string { return pluralOf(n, what, what+"s") }

// pluralOf is plural for a word whose plural has no "s" alone.
func pluralOf(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}

// pluralIs is plural with the verb: "1 payment is", "2 payments are".
func pluralIs(n int, what string) string {
	if n == 1 {
		return plural(n, what) + " is"
	}
	return plural(n, what) + " are"
}
