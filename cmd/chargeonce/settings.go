package main

import (
	"encoding/base64"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/BurntSushi/toml"
	"github.com/google/uuid"

	"github.com/chargeonce/chargeonce/attempt"
	"github.com/chargeonce/chargeonce/payclient"
	"github.com/chargeonce/chargeonce/reconcile"
)

// settings are what flags, environment and config file say, in this order of precedence.
type settings struct {
	configFile string

	db          database
	fakeLedger  string // empty: see fakeLedgerFile
	provider    string // empty: not said
	url         string
	output      outputFormat
	noInput     bool
	cardOrders  bool
	concurrency int
	settleFor   time.Duration
	who         string

	environment     string // empty: the provider's address
	providerAccount string // empty: the credentials stand for it
	referencePrefix string
	deriveFrom      uuid.UUID
	digestKeys      []attempt.DigestKey
	digestKeyFile   string

	timings   timings
	breaker   payclient.BreakerConfig
	standard  standardSettings
	reconcile reconcileSettings

	providerUnknown bool // one was said that is none
}

type timings struct {
	send, call, firstWait, maxWait, record, minAge, abandonAfter, preparedAfter, retentionMargin time.Duration
	retries                                                                                      int

	askWaits                      []time.Duration
	askFor, watchFor, refundGrace time.Duration

	giveUpAfter time.Duration // 0: never
}

// reconcileSettings are those of reconcile alone.
type reconcileSettings struct {
	lateMoney reconcile.LateMoney
	every     time.Duration
	listFrom  int
}

type standardSettings struct {
	token         payclient.Secret
	tokenFile     string
	keyRetention  time.Duration
	lookupLag     time.Duration
	idleTimeout   time.Duration
	successesOnly bool
	noKeys        bool
	noLookup      bool
}

// defaultGiveUpAfter is for how long the end of a run waits for a database that does not take what was learnt. It outlasts the
// restart or the failover of a server, and a run that a scheduler has started does not stand for a night without anybody knowing.
// Giving up charges nothing twice: the attempts are open in the database, and the next run asks, or sends again under the key.
const defaultGiveUpAfter = 10 * time.Minute

// defaults are the settings of a run about which nothing is said. A batch waits for a breaker instead of failing rows, so its
// breaker opens later than a service's: at half of the requests failing.
func defaults() settings {
	return settings{
		db: database{file: "chargeonce.db"}, output: outputTable, concurrency: 8, settleFor: 10 * time.Second,
		timings: timings{
			send: 3 * time.Second, call: 10 * time.Second, retries: 3, firstWait: time.Second, maxWait: 5 * time.Second,
			record: 5 * time.Second, minAge: 2 * time.Minute, preparedAfter: 24 * time.Hour,
			askFor: attempt.DefaultAskFor, watchFor: attempt.DefaultWatchFor, giveUpAfter: defaultGiveUpAfter,
		},
		reconcile: reconcileSettings{lateMoney: reconcile.LateRefund, every: reconcile.DefaultEvery, listFrom: reconcile.DefaultListFrom},
		breaker:   payclient.BreakerConfig{FailurePercent: 50, MinRequests: 100, Period: time.Minute, OpenFor: 15 * time.Second},
		standard:  standardSettings{keyRetention: 24 * time.Hour, lookupLag: time.Minute},
	}
}

// setting is one thing that can be set: by its key in the config file ("timings.send_timeout"), by the environment
// (CHARGEONCE_TIMINGS_SEND_TIMEOUT), and, where it is a flag, on the command line.
type setting struct {
	key    string
	flag   string // where the flag is not called as the key is
	secret bool   // by the environment only
	path   bool   // names a file: in a config file relative to its folder
	set    func(s *settings, text string) error
	help   string
}

func (o setting) env() string {
	return envPrefix + strings.ToUpper(strings.ReplaceAll(o.key, ".", "_"))
}

// flagName is how the setting's flag is called, where it has one.
func (o setting) flagName() string {
	return orElse(o.flag, strings.ReplaceAll(o.key, "_", "-"))
}

var allSettings = []setting{
	{key: "db", help: "where the attempts are kept", path: true, set: func(s *settings, text string) error {
		db, err := parseDB(text)
		db.schema, s.db = s.db.schema, db
		return err
	}},
	{key: "db_schema", flag: "schema", help: "where the tables are in PostgreSQL, by default chargeonce", set: text(func(s *settings) *string { return &s.db.schema })},
	{key: "fake_ledger", help: "the file with the fake provider's books; by default beside the SQLite file, or chargeonce.fake-ledger", path: true, set: text(func(s *settings) *string { return &s.fakeLedger })},
	{key: "provider", help: "who is to be paid through", set: func(s *settings, text string) error {
		if text != providerFake && text != providerStandard {
			s.providerUnknown = true
			return fmt.Errorf("%q is no provider that this build knows, want fake or standard", text)
		}
		s.provider = text
		return nil
	}},
	{key: "url", help: "the provider's address", set: func(s *settings, text string) error {
		s.url = text
		return checkURL(text)
	}},
	{key: "output", help: "the form of the results", set: func(s *settings, text string) error {
		s.output = outputFormat(text)
		if !slices.Contains(outputFormats, s.output) {
			return fmt.Errorf("%q: want table, json or jsonl", text)
		}
		return nil
	}},
	{key: "no_input", help: "never wait for a person", set: boolean(func(s *settings) *bool { return &s.noInput })},
	{key: "card_like_orders", help: "take orders of digits only that could be card numbers: they are stored and shown", set: boolean(func(s *settings) *bool { return &s.cardOrders })},
	{key: "concurrency", help: "calls under way at once", set: number(1, 1000, func(s *settings) *int { return &s.concurrency })},
	{key: "settle", help: "how long the provider is asked about a payment that is unknown", set: zeroOrDuration(func(s *settings) *time.Duration { return &s.settleFor })},
	{key: "who", help: "the name of this instance in the history", set: text(func(s *settings) *string { return &s.who })},
	{key: "environment", help: "the place to which payments belong, by default the address in url; where the provider has only moved, the old one", set: text(func(s *settings) *string { return &s.environment })},
	{key: "provider_account", help: "the merchant account whose token is used; by default the token itself stands for it", set: text(func(s *settings) *string { return &s.providerAccount })},
	{key: "reference_prefix", help: "goes before the attempt's id in the merchant reference", set: text(func(s *settings) *string { return &s.referencePrefix })},
	{key: "derive_from", help: "a UUID from which keys are derived, so that they survive a lost database", set: func(s *settings, text string) error {
		id, err := uuid.Parse(text)
		if err != nil || id == uuid.Nil {
			return errors.New("want a UUID")
		}
		s.deriveFrom = id
		return nil
	}},
	{key: "digest_key", secret: true, help: "id:base64, former keys behind commas", set: setDigestKeys},
	{key: "digest_key_file", path: true, help: "a file with a digest key on each line, the current one first", set: func(s *settings, text string) error {
		s.digestKeyFile = text
		if s.digestKeys != nil {
			return nil // from the environment
		}
		keys, err := os.ReadFile(text)
		if err != nil {
			return err
		}
		return setDigestKeys(s, strings.Join(strings.Fields(string(keys)), ","))
	}},

	{key: "timings.send_timeout", set: duration(func(s *settings) *time.Duration { return &s.timings.send })},
	{key: "timings.call_timeout", set: duration(func(s *settings) *time.Duration { return &s.timings.call })},
	{key: "timings.retries", set: number(0, 100, func(s *settings) *int { return &s.timings.retries })},
	{key: "timings.first_wait", set: duration(func(s *settings) *time.Duration { return &s.timings.firstWait })},
	{key: "timings.max_wait", set: duration(func(s *settings) *time.Duration { return &s.timings.maxWait })},
	{key: "timings.record_timeout", set: duration(func(s *settings) *time.Duration { return &s.timings.record })},
	{key: "timings.min_age", flag: "ask-after", set: duration(func(s *settings) *time.Duration { return &s.timings.minAge })},
	{key: "timings.abandon_after", flag: "abandon-after", set: func(s *settings, text string) error {
		if text == "never" {
			s.timings.abandonAfter = -1
			return nil
		}
		return duration(func(s *settings) *time.Duration { return &s.timings.abandonAfter })(s, text)
	}},
	{key: "timings.prepared_after", set: duration(func(s *settings) *time.Duration { return &s.timings.preparedAfter })},
	{key: "timings.retention_margin", set: duration(func(s *settings) *time.Duration { return &s.timings.retentionMargin })},
	{key: "timings.ask_waits", help: "between the questions about a payment, with commas; the last one repeats", set: func(s *settings, text string) error {
		s.timings.askWaits = nil
		for one := range strings.SplitSeq(text, ",") {
			wait, err := time.ParseDuration(strings.TrimSpace(one))
			if err != nil || wait <= 0 {
				return fmt.Errorf("%q: want durations with commas, like 1m,5m,1h", text)
			}
			s.timings.askWaits = append(s.timings.askWaits, wait)
		}
		return nil
	}},
	{key: "timings.ask_for", help: "when a person has to decide", set: duration(func(s *settings) *time.Duration { return &s.timings.askFor })},
	{key: "timings.watch_for", help: "how long a payment that has ended is asked about, where money may still turn up", set: func(s *settings, text string) error {
		if text == "never" {
			s.timings.watchFor = -1
			return nil
		}
		return duration(func(s *settings) *time.Duration { return &s.timings.watchFor })(s, text)
	}},
	{key: "timings.give_up_after", help: "how long the end of a run waits for the database to take what was learnt, or never: it waits without limit", set: func(s *settings, text string) error {
		if text == "never" {
			s.timings.giveUpAfter = 0
			return nil
		}
		if err := duration(func(s *settings) *time.Duration { return &s.timings.giveUpAfter })(s, text); err != nil {
			return err
		}
		if s.timings.giveUpAfter < time.Second {
			return fmt.Errorf("%q: want at least 1s, or never", text)
		}
		return nil
	}},
	{key: "timings.refund_grace", help: "how long surplus money stays before it is given back", set: zeroOrDuration(func(s *settings) *time.Duration { return &s.timings.refundGrace })},

	{key: "reconcile.late_money", flag: "late-money", help: "what becomes of money that comes too late: refund, review, keep", set: func(s *settings, text string) error {
		s.reconcile.lateMoney = reconcile.LateMoney(text)
		if !slices.Contains(lateMoneys, text) {
			return fmt.Errorf("%q: want %s", text, strings.Join(lateMoneys, ", "))
		}
		return nil
	}},
	{key: "reconcile.every", flag: "every", help: "how long --watch waits where nothing is due sooner", set: duration(func(s *settings) *time.Duration { return &s.reconcile.every })},
	{key: "reconcile.list_from", help: "how many due payments are looked for in a listing; 0: none", set: number(0, 1_000_000, func(s *settings) *int { return &s.reconcile.listFrom })},

	{key: "breaker.failure_percent", help: "0: no breaker", set: number(0, 100, func(s *settings) *int { return &s.breaker.FailurePercent })},
	{key: "breaker.min_requests", set: number(1, 1_000_000, func(s *settings) *int { return &s.breaker.MinRequests })},
	{key: "breaker.period", set: duration(func(s *settings) *time.Duration { return &s.breaker.Period })},
	{key: "breaker.open_for", set: duration(func(s *settings) *time.Duration { return &s.breaker.OpenFor })},

	{key: "standard.token", secret: true, help: "the bearer token", set: func(s *settings, text string) error {
		s.standard.token = payclient.NewSecret(text)
		return nil
	}},
	{key: "standard.token_file", path: true, help: "a file with the bearer token", set: func(s *settings, text string) error {
		s.standard.tokenFile = text
		if !s.standard.token.IsZero() {
			return nil // from the environment
		}
		token, err := os.ReadFile(text)
		if err != nil {
			return err
		}
		s.standard.token = payclient.NewSecret(strings.TrimRight(string(token), "\r\n"))
		return nil
	}},
	{key: "standard.key_retention", set: duration(func(s *settings) *time.Duration { return &s.standard.keyRetention })},
	{key: "standard.lookup_lag", set: duration(func(s *settings) *time.Duration { return &s.standard.lookupLag })},
	{key: "standard.idle_timeout", set: duration(func(s *settings) *time.Duration { return &s.standard.idleTimeout })},
	{key: "standard.keeps_successes_only", set: boolean(func(s *settings) *bool { return &s.standard.successesOnly })},
	{key: "standard.no_keys", set: boolean(func(s *settings) *bool { return &s.standard.noKeys })},
	{key: "standard.no_lookup", set: boolean(func(s *settings) *bool { return &s.standard.noLookup })},
}

func text(field func(*settings) *string) func(*settings, string) error {
	return func(s *settings, text string) error { *field(s) = text; return nil }
}

func boolean(field func(*settings) *bool) func(*settings, string) error {
	return func(s *settings, text string) error {
		b, err := strconv.ParseBool(text)
		if err != nil {
			return fmt.Errorf("%q: want true or false", text)
		}
		*field(s) = b
		return nil
	}
}

func number(least, most int, field func(*settings) *int) func(*settings, string) error {
	return func(s *settings, text string) error {
		n, err := strconv.Atoi(text)
		if err != nil || n < least || n > most {
			return fmt.Errorf("%q: want a number from %d to %d", text, least, most)
		}
		*field(s) = n
		return nil
	}
}

func duration(field func(*settings) *time.Duration) func(*settings, string) error {
	return func(s *settings, text string) error {
		d, err := time.ParseDuration(text)
		if err != nil || d <= 0 {
			return fmt.Errorf("%q: want a duration like 3s or 2m", text)
		}
		*field(s) = d
		return nil
	}
}

// zeroOrDuration is duration, and "0" for none.
func zeroOrDuration(field func(*settings) *time.Duration) func(*settings, string) error {
	return func(s *settings, text string) error {
		if text == "0" || text == "0s" {
			*field(s) = 0
			return nil
		}
		return duration(field)(s, text)
	}
}

// lateMoneys are what may become of money that comes too late.
var lateMoneys = []string{string(reconcile.LateRefund), string(reconcile.LateReview), string(reconcile.LateKeep)}

// isScheme tells whether a text is what stands before the colon of a URI (RFC 3986 section 3.1).
func isScheme(text string) bool {
	for i, c := range []byte(strings.ToLower(text)) {
		letter := c >= 'a' && c <= 'z'
		if !letter && (i == 0 || !(c >= '0' && c <= '9') && c != '+' && c != '-' && c != '.') {
			return false
		}
	}
	return text != ""
}

// checkURL reports what is no address at all. Whether it may be used is the client's to say. The text is not repeated: it may
// hold a password.
func checkURL(text string) error {
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Hostname() == "" {
		return errors.New("not an address, want https://host[:port][/path]")
	}
	return nil
}

// setDigestKeys reads id:base64, the current key first, former ones behind commas. No message repeats what was read.
func setDigestKeys(s *settings, text string) error {
	var keys []attempt.DigestKey
	for i, one := range strings.Split(text, ",") {
		id, encoded, ok := strings.Cut(strings.TrimSpace(one), ":")
		secret, err := base64.StdEncoding.DecodeString(encoded)
		if !ok || err != nil {
			return fmt.Errorf("key %d: want id:base64", i+1)
		}
		keys = append(keys, attempt.DigestKey{ID: id, Secret: secret})
	}
	s.digestKeys = keys
	return nil
}

// given is where a setting may come from.
type given struct {
	flag func(name string) (string, bool) // the flags that were given
	env  func(name string) (string, bool)
	// names are those of the environment's variables.
	names []string
}

const (
	envPrefix     = "CHARGEONCE_"
	envConfig     = "CHARGEONCE_CONFIG"
	envFakeTokens = "CHARGEONCE_FAKE_TOKENS"
	envOfTests    = "CHARGEONCE_TEST_" // settings of this repository's tests
)

// strangers reports variables that look like settings and are none: a misspelt one would be passed over in silence.
func (g given) strangers() (errs []error) {
	for _, name := range slices.Sorted(slices.Values(g.names)) {
		rest, ok := strings.CutPrefix(name, envPrefix)
		if !ok || name == envConfig || name == envFakeTokens || strings.HasPrefix(name, envOfTests) {
			continue
		}
		if slices.ContainsFunc(allSettings, func(o setting) bool { return o.env() == name }) {
			continue
		}
		if value, _ := g.env(name); value == "" {
			continue
		}
		meant := ""
		for _, o := range allSettings {
			if strings.HasSuffix(o.env(), "_"+rest) {
				meant = ", did you mean " + o.env()
			}
		}
		errs = append(errs, fmt.Errorf("%s: no such setting%s", name, meant))
	}
	return errs
}

// resolve reads the settings and reports every mistake at once. The settings are usable as far as they go, for further
// checks.
func resolve(from given) (settings, error) {
	s := defaults()
	errs := from.strangers()
	if file, ok := from.flag("config"); ok {
		s.configFile = file
	} else if file, ok := from.env(envConfig); ok {
		s.configFile = file
	}
	values := make(map[string]string)
	if s.configFile != "" {
		var err error
		if values, err = readConfigFile(s.configFile); err != nil {
			errs = append(errs, err)
		}
	}
	for _, o := range allSettings {
		value, source := values[o.key], fmt.Sprintf("%s: %s", s.configFile, o.key)
		_, ok := values[o.key]
		if ok && o.path {
			value = beside(s.configFile, o.key, value)
		}
		if v, set := from.env(o.env()); set && v != "" {
			value, source, ok = v, o.env(), true
		}
		if v, set := from.flag(o.flagName()); set {
			value, source, ok = v, "--"+o.flagName(), true
		}
		if !ok {
			continue
		}
		if err := o.set(&s, value); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", source, err))
		}
	}
	if s.db.schema != "" && !s.db.isPostgres() {
		errs = append(errs, fmt.Errorf("db_schema: only a PostgreSQL database has schemas, and the database is %s", s.db))
	}
	return s, errors.Join(errs...)
}

// beside returns a file name from a config file: a relative one is relative to the config file's folder, so that it means
// the same wherever the command is started.
func beside(configFile, key, value string) string {
	prefix, name := "", value
	if key == "db" {
		db, err := parseDB(value)
		if err != nil || db.isPostgres() {
			return value // a mistake is reported where it is read
		}
		prefix, name = "sqlite:", db.file
	}
	if name == "" || filepath.IsAbs(name) {
		return value
	}
	return prefix + filepath.Join(filepath.Dir(configFile), name)
}

// readConfigFile reads a TOML file into texts by key. Every key must be one that is known.
func readConfigFile(file string) (map[string]string, error) {
	var tree map[string]any
	if _, err := toml.DecodeFile(file, &tree); err != nil {
		var syntax toml.ParseError
		if errors.As(err, &syntax) {
			// Not the parser's own words: they quote what it found, which may be a secret that somebody wrote there without quotes.
			return nil, fmt.Errorf(`%s: line %d: not TOML, want key = "text", key = 12, key = true or [section]`, file, syntax.Position.Line)
		}
		return nil, fmt.Errorf("config file: %w", err)
	}
	values := make(map[string]string)
	var errs []error
	var walk func(prefix string, tree map[string]any)
	walk = func(prefix string, tree map[string]any) {
		for _, name := range sortedKeys(tree) {
			key := prefix + name
			if sub, ok := tree[name].(map[string]any); ok && isSection(key) {
				walk(key+".", sub)
				continue
			}
			i := slices.IndexFunc(allSettings, func(o setting) bool { return o.key == key })
			switch {
			case i < 0:
				errs = append(errs, fmt.Errorf("%s: %s: unknown key", file, key))
			case allSettings[i].secret:
				errs = append(errs, fmt.Errorf("%s: %s: a secret does not belong here, want %s_file or the environment variable %s", file, key, key, allSettings[i].env()))
			default:
				switch v := tree[name].(type) {
				case string, int64, bool:
					values[key] = fmt.Sprint(v)
				default:
					errs = append(errs, fmt.Errorf("%s: %s: want a text, a whole number or true or false", file, key))
				}
			}
		}
	}
	walk("", tree)
	return values, errors.Join(errs...)
}

// isSection tells whether a key of the config file is a table that holds others.
func isSection(key string) bool {
	return slices.ContainsFunc(allSettings, func(o setting) bool { return strings.HasPrefix(o.key, key+".") })
}

func sortedKeys(tree map[string]any) []string {
	keys := make([]string, 0, len(tree))
	for key := range tree {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	return keys
}
