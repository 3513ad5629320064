package main

import (
	"bytes"
	"log"
	"testing"
)

func TestNetHTTPQuotesNoAnswer(t *testing.T) {
	var out bytes.Buffer
	l := log.New(guardedLog{&out}, "", 0)
	l.Printf("Unsolicited response received on idle HTTP channel starting with %q; err=%v", "card 4111 of tok_secret", nil)
	l.Print("another line")
	want := "Unsolicited response received on idle HTTP channel (left out)\nanother line\n"
	if got := out.String(); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
