package main

import (
	"errors"
	"fmt"
)

// The exit codes are a contract. Where several apply, unknown goes first, then provider, refused, declined.
const (
	exitOK          = 0
	exitFatal       = 1
	exitUsage       = 2
	exitDeclined    = 3
	exitProvider    = 4 // the provider's configuration or credentials
	exitUnknown     = 5
	exitDiffers     = 6 // match has found differences
	exitRefused     = 7 // rows that are malformed, in conflict, or not sent
	exitInterrupted = 130
)

// exitError ends the program with a code. Its Err may be nil where all has been said.
type exitError struct {
	code int
	err  error
}

func (e *exitError) Error() string {
	if e.err == nil {
		return fmt.Sprintf("exit code %d", e.code)
	}
	return e.err.Error()
}

func (e *exitError) Unwrap() error { return e.err }

func fatal(err error) error    { return exitWith(exitFatal, err) }
func usage(err error) error    { return exitWith(exitUsage, err) }
func provider(err error) error { return exitWith(exitProvider, err) }

func exitWith(code int, err error) error {
	if err == nil {
		return nil
	}
	if own := (*exitError)(nil); errors.As(err, &own) { // whoever made it knew better
		return err
	}
	return &exitError{code, err}
}

// codeOf returns the exit code for the error of a command: what is no exitError comes from reading the command line.
func codeOf(err error) int {
	var exit *exitError
	switch {
	case err == nil:
		return exitOK
	case errors.As(err, &exit):
		return exit.code
	}
	return exitUsage
}
