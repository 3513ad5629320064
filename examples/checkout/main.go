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
	var o options
	flag.StringVar(&o.listen, "listen", defaultListen, "loopback address to listen on")
	flag.StringVar(&o.db, "db", "checkout.db", "where the shop and its payments are kept: a SQLite file, or postgres://user@host/database")
	flag.StringVar(&o.books, "books", "", "file with the fake provider's books (default: beside the SQLite file, or checkout.ledger)")
	flag.StringVar(&o.bank, "bank", "", "pay at the fake provider of another shop, or of chargeonce fake, at this URL, instead of an own one")
	flag.Parse()

	log := slog.New(slog.NewTextHandler(os.Stderr, nil))
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal ends the process at once
	if err := run(ctx, o, log, func(url string) { fmt.Println("checkout: " + url) }); err != nil {
		log.Error("checkout ends", "error", err)
		os.Exit(1)
	}
}

const defaultListen = "127.0.0.1:8080"

// options are the command's flags.
type options struct {
	listen, db string
	books      string // the file; empty: see booksFile
	bank       string // a URL; empty: the bank is in this process
}

// booksFile is the file with the provider's books.
func (o options) booksFile() string {
	switch {
	case o.books != "":
		return o.books
	case isPostgres(o.db):
		return "checkout.ledger"
	}
	return o.db + ".ledger"
}

// webhookPath is where the provider tells what became of payments.
const webhookPath = "/webhooks/payments"

// run serves the shop until ctx ends, and then closes what it has opened, the store last. ready is told the shop's URL.
func run(ctx context.Context, o options, log *slog.Logger, ready func(url string)) (err error) {
	if o.bank != "" {
		if o.books != "" {
			return errors.New("-bank and -books: want one of them, the books of another's bank are there")
		}
		if o.bank, err = bankAddress(o.bank); err != nil {
			return err
		}
	}
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", o.listen)
	if errors.Is(err, syscall.EADDRINUSE) {
		return fmt.Errorf("%w. If another shop is there, this one can pay at its bank: -listen 127.0.0.1:0 -bank http://%s", err, o.listen)
	}
	if err != nil {
		return err
	}
	defer listener.Close()
	if a, ok := listener.Addr().(*net.TCPAddr); !ok || !a.IP.IsLoopback() {
		return fmt.Errorf("%s: not an address of this machine only, and whoever reaches it rules the fake provider", listener.Addr())
	}
	url := "http://" + listener.Addr().String()

	key := make([]byte, 32)
	_, _ = rand.Read(key) // it never fails: https://pkg.go.dev/crypto/rand#Read
	secret := "whsec_" + base64.StdEncoding.EncodeToString(key)
	var bank *fakeprovider.Provider // nil: it is another's, and so are its events
	var payments payclient.Config
	if o.bank == "" {
		if bank, err = openBank(o.booksFile(), url+webhookPath, secret, log); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, bank.Close()) }()
		payments, err = paymentsAt("https://provider.example", bank.ID(), bank.RoundTripper())
	} else {
		var id string
		if id, err = askBank(ctx, o.bank); err != nil {
			return err
		}
		payments, err = paymentsAt(o.bank, id, nil)
	}
	if err != nil {
		return err
	}
	payments.Who = "checkout@" + listener.Addr().String()

	shop, err := Open(ctx, Config{
		DB:            o.db,
		Payments:      payments,
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
	server := &http.Server{
		Handler:           mux,
		ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 10 * time.Second, WriteTimeout: time.Minute, IdleTimeout: time.Minute,
		ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelWarn),
	}
	if bank != nil {
		mux.Handle("/_fake/", bank) // its books, for the demonstration, and its API for other shops
		server.ConnContext = bank.ConnContext
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
