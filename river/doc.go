// Package chargeonceriver looks after open payments with River (https://riverqueue.com), for hosts that run their background
// work there: River's retries, its views and its alarms then show payments that nobody knows the outcome of.
//
// It promises:
//
//   - An attempt whose outcome becomes unknown gets a job in the very transaction that makes it so, scheduled for when the
//     provider is to be asked first, whichever process writes it. There is no moment at which a crash could part the two.
//   - The job comes back until the attempt is settled or a person has to decide: it snoozes until the attempt's own next check,
//     for days if need be, and uses up none of River's attempts by that.
//   - What no job stands for is found by a sweep, a periodic job: a claim whose process has died, a refund that is owed, an
//     attempt of before the installation.
//   - A payment never depends on River. Where a job cannot be inserted, because River's table is locked, gone or changed, the
//     outcome is stored all the same, and the sweep finds the attempt.
//   - All that decides about money stays in the chargeonce store: jobs hold an attempt's id and nothing else, claims and due
//     times are the store's. So a [reconcile.Reconciler] of its own may run beside River, and two jobs for one attempt do no
//     harm.
//
// # Setting it up
//
// The store is attempt/postgres, in the database in which River's tables are. This is a module of its own, so that nobody else
// depends on River:
//
//	go get github.com/chargeonce/chargeonce/river
//
// Beside a clone of the repository name both modules in the service's go.mod:
//
//	replace github.com/chargeonce/chargeonce => ../chargeonce
//	replace github.com/chargeonce/chargeonce/river => ../chargeonce/river
//
// Once for each release, by a role that owns both schemas, in this order: the store's migrations (chargeonce migrate up, or
// postgres.Migrate), River's own (river migrate-up, or package rivermigrate; https://riverqueue.com/docs/migrations), and [Install], which puts a trigger on
// the store's attempts; [InstallSQL] is what it runs, for a DBA. In each process [AddWorkers] and [Sweep] make the jobs be worked, once River's client
// is started:
//
//	workers := river.NewWorkers()
//	err := chargeonceriver.AddWorkers(workers, chargeonceriver.Config{Reconciler: reconciler, Store: store})
//	...
//	jobs, err := river.NewClient(riverpgxv5.New(pool), &river.Config{
//		Queues:       map[string]river.QueueConfig{river.QueueDefault: {MaxWorkers: 8}},
//		Workers:      workers,
//		PeriodicJobs: []*river.PeriodicJob{chargeonceriver.Sweep(chargeonceriver.SweepOptions{})},
//	})
//	...
//	err = jobs.Start(ctx) // without it nothing is worked, and the store's own reconciler has to look
//
// The example is a whole service, from its migrations to a payment that a job clears up.
//
// Two who look at one attempt at the same moment, a job and a pass of a reconciler, may both ask the provider. That costs a
// question; the answers are both stored and say the same.
package chargeonceriver
