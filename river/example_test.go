package chargeonceriver_test

import (
	"fmt"

	"github.com/riverqueue/river"

	"github.com/chargeonce/chargeonce/attempt"
	"github.com/chargeonce/chargeonce/fakeprovider"
	"github.com/chargeonce/chargeonce/payclient"
	"github.com/chargeonce/chargeonce/payclient/standard"
	"github.com/chargeonce/chargeonce/reconcile"
	chargeonceriver "github.com/chargeonce/chargeonce/river"
)

// A service hands its open payments to River. After its migrations it calls Install once; here are the parts of its start.
func Example() {
	provider, err := standard.New(standard.Config{Token: payclient.NewSecret("sk_test")})
	if err != nil {
		panic(err)
	}
	store := new(attempt.Memory) // postgres.Open in a service: the trigger is on its tables
	client, err := payclient.New(payclient.Config{
		Provider: provider, Store: store, BaseURL: "https://provider.example", Transport: fakeprovider.New(fakeprovider.Config{}),
	})
	if err != nil {
		panic(err)
	}
	reconciler, err := reconcile.New(reconcile.Config{Store: store, Askers: []reconcile.Asker{client}})
	if err != nil {
		panic(err)
	}

	workers := river.NewWorkers()
	err = chargeonceriver.AddWorkers(workers, chargeonceriver.Config{Reconciler: reconciler, Store: store})
	config := river.Config{ // for river.NewClient
		Queues:       map[string]river.QueueConfig{river.QueueDefault: {MaxWorkers: 8}},
		Workers:      workers,
		PeriodicJobs: []*river.PeriodicJob{chargeonceriver.Sweep(chargeonceriver.SweepOptions{})},
	}
	fmt.Println("periodic jobs:", len(config.PeriodicJobs), err)
	// Output: periodic jobs: 1 <nil>
}

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
