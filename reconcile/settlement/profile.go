package settlement

// Profile says how one provider writes its settlement reports. Everything is declared and nothing is guessed: a field
// without a value is a mistake unless its comment says what that means. It has JSON names, see [ParseProfile].
type Profile struct {
	Name string `json:"name"` // letters, digits, '.', '_', '-'; goes into messages

	Encoding  Encoding `json:"encoding"`
	Delimiter string   `json:"delimiter"` // one ASCII character between the fields
	Quotes    Quotes   `json:"quotes"`
	// TrimSpaces takes blanks away around every value. Without it such blanks are part of the value, and an error where
	// an amount, a time, an id or a reference has them.
	TrimSpaces bool `json:"trim_spaces,omitempty"`

	// PreambleLines are the lines before the header. FindHeader says instead that the header is the first line, of the
	// first 100, that names all columns.
	PreambleLines int  `json:"preamble_lines,omitempty"`
	FindHeader    bool `json:"find_header,omitempty"`

	Columns Columns `json:"columns"`
	// Required are the parts that must have a value in each line of a charge, refund or chargeback: "id", "reference",
	// "created". At least one of "id" and "reference" must, whether said here or not.
	Required []string `json:"required,omitempty"`
	// Currency is the ISO 4217 code of all amounts, where the report has no column for it.
	Currency string `json:"currency,omitempty"`

	// Types are the values of the type column. A value that is not among them is that line's error. Without a type
	// column it holds one entry, for the empty text.
	Types   map[string]Type `json:"types"`
	Amounts Amounts         `json:"amounts"`
	FeeSign FeeSign         `json:"fee_sign,omitempty"` // needed with fee columns
	Times   Times           `json:"times,omitzero"`     // needed with created columns
	Trailer *Trailer        `json:"trailer,omitempty"`  // nil: the report has none
}

// Columns are the names of the columns, as the header writes them; blanks in a row count as one, and those around a name
// not at all. Every column named must be there, once.
type Columns struct {
	// ID is the provider's id of the charge or refund as its API gives it, not that of a booking; empty: none. What a line
	// settles is approved by the charge of this id.
	ID        string `json:"id,omitempty"`
	Reference string `json:"reference,omitempty"` // the merchant reference; empty: none
	Type      string `json:"type,omitempty"`      // what the line is, see Profile.Types; empty: none

	Gross AmountColumn `json:"gross"`
	// Fees are added up. Without them the fee is gross minus net.
	Fees []string `json:"fees,omitempty"`
	// Net has no column where the report has none: then net is gross minus fee, and nothing is verified.
	Net AmountColumn `json:"net,omitzero"`

	Currency string `json:"currency,omitempty"` // of gross, and of fee and net; empty: Profile.Currency
	// NetCurrency is the currency of fee and net, where it may differ from that of gross. A line that was exchanged cannot
	// be verified: gross minus fee is not net then.
	NetCurrency string `json:"net_currency,omitempty"`

	Created []string `json:"created,omitempty"` // several are put together with a blank between: date, time
	Zone    string   `json:"zone,omitempty"`    // holds each line's zone, see Times.Zone
}

// AmountColumn is one column with a sign, or two without, of which a line uses one at most.
type AmountColumn struct {
	Column string `json:"column,omitempty"`
	Debit  string `json:"debit,omitempty"`  // money that leaves us
	Credit string `json:"credit,omitempty"` // money that comes to us
}

func (c AmountColumn) given() bool { return c != AmountColumn{} }

// Encoding is how characters are written in the file. A file in another encoding is refused whole.
type Encoding string

// The encodings.
const (
	UTF8        Encoding = "utf-8"        // without byte order mark
	UTF8BOM     Encoding = "utf-8-bom"    // with one
	ISO88591    Encoding = "iso-8859-1"   // its control characters 0x80 to 0x9f are refused: windows-1252 uses them
	Windows1252 Encoding = "windows-1252" // the five bytes without a character are refused
	UTF16       Encoding = "utf-16"       // with byte order mark, which says the order (RFC 2781 section 4.3)
	UTF16LE     Encoding = "utf-16le"     // without
	UTF16BE     Encoding = "utf-16be"     // without
)

// Quotes says what a quotation mark in a field means.
type Quotes string

// The rules for quotes.
const (
	QuotesRFC4180 Quotes = "rfc4180" // a field may stand in '"', with '""' for one; it may hold delimiters and line ends
	QuotesNone    Quotes = "none"    // it is text like any other
)

// Kind says what a line of a report is about.
type Kind string

// The kinds of lines.
const (
	KindCharge     Kind = "charge"     // money of a charge comes to us: gross is not negative
	KindRefund     Kind = "refund"     // a refund takes it back: gross is not positive
	KindChargeback Kind = "chargeback" // the payer's bank takes it back (negative) or returns it
	KindFee        Kind = "fee"        // the provider's own, belongs to no attempt
	KindPayout     Kind = "payout"     // the provider pays out what it holds, belongs to no attempt
	KindOther      Kind = "other"      // counts in the totals, belongs to no attempt
	KindIgnored    Kind = "ignored"    // is not read any further and counts in no total
)

// Type says what the lines with one value of the type column are.
type Type struct {
	Kind Kind `json:"kind"`
	// GrossSign, FeeSign and NetSign say where such lines write an amount with the opposite sign: "opposite". A refund of
	// 5.00 that is written as 5.00 has opposite gross. Empty: as written. The kind's own rule holds for what results, so
	// that a sign nobody declared is an error.
	GrossSign Sign `json:"gross_sign,omitempty"`
	FeeSign   Sign `json:"fee_sign,omitempty"`
	NetSign   Sign `json:"net_sign,omitempty"`
	// ID and Reference are columns that such lines use instead of Columns.ID and Columns.Reference.
	ID        string `json:"id,omitempty"`
	Reference string `json:"reference,omitempty"`
}

// Sign says how the sign of an amount is to be taken.
type Sign string

// The signs.
const (
	SignAsWritten Sign = ""
	SignOpposite  Sign = "opposite"
)

// FeeSign says what a fee's sign means.
type FeeSign string

// The meanings of a fee's sign.
const (
	FeeDeducted FeeSign = "deducted" // a fee of 0.30 that we pay is 0.30: net = gross - fee
	FeeAdded    FeeSign = "added"    // it is -0.30: net = gross + fee
)

// Amounts say how an amount is written. Any other style, a currency's name or a blank in the amount, more decimals than the
// currency has and zeros in front of a number are the line's errors.
type Amounts struct {
	Unit        Unit   `json:"unit"`
	DecimalMark string `json:"decimal_mark,omitempty"` // "." or ","; needed with major units
	// GroupingMark stands between groups of three digits: one character; empty: none. A number is grouped throughout or
	// not at all.
	GroupingMark string   `json:"grouping_mark,omitempty"`
	Negative     Negative `json:"negative"`
	Plus         bool     `json:"plus,omitempty"` // positive amounts may begin with '+'
	// EmptyFeeIsZero lets fee columns be empty.
	EmptyFeeIsZero bool `json:"empty_fee_is_zero,omitempty"`
	// Decimals are the provider's for currencies where they differ from ISO 4217. An amount that is then no whole number
	// of the currency's minor units is an error.
	Decimals map[string]int `json:"decimals,omitempty"`
}

// Unit is what the number 1 stands for.
type Unit string

// The units.
const (
	UnitMinor Unit = "minor" // 5489 is 54.89 EUR
	UnitMajor Unit = "major" // 54.89 is
)

// Negative is how a negative amount is written.
type Negative string

// The ways to write a negative amount.
const (
	NegativeMinus         Negative = "minus"          // -5.00
	NegativeTrailingMinus Negative = "trailing_minus" // 5.00-
	NegativeParentheses   Negative = "parentheses"    // (5.00)
	NegativeNone          Negative = "none"           // there is none
)

// Times say how the created columns are written.
type Times struct {
	Layouts []string `json:"layouts,omitempty"` // layouts of package time; the first that fits counts
	// Zone is the IANA zone of the values ("Europe/Berlin", "UTC"), or "offset" where every layout has an offset, or
	// empty where Columns.Zone names it. Zones come from the machine; a program that runs where there are none imports
	// time/tzdata.
	Zone string `json:"zone,omitempty"`
}

// ZoneOffset is the Times.Zone of values that say their offset themselves.
const ZoneOffset = "offset"

// Trailer is the line behind the last that says how many there were. There may be several, one for each currency; nothing
// comes behind them.
type Trailer struct {
	Marker string `json:"marker"` // the text of its first field
	// Fields say what its fields hold, in order, the marker's first as "": "count", "gross", "fee", "net", "currency", or
	// "" for anything else. The count is that of all lines between header and trailer. An empty gross, fee or net says
	// nothing; any other is that of all lines in the currency, which need not be named if there is only one.
	Fields   []string `json:"fields"`
	Optional bool     `json:"optional,omitempty"` // a report without it is not refused: one that was cut off is not noticed
}
