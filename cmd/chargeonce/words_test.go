package main

import (
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/chargeonce/chargeonce/attempt"
	"github.com/chargeonce/chargeonce/fakeprovider"
	"github.com/chargeonce/chargeonce/payclient"
	"github.com/chargeonce/chargeonce/payclient/standard"
)

// Whoever makes a mistake in a setting is told of it by the name under which it was set.
func TestMistakesAreToldInTheSettingsOwnWords(t *testing.T) {
	adapter, err := standard.New(standard.Config{Token: payclient.NewSecret("x")})
	if err != nil {
		t.Fatal(err)
	}
	negative := -time.Second
	wrong := []error{
		payclient.Config{
			Provider: adapter, Store: new(attempt.Memory), ReferencePrefix: "a b", DigestKeys: []attempt.DigestKey{{ID: "k", Secret: []byte("short")}},
			SendTimeout: time.Minute, CallTimeout: 2 * time.Second, FirstWait: time.Minute, MaxWait: time.Second, MinAge: time.Second,
			AbandonAfter: time.Second, Breaker: payclient.BreakerConfig{FailurePercent: 101, MinRequests: -1},
		}.Validate(),
		payclient.Config{
			Provider: adapter, Store: new(attempt.Memory), BaseURL: "ftp://x", SendTimeout: negative, CallTimeout: negative, FirstWait: negative,
			MaxWait: negative, RecordTimeout: negative, MinAge: negative, PreparedAfter: negative, RetentionMargin: negative,
			Breaker: payclient.BreakerConfig{Period: negative, OpenFor: negative},
		}.Validate(),
		fakeprovider.ServerConfig{Listen: "0.0.0.0:1", Mode: "x", Delay: negative, FaultRate: 2}.Validate(),
	}
	_, err = standard.New(standard.Config{KeyRetention: negative, LookupLag: negative, IdleTimeout: negative})
	wrong = append(wrong, err)
	goName := regexp.MustCompile(`\b[A-Z][a-z]+([A-Z]\w*)?\b`)
	fake := (&app{}).fakeCommand()
	for _, err := range wrong {
		if err == nil {
			t.Fatal("nothing is wrong")
		}
		for line := range strings.SplitSeq(inOwnWords(err).Error(), "\n") {
			if name := goName.FindString(line); name != "" {
				t.Errorf("%q: %s is nothing that a user has set", line, name)
			}
			subject, _, ok := strings.Cut(line, ":")
			known := slices.ContainsFunc(allSettings, func(o setting) bool { return o.key == subject || "--"+o.key == subject }) ||
				fake.Flags().Lookup(strings.TrimPrefix(subject, "--")) != nil
			if !ok || !known {
				t.Errorf("%q does not begin with a setting", line)
			}
		}
	}
}
