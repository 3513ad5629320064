// Package imports holds the rules that say which package may import which, and
// finds every import that breaks one.
//
// The rules keep four promises:
//
//   - The state machine stands alone: attempt and money need nothing of the rest.
//   - The client and the reconciler meet in attempt only, so neither can go
//     around the stored state.
//   - The fake provider is an independent witness: it shares no code with what
//     it judges, so no bug either.
//   - What a host links is what the core needs. Database drivers, the CLI's and
//     the tests' libraries stay where they are used.
//
// [Load] reads the import declarations of a module's files, [Check] applies the
// rules, the package's test does both for this module. A new dependency needs a
// line in [Dependencies] and its defence in docs/adr.
package imports
