// Package batch reads files of payments, one per row, as CSV or JSON Lines.
//
// It promises that a row is either an intent exactly as written or a [RowError] that says where the row is, which field is
// wrong and why: nothing is trimmed, rounded, guessed or read over. A file whose columns cannot be known for sure is refused
// whole, with a [FileError]. Only the row at hand is held in memory, besides a few bytes for each order seen, by which an
// order that comes twice is found.
//
// Start with [NewReader]; [FormatOf] knows the format by the file's name.
package batch
