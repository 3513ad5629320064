package fakeprovider

import (
	"bytes"
	"compress/gzip"
	"io"
	"net/http"
	"strconv"
	"time"
)

const (
	typeJSON    = "application/json"
	typeProblem = "application/problem+json"
	typeCSV     = "text/csv; charset=utf-8"
)

// answer is what the provider says, before anything happens to it on the wire.
type answer struct {
	status   int
	ctype    string
	body     []byte
	header   []headerField
	replayed bool
}

// prob is a kind of refusal: RFC 9457 problem details with a code.
type prob struct {
	status int
	code   string
	title  string
}

// The titles of the first three are those of the Idempotency-Key draft.
var (
	probKeyMissing = prob{400, "idempotency_key_missing", "Idempotency-Key is missing"}
	probReused     = prob{422, "idempotency_key_reused", "Idempotency-Key is already used"}
	probRunning    = prob{409, "idempotency_key_in_use", "A request is outstanding for this Idempotency-Key"}

	probKeySyntax    = prob{400, "idempotency_key_malformed", "Idempotency-Key is not an RFC 9651 String"}
	probUnauthorized = prob{401, "unauthorized", "A bearer token is needed"}
	probNotFound     = prob{404, "not_found", "There is no such thing"}
	probMethod       = prob{405, "method_not_allowed", "This method is not allowed here"}
	probTooLarge     = prob{413, "body_too_large", "The request body is too large"}
	probMalformed    = prob{400, "malformed_json", "The request body is not one JSON object"}
	probAmount       = prob{400, "amount_invalid", "The amount must be a positive integer of minor units"}
	probCurrency     = prob{400, "currency_unsupported", "The currency is not supported"}
	probReference    = prob{400, "reference_invalid", "merchant_reference must be 1 to 255 printable characters"}
	probSource       = prob{400, "source_invalid", "There is no such source"}
	probField        = prob{400, "field_invalid", "A field has the wrong type"}
	probDuplicate    = prob{409, "duplicate_reference", "The merchant_reference was used before"}
	probUnscripted   = prob{500, "unscripted_request", "No script covers this request"}
	probQuery        = prob{400, "query_invalid", "The query is not understood"}
	probNoCharge     = prob{404, "charge_not_found", "There is no such charge"}
	probNotPaid      = prob{400, "charge_not_refundable", "The charge has not succeeded"}
	probNotVoidable  = prob{409, "charge_not_voidable", "The charge is not pending"}
	probRefunded     = prob{400, "charge_already_refunded", "Nothing of the charge is left to refund"}
	probTooMuch      = prob{400, "refund_too_large", "The refund is larger than what is left of the charge"}
	probOtherBooks   = prob{410, "other_books", "The books that were asked for are not here"}
	probClosed       = prob{503, "closed", "The provider is closed"}
)

// statusAnswer is what an injected status says.
func statusAnswer(status int) answer {
	if status < 400 {
		return answer{status: status, ctype: typeJSON, body: []byte("{}")}
	}
	code := map[int]string{
		400: "bad_request", 401: "unauthorized", 403: "forbidden", 404: "not_found", 408: "request_timeout",
		409: "conflict", 413: "body_too_large", 415: "unsupported_media_type", 425: "too_early",
		429: "rate_limited", 500: "internal_error", 502: "bad_gateway", 503: "unavailable", 504: "gateway_timeout",
	}[status]
	if code == "" {
		code = "status_" + strconv.Itoa(status)
	}
	title := http.StatusText(status)
	if title == "" {
		title = "Status " + strconv.Itoa(status)
	}
	return problem(prob{status, code, title})
}

func problem(k prob, more ...member) answer {
	b := make([]byte, 0, 192)
	b = append(b, `{"type":"urn:fakeprovider:`...)
	b = append(b, k.code...)
	b = append(b, `","title":`...)
	b = appendString(b, k.title)
	b = append(b, `,"status":`...)
	b = strconv.AppendInt(b, int64(k.status), 10)
	b = append(b, `,"code":"`...)
	b = append(b, k.code...)
	b = append(b, '"')
	for _, m := range more {
		b = append(b, ',')
		b = appendString(b, m.name)
		b = append(b, ':')
		b = append(b, m.raw...)
	}
	b = append(b, '}')
	a := answer{status: k.status, ctype: typeProblem, body: b}
	if k.status == http.StatusUnauthorized {
		a.header = []headerField{{"Www-Authenticate", `Bearer realm="fakeprovider"`}}
	}
	return a
}

// detail is the problem member a person reads.
func detail(text string) member { return member{"detail", appendString(nil, text)} }

func text(name, value string) member { return member{name, appendString(nil, value)} }

// dress does what the plan does to an answer's content.
func (x *exchange) dress(a answer) answer {
	p := x.plan
	if len(p.edits) > 0 {
		a.body = applyEdits(a.body, p.edits)
	}
	for _, rewrite := range p.rewrite {
		a.body = rewrite(a.body)
	}
	if p.ctype != nil {
		a.ctype = *p.ctype
	}
	switch p.frame {
	case frameEmpty:
		a.body = nil
	case frameNoContent:
		a.status, a.body = http.StatusNoContent, nil
	}
	if p.unmarked {
		a.replayed = false
	}
	a.header = append(a.header[:len(a.header):len(a.header)], p.headers...)
	if p.retryIn != nil {
		at := x.now.Add(x.wait + *p.retryIn).UTC().Format(http.TimeFormat)
		a.header = append(a.header, headerField{"Retry-After", at})
	}
	return a
}

// applyEdits changes fields of an object or, in a search's answer, of every
// record. A body that is no JSON object stays as it is.
func applyEdits(body []byte, edits []edit) []byte {
	members, err := scanObject(body)
	if err != nil {
		return body
	}
	for i, m := range members {
		if m.name != "data" {
			continue
		}
		records, err := scanArray(m.raw)
		if err != nil {
			break
		}
		list := []byte{'['}
		for j, r := range records {
			if j > 0 {
				list = append(list, ',')
			}
			list = append(list, applyEdits(r, edits)...)
		}
		members[i].raw = append(list, ']')
		return appendMembers(nil, members)
	}
	for _, e := range edits {
		members = e.apply(members)
	}
	return appendMembers(nil, members)
}

func (e edit) apply(members []member) []member {
	for i, m := range members {
		if m.name != e.name {
			continue
		}
		switch e.op {
		case editSet:
			members[i].raw = []byte(e.value)
			return members
		case editOmit:
			return append(members[:i:i], members[i+1:]...)
		}
	}
	if e.op == editOmit {
		return members
	}
	return append(members, member{e.name, []byte(e.value)})
}

// gzipSpaces packs n blanks.
func gzipSpaces(n int) []byte {
	var b bytes.Buffer
	w, err := gzip.NewWriterLevel(&b, gzip.BestSpeed)
	if err == nil {
		_, err = io.CopyN(w, blanks{}, int64(n))
	}
	if err == nil {
		err = w.Close()
	}
	if err != nil { // cannot happen: a buffer takes everything
		panic(err)
	}
	return b.Bytes()
}

type blanks struct{}

func (blanks) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = ' '
	}
	return len(p), nil
}

// appendTime appends an RFC 3339 time in UTC, as a JSON string.
func appendTime(b []byte, nanos int64) []byte {
	b = append(b, '"')
	b = time.Unix(0, nanos).UTC().AppendFormat(b, time.RFC3339Nano)
	return append(b, '"')
}
