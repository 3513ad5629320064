package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net/http"
	"net/url"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/chargeonce/chargeonce/fakeprovider"
	"github.com/chargeonce/chargeonce/payclient"
	"github.com/chargeonce/chargeonce/payclient/standard"
)

// The bank is the payment provider of the demonstration: a fake one in this process, or that of another shop. With a real one, its
// adapter and address go into Config.Payments, its token and its webhook secret come from the environment, and this file goes.

// paymentsAt says how to pay at the bank with an id, which is at an address; transport, if not nil, leads there. The environment
// is the bank's id: what was sent to one bank is never asked about at another, which knows nothing of it and would say so. And the
// address is that of this bank's books alone: should another one be there some day, it answers nothing.
func paymentsAt(address, id string, transport http.RoundTripper) (payclient.Config, error) {
	adapter, err := standard.New(standard.Config{Token: payclient.NewSecret("demo")})
	cfg := payclient.Config{Provider: adapter, BaseURL: address, Transport: transport, ProviderAccount: "demo-shop", Environment: "demo"}
	if id != "" { // as all have whose books were not begun by an early release
		cfg.BaseURL += "/_fake/books/" + id
		cfg.Environment = "fake-" + id
	}
	return cfg, err
}

// openBank opens the bank with the books in a file, in this process. It tells events to a URL.
func openBank(books, eventsTo, secret string, log *slog.Logger) (*fakeprovider.Provider, error) {
	_, none := fakeprovider.ReadID(books) // what is wrong with them, Open tells
	bank, err := fakeprovider.Open(books, fakeprovider.Config{Webhook: fakeprovider.WebhookConfig{URL: eventsTo, Secret: secret}})
	if errors.Is(err, fakeprovider.ErrInUse) {
		return nil, fmt.Errorf("%w: that of another shop. To pay at its bank, add -bank with the URL that the other shop has printed, like this: -bank %s", err, "http://"+defaultListen)
	}
	if err != nil {
		return nil, err
	}
	if errors.Is(none, fs.ErrNotExist) {
		file, err := filepath.Abs(books)
		if err != nil {
			file = books
		}
		log.Info("a new fake provider: it knows no payment", "books", file)
	}
	return bank, nil
}

// idForm is the form of an id of books, see [fakeprovider.Provider.ID]. It becomes a part of an address.
var idForm = regexp.MustCompile(`^[0-9a-f]{16}$`)

// askBank asks for the id of the bank that another shop has, or that chargeonce fake is.
func askBank(ctx context.Context, address string) (id string, err error) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address+"/_fake/id", nil)
	if err != nil {
		return "", err
	}
	resp, err := (&http.Transport{DisableKeepAlives: true}).RoundTrip(req) // no proxy, no redirect
	if err != nil {
		return "", fmt.Errorf("-bank %s: nobody answers there (%w); nothing was sent", address, err)
	}
	defer func() { err = errors.Join(err, resp.Body.Close()) }()
	body, err := io.ReadAll(io.LimitReader(resp.Body, 1<<10))
	if err != nil {
		return "", fmt.Errorf("-bank %s: the answer ends early (%w); nothing was sent", address, err)
	}
	var answer struct {
		ID *string `json:"id"`
	}
	switch err := json.Unmarshal(body, &answer); {
	case resp.StatusCode != http.StatusOK || err != nil || answer.ID == nil:
		return "", fmt.Errorf("-bank %s: neither a fake provider nor a shop with one (GET /_fake/id is answered with %s); nothing was sent", address, resp.Status)
	case *answer.ID != "" && !idForm.MatchString(*answer.ID):
		return "", fmt.Errorf("-bank %s: no fake provider: the id of its books is none; nothing was sent", address)
	case *answer.ID == "":
		return "", fmt.Errorf("-bank %s: its books have no id, an early release has begun them, so that they cannot be told from others; nothing was sent", address)
	}
	return *answer.ID, nil
}

// bankAddress reads the value of -bank.
func bankAddress(text string) (string, error) {
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return "", errors.New("-bank: want the URL that the other shop has printed, like http://" + defaultListen)
	}
	return strings.TrimSuffix(u.String(), "/"), nil
}
