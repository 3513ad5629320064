package main

import (
	"github.com/chargeonce/chargeonce/attempt"
	"github.com/chargeonce/chargeonce/payclient"
)

// mutant is a mistake that the simulator must find.
type mutant struct {
	name   string
	what   string
	rules  []string                                  // one of which must be broken
	world  func(*profile)                            // the world in which the mistake shows
	client func(*world, *payclient.Config)           // changes every client
	store  func(*world, attempt.Store) attempt.Store // changes the store of all
}

var mutants []mutant

func mutantNamed(name string) *mutant {
	for i := range mutants {
		if mutants[i].name == name {
			return &mutants[i]
		}
	}
	return nil
}
