package money

import "strings"

// TableDate is the publication date of the ISO 4217 List One (current currency
// and funds codes) that the table of currencies follows. The last amendment it
// contains is number 180, in force since 2026-01-01.
const TableDate = "2026-09-17"

// List One by minor unit. Funds codes (BOV, CHE, CHW, CLF, COU, MXV, USN, UYI,
// UYW, XAD) have one and are accepted. Both Venezuelan codes are current:
// amendment 170 (1 October 2021) added VED for internal needs while a million
// became one, and left VES the code to use in transactions.
const (
	listOne0 = `BIF CLP DJF GNF ISK JPY KMF KRW PYG RWF UGX UYI VND VUV XAF XOF XPF`

	listOne2 = `
		AED AFN ALL AMD AOA ARS AUD AWG AZN BAM BBD BDT BMD BND BOB BOV BRL BSD
		BTN BWP BYN BZD CAD CDF CHE CHF CHW CNY COP COU CRC CUP CVE CZK DKK DOP
		DZD EGP ERN ETB EUR FJD FKP GBP GEL GHS GIP GMD GTQ GYD HKD HNL HTG HUF
		IDR ILS INR IRR JMD KES KGS KHR KPW KYD KZT LAK LBP LKR LRD LSL MAD MDL
		MGA MKD MMK MNT MOP MRU MUR MVR MWK MXN MXV MYR MZN NAD NGN NIO NOK NPR
		NZD PAB PEN PGK PHP PKR PLN QAR RON RSD RUB SAR SBD SCR SDG SEK SGD SHP
		SLE SOS SRD SSP STN SVC SYP SZL THB TJS TMT TOP TRY TTD TWD TZS UAH USD
		USN UYU UZS VED VES WST XAD XCD XCG YER ZAR ZMW ZWG`

	listOne3 = `BHD IQD JOD KWD LYD OMR TND`

	listOne4 = `CLF UYW`

	// Minor unit "N.A.": metals, bond market units, units of account, test, none.
	listOneNone = `XAG XAU XBA XBB XBC XBD XDR XPD XPT XSU XTS XUA XXX`
)

// listThree are the codes with a minor unit withdrawn since December 2012,
// newest first. List Three itself gives no minor unit: these are from List One
// while the code was there, or from the amendment.
var listThree = []currencyInfo{
	{"BGN", 2, "2026-01-01"}, // EUR; amendment 180
	{"ANG", 2, "2025-03-31"}, // XCG; amendment 176, which ends electronic payments that day, cash on 2025-07-01
	{"ZWL", 2, "2024-09-01"}, // ZWG; amendment 177
	{"SLL", 2, "2024-01-01"}, // SLE, a thousand to one; amendment 175, which replaces the dates of 171 to 173
	{"HRK", 2, "2023-01-01"}, // EUR; amendment 174
	{"CUC", 2, "2021-07-01"}, // CUP; amendment 178, published in 2025
	{"VEF", 2, "2018-08"},    // VES, a hundred thousand to one; amendment 168
	{"MRO", 2, "2017-12"},    // MRU, ten to one; amendment 165
	{"STD", 2, "2017-12"},    // STN, a thousand to one; amendment 164
	{"BYR", 0, "2017-01"},    // BYN, ten thousand to one; amendment 161
	{"LTL", 2, "2014-12"},    // EUR
	{"USS", 2, "2014-03"},    // funds code, no successor
	{"LVL", 2, "2014-01"},    // EUR
	{"ZMK", 2, "2012-12"},    // ZMW, a thousand to one
}

func buildTable() map[[3]byte]currencyInfo {
	t := make(map[[3]byte]currencyInfo, 192)
	add := func(c currencyInfo) { t[[3]byte([]byte(c.code))] = c }
	for _, list := range []struct {
		codes    string
		decimals int8
	}{
		{listOne0, 0}, {listOne2, 2}, {listOne3, 3}, {listOne4, 4}, {listOneNone, noMinorUnit},
	} {
		for code := range strings.FieldsSeq(list.codes) {
			add(currencyInfo{code: code, decimals: list.decimals})
		}
	}
	for _, c := range listThree {
		add(c)
	}
	return t
}
