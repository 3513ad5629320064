package fakeprovider

import "strings"

// Current codes of ISO 4217 that can be paid in, by number of digits after
// the decimal point. A table of its own, so that a mistake in a client's table
// is not made twice.
const (
	digits0 = "BIF CLP DJF GNF ISK JPY KMF KRW PYG RWF UGX UYI VND VUV XAF XOF XPF"
	digits3 = "BHD IQD JOD KWD LYD OMR TND"
	digits4 = "CLF UYW"
	digits2 = "AED AFN ALL AMD AOA ARS AUD AWG AZN BAM BBD BDT BMD BND BOB BRL BSD BTN BWP BYN BZD CAD CDF CHF " +
		"CNY COP CRC CUP CVE CZK DKK DOP DZD EGP ERN ETB EUR FJD FKP GBP GEL GHS GIP GMD GTQ GYD HKD HNL HTG " +
		"HUF IDR ILS INR IRR JMD KES KGS KHR KPW KYD KZT LAK LBP LKR LRD LSL MAD MDL MGA MKD MMK MNT MOP MRU " +
		"MUR MVR MWK MXN MYR MZN NAD NGN NIO NOK NPR NZD PAB PEN PGK PHP PKR PLN QAR RON RSD RUB SAR SBD SCR " +
		"SDG SEK SGD SHP SLE SOS SRD SSP STN SVC SYP SZL THB TJS TMT TOP TRY TTD TWD TZS UAH USD UYU UZS VED " +
		"VES WST XCD XCG YER ZAR ZMW ZWG"
)

func currencySet(only []string) map[[3]byte]bool {
	if only == nil {
		only = strings.Fields(digits0 + " " + digits2 + " " + digits3 + " " + digits4)
	}
	set := make(map[[3]byte]bool, len(only))
	for _, c := range only {
		if len(c) == 3 {
			set[[3]byte([]byte(c))] = true
		}
	}
	return set
}

// exponent is the number of digits after the decimal point.
func exponent(currency string) int {
	switch {
	case len(currency) != 3:
		return 2
	case strings.Contains(digits0, currency):
		return 0
	case strings.Contains(digits3, currency):
		return 3
	case strings.Contains(digits4, currency):
		return 4
	}
	return 2
}
