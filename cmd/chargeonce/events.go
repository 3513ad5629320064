package main

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/chargeonce/chargeonce/payclient/standard"
	"github.com/chargeonce/chargeonce/reconcile/webhook"
)

// noEvents proves nothing: this program takes no events.
type noEvents struct{}

// Verify implements [webhook.Verifier].
func (noEvents) Verify(http.Header, []byte, time.Time) (string, error) {
	return "", errors.New("events are not taken here")
}

// adopting returns what makes events evidence that had come before their attempt was there: a service beside this program has
// taken them.
func (w *work) adopting() (func(context.Context) error, error) {
	handler, err := webhook.New(webhook.Config{
		Store: w.store, Place: w.client.Place(), Schedule: w.client.Schedule(), Verifier: noEvents{}, Read: standard.ReadEvent,
		KeepsAnswers: w.client.config.Provider.Capabilities().Key.KeepsEveryAnswer, Who: w.settings.whoami(),
	})
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context) error {
		_, err := handler.Adopt(ctx)
		return err
	}, nil
}
