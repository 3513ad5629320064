package main

import (
	"context"
	"errors"
	"fmt"
	"os/signal"
	"syscall"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/chargeonce/chargeonce/attempt"
	"github.com/chargeonce/chargeonce/internal/batch"
)

// work is what a command has that acts on payments which are in the database: that, and the provider.
type work struct {
	*app
	settings settings
	store    attempt.Store
	client   *connection
	signals  *interrupts
}

// working opens database and provider for a command, and closes them when everything it has learnt is stored.
func (a *app) working(cmd *cobra.Command, do func(w *work) error) (err error) {
	s, err := a.settings(cmd)
	if err != nil {
		return usage(errors.Join(err, s.check()))
	}
	if err := s.mistakes(); err != nil {
		return err
	}
	signals := catchInterrupts(cmd.Context(), a.interrupted)
	defer signals.release()
	// Whoever read the results may go away: then writing them fails, and the program ends in good order.
	signal.Ignore(syscall.SIGPIPE)
	store, err := s.db.openExisting(signals.start, false)
	if err != nil {
		return fatal(err)
	}
	defer func() { err = keep(err, store.Close()) }()
	client, err := a.connect(signals.start, s, store, nil) // what a log would tell is in what these commands print
	if errors.Is(err, errInterrupted) {
		return exitWith(exitInterrupted, errors.New("interrupted before anything was sent; run the same command again"))
	}
	if err != nil {
		return fatal(err)
	}
	defer func() { err = keep(err, client.close()) }()
	err = do(&work{app: a, settings: s, store: store, client: client, signals: signals})
	if closed := a.closeWhenStored(client, signals, s.timings.giveUpAfter); closed != nil {
		return closed
	}
	return err
}

func (a *app) interrupted(n int) {
	switch n {
	case 1:
		a.tell("interrupted: nothing more is begun, what is under way is ended (once more: cut it off; what is known is stored all the same)")
	case 2:
		a.tell("interrupted again: what is under way is cut off, and what is known stored (once more: give up storing what the database does not take)")
	default:
		a.tell("interrupted a third time: what the database does not take is given up, the payments concerned stay open")
	}
}

// storedText reports why a person's text cannot be kept with a payment for ever.
func storedText(flag, text string, least, most int) error {
	if batch.HoldsCard(text) { // the text is not repeated
		return fmt.Errorf("%s: holds a card number, and what is written here is stored for ever", flag)
	}
	return plainText(flag, text, least, most)
}

// plainText reports why a text cannot be a name or a remark.
func plainText(flag, text string, least, most int) error {
	switch {
	case len(text) < least:
		return fmt.Errorf("%s: missing, want a text of at most %d bytes", flag, most)
	case len(text) > most:
		return fmt.Errorf("%s: %d bytes long, want at most %d", flag, len(text), most)
	case !utf8.ValidString(text):
		return fmt.Errorf("%s: not valid UTF-8", flag)
	}
	for _, r := range text {
		if unsafeRune(r) {
			return fmt.Errorf("%s: holds a control character or an invisible one", flag)
		}
	}
	return nil
}

// Bounds of what a person writes, in bytes.
const (
	maxReason = 500
	maxName   = 100
)

// writeAttempt writes one attempt and its history, in the form that was asked for.
func (a *app) writeAttempt(ctx context.Context, s settings, store attempt.Store, id string) error {
	one, err := store.Attempt(ctx, id)
	if err != nil {
		return err
	}
	if s.output == outputTable {
		return a.show(ctx, store, one)
	}
	w := newWriter(a.out, s.output)
	if err := addWithEvents(ctx, w, store, one); err != nil {
		return err
	}
	return w.close()
}
