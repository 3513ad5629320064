//go:build amd64 || arm64

package crashrig

import "github.com/chargeonce/chargeonce/attempt"

// verb is one thing that the program does, and that is killed.
type verb struct {
	name    string
	rows    string     // the payments
	faults  string     // of the provider, from the beginning
	setup   [][]string // what was done before
	leaves  []int      // the codes with which that ended, 0 where none is said
	heal    bool       // the provider is well from then on
	run     []string   // is killed
	meets   []string   // points that a run has, so that it is known to do what it is killed at
	codes   []int      // with which it ends
	finish  []string   // what is run in the end, until it ends with 0; nil: nothing
	endings map[string]ending
	server  *server // nil: with SQLite
}

var paid, lost = ending{status: attempt.StatusApproved, charged: true}, ending{status: attempt.StatusAbandoned}

var verbs = []verb{
	{
		name: "pay", rows: "1,5.00,EUR,tok_visa\n2,6.00,EUR,tok_lost_answer\n3,7.00,EUR,tok_declined\n",
		run: []string{"pay", "{rows}"}, meets: []string{"write of wal, before any request", "sync of wal, before any request", "dial, before any request", "charge: before it is written", "charge: written", "charge: answer arrives", "write of wal, charge answered", "sync of wal, charge answered"},
		codes:   []int{3},
		endings: map[string]ending{"1": paid, "2": paid, "3": {status: attempt.StatusDeclined}},
	},
	{ // the head of an answer comes before its body
		name: "pay slowly", rows: "1,5.00,EUR,tok_visa\n",
		faults: `{"rules":[{"match":{"method":"POST"},"always":"pause-body:20ms"}]}`,
		setup:  [][]string{{"migrate", "up"}}, // a new database is made by the other one
		run:    []string{"pay", "{rows}"}, meets: []string{"charge: answer arrives", "charge: more of its answer arrives", "write of wal, charge answered"},
		codes:   []int{0},
		endings: map[string]ending{"1": paid},
	},
	{
		name: "reconcile", rows: "1,5.00,EUR,tok_visa\n2,6.00,EUR,tok_visa\n",
		faults: `{"rules":[{"match":{"method":"POST"},"always":"lose-answer"},{"match":{"method":"GET"},"always":"status:503"}]}`, heal: true,
		setup: [][]string{{"pay", "{rows}", "--settle", "0s"}}, leaves: []int{5},
		run: []string{"reconcile", "--all"}, meets: []string{"lookup: before it is written", "lookup: answer arrives", "write of wal, lookup answered"},
		codes:   []int{0},
		endings: map[string]ending{"1": paid, "2": paid},
	},
	{
		name: "abandon", rows: "1,5.00,EUR,tok_visa\n",
		faults: `{"rules":[{"match":{"method":"POST"},"always":"lose-request"},{"match":{"method":"GET"},"always":"status:503"}]}`, heal: true,
		setup: [][]string{{"pay", "{rows}", "--settle", "0s"}}, leaves: []int{5},
		run: []string{"reconcile", "--all"}, meets: []string{"lookup: before it is written", "lookup: answer arrives", "write of wal, lookup answered"},
		codes: []int{0, 5}, finish: []string{"reconcile", "--all"},
		endings: map[string]ending{"1": lost},
	},
	{
		name: "refund", rows: "1,5.00,EUR,tok_visa\n", setup: [][]string{{"pay", "{rows}"}},
		run: []string{"refund", "1", "--id", "R1", "--amount", "2.00"}, meets: []string{"write of wal, before any request", "refund: before it is written", "refund: answer arrives", "write of wal, refund answered"},
		codes:   []int{0},
		endings: map[string]ending{"1": {status: attempt.StatusApproved, charged: true, back: 200}},
	},
	{
		name: "cancel", rows: "1,5.00,EUR,tok_visa\n",
		faults: `{"rules":[{"match":{"method":"POST"},"always":"lose-answer"},{"match":{"method":"GET"},"always":"status:503"}]}`, heal: true,
		setup: [][]string{{"pay", "{rows}", "--settle", "0s"}}, leaves: []int{5},
		run: []string{"cancel", "1", "--reason", "out of time"}, meets: []string{"write of wal, before any request", "lookup: answer arrives", "write of wal, lookup answered"},
		codes: []int{5}, finish: []string{"reconcile", "--all"},
		endings: map[string]ending{"1": {status: attempt.StatusApproved, charged: true, back: 500}},
	},
	{
		name: "give back", rows: "1,5.00,EUR,tok_visa\n",
		setup: [][]string{{"pay", "{rows}"}, {"cancel", "1", "--reason", "out of time"}}, leaves: []int{0, 5},
		run: []string{"reconcile", "--all"}, meets: []string{"refund: before it is written", "refund: answer arrives", "write of wal, refund answered"},
		codes: []int{0, 5}, finish: []string{"reconcile", "--all"},
		endings: map[string]ending{"1": {status: attempt.StatusApproved, charged: true, back: 500}},
	},
}
