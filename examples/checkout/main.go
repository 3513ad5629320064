// Command checkout is a small shop that takes orders and has them paid: a complete host of chargeonce, to be read in a
// quarter of an hour and copied.
//
// It promises that an order is confirmed once and paid once, or cancelled with nothing kept of the customer's money, whatever
// happens in between: a lost answer, a double click, another card, a payment that is approved after the order was cancelled,
// kill -9. README.md shows it with curl, and says what each file is for.
package main

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"github.com/chargeonce/chargeonce/fakeprovider"
	"github.com/chargeonce/chargeonce/payclient"
	"github.com/chargeonce/chargeonce/payclient/standard"
)

func main() {
	listen := flag.String("listen", "127.0.0.1:8080", "loopback address to listen on")
	db := flag.String("db", "checkout.db", "where the shop and its payments are kept: a SQLite file, or postgres://user@host/database")
	books := flag.String("books", "", "file with the fake provider's books (default: beside the SQLite file, or checkout.ledger)")
	flag.Parse()

	log := slog.New(slog.NewTextHandler(os.Stderr, nil))
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal ends the process at once
	if err := run(ctx, *listen, *db, booksFile(*books, *db), log, func(url string) { fmt.Println("checkout: " + url) }); err != nil {
		log.Error("checkout ends", "error", err)
		os.Exit(1)
	}
}

// booksFile is the file with the provider's books.
func booksFile(books, db string) string {
	switch {
	case books != "":
		return books
	case isPostgres(db):
		return "checkout.ledger"
	}
	return db + ".ledger"
}

// webhookPath is where the provider tells what became of payments.
const webhookPath = "/webhooks/payments"

// run serves the shop until ctx ends, and then closes what it has opened, the store last. ready is told the shop's URL.
func run(ctx context.Context, listen, db, books string, log *slog.Logger, ready func(url string)) (err error) {
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", listen)
	if err != nil {
		return err
	}
	defer listener.Close()
	if a, ok := listener.Addr().(*net.TCPAddr); !ok || !a.IP.IsLoopback() {
		return fmt.Errorf("%s: not an address of this machine only, and whoever reaches it rules the fake provider", listener.Addr())
	}
	url := "http://" + listener.Addr().String()

	// The provider, in this process. With a real one, its adapter and address go into Config.Payments, its webhook secret and
	// its token come from the environment, and this part goes.
	key := make([]byte, 32)
	_, _ = rand.Read(key) // it never fails: https://pkg.go.dev/crypto/rand#Read
	secret := "whsec_" + base64.StdEncoding.EncodeToString(key)
	bank, err := fakeprovider.Open(books, fakeprovider.Config{
		Webhook: fakeprovider.WebhookConfig{URL: url + webhookPath, Secret: secret},
	})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, bank.Close()) }()
	adapter, err := standard.New(standard.Config{Token: payclient.NewSecret("demo")})
	if err != nil {
		return err
	}

	shop, err := Open(ctx, Config{
		DB: db,
		Payments: payclient.Config{
			Provider: adapter, BaseURL: "https://provider.example", Transport: bank.RoundTripper(),
			ProviderAccount: "demo-shop", Environment: "demo",
		},
		WebhookSecret: secret,
		ReadEvent:     standard.ReadEvent,
		Log:           log,
	})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, shop.Close()) }() // the store, after everything that uses it

	mux := http.NewServeMux()
	mux.Handle("/", shop.Handler())
	mux.Handle("/_fake/", bank) // the provider's books, for the demonstration
	server := &http.Server{
		Handler:           mux,
		ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 10 * time.Second, WriteTimeout: time.Minute, IdleTimeout: time.Minute,
		ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelWarn),
	}
	serving, fail := context.WithCancelCause(ctx)
	work, endWork := context.WithCancel(context.WithoutCancel(ctx))
	defer endWork()
	var running sync.WaitGroup
	running.Go(func() { fail(server.Serve(listener)) })
	running.Go(func() { fail(shop.Work(work)) })
	ready(url)
	<-serving.Done()
	if ctx.Err() == nil {
		err = context.Cause(serving)
	}

	// First no more requests, and those under way end; then the payments that they have sent are stored; then the work in the
	// background ends.
	patience, enough := context.WithTimeout(context.WithoutCancel(ctx), 30*time.Second)
	defer enough()
	err = errors.Join(err, server.Shutdown(patience), shop.ClosePayments(patience))
	endWork()
	running.Wait()
	return err
}
