// Package money holds amounts of money exactly as a payment needs them: a whole
// number of minor units and an ISO 4217 currency code. Nothing in it rounds,
// guesses or reads a locale, and no float64 appears in it.
//
// What it promises:
//
//   - An [Amount] is either the zero Amount, which is no amount at all, or a
//     number of minor units in a currency whose exponent is known. Amounts of
//     the same number and currency are equal by ==.
//   - Text that could be read in two ways is refused: "1,234.56", "800,00",
//     "1e3", "5.001" in a currency of two decimals, "1.00" in yen.
//   - An unknown currency is refused. No exponent is ever assumed.
//   - Text that was accepted prints with exactly the decimals of its currency,
//     and its text reads back, by UnmarshalText, as the same Amount.
//   - Arithmetic is checked: mixing currencies and leaving the range of int64
//     are errors.
//
// # New payments and old ones
//
// A currency that ISO 4217 has withdrawn may not be charged any more, but a
// payment made in it must stay readable for as long as it can be refunded,
// disputed or audited. So there are two doors. [Parse] and [New] are for a new
// payment and refuse withdrawn codes. [Restore], [RestoreDecimal] and
// [Amount.UnmarshalText] read what was stored or what a provider answered, and
// accept them.
//
// # Exponents
//
// The number of decimals is that of ISO 4217 ("minor unit"), for all current
// codes including funds codes; see [TableDate]. It is not the number of
// decimals a shop shows, and some providers differ from ISO 4217 for single
// currencies: that is for their adapters to declare. Codes without a minor
// unit (gold, special drawing rights, XTS, XXX) cannot be an Amount.
//
// ISO 4217 has changed the exponent of a living currency before (CLF from 0 to
// 4, UGX from 2 to 0), so a store that keeps minor units for years should keep
// the exponent beside them and compare it with [Decimals].
//
// All functions are safe for concurrent use; an Amount never changes except
// through UnmarshalText on a variable of the caller's.
package money
