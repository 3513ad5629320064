package fakeprovider

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// FaultInfo describes one part a Fault can be made of.
type FaultInfo struct {
	Name   string `json:"name"`
	Arg    string `json:"arg,omitempty"` // in brackets where it may be left out
	What   string `json:"what"`
	Covers string `json:"covers,omitempty"` // numbers of the HTTP faults it shows
}

// Catalogue lists every part a fault can be made of, in the order in which
// they act on a request.
func Catalogue() []FaultInfo {
	list := make([]FaultInfo, len(catalogue))
	for i, d := range catalogue {
		list[i] = d.FaultInfo
	}
	return list
}

// What parts of one name compete for; at most one part per slot in a fault.
const (
	slotDial    = "decide the dial"
	slotAnswer  = "stand in place of the answer"
	slotFraming = "frame the answer"
	slotLookup  = "decide what a search shows"
	slotWebhook = "decide when a webhook comes"
)

type faultDef struct {
	FaultInfo
	slot  string
	apply func(p *plan, arg string) error
}

var faultByName map[string]*faultDef

var catalogue []faultDef

func init() {
	catalogue = buildCatalogue()
	faultByName = make(map[string]*faultDef, len(catalogue))
	for i := range catalogue {
		faultByName[catalogue[i].Name] = &catalogue[i]
	}
}

func buildCatalogue() []faultDef {
	def := func(name, arg, slot, covers, what string, apply func(*plan, string) error) faultDef {
		return faultDef{FaultInfo{name, arg, what, covers}, slot, apply}
	}
	flag := func(set func(*plan)) func(*plan, string) error {
		return func(p *plan, _ string) error { set(p); return nil }
	}
	dial := func(name, covers, what string, d dialFault) faultDef {
		return def(name, "", slotDial, covers, what, flag(func(p *plan) { p.dial = d; p.inPlace = true }))
	}
	ends := func(name, covers, what string, e end) faultDef {
		return def(name, "", slotAnswer, covers, what, flag(func(p *plan) { p.end = e; p.inPlace = true }))
	}
	frames := func(name, covers, what string, f frame) faultDef {
		return def(name, "", slotFraming, covers, what, flag(func(p *plan) { p.frame = f }))
	}
	framesN := func(name, arg, covers, what string, f frame, least int) faultDef {
		return def(name, arg, slotFraming, covers, what, func(p *plan, arg string) error {
			p.frame, p.frameN = f, -1
			if arg == "" {
				return nil
			}
			n, err := number(arg, least)
			p.frameN = n
			return err
		})
	}
	framesD := func(name, covers, what string, f frame) faultDef {
		return def(name, "DURATION", slotFraming, covers, what, func(p *plan, arg string) error {
			p.frame = f
			return duration(&p.frameD, arg)
		})
	}
	look := func(name, covers, what string, l lookupFault) faultDef {
		return def(name, "", slotLookup, covers, what, flag(func(p *plan) { p.lookup = l }))
	}
	hooks := func(name, arg, slot, what string, set func(w *webhookPlan, arg string) error) faultDef {
		return def(name, arg, slot, "", what, func(p *plan, arg string) error {
			p.webhook.any = true
			return set(&p.webhook, arg)
		})
	}
	hook := func(name, slot, what string, set func(w *webhookPlan)) faultDef {
		return hooks(name, "", slot, what, func(w *webhookPlan, _ string) error { set(w); return nil })
	}
	edits := func(name, arg, covers, what string, op editOp) faultDef {
		return def(name, arg, "", covers, what, func(p *plan, arg string) error { return addEdit(p, op, arg) })
	}
	return []faultDef{
		def("answer", "", "", "", "no fault", flag(func(*plan) {})),

		dial("refuse-dial", "F28", "connection refused; on a socket: reset unread", dialRefused),
		dial("dns-failure", "F27", "no such host; on a socket: reset unread", dialDNS),
		dial("hang-dial", "F25 F26", "no connection until the context ends; on a socket: reset unread", dialHang),
		dial("dial-timeout", "F29", "the dialer's own time-out; on a socket: reset unread", dialTimeout),
		dial("proxy-refused", "F20", "a proxy answers CONNECT with 407; on a socket: reset unread", dialProxy),
		dial("tls-reset", "F31", "reset in the TLS handshake; on a socket: reset unread", dialTLSReset),
		dial("tls-unknown-authority", "F32", "certificate of an unknown authority; on a socket: reset unread", dialTLSUnknown),
		dial("tls-expired", "F32", "certificate has expired; on a socket: reset unread", dialTLSExpired),
		dial("tls-wrong-name", "F32", "certificate of another name; on a socket: reset unread", dialTLSName),
		dial("tls-timeout", "F30", "TLS handshake time-out; on a socket: reset unread", dialTLSTimeout),
		def("no-hooks", "", "", "F22", "RoundTrip calls no httptrace hook", flag(func(p *plan) { p.noHooks = true })),
		def("not-sent", "", slotAnswer, "F07", "a connection is had, the write fails, the provider sees nothing",
			flag(func(p *plan) { p.notSent, p.inPlace, p.early, p.end = true, true, true, endReset })),

		def("early", "STATUS", slotAnswer, "F47", "answers with a status before the body is read", func(p *plan, arg string) error {
			p.early = true
			return replyStatus(p, arg)
		}),
		def("read", "N", slotAnswer, "F44", "reads n bytes of the body, then resets the connection", func(p *plan, arg string) error {
			n, err := number(arg, 0)
			p.early, p.inPlace, p.readBytes, p.end = true, true, n, endReset
			return err
		}),

		def("book", "", "", "", "executes the request although its answer is replaced", flag(func(p *plan) { p.book = true })),
		def("book-after", "DURATION", "", "F45 F57", "executes the request after a while, the key locked until then", func(p *plan, arg string) error {
			p.book = true
			return duration(&p.bookAfter, arg)
		}),
		def("slow", "DURATION", "", "F45", "executes at once, answers after a while, the key running until then", func(p *plan, arg string) error {
			return duration(&p.slow, arg)
		}),
		def("decline", "[CODE]", "", "", "declines whatever the source is", func(p *plan, arg string) error {
			p.decline = cmp.Or(arg, "generic_decline")
			return nil
		}),
		def("pending", "", "", "", "the charge or refund stays pending", flag(func(p *plan) { p.pending = true })),
		def("requires-action", "", "", "", "the charge stays pending and names a URL for the payer", flag(func(p *plan) { p.pending, p.action = true, true })),
		def("flip", "DURATION:STATUS", "", "", "changes the status later: a late approval, a late failure", func(p *plan, arg string) error {
			d, to, _ := strings.Cut(arg, ":")
			var err error
			if p.flipTo, err = parseState(to); err != nil {
				return err
			}
			return duration(&p.flipAfter, d)
		}),
		def("book-amount", "N", "", "F72", "charges another amount than asked", func(p *plan, arg string) error {
			n, err := strconv.ParseInt(arg, 10, 64)
			p.bookAmount = n
			return err
		}),
		def("book-currency", "CODE", "", "F72", "charges in another currency than asked", func(p *plan, arg string) error {
			if len(arg) != 3 {
				return errors.New("a currency has three letters")
			}
			p.bookCurrency = arg
			return nil
		}),
		def("book-twice", "", "", "", "one request makes two charges", flag(func(p *plan) { p.twice = true })),
		def("hide", "DURATION", "", "", "keeps what is made out of searches for a while", func(p *plan, arg string) error {
			return duration(&p.hide, arg)
		}),
		def("pin", "", "", "", "the key remembers the answer as it was sent", flag(func(p *plan) { p.pin = true })),
		def("forget", "", "", "", "the key remembers nothing of this request", flag(func(p *plan) { p.forget = true })),

		ends("close", "F01 F03 F44", "closes the connection without a byte", endClose),
		ends("reset", "F02 F44", "resets the connection", endReset),
		ends("hang", "F45", "silence until the client gives up", endHang),
		ends("crash", "", "closes, the key stays locked until the lock times out", endCrash),
		def("lose-answer", "", slotAnswer, "F01 F44", "book+close", flag(func(p *plan) { p.book, p.inPlace, p.end = true, true, endClose })),
		def("lose-request", "", slotAnswer, "F44", "close", flag(func(p *plan) { p.inPlace, p.end = true, endClose })),
		def("never-arrives", "", slotAnswer, "F45", "hang", flag(func(p *plan) { p.inPlace, p.end = true, endHang })),
		ends("garbage", "F49", "bytes that are no HTTP", endGarbage),
		ends("flood-1xx", "F66", "informational answers without end", endFlood),
		ends("continue-close", "F46", "100 Continue, then the connection ends", endContinue),
		def("status", "STATUS", slotAnswer, "F64 F65", "answers with a status, as problem+json", replyStatus),
		def("reply", "STATUS:BODY", slotAnswer, "F62 F71 F74", "answers with a status and a body", func(p *plan, arg string) error {
			code, body, _ := strings.Cut(arg, ":")
			n, err := statusCode(code)
			replyWith(p, func(*exchange) answer { return answer{status: n, ctype: typeJSON, body: []byte(body)} })
			return err
		}),
		def("html", "[STATUS]", slotAnswer, "F71", "answers with a page of HTML, 200 unless said", func(p *plan, arg string) error {
			n, err := statusCode(cmp.Or(arg, "200"))
			replyWith(p, func(*exchange) answer {
				return answer{status: n, ctype: "text/html; charset=utf-8",
					body: []byte("<!DOCTYPE html><html><head><title>Please wait</title></head><body></body></html>\n")}
			})
			return err
		}),
		def("redirect", "STATUS[:LOCATION]", slotAnswer, "F14 F15 F19", "answers with a redirect to a URL, to itself, or (none) without Location", func(p *plan, arg string) error {
			code, location, _ := strings.Cut(arg, ":")
			n, err := statusCode(code)
			if n < 300 || n > 399 {
				return errors.New("a redirect's status is 300 to 399")
			}
			replyWith(p, func(x *exchange) answer {
				a := answer{status: n, ctype: typeJSON, body: []byte("{}")}
				switch location {
				case "none":
				case "", "self":
					a.header = append(a.header, headerField{"Location", x.in.uri})
				default:
					a.header = append(a.header, headerField{"Location", location})
				}
				return a
			})
			return err
		}),
		def("running", "", slotAnswer, "", "409: the first request of this key still runs", flag(func(p *plan) {
			replyWith(p, func(*exchange) answer { return problem(probRunning) })
		})),
		def("key-reused", "", slotAnswer, "", "422: the key was used with another request", flag(func(p *plan) {
			replyWith(p, func(*exchange) answer { return problem(probReused) })
		})),
		def("gzip-bomb", "[N]", slotAnswer, "F67", "200 with a gzip body that unpacks to n bytes (16 MiB unless said)", func(p *plan, arg string) error {
			n, err := number(cmp.Or(arg, "16777216"), 1)
			replyWith(p, func(*exchange) answer {
				return answer{status: 200, ctype: typeJSON, body: gzipSpaces(n), header: []headerField{{"Content-Encoding", "gzip"}}}
			})
			return err
		}),

		look("lookup-empty", "", "a search finds nothing", lookupEmpty),
		look("lookup-twice", "", "a search shows each record twice, with another id", lookupTwice),
		look("lookup-foreign", "F72", "a search shows a record of another reference", lookupForeign),
		look("lookup-stuck", "", "every page of a search is the first, has_more true", lookupStuck),
		look("lookup-null", "F74", `a search answers {"data":null}`, lookupNull),
		look("lookup-cut", "", "a search leaves its last record out and says there is no more", lookupCut),

		edits("set", "FIELD=VALUE", "F72 F75", "puts a JSON value (else a string) into a field, in a search into each record", editSet),
		edits("add", "FIELD=VALUE", "F73", "adds a field, leaving one of that name in place", editAdd),
		edits("omit", "FIELD", "F72", "takes a field out", editOmit),
		def("bad-utf8", "", "", "", "puts the byte FF into every string that holds the reference", flag(func(p *plan) {
			p.rewrite = append(p.rewrite, func(b []byte) []byte {
				return bytes.ReplaceAll(b, []byte(`"merchant_reference":"`), []byte("\"merchant_reference\":\"\xff"))
			})
		})),
		def("bom", "", "", "F71", "a byte order mark before the body", flag(func(p *plan) {
			p.rewrite = append(p.rewrite, func(b []byte) []byte { return append([]byte("\xef\xbb\xbf"), b...) })
		})),
		def("trailing", "[TEXT]", "", "F74", "text after the body, {} unless said", func(p *plan, arg string) error {
			p.rewrite = append(p.rewrite, func(b []byte) []byte { return append(b[:len(b):len(b)], cmp.Or(arg, "{}")...) })
			return nil
		}),
		def("pad", "N", "", "", "n blanks after the body", func(p *plan, arg string) error {
			n, err := number(arg, 0)
			p.rewrite = append(p.rewrite, func(b []byte) []byte {
				return append(b[:len(b):len(b)], bytes.Repeat([]byte(" "), n)...)
			})
			return err
		}),
		def("type", "[TYPE]", "", "F71", "another Content-Type, or none", func(p *plan, arg string) error {
			p.ctype = &arg
			return nil
		}),
		def("encoding", "NAME", "", "F68", "labels the plain body as gzip, deflate, ...", func(p *plan, arg string) error {
			p.headers = append(p.headers, headerField{"Content-Encoding", arg})
			return nil
		}),
		def("header", "NAME=VALUE", "", "", "adds a header", func(p *plan, arg string) error {
			name, value, ok := strings.Cut(arg, "=")
			if !ok || name == "" || strings.ContainsAny(arg, "\r\n\x00") || strings.ContainsAny(name, " \t:") {
				return errors.New("want NAME=VALUE without line breaks")
			}
			p.headers = append(p.headers, headerField{http.CanonicalHeaderKey(name), value})
			return nil
		}),
		def("retry-after", "TEXT", "", "S08", "Retry-After with any text: seconds, a fraction, a negative or too large number, a date", func(p *plan, arg string) error {
			if strings.ContainsAny(arg, "\r\n\x00") {
				return errors.New("no line breaks")
			}
			p.headers = append(p.headers, headerField{"Retry-After", arg})
			return nil
		}),
		def("retry-after-date", "DURATION", "", "S08", "Retry-After as a date this far from now, in the past if negative", func(p *plan, arg string) error {
			d, err := time.ParseDuration(arg)
			p.retryIn = &d
			return err
		}),
		def("no-replay-mark", "", "", "", "a replay without Idempotent-Replayed", flag(func(p *plan) { p.unmarked = true })),

		framesN("cut-body", "N", "F58", "promises the whole body, closes after n bytes of it", frameCut, 0),
		framesN("cut-chunked", "[N]", "F59", "chunked, closes after n bytes (all unless said) without the last chunk", frameCutChunked, 0),
		framesN("no-length", "[N]", "F60", "no length at all, closes after n bytes (all unless said): a clean end", frameNoLength, 0),
		framesN("wrong-length", "N", "F58 F61", "announces the body's length plus n", frameWrongLength, -1<<30),
		frames("empty", "F62", "the status with Content-Length 0", frameEmpty),
		frames("no-content", "F62", "204 without a body", frameNoContent),
		frames("half-headers", "F49", "the connection ends inside the headers", frameHalfHeaders),
		framesN("reset-body", "N", "F58", "resets the connection after n bytes of the body", frameResetBody, 0),
		framesN("stall-body", "N", "F55 F56", "headers and n bytes of the body, then silence", frameStallBody, 0),
		framesD("pause-body", "F55", "headers, a wait, then the body", framePauseBody),
		framesD("drip", "F70", "one byte of the body at a time, with a wait before each", frameDrip),
		frames("both-lengths", "F63", "Content-Length and chunked", frameBothLengths),
		frames("two-lengths", "F49", "two different Content-Length headers", frameTwoLengths),
		def("length", "TEXT", slotFraming, "F49", "any text as Content-Length, a negative number say", func(p *plan, arg string) error {
			p.frame, p.text = frameLength, arg
			return nil
		}),
		def("status-line", "TEXT", slotFraming, "F64", "any status line, such as HTTP/1.0%20201%20Created", func(p *plan, arg string) error {
			p.frame, p.text = frameStatusLine, arg
			return nil
		}),
		framesN("huge-headers", "N", "F50", "n bytes of additional headers", frameHugeHeaders, 1),
		frames("two-answers", "F92", "the answer is written twice at once", frameTwice),
		frames("extra-answer", "F69", "the next request on this connection gets this answer before its own", frameExtra),
		frames("close-after-answer", "F13", "the connection is promised to stay and closed after the answer", frameThenClose),

		// After the answer and beside it.
		hook("webhook-lost", slotWebhook, "no event about what is made is delivered", func(w *webhookPlan) { w.lost = true }),
		hook("webhook-first", slotWebhook, "the event is delivered before the API answers", func(w *webhookPlan) { w.first = true }),
		hook("webhook-reordered", slotWebhook, "the event comes after the next one about the same record, or an hour late",
			func(w *webhookPlan) { w.reordered = true }),
		hooks("webhook-late", "DURATION", slotWebhook, "each event comes this much later",
			func(w *webhookPlan, arg string) error { return duration(&w.late, arg) }),
		hook("webhook-twice", "", "each event is delivered again after it was acknowledged", func(w *webhookPlan) { w.twice = true }),
		hooks("webhook-bad-signature", "[N]", "", "the first n deliveries of each event (all unless said) are signed with another secret", parseForged),
		hooks("webhook-stale", "[DURATION]", "", "each delivery is dated this far (1h unless said) in the past, and signed so",
			func(w *webhookPlan, arg string) error { return duration(&w.stale, cmp.Or(arg, "1h")) }),
	}
}

func number(s string, least int) (int, error) {
	n, err := strconv.Atoi(s)
	if err != nil {
		return 0, errors.New("want a whole number")
	}
	if n < least || n > 1<<30 {
		return 0, fmt.Errorf("%d is out of range", n)
	}
	return n, nil
}

func duration(d *time.Duration, s string) (err error) {
	*d, err = time.ParseDuration(s)
	if err == nil && *d < 0 {
		return errors.New("negative duration")
	}
	return err
}

func statusCode(s string) (int, error) {
	n, err := strconv.Atoi(s)
	if err != nil || len(s) != 3 {
		return 0, errors.New("want a status of three digits")
	}
	return n, nil
}

func replyWith(p *plan, reply func(*exchange) answer) {
	p.inPlace, p.reply = true, reply
}

func replyStatus(p *plan, arg string) error {
	n, err := statusCode(arg)
	replyWith(p, func(*exchange) answer { return statusAnswer(n) })
	return err
}

func addEdit(p *plan, op editOp, arg string) error {
	name, value, ok := strings.Cut(arg, "=")
	if op != editOmit && !ok || name == "" {
		return errors.New("want FIELD=VALUE")
	}
	if !json.Valid([]byte(value)) {
		value = string(appendString(nil, value))
	}
	p.edits = append(p.edits, edit{op, name, value})
	return nil
}
