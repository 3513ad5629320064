package payclient_test

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/chargeonce/chargeonce/attempt"
	"github.com/chargeonce/chargeonce/fakeprovider"
	"github.com/chargeonce/chargeonce/payclient"
	"github.com/chargeonce/chargeonce/payclient/standard"
)

// once is a client that sends once and asks nobody, so that the answer alone speaks.
var once = func(c *payclient.Config) { c.Retries = -1 }

var alone = standard.Config{NoLookup: true}

// A charge that exists and is not final: told as unknown, with why, and settled by what the provider says later. No new
// request is sent meanwhile.
func TestC22NotFinalYet(t *testing.T) {
	for _, c := range []struct {
		fault  fakeprovider.Fault
		reason attempt.Reason
		later  fakeprovider.State
		told   told
	}{
		{"requires-action", attempt.ReasonPayerAction, fakeprovider.Succeeded, toldApproved},
		{"requires-action", attempt.ReasonPayerAction, fakeprovider.Failed, toldDeclined},
		{"pending", attempt.ReasonPending, fakeprovider.Succeeded, toldApproved},
		{"pending", attempt.ReasonPending, fakeprovider.Failed, toldDeclined},
	} {
		t.Run(fmt.Sprint(c.fault, " then ", c.later), func(t *testing.T) {
			aCase(t, fakeprovider.Config{}, standard.Config{}, nil, func(s *shop) {
				s.bank.Script(c.fault)
				res := s.pay(order("1001"))
				s.want(res, payclient.UnknownOutcome, payclient.MovedMaybe)
				if res.Reason != c.reason || res.ChargeID != "ch_000001" || (res.NextAction != "") != (c.fault == "requires-action") {
					t.Errorf("%s, charge %q, action %q; want %s and the charge", res.Reason, res.ChargeID, res.NextAction, c.reason)
				}
				s.wantOpen(res)
				s.want(s.pay(order("1001")), payclient.UnknownOutcome, payclient.MovedMaybe)
				s.wantPosts(1)
				if err := s.bank.Settle("ch_000001", c.later); err != nil {
					t.Fatal(err)
				}
				later, err := s.client.Check(s.t.Context(), order("1001").Slot())
				if err != nil {
					t.Fatal(err)
				}
				s.want(later, c.told.outcome, c.told.moved)
				if later.ChargeID != "ch_000001" {
					t.Errorf("charge %q, want the same", later.ChargeID)
				}
				s.wantPosts(1)
			})
		})
	}
}

// The currency's case is no difference.
func TestC22CurrencyInLowerCase(t *testing.T) {
	aCase(t, fakeprovider.Config{}, alone, once, func(s *shop) {
		s.bank.Script(fakeprovider.EchoCurrency("try"))
		s.want(s.pay(order("1001")), payclient.Approved, payclient.MovedYes)
	})
}

// Only the words of the API mean something: what is not one of them is no success, no refusal and no crash, and is kept.
func TestC22C23StatusesOfTheAPI(t *testing.T) {
	for word, want := range map[string]told{
		"succeeded": toldApproved, "failed": toldDeclined, "pending": toldUnknown,
		"Succeeded": toldViolation, "SUCCEEDED": toldViolation, " succeeded": toldViolation, "succeeded\\u0000": toldViolation,
		"partially_succeeded": toldViolation, "requires_capture": toldViolation, "requires_payment_method": toldViolation,
		"canceled": toldViolation, "authorised": toldViolation, "frobnicated": toldViolation, "": toldViolation,
		"null": toldViolation, "true": toldViolation, "[]": toldViolation, "absent": toldViolation,
	} {
		t.Run(word, func(t *testing.T) {
			aCase(t, fakeprovider.Config{}, alone, once, func(s *shop) {
				switch word {
				case "absent":
					s.bank.Script(fakeprovider.OmitField("status"))
				case "null", "true", "[]":
					s.bank.Script(fakeprovider.SetField("status", word))
				default:
					s.bank.Script(fakeprovider.SetField("status", `"`+word+`"`))
				}
				res := s.pay(order("1001"))
				s.want(res, want.outcome, want.moved)
				if want != toldApproved && want != toldDeclined {
					s.wantOpen(res)
				}
				readable := word != "true" && word != "[]"
				if readable && res.ChargeID != "ch_000001" {
					t.Errorf("charge %q, want it kept", res.ChargeID)
				}
				if want == toldViolation && readable && word != "absent" && word != "null" {
					if shown := strings.Trim(fmt.Sprintf("%q", strings.ReplaceAll(word, `\u0000`, "\x00")), `"`); !strings.Contains(res.Attempt.Answer.Detail, shown) {
						t.Errorf("detail %q, want the word %q in it", res.Attempt.Answer.Detail, shown)
					}
				}
			})
		})
	}
}

// A refusal that comes to the second request says nothing about the first: it is looked up, and the first charge counts.
func TestC24C26RefusalAfterALostAnswer(t *testing.T) {
	for name, said := range map[string]fakeprovider.Fault{
		"C24 704":                             fakeprovider.Reply(422, `{"status":422,"errorCode":"704","message":"request already processed or in progress","errorType":"validation","pspReference":"PSP2"}`),
		"C24 422 in the API's words":          fakeprovider.KeyReused,
		"C26 a duplicate invoice":             fakeprovider.Reply(422, `{"name":"UNPROCESSABLE_ENTITY","details":[{"issue":"DUPLICATE_INVOICE_ID"}],"debug_id":"d1"}`),
		"C26 b already captured":              fakeprovider.Reply(422, `{"code":"ORDER_ALREADY_CAPTURED"}`),
		"C26 c a rejected transaction":        fakeprovider.Reply(200, `{"success":false,"transaction":{"id":"tx_9","status":"gateway_rejected","gateway_rejection_reason":"duplicate"}}`),
		"C26 d no transaction":                fakeprovider.Reply(200, `{"success":false,"transaction":null}`),
		"C26 f two details":                   fakeprovider.Reply(422, `{"code":"x","details":[{"issue":"DUPLICATE_INVOICE_ID"},{"issue":"INSTRUMENT_DECLINED"}]}`),
		"C24 400":                             fakeprovider.Reply(400, `{"code":"duplicate"}`),
		"C24 401":                             fakeprovider.Status(401),
		"C24 404":                             fakeprovider.Status(404),
		"C24 409 that will never be anything": fakeprovider.Running,
	} {
		t.Run(name, func(t *testing.T) {
			for _, booked := range []bool{true, false} {
				aCase(t, fakeprovider.Config{}, standard.Config{}, nil, func(s *shop) {
					first := fakeprovider.LoseRequest
					if booked {
						first = fakeprovider.LoseAnswer
					}
					s.bank.Script(first)
					s.bank.Always(fakeprovider.Match{}, said)
					res := s.pay(order("1001"))
					if booked {
						s.want(res, payclient.Approved, payclient.MovedYes)
						if res.ChargeID != "ch_000001" {
							t.Errorf("charge %q, want the first one", res.ChargeID)
						}
					} else if !res.Open() || res.Moved != payclient.MovedMaybe || strings.Contains(res.ChargeID, "PSP2") || strings.Contains(res.ChargeID, "tx_9") {
						t.Errorf("%v moved=%v, charge %q; want it open, without a charge", res.Outcome, res.Moved, res.ChargeID)
					}
					s.oneKey() // and one reference, which is in the body
				})
			}
		})
	}
}

// Declined first, paid later: the decline stands as told, and the late money opens a duty that blocks the slot.
func TestC28DeclinedFirstPaidLater(t *testing.T) {
	aCase(t, fakeprovider.Config{}, standard.Config{}, nil, func(s *shop) {
		s.bank.Script(fakeprovider.Decline("contactless_limit"))
		declined := s.pay(order("1001"))
		s.want(declined, payclient.Declined, payclient.MovedNo)

		// The payer enters the PIN: another charge under the same reference.
		body := `{"amount":54890,"currency":"TRY","source":"tok_visa","merchant_reference":"` + declined.Reference + `"}`
		late, err := http.NewRequestWithContext(s.t.Context(), http.MethodPost, "http://127.0.0.1/v1/charges", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		late.Header = http.Header{"Authorization": {"Bearer sk_test"}, "Idempotency-Key": {`"another-try-of-the-payer"`}, "Content-Type": {"application/json"}}
		if resp, err := s.bank.RoundTrip(late); err != nil || resp.Body.Close() != nil || resp.StatusCode != http.StatusCreated {
			t.Fatalf("the late charge: %v, %v", resp, err)
		}
		s.want(s.pay(order("1001-b")), payclient.Approved, payclient.MovedYes) // meanwhile the order was paid anew

		found, err := s.client.FindByReference(s.t.Context(), declined.Reference)
		if err != nil || found.Answer != attempt.LookupFound || len(found.Charges) != 2 {
			t.Fatalf("found %v, %v; want the declined charge and the late one", found, err)
		}
		learn := &attempt.Record{ID: declined.AttemptID, Evidence: attempt.Evidence{
			Kind: attempt.EvidenceLookup, Lookup: found.Answer, AskedAt: time.Now(), Charges: found.Charges,
		}}
		if err := s.store.Apply(s.t.Context(), learn.Step(nil)); err != nil {
			t.Fatal(err)
		}
		a := learn.Attempt
		if a.Status != attempt.StatusDeclined || len(a.Charges) != 2 || len(learn.Duties) != 1 || learn.Duties[0].Why != attempt.WhyLateMoney {
			t.Errorf("%s with charges %v and duties %v; want it declined, both charges, and the duty", a.Status, a.Charges, learn.Duties)
		}
		owed := s.pay(order("1001"))
		s.want(owed, payclient.UnknownOutcome, payclient.MovedYes)
		if owed.Reason != attempt.ReasonRefundOwed {
			t.Errorf("reason %s, want refund_owed", owed.Reason)
		}
		s.wantCharges(2)
	})
}

func TestC29ApprovedButNotWhatWasAsked(t *testing.T) {
	for _, c := range []struct {
		name   string
		fault  fakeprovider.Fault
		told   told
		charge string
		detail string
	}{
		{"less", fakeprovider.EchoAmount(1500), toldWrong, "ch_000001", "amount: 15.00 TRY, want 548.90 TRY"},
		{"more", fakeprovider.EchoAmount(99900), toldWrong, "ch_000001", "amount: 999.00 TRY, want 548.90 TRY"},
		{"less was charged", fakeprovider.BookAmount(1500), toldWrong, "ch_000001", "amount: 15.00 TRY, want 548.90 TRY"},
		{"another currency", fakeprovider.EchoCurrency("USD"), toldWrong, "ch_000001", "amount: 548.90 USD, want 548.90 TRY"},
		{"another currency with another exponent", fakeprovider.EchoCurrency("JPY"), toldWrong, "ch_000001", "amount: 54890 JPY, want 548.90 TRY"},
		{"another reference", fakeprovider.EchoReference("ord-2002"), toldViolation, "ch_000001", "reference"},
		{"no reference", fakeprovider.OmitField("merchant_reference"), toldViolation, "ch_000001", "reference"},
		{"no amount", fakeprovider.OmitField("amount"), toldViolation, "ch_000001", "amount: missing"},
		{"amount null", fakeprovider.SetField("amount", "null"), toldViolation, "ch_000001", "amount: missing"},
		{"amount 0", fakeprovider.EchoAmount(0), toldViolation, "ch_000001", "amount: 0.00 TRY"},
		{"amount negative", fakeprovider.EchoAmount(-54890), toldViolation, "ch_000001", "amount: -548.90 TRY"},
		{"no currency", fakeprovider.OmitField("currency"), toldViolation, "ch_000001", "currency"},
		{"a currency that is none", fakeprovider.EchoCurrency("XXQ"), toldViolation, "ch_000001", "currency"},
		{"id empty", fakeprovider.SetField("id", `""`), toldViolation, "", "id: missing"},
		{"no id", fakeprovider.OmitField("id"), toldViolation, "", "id: missing"},
		{"id null", fakeprovider.SetField("id", "null"), toldViolation, "", "id: missing"},
	} {
		t.Run(c.name, func(t *testing.T) {
			aCase(t, fakeprovider.Config{}, alone, once, func(s *shop) {
				s.bank.Script(c.fault)
				res := s.pay(order("1001"))
				s.want(res, c.told.outcome, c.told.moved)
				s.wantOpen(res)
				if res.ChargeID != c.charge || !strings.Contains(res.Attempt.Answer.Detail, c.detail) {
					t.Errorf("charge %q, detail %q; want %q and %q", res.ChargeID, res.Attempt.Answer.Detail, c.charge, c.detail)
				}
				if c.told != toldWrong {
					return
				}
				// A person must look, and nothing is sent beside it.
				if d, owed := res.Attempt.OpenDuty(); !owed || d.Why != attempt.WhyDifferent || d.Amount != res.Attempt.Charges[0].Amount {
					t.Errorf("duty %+v, want a review of what the provider holds", d)
				}
				again := s.pay(order("1001"))
				s.want(again, c.told.outcome, c.told.moved)
				s.wantPosts(1)
			})
		})
	}
}

// Pages of gateways and empty answers: asked again with the key, else looked up, else open; never decided by the status.
func TestC30NotTheAPIsAnswer(t *testing.T) {
	for name, fault := range map[string]fakeprovider.Fault{
		"200 HTML": fakeprovider.HTML, "200 HTML as JSON": fakeprovider.HTML.And("type:application/json"),
		"201 HTML": "html:201", "502 HTML": "html:502", "503 HTML": "html:503", "504 HTML": "html:504", "520 HTML": "html:520",
		"202 empty":                   fakeprovider.Reply(202, "").And(fakeprovider.Header("Location", "/v1/charges/ch_1")),
		"201 empty":                   fakeprovider.Reply(201, "").And(fakeprovider.Header("Location", "/v1/charges/ch_1")),
		"204":                         fakeprovider.NoContent,
		"a body over the limit":       "pad:300000",
		"a body far over":             "pad:50000000",
		"a byte order mark":           "bom",
		"a status nobody knows":       fakeprovider.Status(299),
		"a list in its place":         fakeprovider.Reply(200, `{"data":[],"has_more":false}`),
		"the right charge, as a list": fakeprovider.Reply(200, `[]`),
	} {
		t.Run(name, func(t *testing.T) {
			booked := fault.And(fakeprovider.Book)
			if strings.HasPrefix(string(fault), "pad") || fault == "bom" || fault == fakeprovider.NoContent {
				booked = fault // damage to the answer: executed as it is
			}
			aCase(t, fakeprovider.Config{}, standard.Config{}, nil, func(s *shop) {
				s.bank.Script(booked)
				s.want(s.pay(order("1001")), payclient.Approved, payclient.MovedYes)
				s.oneKey()
				s.wantCharges(1)
			})
			aCase(t, fakeprovider.Config{}, alone, nil, func(s *shop) {
				s.bank.Always(fakeprovider.Match{}, booked)
				res := s.pay(order("1001"))
				s.wantOpen(res)
				if res.Moved != payclient.MovedMaybe || len(res.Attempt.Answer.Detail) > 200 {
					t.Errorf("moved=%v, %d bytes kept; want maybe, and little", res.Moved, len(res.Attempt.Answer.Detail))
				}
				s.oneKey()
				s.wantCharges(1)
			})
		})
	}
}

func TestC32WhatADecoderForgives(t *testing.T) {
	for _, c := range []struct {
		name  string
		fault fakeprovider.Fault
		told  told
	}{
		{"a name in another case", fakeprovider.SetField("status", `"failed"`).And(fakeprovider.AddField("Status", `"succeeded"`)), toldViolation},
		{"a name in another case, the other way", fakeprovider.AddField("STATUS", `"failed"`), toldViolation},
		{"a name with a long s", fakeprovider.AddField("ſtatus", `"failed"`), toldViolation},
		{"only in another case", fakeprovider.OmitField("status").And(fakeprovider.AddField("Status", `"succeeded"`)), toldViolation},
		{"another case of what nobody reads", fakeprovider.AddField("Created", `"x"`), toldViolation},
		{"a name twice", fakeprovider.SetField("status", `"failed"`).And(fakeprovider.AddField("status", `"succeeded"`)), toldViolation},
		{"a name twice, the other way", fakeprovider.AddField("status", `"failed"`), toldViolation},
		{"a name twice, equal", fakeprovider.AddField("amount", "54890"), toldViolation},
		{"a name twice inside an extra field", fakeprovider.AddField("extra", `{"a":1,"a":2}`), toldViolation},
		{"a second object", fakeprovider.Trailing(`{"status":"failed"}`), toldViolation},
		{"garbage behind it", fakeprovider.Trailing("<!-- trace -->"), toldViolation},
		{"null", fakeprovider.Book.And(fakeprovider.Reply(201, "null")), toldViolation},
		{"an array", fakeprovider.Book.And(fakeprovider.Reply(201, "[]")), toldViolation},
		{"a string", fakeprovider.Book.And(fakeprovider.Reply(201, `"approved"`)), toldViolation},
		{"a number", fakeprovider.Book.And(fakeprovider.Reply(201, "1")), toldViolation},
		{"an empty object", fakeprovider.Book.And(fakeprovider.Reply(201, "{}")), toldViolation},
		{"invalid UTF-8", "bad-utf8", toldViolation},
		{"invalid UTF-8 in an extra field", fakeprovider.AddField("extra", "\"\xff\""), toldViolation},
		{"blanks behind it", fakeprovider.Trailing(" \r\n\t"), toldApproved},
		{"an extra field", fakeprovider.AddField("extra", `{"a":[1,{"status":"failed","Status":"x"}]}`), toldApproved},
		{"extra fields with names of the API inside", fakeprovider.AddField("metadata", `{"ID":"x","Amount":1,"id":"y"}`), toldApproved},
	} {
		t.Run(c.name, func(t *testing.T) {
			aCase(t, fakeprovider.Config{}, alone, once, func(s *shop) {
				s.bank.Script(c.fault)
				res := s.pay(order("1001"))
				s.want(res, c.told.outcome, c.told.moved)
				if c.told == toldViolation {
					s.wantOpen(res)
				}
				s.wantCharges(1)
			})
		})
	}
}

// Good headers, broken body: alone it is open, asked again it is what the provider has stored.
func TestC33GoodHeadersBrokenBody(t *testing.T) {
	for name, fault := range map[string]fakeprovider.Fault{
		"a cut, with a length": fakeprovider.CutBody(30), "b cut, without one": fakeprovider.NoLength(30),
		"b whole, without one": fakeprovider.NoLength(-1), "c chunks without the last": fakeprovider.CutChunked(-1),
		"c chunks cut": fakeprovider.CutChunked(30), "d a length too small": "length:20", "e headers and a reset": fakeprovider.ResetBody(0),
		"e half of it and a reset": fakeprovider.ResetBody(30), "half of the headers": fakeprovider.HalfHeaders,
		"two lengths": "two-lengths", "a length too large": fakeprovider.WrongLength(5),
	} {
		for f, end := range map[string]told{"": toldApproved, "f, declined": toldDeclined} {
			t.Run(name+f, func(t *testing.T) {
				broken := fault
				if end == toldDeclined {
					broken = fault.And(fakeprovider.Decline("stolen_card"))
				}
				aCase(t, fakeprovider.Config{}, alone, once, func(s *shop) {
					s.bank.Script(broken)
					res := s.pay(order("1001"))
					if res.Moved != payclient.MovedMaybe || res.Outcome == payclient.Declined {
						t.Errorf("%v moved=%v, want it open", res.Outcome, res.Moved)
					}
					s.wantOpen(res)
				})
				aCase(t, fakeprovider.Config{}, standard.Config{}, nil, func(s *shop) {
					s.bank.Script(broken)
					res := s.pay(order("1001"))
					s.want(res, end.outcome, end.moved)
					s.oneKey()
					s.wantPosts(2)
					s.wantCharges(map[told]int{toldApproved: 1, toldDeclined: 0}[end])
				})
			})
		}
	}
}

// "Not found" a second after it was created: none within the provider's lag is nothing, and what is no answer is not none.
func TestC42NotFoundYet(t *testing.T) {
	aCase(t, fakeprovider.Config{SearchLag: 20 * time.Second}, standard.Config{}, once, func(s *shop) {
		s.bank.Script(fakeprovider.LoseAnswer)
		res := s.pay(order("1001"))
		s.wantOpen(res)
		for _, at := range []time.Duration{time.Second, 15 * time.Second} {
			s.sleep(at)
			res, err := s.client.Check(s.t.Context(), order("1001").Slot())
			if err != nil {
				t.Fatal(err)
			}
			s.want(res, payclient.UnknownOutcome, payclient.MovedMaybe)
		}
		s.sleep(10 * time.Second)
		res, err := s.client.Check(s.t.Context(), order("1001").Slot())
		if err != nil {
			t.Fatal(err)
		}
		s.want(res, payclient.Approved, payclient.MovedYes)
		s.wantPosts(1)
		s.wantCharges(1)
	})
	for name, c := range map[string]struct {
		fault  fakeprovider.Fault
		answer attempt.LookupAnswer
	}{
		"none":                       {fakeprovider.LookupEmpty, attempt.LookupNone},
		"404":                        {fakeprovider.Status(404), attempt.LookupUnreadable},
		"an array":                   {fakeprovider.Reply(200, "[]"), attempt.LookupUnreadable},
		"500":                        {fakeprovider.Status(500), attempt.LookupNotAsked},
		"429":                        {fakeprovider.Status(429), attempt.LookupNotAsked},
		"null":                       {"lookup-null", attempt.LookupUnreadable},
		"no has_more":                {fakeprovider.Reply(200, `{"data":[]}`), attempt.LookupUnreadable},
		"no data":                    {fakeprovider.Reply(200, `{"has_more":false}`), attempt.LookupUnreadable},
		"another case":               {fakeprovider.Reply(200, `{"data":[],"has_more":false,"Data":[{}]}`), attempt.LookupUnreadable},
		"cut":                        {fakeprovider.CutBody(10), attempt.LookupNotAsked},
		"no length":                  {fakeprovider.NoLength(-1), attempt.LookupNotAsked},
		"a redirect":                 {fakeprovider.Redirect(302, "self"), attempt.LookupUnreadable},
		"HTML":                       {fakeprovider.HTML, attempt.LookupUnreadable},
		"another's charge":           {fakeprovider.LookupForeign, attempt.LookupUnreadable},
		"pages without an end":       {fakeprovider.LookupStuck, attempt.LookupUnreadable},
		"a status nobody knows":      {fakeprovider.SetField("status", `"odd"`), attempt.LookupUnreadable},
		"a charge without an id":     {fakeprovider.OmitField("id"), attempt.LookupUnreadable},
		"a charge without an amount": {fakeprovider.OmitField("amount"), attempt.LookupUnreadable},
		"another amount":             {fakeprovider.EchoAmount(1), attempt.LookupFound},
		"two":                        {fakeprovider.LookupTwice, attempt.LookupFound},
		"refused connection":         {fakeprovider.RefuseDial, attempt.LookupNotAsked},
		"reset":                      {fakeprovider.Reset, attempt.LookupNotAsked},
		"silence":                    {fakeprovider.Hang, attempt.LookupNotAsked},
	} {
		t.Run(name, func(t *testing.T) {
			aCase(t, fakeprovider.Config{}, standard.Config{}, func(cfg *payclient.Config) { cfg.Breaker.FailurePercent = -1 }, func(s *shop) {
				paid := s.pay(order("1001"))
				s.bank.Always(fakeprovider.Lookups, c.fault)
				before := s.bank.RequestCount()
				l, err := s.client.FindByReference(s.t.Context(), paid.Reference)
				if l.Answer != c.answer || (err != nil) != (c.answer == attempt.LookupNotAsked) {
					t.Errorf("%v (%s), %v; want %v", l.Answer, l.Detail, err, c.answer)
				}
				if n := s.bank.RequestCount() - before; n > 2 {
					t.Errorf("%d requests for one question", n)
				}
				if (len(l.Charges) > 0) != (c.answer == attempt.LookupFound) {
					t.Errorf("%d charges with %v", len(l.Charges), l.Answer)
				}
			})
		})
	}
}

// Time alone decides nothing: however old, and however often nobody could be asked.
func TestC45TimeAloneDecidesNothing(t *testing.T) {
	aCase(t, fakeprovider.Config{}, standard.Config{}, nil, func(s *shop) {
		s.bank.Always(fakeprovider.Match{}, fakeprovider.LoseAnswer)
		s.bank.Always(fakeprovider.Lookups, fakeprovider.Status(503))
		s.wantOpen(s.pay(order("1001")))
		for range 30 {
			s.sleep(time.Hour)
			res, err := s.client.Check(s.t.Context(), order("1001").Slot())
			if err != nil || !res.Open() {
				t.Fatalf("%v, %v; want it open", res.Outcome, err)
			}
			other := order("1001")
			other.Source = attempt.Token("tok_mastercard")
			if _, err := s.client.Pay(s.t.Context(), other); !errors.Is(err, attempt.ErrConflict) {
				t.Fatalf("another card: %v, want a conflict", err)
			}
		}
		s.bank.ClearFaults()
		res, err := s.client.Check(s.t.Context(), order("1001").Slot())
		if err != nil {
			t.Fatal(err)
		}
		s.want(res, payclient.Approved, payclient.MovedYes)
		s.wantCharges(1)
	})
}
