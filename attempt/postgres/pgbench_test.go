package postgres

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/chargeonce/chargeonce/attempt"
)

// pgbench is PostgreSQL's own load generator as a rival: a script is one payment.
// https://www.postgresql.org/docs/current/pgbench.html
func pgbench(b *testing.B, name, script string) rival {
	program, err := exec.LookPath("pgbench")
	if err != nil {
		found, _ := filepath.Glob("/usr/lib/postgresql/*/bin/pgbench")
		if len(found) == 0 {
			b.Skip("SKIPPED: no pgbench, which comes with PostgreSQL's server") // a benchmark, not a test: CI runs none
		}
		program = slices.Max(found)
	}
	file := filepath.Join(b.TempDir(), name+".sql")
	if err := os.WriteFile(file, []byte(script), 0o600); err != nil {
		b.Fatal(err)
	}
	latency := regexp.MustCompile(`tps = ([0-9.]+) `) // without the time for connecting
	return rival{name, func(b *testing.B, _, callers, payments int) time.Duration {
		cmd := exec.CommandContext(b.Context(), program, "-n", "-M", "prepared", "-c", strconv.Itoa(callers), "-j", strconv.Itoa(min(callers, 2)),
			"-t", strconv.Itoa(max(1, payments/callers)), "-f", file, testURL(b))
		var out bytes.Buffer
		cmd.Stdout, cmd.Stderr = &out, &out
		if err := cmd.Run(); err != nil {
			b.Fatalf("pgbench: %v\n%s", err, out.String())
		}
		found := latency.FindStringSubmatch(out.String())
		if found == nil || !strings.Contains(out.String(), "number of failed transactions: 0 ") {
			b.Fatalf("pgbench says\n%s", out.String())
		}
		tps, err := strconv.ParseFloat(found[1], 64)
		if err != nil {
			b.Fatal(err)
		}
		return time.Duration(float64(payments) / tps * float64(time.Second))
	}}
}

// number draws what tells one payment of a script from all others.
const number = "\\set n random(1, 1000000000000000000)\n"

const (
	scriptNumber = ":n::bigint"
	scriptText   = "(:n::bigint)::text"
	scriptID     = "lpad(to_hex(:n::bigint), 32, '0')"
)

// bareScript is an insert and an update of the table that the hand-written contender uses.
func bareScript(schema string) string {
	return number + "INSERT INTO " + schema + ".payments (id, order_id, amount, currency, key, reference, body, status, created_at, updated_at)" +
		" VALUES (" + scriptID + "::uuid, " + scriptText + ", 54890, 'TRY', " + scriptID + ", " + scriptText + ", '{}', 'sending', now(), now());\n" +
		"UPDATE " + schema + ".payments SET status = 'approved', updated_at = now(), charge_id = " + scriptText + ", answer = " + scriptLiteral(`{"status_code":201}`) + "" +
		" WHERE id = " + scriptID + "::uuid;\n"
}

// storeScript is the store's two statements, with the arguments of a payment.
func storeScript(b *testing.B, s *Store) string {
	slot := slotOf("1001")
	begin := attempt.Start{
		Slot: slot, Intent: attempt.Intent{Order: slot.Order, Amount: benchAmount, Source: attempt.Token("tok_visa")},
		Provider: "standard", Environment: "test", Who: "host-1",
		Claim: 15 * time.Second, SendSpan: 10 * time.Second, FirstCheck: 2 * time.Minute, PreparedAfter: 24 * time.Hour,
		New: func(int) (attempt.Attempt, error) { return benchAttempt() },
	}
	first := s.believe(begin.Step())
	known := begin.Decision.Attempt
	outcome := attempt.Record{ID: known.ID, Who: "host-1", Evidence: attempt.Evidence{
		Kind: attempt.EvidenceSends, Fence: 1, Sends: []attempt.Send{benchSend(known.ID)},
	}}
	result := s.believe(outcome.Step(&known))
	if first.kind != writesFirst || result.kind != writesResult {
		b.Fatalf("a payment is written by statements %d and %d", first.kind, result.kind)
	}
	// What differs from one payment to the next.
	vary := map[string]string{
		"lock": scriptNumber, "decided": "NULL", "order_id": scriptText, "live": scriptID, "id": scriptID,
		"idempotency_key": scriptID, "reference": scriptText, "charge_id": scriptText,
	}
	write := func(text string, in []column, args []any) string {
		return regexp.MustCompile(`\$\d+`).ReplaceAllStringFunc(text, func(param string) string {
			n, err := strconv.Atoi(param[1:])
			if err != nil {
				b.Fatal(err)
			}
			if n > len(in) {
				return "false" // whether the commit is made to be waited for
			}
			if v, ok := vary[in[n-1].name]; ok {
				return "(" + v + ")"
			}
			switch v := args[n-1].(type) {
			case nil:
				return "NULL"
			case time.Time:
				return scriptLiteral(v.Format(time.RFC3339Nano))
			case []byte:
				return fmt.Sprintf("'\\x%x'", v)
			default:
				return scriptLiteral(fmt.Sprint(v))
			}
		}) + ";\n"
	}
	return number + write(s.sql.first, firstInput, first.args) + write(s.sql.result, resultInput, result.args)
}

// scriptLiteral is a text for a script, in which a colon would begin a variable's name, also between quotes.
func scriptLiteral(text string) string {
	return "E'" + strings.NewReplacer(`\`, `\\`, `'`, `\'`, `:`, `\x3a`).Replace(text) + "'"
}
