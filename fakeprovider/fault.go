package fakeprovider

import (
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// Fault is the name of one misbehaviour, or of several joined by "+". The
// names, their arguments and what they show are in [Catalogue]. The empty
// Fault is Answer.
//
// An argument that needs a plus sign, a percent sign or white space writes
// it percent-encoded (%2B, %25, %20); the constructors do that by themselves.
type Fault string

// Faults without an argument. Those marked "in place" replace the answer, so
// the request is not executed unless joined with Book.
const (
	Answer Fault = "answer" // no fault: answer normally
	Book   Fault = "book"   // execute the request although its answer is replaced

	LoseAnswer   Fault = "lose-answer"   // book+close: charged, no answer
	LoseRequest  Fault = "lose-request"  // close: not charged, no answer
	NeverArrives Fault = "never-arrives" // hang: not charged, silence until the client gives up

	Close Fault = "close" // in place: the connection is closed without a byte
	Reset Fault = "reset" // in place: the connection is reset
	Hang  Fault = "hang"  // in place: silence until the client gives up
	Crash Fault = "crash" // in place: the worker dies, the key stays locked until Config.LockTimeout

	RefuseDial          Fault = "refuse-dial"           // connection refused
	DNSFailure          Fault = "dns-failure"           // no such host
	HangDial            Fault = "hang-dial"             // the dial ends with the context
	TLSReset            Fault = "tls-reset"             // reset in the TLS handshake
	TLSUnknownAuthority Fault = "tls-unknown-authority" // certificate of an unknown authority
	NotSent             Fault = "not-sent"              // a connection is had, nothing leaves on it
	NoHooks             Fault = "no-hooks"              // RoundTrip calls no httptrace hook

	Running   Fault = "running"    // in place: 409, the first request of this key still runs
	KeyReused Fault = "key-reused" // in place: 422, the key was used with another request
	Garbage   Fault = "garbage"    // in place: bytes that are no HTTP
	Flood1xx  Fault = "flood-1xx"  // in place: informational answers without end
	HTML      Fault = "html"       // in place: 200 with a page of HTML

	Pin    Fault = "pin"    // the answer as sent is what the key remembers
	Forget Fault = "forget" // the key remembers nothing of this request

	Empty         Fault = "empty"          // the status with Content-Length 0
	NoContent     Fault = "no-content"     // 204 instead of the answer
	HalfHeaders   Fault = "half-headers"   // the connection ends inside the headers
	TwoAnswers    Fault = "two-answers"    // the answer is written twice at once
	ExtraAnswer   Fault = "extra-answer"   // the next request on this connection gets this answer
	LookupEmpty   Fault = "lookup-empty"   // a search finds nothing
	LookupTwice   Fault = "lookup-twice"   // a search shows each record twice, with another id
	LookupForeign Fault = "lookup-foreign" // a search shows another reference's record
	LookupStuck   Fault = "lookup-stuck"   // every page of a search is the first one, has_more true

	WebhookLost         Fault = "webhook-lost"          // no event about what is made is delivered
	WebhookFirst        Fault = "webhook-first"         // the event is delivered before the API answers
	WebhookReordered    Fault = "webhook-reordered"     // the event comes after the next one about the same record
	WebhookTwice        Fault = "webhook-twice"         // each event is delivered again after it was acknowledged
	WebhookBadSignature Fault = "webhook-bad-signature" // each delivery is signed with another secret
	WebhookStale        Fault = "webhook-stale"         // each delivery is dated an hour in the past
)

// And joins faults into one step.
func (f Fault) And(more ...Fault) Fault {
	parts := make([]string, 0, 1+len(more))
	for _, p := range append([]Fault{f}, more...) {
		if p != "" && p != Answer {
			parts = append(parts, string(p))
		}
	}
	if len(parts) == 0 {
		return Answer
	}
	return Fault(strings.Join(parts, "+"))
}

// Slow executes at once and answers after d; the key counts as running until
// then.
func Slow(d time.Duration) Fault { return with("slow", d) }

// BookAfter executes the request d after it arrived; the key is locked until
// then and the answer follows. It is executed whether or not the client is
// still there.
func BookAfter(d time.Duration) Fault { return with("book-after", d) }

// Hide keeps what this request makes out of searches and listings for d.
func Hide(d time.Duration) Fault { return with("hide", d) }

// Status answers with an HTTP status in place of the executed request.
func Status(code int) Fault { return with("status", code) }

// Reply answers with a status and a body in place of the executed request.
func Reply(code int, body string) Fault { return with("reply", code, body) }

// Redirect answers with a 3xx status and a Location in place of the executed
// request. An empty location sends no Location header; "self" is the
// request's own URL.
func Redirect(code int, location string) Fault {
	if location == "" {
		location = "none"
	}
	return with("redirect", code, location)
}

// Early answers with a status before the body is read.
func Early(code int) Fault { return with("early", code) }

// RetryAfter adds a Retry-After header with the text as it is given.
func RetryAfter(text string) Fault { return with("retry-after", text) }

// RetryAfterDate adds a Retry-After header in its date form, d from now.
func RetryAfterDate(d time.Duration) Fault { return with("retry-after-date", d) }

// Header adds a response header.
func Header(name, value string) Fault { return with("header", name+"="+value) }

// Decline refuses the payment with this decline code, whatever its source.
func Decline(code string) Fault { return with("decline", code) }

// Flip changes the charge's status d after it was made, as a late approval or
// a late failure does.
func Flip(d time.Duration, to State) Fault { return with("flip", d, to) }

// WebhookLate has each event about what the request makes come d later.
func WebhookLate(d time.Duration) Fault { return with("webhook-late", d) }

// BookAmount makes the charge with another amount than was asked.
func BookAmount(amount int64) Fault { return with("book-amount", amount) }

// EchoAmount answers with another amount than was charged.
func EchoAmount(amount int64) Fault { return SetField("amount", strconv.FormatInt(amount, 10)) }

// EchoCurrency answers with another currency than was charged.
func EchoCurrency(code string) Fault { return SetField("currency", code) }

// EchoReference answers with another merchant reference.
func EchoReference(ref string) Fault { return SetField("merchant_reference", ref) }

// SetField puts a JSON value (or, if it is none, a string) into a field of
// the answer's object, and of each record of a search.
func SetField(name, value string) Fault { return with("set", name+"="+value) }

// AddField appends a field and leaves one of the same name in place: a
// duplicate name, a name in other case, an unknown field.
func AddField(name, value string) Fault { return with("add", name+"="+value) }

// OmitField takes a field out of the answer.
func OmitField(name string) Fault { return with("omit", name) }

// CutBody promises the whole body and closes after n bytes of it.
func CutBody(n int) Fault { return with("cut-body", n) }

// CutChunked sends the body chunked and closes after n bytes, without the
// last chunk. Negative n sends the whole body.
func CutChunked(n int) Fault { return optional("cut-chunked", n) }

// NoLength sends n bytes of the body without any length and closes, which
// reads as a clean end. Negative n sends the whole body.
func NoLength(n int) Fault { return optional("no-length", n) }

// WrongLength announces the body's length plus n.
func WrongLength(n int) Fault { return with("wrong-length", n) }

// ResetBody resets the connection after n bytes of the body.
func ResetBody(n int) Fault { return with("reset-body", n) }

// StallBody sends the headers and n bytes of the body, then nothing more.
func StallBody(n int) Fault { return with("stall-body", n) }

// PauseBody sends the headers, waits d, and sends the body.
func PauseBody(d time.Duration) Fault { return with("pause-body", d) }

// Drip sends the body one byte every d.
func Drip(d time.Duration) Fault { return with("drip", d) }

// HugeHeaders adds n bytes of response headers.
func HugeHeaders(n int) Fault { return with("huge-headers", n) }

// GzipBomb answers with a gzip body that unpacks to n bytes.
func GzipBomb(n int) Fault { return with("gzip-bomb", n) }

// Trailing appends text to the body.
func Trailing(text string) Fault { return with("trailing", text) }

func optional(name string, n int) Fault {
	if n < 0 {
		return Fault(name)
	}
	return with(name, n)
}

func with(name string, args ...any) Fault {
	var b strings.Builder
	b.WriteString(name)
	for _, a := range args {
		b.WriteByte(':')
		b.WriteString(escape(fmt.Sprint(a)))
	}
	return Fault(b.String())
}

// escape keeps an argument apart from what separates parts and steps.
func escape(s string) string {
	var b strings.Builder
	for i := range len(s) {
		if c := s[i]; c <= ' ' || c == '+' || c == '%' || c == 0x7f {
			fmt.Fprintf(&b, "%%%02X", c)
		} else {
			b.WriteByte(c)
		}
	}
	return b.String()
}

// ParseFault reads a fault's name, as it stands in scripts and on command
// lines. The error names the part that is wrong and lists near names.
func ParseFault(s string) (Fault, error) {
	if _, err := parsePlan(Fault(s)); err != nil {
		return "", err
	}
	return Fault(s), nil
}

// ParseScript reads steps separated by white space; "3*close" is a step said
// three times.
func ParseScript(s string) ([]Fault, error) {
	var steps []Fault
	var errs []error
	for word := range strings.FieldsSeq(s) {
		n := 1
		if count, rest, ok := strings.Cut(word, "*"); ok {
			if c, err := strconv.Atoi(count); err == nil {
				if c < 1 || c > 10000 {
					errs = append(errs, fmt.Errorf("step %q: the count must be 1 to 10000", word))
					continue
				}
				n, word = c, rest
			}
		}
		f, err := ParseFault(word)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		for range n {
			steps = append(steps, f)
		}
	}
	return steps, errors.Join(errs...)
}

// parsePlan turns a fault's text into what has to be done.
func parsePlan(f Fault) (*plan, error) {
	p := &plan{fault: f, readBytes: -1}
	taken := map[string]string{}
	for part := range strings.SplitSeq(string(f), "+") {
		name, arg, hasArg := strings.Cut(part, ":")
		if part == "" && f == "" {
			break
		}
		def, ok := faultByName[name]
		if !ok {
			return nil, fmt.Errorf("fault %q: unknown part %q%s", f, part, near(name))
		}
		if hasArg && def.Arg == "" {
			return nil, fmt.Errorf("fault %q: %s takes no argument", f, name)
		}
		if !hasArg && def.Arg != "" && !strings.HasPrefix(def.Arg, "[") {
			return nil, fmt.Errorf("fault %q: %s needs an argument: %s:%s", f, name, name, def.Arg)
		}
		arg, err := url.PathUnescape(arg)
		if err != nil {
			return nil, fmt.Errorf("fault %q: %s: %w", f, name, err)
		}
		if def.slot != "" {
			if other, twice := taken[def.slot]; twice {
				return nil, fmt.Errorf("fault %q: %s and %s cannot both %s", f, other, name, def.slot)
			}
			taken[def.slot] = name
		}
		if err := def.apply(p, arg); err != nil {
			return nil, fmt.Errorf("fault %q: %s: %w", f, name, err)
		}
	}
	if p.dial != dialOK && p.book {
		return nil, fmt.Errorf("fault %q: nothing is executed without a connection", f)
	}
	if framed, ended := taken[slotFraming], p.end != endAnswer; framed != "" && ended {
		return nil, fmt.Errorf("fault %q: %s leaves no answer that %s could damage", f, taken[slotAnswer], framed)
	}
	return p, nil
}

// near suggests known names that share a beginning with a wrong one.
func near(name string) string {
	var found []string
	for n := len(name); n >= 2 && len(found) == 0; n-- {
		for _, d := range catalogue {
			if strings.HasPrefix(d.Name, name[:n]) {
				found = append(found, d.Name)
			}
		}
	}
	if len(found) == 0 {
		return ""
	}
	return " (did you mean " + strings.Join(found, ", ") + "?)"
}
