// Package settlement reads the settlement reports of payment providers and compares them with the attempts that we
// remember.
//
// It promises:
//
//   - Nothing in a report is guessed. A [Profile] declares columns by name, unit, decimal mark, signs, zone, encoding and
//     trailer; what is written otherwise is the line's error, with file, line, column and reason ([LineError]).
//   - A report that is not whole (no trailer where one is declared, another count or sum than the trailer says, a column
//     that is missing, another encoding) is refused whole ([FileError]), and nothing of it is imported.
//   - Amounts are minor units of ISO 4217, in int64 and exact. Gross, fee and net are verified against each other. A line is
//     never matched by net, and never by its amount.
//   - No line is dropped. Equal lines both count, and times that a zone skips or has twice have an instant all the same.
//   - A report of any length is read in the same memory.
//
// [Check] and [Read] read; [ParseProfile] reads a profile, and [Builtin] has those that come with the package.
package settlement
