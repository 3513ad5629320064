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
//   - A report of any length is read, and matched, in the same memory.
//   - An attempt is matched by the provider's charge id, or else by our reference; charges to charges, refunds to refunds,
//     at one provider, account and environment only. A line that tells of money which the attempt does not know is evidence
//     for it, once, however often and under whichever name the report is read.
//   - Every charge and refund line has its approved attempt and every approved attempt its line, or it is told. That an
//     attempt has no line is final only when the report after was read.
//
// [Match] compares reports with a store; [Check] and [Read] only read. [ParseProfile] reads a profile, and [Builtin] has
// those that come with the package.
package settlement
