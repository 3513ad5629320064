package fuzzlist

import (
	"maps"
	"slices"
	"strings"
	"testing"
)

// tried says by which fuzz target a reader is tried. One that begins with "-" has none, and says why.
var tried = map[string]string{
	"money.Parse":                "money.FuzzParse",
	"money.parse":                "money.FuzzParse",
	"money.scan":                 "money.FuzzParse",
	"money.Amount.UnmarshalText": "money.FuzzUnmarshalText",

	"attempt.ChargeStatus.UnmarshalText": "attempt.FuzzUnmarshalText",
	"attempt.LookupAnswer.UnmarshalText": "attempt.FuzzUnmarshalText",
	"attempt.Verdict.UnmarshalText":      "attempt.FuzzUnmarshalText",
	"attempt.ParseStatus":                "attempt.FuzzParseStatus",
	"attempt.Status.UnmarshalText":       "attempt.FuzzUnmarshalText",
	"attempt/postgres.parse":             "cmd/chargeonce.FuzzParseDB",

	"attempt/postgres.decodeEvent": ownRows,
	"attempt/sqlite.decodeAttempt": ownRows,
	"attempt/sqlite.decodeEvent":   ownRows,

	"cmd/chargeonce.readProfile":    "reconcile/settlement.FuzzProfile",
	"cmd/chargeonce.parseMoment":    "cmd/chargeonce.FuzzParseMoment",
	"cmd/chargeonce.readConfigFile": "cmd/chargeonce.FuzzConfigFile",
	"cmd/chargeonce.parseDB":        "cmd/chargeonce.FuzzParseDB",

	"fakeprovider.parseState":        "fakeprovider.FuzzParseFault",
	"fakeprovider.ParseFault":        "fakeprovider.FuzzParseFault",
	"fakeprovider.ParseScript":       "fakeprovider.FuzzParseFault",
	"fakeprovider.parseForged":       "fakeprovider.FuzzParseFault",
	"fakeprovider.Provider.readSome": "- takes bytes off a connection, and reads nothing in them",
	"fakeprovider.ReadID":            "fakeprovider.FuzzReadID",
	"fakeprovider.readLines":         "- the fake's own ledger file: its journal tests cut it at many places",
	"fakeprovider.scanObject":        "fakeprovider.FuzzScanObject",
	"fakeprovider.scanArray":         "fakeprovider.FuzzScanObject",
	"fakeprovider.parseAmount":       "fakeprovider.FuzzScanObject",
	"fakeprovider.parseSpan":         "fakeprovider.FuzzParseTime",
	"fakeprovider.parseTime":         "fakeprovider.FuzzParseTime",
	"fakeprovider.parseKey":          "fakeprovider.FuzzParseKey",

	"internal/batch.readHeader":        "internal/batch.FuzzReader",
	"internal/batch.fields.readObject": "internal/batch.FuzzReader",
	"internal/batch.fields.readMember": "internal/batch.FuzzReader",
	"internal/batch.ParseFormat":       "- one of two words",

	"internal/panel.Provider.ReadCharge": "internal/panel.FuzzRead",
	"internal/panel.Provider.ReadLookup": "internal/panel.FuzzRead",

	"payclient.readPage":                           "payclient/standard.FuzzRead",
	"payclient.readVoid":                           "payclient/standard.FuzzRead",
	"payclient.readWhole":                          "payclient.FuzzAnswer",
	"payclient.parseBaseURL":                       "payclient.FuzzBaseURL",
	"payclient/standard.ReadEvent":                 "payclient/standard.FuzzReadEvent",
	"payclient/standard.Provider.ReadCharge":       "payclient/standard.FuzzRead",
	"payclient/standard.Provider.ReadLookup":       "payclient/standard.FuzzRead",
	"payclient/standard.Provider.ReadRefund":       "payclient/standard.FuzzRead",
	"payclient/standard.Provider.ReadRefundLookup": "payclient/standard.FuzzRead",
	"payclient/standard.Provider.ReadVoid":         "payclient/standard.FuzzRead",
	"payclient/standard.Provider.ReadList":         "payclient/standard.FuzzRead",
	"payclient/standard.Provider.readRefusal":      "payclient/standard.FuzzRead",
	"payclient/standard.readChargeObject":          "payclient/standard.FuzzRead",
	"payclient/standard.readProblemObject":         "payclient/standard.FuzzRead",
	"payclient/standard.readCharge":                "payclient/standard.FuzzRead",
	"payclient/standard.readProblem":               "payclient/standard.FuzzRead",
	"payclient/standard.readList":                  "payclient/standard.FuzzRead",
	"payclient/providertest.parseArchive":          testFiles,
	"payclient/providertest.readGolden":            testFiles,
	"payclient/providertest.parseExchange":         testFiles,
	"payclient/providertest.parseFields":           testFiles,
	"payclient/providertest.parseResponse":         testFiles,
	"payclient/providertest.parseJSON":             testFiles,
	"payclient/providertest.refundSide.ReadCharge": aside,
	"payclient/providertest.refundSide.ReadLookup": aside,
	"payclient/providertest.voidSide.ReadCharge":   aside,
	"payclient/providertest.listSide.ReadLookup":   aside,
	"payclient/providertest.suite.readCharge":      aside,
	"payclient/providertest.suite.readLookup":      aside,
	"reconcile/settlement.amountStyle.parse":       "reconcile/settlement.FuzzAmount",
	"reconcile/settlement.clock.parse":             "reconcile/settlement.FuzzReader",
	"reconcile/settlement.decode":                  "reconcile/settlement.FuzzReader",
	"reconcile/settlement.ParseProfile":            "reconcile/settlement.FuzzProfile",
}

const (
	ownRows   = "- a row of our own table, which the store's schema and its tests of damaged files hold"
	testFiles = "- files of the adapter's own tests"
	aside     = "- hands on to the adapter's reader, which its own FuzzRead tries"
)

// more are targets of what is not called as readers are.
var more = map[string]string{
	"an answer's bytes, and the verdict":       "payclient.FuzzAnswer",
	"Retry-After, in seconds and as a date":    "payclient.FuzzRetryAfter",
	"text in which secrets may be":             "payclient.FuzzRedact",
	"details of answers":                       "payclient.FuzzRedactDetails",
	"strict JSON":                              "internal/strictjson.FuzzObject",
	"CSV and JSON Lines of payments":           "internal/batch.FuzzReader",
	"orders and purposes":                      "attempt.FuzzSlot_Validate",
	"evidence as stored":                       "attempt.FuzzEvidence_UnmarshalJSON",
	"signatures of webhooks":                   "reconcile/webhook.FuzzStandard",
	"requests of webhooks":                     "reconcile/webhook.FuzzRequest",
	"settlement reports":                       "reconcile/settlement.FuzzReader",
	"lines of settlement reports":              "reconcile/settlement.FuzzSplit",
	"secrets of webhooks, in the fake":         "fakeprovider.FuzzWebhookKey",
	"structured field strings, in the fake":    "fakeprovider.FuzzParseKey",
	"text for terminals":                       "cmd/chargeonce.FuzzClean",
	"pages of a lookup, and where they go on":  "payclient/standard.FuzzRead",
	"the same of an adapter for another world": "internal/panel.FuzzRead",
}

const root = "../.."

// Everything that reads what somebody else wrote has a fuzz target, or says why not.
func TestEveryReaderIsFuzzed(t *testing.T) {
	found, err := readers(root)
	if err != nil {
		t.Fatal(err)
	}
	if len(found) < 40 {
		t.Fatalf("only %d readers were found: %v", len(found), found)
	}
	for _, name := range found {
		if tried[name] == "" {
			t.Errorf("%s reads text, and no fuzz target is named for it", name)
		}
	}
	fuzzed, err := targets(root)
	if err != nil {
		t.Fatal(err)
	}
	for _, list := range []map[string]string{tried, more} {
		for what, target := range list {
			if !strings.HasPrefix(target, "- ") && !fuzzed[target] {
				t.Errorf("%s: there is no %s", what, target)
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(tried)) {
		if !slices.Contains(found, name) {
			t.Errorf("%s is listed, and is there no more", name)
		}
	}
}
