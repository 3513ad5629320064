package fakeprovider_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/chargeonce/chargeonce/fakeprovider"
)

func open(t *testing.T, file string, c fakeprovider.Config) *fakeprovider.Provider {
	t.Helper()
	bank, err := fakeprovider.Open(file, c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := bank.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return bank
}

// F: it survives a restart with its ledger.
func TestFRestartKeepsLedger(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		file := filepath.Join(t.TempDir(), "ledger.db")
		config := fakeprovider.Config{Orders: fakeprovider.OrdersConfig{Lookup: true}}
		bank := open(t, file, config)
		c := call(t, bank)
		paid := c.pay("k1", "r1", "tok_visa")
		declined := c.pay("k2", "r2", "tok_insufficient_funds")
		bank.Script("book+status:500+pin")
		c.pay("k3", "r3", "tok_visa")
		bank.Script("slow:1h")
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		c.send(replayable(t, "http://bank", "k4", "r4").WithContext(ctx))
		cancel()
		c.pay("k5", "r5", "tok_pending_then_failed_30m")
		c.pay("k6", "r6", "tok_pending")
		if err := bank.Settle("ch_000006", fakeprovider.Succeeded); err != nil {
			t.Fatal(err)
		}
		c.pay("k0", "r0", "tok_pending_then_failed_1s")
		time.Sleep(time.Second)
		if err := bank.Settle("ch_000007", fakeprovider.Succeeded); err != nil { // after it has failed
			t.Fatal(err)
		}
		bank.Script("hide:2h+book-twice")
		c.pay("k7", "r7", "tok_visa")
		c.refund("f1", "rf1", "ch_000001", 400)
		c.order(orderForm)
		bank.Script("forget")
		c.pay("k8", "r8", "tok_visa")
		bank.Script("crash")
		c.pay("k9", "r9", "tok_visa")
		before := bank.Ledger()
		if err := bank.Close(); err != nil {
			t.Fatal(err)
		}

		for range 2 { // the second time what the first one wrote is read
			bank = open(t, file, config)
			after := bank.Ledger()
			want(t, "ledger", strings.ReplaceAll(fmt.Sprint(after), " m=+0", ""), strings.ReplaceAll(fmt.Sprint(before), " m=+0", ""))
			bank.Close()
		}

		bank = open(t, file, config)
		c = call(t, bank)
		again := c.pay("k1", "r1", "tok_visa")
		want(t, "paid", again, "201 replayed")
		want(t, "the same bytes", again.body, paid.body)
		want(t, "another body", c.pay("k1", "r2", "tok_visa"), "422")
		again = c.pay("k2", "r2", "tok_insufficient_funds")
		want(t, "declined", again, "402 replayed")
		want(t, "the same bytes", again.body, declined.body)
		want(t, "pinned", c.pay("k3", "r3", "tok_visa"), "500 replayed")
		want(t, "still running", c.pay("k4", "r4", "tok_visa"), "409")
		want(t, "forgotten", c.pay("k8", "r8", "tok_visa"), "201")
		want(t, "locked", c.pay("k9", "r9", "tok_visa"), "409")
		want(t, "hidden", c.find("r7").ids(), "")
		want(t, "refund", c.refund("f2", "rf2", "ch_000001", 601).field("code"), "refund_too_large")
		want(t, "order", c.do("GET", "/v1/orders?merchant_reference=o1", "", "").field("has_more"), "false")
		want(t, "orders", len(bank.Orders("o1")), 1)
		want(t, "pending", bank.Charges("r5")[0].Status, "pending")
		time.Sleep(2 * time.Hour)
		want(t, "failed in the end", len(bank.Declines("r5")), 1)
		want(t, "settled", bank.Charges("r6")[0].Status, "succeeded")
		want(t, "settled after the failure", bank.Charges("r0")[0].Status, "succeeded")
		want(t, "shown", c.find("r7").ids(), "ch_000008 ch_000009")
		want(t, "no longer running", c.pay("k4", "r4", "tok_visa"), "201 replayed")
		want(t, "no longer locked", c.pay("k9", "r9", "tok_visa"), "201")
		want(t, "keys", bank.DistinctKeys(), before.DistinctKeys+1)
	})
}

// A booking that was accepted before the restart is made after it, and the
// key is locked until then.
func TestRestartKeepsWhatWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		file := filepath.Join(t.TempDir(), "ledger.db")
		bank := open(t, file, fakeprovider.Config{})
		bank.Script("book-after:15s")
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		call(t, bank).send(replayable(t, "http://bank", "k", "r").WithContext(ctx))
		cancel()
		want(t, "not yet", charges(bank), 0)
		bank.Close()

		bank = open(t, file, fakeprovider.Config{})
		want(t, "locked", call(t, bank).pay("k", "r", "tok_visa"), "409")
		bank.Close()
		time.Sleep(time.Hour)

		bank = open(t, file, fakeprovider.Config{})
		want(t, "made in its time", bank.Charges("r")[0].Created.Format(time.RFC3339), "2000-01-01T00:00:15Z")
		want(t, "replayed", call(t, bank).pay("k", "r", "tok_visa"), "201 replayed")
		bank.Close()

		bank = open(t, file, fakeprovider.Config{})
		want(t, "made once", charges(bank), 1)
		want(t, "replayed", call(t, bank).pay("k", "r", "tok_visa"), "201 replayed")
	})
}

// A booking that is due is in the file although nobody asks any more.
func TestLateBookingReachesTheFile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		file := filepath.Join(t.TempDir(), "ledger.db")
		bank := open(t, file, fakeprovider.Config{})
		bank.Script("book-after:15s")
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		call(t, bank).send(replayable(t, "http://bank", "k", "r").WithContext(ctx))
		time.Sleep(13 * time.Second)
		b, err := os.ReadFile(file)
		if err != nil || !strings.Contains(string(b), `{"t":"booked"`) {
			t.Errorf("not in the file: %s %v", b, err)
		}
	})
}

func TestTornLineIsDropped(t *testing.T) {
	file := filepath.Join(t.TempDir(), "ledger.db")
	bank := open(t, file, fakeprovider.Config{})
	c := call(t, bank)
	c.pay("k1", "r1", "tok_visa")
	c.pay("k2", "r2", "tok_visa")
	bank.Close()
	whole, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	// Wherever the last line is torn, the first charge is there and the next
	// restart reads what this one wrote.
	lines := strings.SplitAfter(strings.TrimSuffix(string(whole), "\n"), "\n")
	last := len(lines[len(lines)-1])
	for cut := 0; cut <= last; cut += 7 {
		if err := os.WriteFile(file, whole[:len(whole)-1-cut], 0o600); err != nil {
			t.Fatal(err)
		}
		bank := open(t, file, fakeprovider.Config{})
		want(t, "charges", charges(bank, "r1"), 1)
		want(t, "pay on", call(t, bank).pay("k3", "r3", "tok_visa"), "201")
		bank.Close()
		bank = open(t, file, fakeprovider.Config{})
		want(t, "charges after another restart", charges(bank, "r3"), 1)
		bank.Close()
	}
	// Damage elsewhere is no accident of a crash.
	damaged := strings.Replace(string(whole), `"t":"booked"`, `"t":"booked`, 1)
	if err := os.WriteFile(file, []byte(damaged), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := fakeprovider.Open(file, fakeprovider.Config{}); err == nil || !strings.Contains(err.Error(), "line 2 is damaged") {
		t.Errorf("damaged: %v", err)
	}
	for text, says := range map[string]string{
		`{"t":"future"}`: "written by a later version?",
		`{"t":"booked","kind":"charge","n":2,"currency":"EUR"}`:                              "does not follow",
		`{"t":"booked","kind":"order","n":1,"currency":"EUR"}`:                               "unknown kind",
		`{"t":"booked","kind":"refund","n":1,"charge":3,"currency":"EUR"}`:                   "does not exist",
		`{"t":"key","key":{"client":"a","key":"b","print":"00","state":3}}`:                  "malformed fingerprint",
		`{"t":"key","key":{"key":"b","print":"` + strings.Repeat("00", 16) + `","state":3}}`: "does not exist",
		`{"t":"state","kind":"charge","n":1}`:                                                "there is no charge 1",
		`{"t":"order","order":{"order":5}}`:                                                  "does not follow",
		`{"t":"request"}`:                                                                    "without a request",
		`{"t":"count"}`:                                                                      "without numbers",
	} {
		if err := os.WriteFile(file, []byte(text+"\n{}\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := fakeprovider.Open(file, fakeprovider.Config{}); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v, want %q", text, err, says)
		}
	}
}

// Wherever the file ends, a charge that is in it has its key beside it: who
// sends again is not charged again.
func TestTornFileChargesOnce(t *testing.T) {
	file := filepath.Join(t.TempDir(), "ledger.db")
	bank := open(t, file, fakeprovider.Config{})
	c := call(t, bank)
	c.pay("k1", "r1", "tok_visa")
	bank.Script("book+status:500+pin")
	c.pay("k2", "r2", "tok_visa")
	c.refund("k3", "r3", "ch_000001", 400)
	bank.Close()
	whole, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for end := 0; end <= len(whole); end += 11 {
		if err := os.WriteFile(file, whole[:end], 0o600); err != nil {
			t.Fatal(err)
		}
		bank := open(t, file, fakeprovider.Config{})
		c := call(t, bank)
		c.pay("k1", "r1", "tok_visa")
		c.pay("k2", "r2", "tok_visa")
		c.refund("k3", "r3", "ch_000001", 400)
		want(t, fmt.Sprint("charges, torn at ", end), charges(bank), 2)
		want(t, fmt.Sprint("refunds, torn at ", end), len(bank.Refunds()), 1)
		bank.Close()
	}
}

func TestSecondProcessIsRefused(t *testing.T) {
	file := filepath.Join(t.TempDir(), "ledger.db")
	bank := open(t, file, fakeprovider.Config{})
	if _, err := fakeprovider.Open(file, fakeprovider.Config{}); !errors.Is(err, fakeprovider.ErrInUse) || !strings.Contains(err.Error(), file) {
		t.Errorf("second: %v", err)
	}
	bank.Close()
	open(t, file, fakeprovider.Config{})
	if _, err := fakeprovider.Open(filepath.Join(t.TempDir(), "no", "such"), fakeprovider.Config{}); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no directory: %v", err)
	}
	if _, err := fakeprovider.Open(file, fakeprovider.Config{Script: fakeprovider.Script{Steps: []fakeprovider.Fault{"x"}}}); err == nil {
		t.Error("a nonsense script was taken")
	}
}

// A file that holds much that is past is written anew at the start.
func TestCompaction(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		file := filepath.Join(t.TempDir(), "ledger.db")
		config := fakeprovider.Config{RecordRequests: 10}
		bank := open(t, file, config)
		c := call(t, bank)
		c.pay("k", "r", "tok_pending_then_succeeded_30m")
		bank.Script("book-after:45m")
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		c.send(replayable(t, "http://bank", "late", "late").WithContext(ctx))
		for range 1100 {
			c.find("r")
		}
		before := bank.Ledger()
		bank.Close()
		size := func() int64 {
			info, err := os.Stat(file)
			if err != nil {
				t.Fatal(err)
			}
			return info.Size()
		}
		long := size()
		bank = open(t, file, config)
		if short := size(); short > long/10 {
			t.Errorf("%d bytes were %d", short, long)
		}
		after := bank.Ledger()
		want(t, "requests", after.RequestCount, before.RequestCount)
		want(t, "keys", after.DistinctKeys, 2)
		bank.Close()
		bank = open(t, file, config)
		want(t, "requests once more", bank.RequestCount(), before.RequestCount)
		want(t, "key", call(t, bank).pay("k", "r", "tok_pending_then_succeeded_30m"), "201 replayed")
		time.Sleep(time.Hour)
		want(t, "flipped", bank.Charges("r")[0].Status, "succeeded")
		want(t, "late", charges(bank, "late"), 1)
	})
}

// What a client has spent, and how many keys were seen and forgotten since,
// survives a file that is written anew.
func TestCompactionKeepsCounts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		file := filepath.Join(t.TempDir(), "ledger.db")
		config := fakeprovider.Config{RecordRequests: 10, KeyRetention: time.Minute, Orders: fakeprovider.OrdersConfig{Balance: 1000}}
		bank := open(t, file, config)
		c := call(t, bank)
		for range 9 {
			want(t, "order", strings.Contains(c.order(orderForm).body, `"order"`), true)
		}
		for i := range 400 {
			bank.Script(fakeprovider.Decline("x"))
			c.pay(fmt.Sprint("k", i), "r", "tok_visa")
			time.Sleep(time.Second)
		}
		for range 2000 {
			c.find("r")
		}
		for range 2 {
			bank.Close()
			bank = open(t, file, config)
			want(t, "keys", bank.DistinctKeys(), 400)
		}
		c = call(t, bank)
		want(t, "the rest of the balance", c.order(orderForm).body, `{"order":10}`)
		want(t, "none left", c.order(orderForm).body, `{"error":"Not enough funds on balance"}`)
	})
}

func TestResetEmptiesTheFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "ledger.db")
	bank := open(t, file, fakeprovider.Config{})
	c := call(t, bank)
	c.pay("k", "r", "tok_visa")
	if err := bank.Reset(); err != nil {
		t.Fatal(err)
	}
	c.pay("k2", "r2", "tok_visa")
	bank.Close()
	bank = open(t, file, fakeprovider.Config{})
	want(t, "charges", fmt.Sprint(charges(bank, "r"), charges(bank, "r2")), "0 1")
}

// serveForKill is the other process of the test below: it serves until it is
// killed.
func serveForKill() {
	err := fakeprovider.ListenAndServe(context.Background(), fakeprovider.ServerConfig{
		Listen: "127.0.0.1:0", File: os.Getenv("FAKEPROVIDER_SERVE"), Ready: func(addr string) { fmt.Println(addr) },
	})
	fmt.Println(err)
}

// Every answered charge survives kill -9; every key replays.
func TestKill9(t *testing.T) {
	file := filepath.Join(t.TempDir(), "ledger.db")
	paid := map[string]string{} // body by key
	for round := range 3 {
		exe, err := os.Executable()
		if err != nil {
			t.Fatal(err)
		}
		cmd := exec.Command(exe)
		cmd.Env = append(os.Environ(), "FAKEPROVIDER_SERVE="+file)
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		addr, err := bufio.NewReader(out).ReadString('\n')
		if err != nil {
			t.Fatal(err)
		}
		tr := &http.Transport{MaxIdleConnsPerHost: 8}
		c := call(t, tr)
		c.base = "http://" + strings.TrimSpace(addr)
		for key, body := range paid {
			r := c.pay(key, "r-"+key, "tok_visa")
			if !r.replayed || r.body != body {
				t.Errorf("round %d: %s: %s %q, was %q", round, key, r, r.body, body)
			}
		}
		var mu sync.Mutex
		var wg sync.WaitGroup
		for worker := range 8 {
			wg.Go(func() {
				for i := 0; ; i++ {
					key := fmt.Sprintf("%d-%d-%d", round, worker, i)
					r := c.pay(key, "r-"+key, "tok_visa")
					if r.err != nil {
						return // killed
					}
					mu.Lock()
					paid[key] = r.body
					n := len(paid)
					mu.Unlock()
					if n == 30*(round+1) {
						if err := cmd.Process.Kill(); err != nil {
							t.Error(err)
						}
					}
				}
			})
		}
		wg.Wait()
		if err := cmd.Wait(); err == nil {
			t.Error("it ended by itself")
		}
		tr.CloseIdleConnections()
	}
	bank := open(t, file, fakeprovider.Config{})
	for key := range paid {
		want(t, key, charges(bank, "r-"+key), 1)
	}
}

// One file has one provider, by whatever links it is reached, also where it is not there yet.
func TestLinksToALedger(t *testing.T) {
	dir := t.TempDir()
	file, folder := filepath.Join(dir, "books"), filepath.Join(dir, "folder")
	if err := os.Symlink("books", filepath.Join(dir, "link")); err != nil {
		t.Skip("SKIPPED: no symbolic links here:", err) // Windows gives the right to make them to few
	}
	for _, link := range [][2]string{{"link", filepath.Join(dir, "link of link")}, {".", folder}} {
		if err := os.Symlink(link[0], link[1]); err != nil {
			t.Fatal(err)
		}
	}
	first, err := fakeprovider.Open(filepath.Join(dir, "link"), fakeprovider.Config{})
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{file, filepath.Join(dir, "link of link"), filepath.Join(folder, "books"), filepath.Join(folder, "link")} {
		if second, err := fakeprovider.Open(path, fakeprovider.Config{}); !errors.Is(err, fakeprovider.ErrInUse) {
			if err == nil {
				second.Close()
			}
			t.Errorf("%s: %v, want that it is in use", path, err)
		}
		if id, err := fakeprovider.ReadID(path); err != nil || id != first.ID() {
			t.Errorf("%s: %q, %v", path, id, err)
		}
	}
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{os.DevNull, dir} {
		if id, err := fakeprovider.ReadID(path); err == nil {
			t.Errorf("%s: %q", path, id)
		}
	}
}
