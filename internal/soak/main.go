package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"time"
)

func main() {
	if rate := os.Getenv(envBank); rate != "" {
		if err := serveBank(rate); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	var c config
	flag.DurationVar(&c.length, "for", 10*time.Minute, "how long is paid")
	flag.StringVar(&c.store, "store", "sqlite", "sqlite, memory or postgres")
	flag.StringVar(&c.db, "db", os.Getenv("CHARGEONCE_TEST_POSTGRES"), "the URL of a PostgreSQL database, which gets a schema more")
	flag.IntVar(&c.rate, "rate", 200, "payments per second")
	flag.Float64Var(&c.faults, "faults", 0.2, "the share of payments' requests that meet a fault")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	ok, err := soak(ctx, c, os.Stdout)
	if err != nil {
		fmt.Fprintln(os.Stderr, "soak:", err)
	}
	if err != nil || !ok {
		stop()
		os.Exit(1)
	}
}
