package fakeprovider

import (
	"bytes"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// op is one thing that happens on a connection.
type op struct {
	kind opKind
	data []byte
	wait time.Duration
}

type opKind uint8

const (
	opWrite opKind = iota
	opWait
	opClose // ordinary end
	opReset
	opHang  // silence until the client goes
	opFlood // data again and again
	opNext  // read the next request, then write data before its own answer
	opKeep  // the connection stays usable
)

// wire lays the answer out as what happens on an HTTP/1.1 connection.
func (x *exchange) wire(a answer) []op {
	switch x.end {
	case endReset:
		return []op{{kind: opReset}}
	case endHang:
		return []op{{kind: opHang}}
	case endGarbage:
		return []op{{data: []byte("\x00\x01\x02 this is no HTTP \xff\xfe\r\n\r\n")}, {kind: opClose}}
	case endFlood:
		return []op{{kind: opFlood, data: []byte("HTTP/1.1 103 Early Hints\r\nLink: </" + strings.Repeat("x", 1000) + ">; rel=preload\r\n\r\n")}}
	case endContinue:
		return []op{{data: []byte("HTTP/1.1 100 Continue\r\n\r\n")}, {kind: opClose}}
	}
	if x.end != endAnswer || a.ctype == "" && a.body == nil && a.status == 0 {
		return []op{{kind: opClose}}
	}
	plan := x.plan
	body := a.body
	n := plan.frameN
	if n < 0 || n > len(body) {
		n = len(body)
	}
	length := "Content-Length: " + strconv.Itoa(len(body))
	head := func(fields ...string) []byte { return x.head(a, "", append(fields, "Connection: close")...) }
	switch plan.frame {
	case frameCut:
		return []op{{data: head(length)}, {data: body[:n]}, {kind: opClose}}
	case frameResetBody:
		return []op{{data: head(length)}, {data: body[:n]}, {kind: opReset}}
	case frameStallBody:
		return []op{{data: head(length)}, {data: body[:n]}, {kind: opHang}}
	case frameCutChunked:
		size := len(body)
		if n == size {
			body = append(body[:n:n], "\r\n"...) // the chunk is whole, the last one is missing
			n = len(body)
		}
		return []op{
			{data: head("Transfer-Encoding: chunked")}, {data: fmt.Appendf(nil, "%x\r\n", size)},
			{data: body[:n]}, {kind: opClose},
		}
	case frameNoLength:
		return []op{{data: head()}, {data: body[:n]}, {kind: opClose}}
	case frameWrongLength:
		wrong := max(len(body)+plan.frameN, 0)
		return []op{{data: head("Content-Length: " + strconv.Itoa(wrong))}, {data: body}, {kind: opClose}}
	case frameHalfHeaders:
		h := head(length)
		return []op{{data: h[:len(h)/2]}, {kind: opClose}}
	case framePauseBody:
		return []op{{data: head(length)}, {kind: opWait, wait: plan.frameD}, {data: body}, {kind: opClose}}
	case frameDrip:
		ops := []op{{data: head(length)}}
		for i := range body {
			ops = append(ops, op{kind: opWait, wait: plan.frameD}, op{data: body[i : i+1]})
		}
		return append(ops, op{kind: opClose})
	case frameBothLengths:
		return []op{
			{data: head(length, "Transfer-Encoding: chunked")},
			{data: fmt.Appendf(nil, "%x\r\n%s\r\n0\r\n\r\n", len(body), body)}, {kind: opClose},
		}
	case frameTwoLengths:
		return []op{{data: head(length, length+"0")}, {data: body}, {kind: opClose}}
	case frameLength:
		return []op{{data: head("Content-Length: " + plan.text)}, {data: body}, {kind: opClose}}
	case frameStatusLine:
		return []op{{data: x.head(a, plan.text, length, "Connection: close")}, {data: body}, {kind: opClose}}
	case frameHugeHeaders:
		fields := []string{length}
		for left := plan.frameN; left > 0; left -= 1000 {
			fields = append(fields, "X-Padding: "+string(bytes.Repeat([]byte("a"), min(left, 1000))))
		}
		return []op{{data: head(fields...)}, {data: body}, {kind: opClose}}
	}
	switch {
	case a.status == http.StatusSwitchingProtocols:
		return []op{{data: x.head(a, "", "Connection: Upgrade", "Upgrade: nothing")}, {data: body}, {kind: opClose}}
	case a.status >= 100 && a.status < 200:
		return []op{{data: x.head(a, "")}, {kind: opClose}}
	case a.status < 100:
		return []op{{data: head()}, {data: body}, {kind: opClose}}
	}
	if noBody(a.status) {
		return []op{{data: x.head(a, "")}, {kind: opKeep}}
	}
	whole := append(x.head(a, "", length), body...)
	switch plan.frame {
	case frameTwice:
		return []op{{data: append(whole, whole...)}, {kind: opClose}}
	case frameExtra:
		return []op{{data: whole}, {kind: opNext, data: whole}}
	case frameThenClose:
		return []op{{data: whole}, {kind: opClose}}
	}
	return []op{{data: whole}, {kind: opKeep}}
}

// raw reports whether net/http's ResponseWriter cannot write this answer.
func (x *exchange) raw(a answer) bool {
	return x.end != endAnswer || a.status < 200 ||
		x.plan.frame != frameWhole && x.plan.frame != frameEmpty && x.plan.frame != frameNoContent
}

func noBody(status int) bool {
	return status == http.StatusNoContent || status == http.StatusNotModified
}

// head writes the status line and the headers.
func (x *exchange) head(a answer, statusLine string, fields ...string) []byte {
	b := make([]byte, 0, 256)
	if statusLine == "" {
		statusLine = fmt.Sprintf("HTTP/1.1 %03d %s", a.status, http.StatusText(a.status))
	}
	b = append(b, statusLine...)
	b = append(b, "\r\nDate: "...)
	b = time.Now().UTC().AppendFormat(b, http.TimeFormat)
	b = append(b, "\r\n"...)
	a.eachHeader(x, func(name, value string) {
		b = append(b, name...)
		b = append(b, ": "...)
		b = append(b, value...)
		b = append(b, "\r\n"...)
	})
	for _, f := range fields {
		b = append(b, f...)
		b = append(b, "\r\n"...)
	}
	return append(b, "\r\n"...)
}

// eachHeader calls f with every header of the answer that does not concern
// its framing.
func (a *answer) eachHeader(x *exchange, f func(name, value string)) {
	if a.ctype != "" && !noBody(a.status) {
		f("Content-Type", a.ctype)
	}
	if x != nil && x.id != "" {
		f("Request-Id", x.id)
	}
	if a.replayed {
		f("Idempotent-Replayed", "true")
	}
	for _, h := range a.header {
		f(h.name, h.value)
	}
}
