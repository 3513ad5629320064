// Package paytest gives a host's own tests a client, a fake provider and a store, in one line:
//
//	p := paytest.New(t)
//	handler := checkout(p.Client) // the host's
//	p.Bank.Script(fakeprovider.LoseAnswer)
//
// It promises that nothing leaves the process, that all of it ends with the test, and that a test fails at its end if an
// order holds more than one charge in the provider's books and no duty tells of it, or if nobody could look.
//
// The client has the defaults that it has in production, waits included. In a testing/synctest bubble they take no time;
// make the Kit inside the bubble. Outside of one, the option [Quick] makes the waits between requests short.
package paytest
