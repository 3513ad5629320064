package main

import (
	"fmt"
	"strings"

	"github.com/chargeonce/chargeonce/attempt"
)

// placeText names the place that a payment belongs to.
func placeText(p attempt.Place) string {
	text := p.Provider + ", " + p.Environment
	if p.Account != "" {
		text += ", account " + p.Account
	}
	return text
}

// naming returns the flags that name a place, as far as it is another than the run's.
func naming(there, here attempt.Place) string {
	var flags []string
	for _, s := range []struct{ flag, there, here string }{
		{"--provider", there.Provider, here.Provider},
		{"--environment", there.Environment, here.Environment},
		{"--provider-account", there.Account, here.Account},
	} {
		if s.there != s.here {
			flags = append(flags, s.flag+" "+quoted(s.there))
		}
	}
	return strings.Join(flags, " ")
}

// quoted writes a text as an argument of a shell, where it is not plain.
func quoted(text string) string {
	plain := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("-_.:/[]@%+,", r)
	}
	if text != "" && strings.TrimFunc(text, plain) == "" {
		return text
	}
	return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'"
}

// elsewhere says of a row whose payment is open at another place where that is, and what to do.
func elsewhere(id string, there, here attempt.Place) string {
	return fmt.Sprintf("may have been paid at %s (attempt %s), this run pays at %s: nothing was sent. %s",
		placeText(there), id, placeText(here), advice(there, here))
}

// atOtherBooks tells whether a place is a fake provider with other books than another place has. No flag leads there, and none must call
// one by another's name.
func atOtherBooks(there, here attempt.Place) bool {
	return there.Provider == providerFake && (here.Provider != providerFake || there.Environment != here.Environment)
}

// toBooks says how a command gets to the books of a place, from another.
func toBooks(here attempt.Place) string {
	if here.Provider != providerFake {
		return "name --provider fake, and " + toOtherBooks
	}
	return toOtherBooks
}

// wayTo says how a command is made to act at another place.
func wayTo(there, here attempt.Place) string {
	if atOtherBooks(there, here) {
		return "Its books are in another file: " + toBooks(here)
	}
	return "Name its place: " + naming(there, here)
}

// advice says what to do about payments that are open at another place.
func advice(there, here attempt.Place) string {
	switch {
	case atOtherBooks(there, here):
		return "Settle it with the fake provider that has it, whose books are in another file: " + toBooks(here)
	case there.Provider != here.Provider:
		return "Settle it there: " + naming(there, here)
	case there.Environment == here.Environment:
		return "Settle it with the token of that account; or, if this token is only a new one of the same account, add " + naming(there, here)
	case there.Account == here.Account:
		return "Settle it with the old address (--url); or, if the provider has only moved, add " + naming(there, here)
	}
	return "Settle it with the old address (--url) and the old token; or, if only the provider's address and the token have changed, add " + naming(there, here)
}
