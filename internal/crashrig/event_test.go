package crashrig

import (
	"bytes"
	"strings"
)

// kind is what a traced program asked of the kernel.
type kind string

const (
	storeWrite    kind = "write"    // into the database or its log
	storeSync     kind = "sync"     // of one of them, or of their folder
	storeTruncate kind = "truncate" // of one of them
	storeUnlink   kind = "unlink"   // of one of them
	storeWritten  kind = "written"  // to PostgreSQL, after it has left
	wireDial      kind = "dial"     // to the provider
	wireRequest   kind = "request"  // bytes to the provider, before they leave
	wireSent      kind = "sent"     // the same, after they have left
	wireAnswer    kind = "answer"   // bytes from the provider, before the program sees them
)

// serverFile stands for the connection to PostgreSQL.
const serverFile = "postgres"

// event is one thing that a traced program asked of the kernel, in the order of all its threads. It is a point at which the
// program can be killed.
type event struct {
	Kind  kind
	File  string `json:",omitempty"` // the database's own files only: "db", "wal", "journal", "folder"; "postgres": the connection to it
	Ended int    `json:",omitempty"` // how many events had begun when this one had ended well; 0: it failed, or never ended
	Data  []byte `json:",omitempty"` // what is written
	Where string // what went on between the program and the provider, see wire
}

// point names a point. Those that differ only in how often something was done before have one name.
func (e event) point() string {
	switch e.Kind {
	case wireDial:
		return "dial, " + e.Where
	case wireRequest, wireSent, wireAnswer:
		return e.Where
	}
	if e.File == serverFile {
		return string(e.Kind) + " to PostgreSQL, " + e.Where
	}
	return string(e.Kind) + " of " + e.File + ", " + e.Where
}

// wire follows what a program says to the provider and hears.
type wire struct {
	asked string // what the last request was: charge, refund, lookup, void; empty: there was none
	part  int    // of its answer
}

// request takes bytes that go to the provider. They are a request's first if they look so.
func (w *wire) request(data []byte) {
	line, _, _ := bytes.Cut(data, []byte("\r\n"))
	method, target, _ := strings.Cut(string(line), " ")
	target, _, _ = strings.Cut(target, " ")
	switch {
	case method == "GET":
		w.asked = "lookup"
	case method != "POST": // more of the same request
		return
	case target == "/v1/charges":
		w.asked = "charge"
	case target == "/v1/refunds":
		w.asked = "refund"
	default:
		w.asked = "void"
	}
	w.part = 0
}

func (w *wire) where() string {
	switch {
	case w.asked == "":
		return "before any request"
	case w.part == 0:
		return w.asked + " sent"
	}
	return w.asked + " answered"
}
