// Package batch reads files of payments, one per row, as CSV or JSON Lines, and pays them.
//
// It promises that a row is either an intent exactly as written or a [RowError] that says where the row is, which field is
// wrong and why: nothing is trimmed, rounded, guessed or read over. A file whose columns cannot be known for sure is refused
// whole, with a [FileError]. Only the row at hand is held in memory, besides a few bytes for each order seen, by which an
// order that comes twice is found.
//
// A [Run] pays the rows several at once and reports each in the file's order. It waits for what only takes time: the claim of
// a run that died or runs beside it, the circuit breaker, a charge that is made late; and says what it waits for. It stops
// where the next row could only meet the same fault, and it can be told to end, and be run again, at any moment: then only
// what is not known is sent. A row that was declined, or rejected as malformed, is known.
//
// Start with [NewReader]; [FormatOf] knows the format by the file's name.
package batch
