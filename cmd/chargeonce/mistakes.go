package main

import (
	"errors"

	"github.com/chargeonce/chargeonce/payclient"
)

// mistakes reports everything that is wrong with provider and settings, before anything is opened, as the error that ends a
// command. Its code is that of the command line and the settings, unless all that is wrong is the provider's: who it is, its
// address, its credentials, and what the settings under [standard] say of it. What only goes wrong between the two counts as
// the settings', for those were changed to fit the provider.
func (s settings) mistakes() error {
	all := s.check()
	if all == nil {
		return nil
	}
	// Once without each: with a provider about which nothing is wrong, and with nothing said besides the provider.
	others := s
	others.standard = defaults().standard
	if others.provider == providerStandard {
		others.url, others.standard.token = "https://provider.example", payclient.NewSecret("any")
	} else {
		others.provider, others.url = providerFake, ""
	}
	own := defaults()
	own.provider, own.url, own.standard = s.provider, s.url, s.standard
	if err := others.check(); err != nil {
		if s.provider == "" { // then nothing else could be looked at before
			return usage(errors.Join(all, err))
		}
		return usage(all)
	}
	if own.check() == nil {
		return usage(all)
	}
	return provider(all)
}
