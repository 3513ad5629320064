package chargeonceriver_test

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivermigrate"

	"github.com/chargeonce/chargeonce/attempt"
	"github.com/chargeonce/chargeonce/attempt/postgres"
	"github.com/chargeonce/chargeonce/fakeprovider"
	"github.com/chargeonce/chargeonce/money"
	"github.com/chargeonce/chargeonce/payclient"
	"github.com/chargeonce/chargeonce/payclient/standard"
	"github.com/chargeonce/chargeonce/reconcile"
	chargeonceriver "github.com/chargeonce/chargeonce/river"
)

// A service hands its open payments to River: the migrations of both and the trigger, once for each release, and then the parts of its
// start. Here the provider charges, its answer is lost, and the job that was inserted with that finds the charge.
func Example() {
	url := os.Getenv("CHARGEONCE_TEST_POSTGRES")
	if url == "" {
		fmt.Println("told as unknown\nthe job has found it: approved\ncharges: 1") // there is no server to try it on
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	pool, err := pgxpool.New(ctx, url)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer pool.Close()
	name := fmt.Sprint("river_example_", os.Getpid()) // a service leaves the schemas' names as they are: "chargeonce", and "public" for River
	where := chargeonceriver.InstallOptions{Schema: name, RiverSchema: name + "_jobs"}
	defer func() {
		_, _ = pool.Exec(context.Background(), "DROP SCHEMA IF EXISTS "+where.Schema+", "+where.RiverSchema+" CASCADE")
	}()

	if err := migrate(ctx, url, pool, where); err != nil {
		fmt.Println(err)
		return
	}
	if err := serve(ctx, url, pool, where); err != nil {
		fmt.Println(err)
	}
	// Output:
	// told as unknown
	// the job has found it: approved
	// charges: 1
}

// migrate is run once for each release, by a role that owns both schemas.
func migrate(ctx context.Context, url string, pool *pgxpool.Pool, where chargeonceriver.InstallOptions) error {
	// `chargeonce migrate up` does the same.
	if _, err := postgres.Migrate(ctx, url, postgres.MigrateOptions{Schema: where.Schema}); err != nil {
		return err
	}
	if _, err := pool.Exec(ctx, "CREATE SCHEMA IF NOT EXISTS "+where.RiverSchema); err != nil {
		return err
	}
	// River's own tables; `river migrate-up` does the same: https://riverqueue.com/docs/migrations
	migrator, err := rivermigrate.New(riverpgxv5.New(pool), &rivermigrate.Config{Schema: where.RiverSchema, Logger: quiet})
	if err != nil {
		return err
	}
	if _, err := migrator.Migrate(ctx, rivermigrate.DirectionUp, nil); err != nil {
		return err
	}
	return chargeonceriver.Install(ctx, pool, where) // the trigger that inserts the jobs
}

// serve is a process of the service, from its start to its end.
func serve(ctx context.Context, url string, pool *pgxpool.Pool, where chargeonceriver.InstallOptions) error {
	store, err := postgres.Open(ctx, url, postgres.Options{Schema: where.Schema})
	if err != nil {
		return err
	}
	defer store.Close()
	bank := fakeprovider.New(fakeprovider.Config{})
	provider, err := standard.New(standard.Config{Token: payclient.NewSecret("sk_test")})
	if err != nil {
		return err
	}
	payments, err := payclient.New(payclient.Config{
		Provider: provider, Store: store, BaseURL: "https://provider.example", Transport: bank.RoundTripper(), Who: "shop-1",
		// A service leaves the times as they are: a payment is asked about after 2 minutes.
		Retries: -1, SendTimeout: 900 * time.Millisecond, CallTimeout: time.Second, MinAge: time.Second, AskWaits: []time.Duration{time.Second},
	})
	if err != nil {
		return err
	}
	defer payments.Close(ctx)
	reconciler, err := reconcile.New(reconcile.Config{Store: store, Askers: []reconcile.Asker{payments}, Who: "shop-1"})
	if err != nil {
		return err
	}

	workers := river.NewWorkers()
	if err := chargeonceriver.AddWorkers(workers, chargeonceriver.Config{Reconciler: reconciler, Store: store}); err != nil {
		return err
	}
	jobs, err := river.NewClient(riverpgxv5.New(pool), &river.Config{
		Schema:       where.RiverSchema,
		Queues:       map[string]river.QueueConfig{river.QueueDefault: {MaxWorkers: 8}},
		Workers:      workers,
		PeriodicJobs: []*river.PeriodicJob{chargeonceriver.Sweep(chargeonceriver.SweepOptions{})},
		Logger:       quiet,
	})
	if err != nil {
		return err
	}
	ended, unsubscribe := jobs.Subscribe(river.EventKindJobCompleted) // for this example only
	defer unsubscribe()
	if err := jobs.Start(ctx); err != nil {
		return err
	}
	defer func() { _ = jobs.Stop(context.WithoutCancel(ctx)) }()

	bank.Script(fakeprovider.LoseAnswer)                           // it charges, and the answer is lost
	bank.ScriptFor(fakeprovider.Lookups, fakeprovider.Status(503)) // and cannot tell when it is asked at once
	res, err := payments.Pay(ctx, attempt.Intent{Order: "1001", Amount: money.MustParse("548.90", "TRY"), Source: attempt.Token("tok_visa")})
	if err != nil {
		return err
	}
	fmt.Println("told as", res.Outcome)
	for {
		select {
		case <-ended:
		case <-ctx.Done():
			return ctx.Err()
		}
		a, err := store.Attempt(ctx, res.AttemptID)
		if err != nil {
			return err
		}
		if a.Status.Final() {
			fmt.Println("the job has found it:", a.Status)
			fmt.Println("charges:", len(bank.Charges()))
			return nil
		}
	}
}

var quiet = slog.New(slog.DiscardHandler)

// A DBA wants to see what is run.
func ExampleUninstallSQL() {
	sql, err := chargeonceriver.UninstallSQL(chargeonceriver.InstallOptions{Schema: "shop"})
	fmt.Print(sql)
	fmt.Println(err)
	// Output:
	// DROP TRIGGER IF EXISTS chargeonce_river_inserted ON "shop".chargeonce_attempts;
	// DROP TRIGGER IF EXISTS chargeonce_river_updated ON "shop".chargeonce_attempts;
	// DROP FUNCTION IF EXISTS "shop".chargeonce_river_job();
	// <nil>
}
