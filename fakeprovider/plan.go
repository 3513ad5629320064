package fakeprovider

import "time"

// plan is a parsed Fault: what to do at each stage of a request.
type plan struct {
	fault Fault

	// connection
	dial    dialFault
	noHooks bool
	notSent bool

	// arrival
	early     bool // decided before the body is read
	readBytes int  // with early: body bytes read before the reset, -1 none

	// execution
	book         bool // execute although something stands in place
	inPlace      bool // something stands in place of the answer
	bookAfter    time.Duration
	slow         time.Duration
	hide         time.Duration
	decline      string
	pending      bool
	action       bool
	bookAmount   int64
	bookCurrency string
	twice        bool
	flipAfter    time.Duration
	flipTo       State
	pin, forget  bool
	webhook      webhookPlan

	// answer
	end      end
	reply    func(*exchange) answer // in place of the provider's own
	lookup   lookupFault
	edits    []edit
	rewrite  []func([]byte) []byte // on the body, after the edits
	headers  []headerField
	retryIn  *time.Duration
	ctype    *string
	unmarked bool // a replay without its marker

	// framing
	frame  frame
	frameN int
	frameD time.Duration
	text   string // status line, length value
}

// executes reports whether the request is carried out.
func (p *plan) executes() bool { return !p.inPlace || p.book }

// end is how an exchange ends.
type end uint8

const (
	endAnswer end = iota // with an answer
	endClose
	endReset
	endHang
	endCrash
	endGarbage
	endFlood
	endContinue // 100 Continue, then the end of the connection
)

// frame is how an answer is laid on the wire.
type frame uint8

const (
	frameWhole frame = iota
	frameCut
	frameCutChunked
	frameNoLength
	frameWrongLength
	frameEmpty
	frameNoContent
	frameHalfHeaders
	frameResetBody
	frameStallBody
	framePauseBody
	frameDrip
	frameBothLengths
	frameTwoLengths
	frameLength
	frameStatusLine
	frameHugeHeaders
	frameTwice
	frameExtra
	frameThenClose
)

type lookupFault uint8

const (
	lookupTrue lookupFault = iota
	lookupEmpty
	lookupTwice
	lookupForeign
	lookupStuck
	lookupNull
	lookupCut
)

type dialFault uint8

const (
	dialOK dialFault = iota
	dialRefused
	dialDNS
	dialHang
	dialTimeout
	dialProxy
	dialTLSReset
	dialTLSUnknown
	dialTLSExpired
	dialTLSName
	dialTLSTimeout
)

type headerField struct{ name, value string }

// edit changes one field of an answer's JSON object.
type edit struct {
	op    editOp
	name  string
	value string // JSON
}

type editOp uint8

const (
	editSet editOp = iota
	editAdd
	editOmit
)
