package fakeprovider

import (
	"errors"
	"net/http"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

var (
	errFull = errors.New("the disk is full")
	errSync = errors.New("the disk has lost it")
)

// brokenFile fails on request, a write in its middle.
type brokenFile struct {
	ledgerFile
	full, loses, stuck atomic.Bool
}

func (f *brokenFile) WriteAt(b []byte, at int64) (int, error) {
	if !f.full.Load() {
		return f.ledgerFile.WriteAt(b, at)
	}
	n, err := f.ledgerFile.WriteAt(b[:len(b)-10], at) // the first lines are whole
	return n, errors.Join(err, errFull)
}

func (f *brokenFile) Sync() error {
	if f.loses.Load() {
		return errSync
	}
	return f.ledgerFile.Sync()
}

func (f *brokenFile) Truncate(size int64) error {
	if f.stuck.Load() {
		return syscall.EIO
	}
	return f.ledgerFile.Truncate(size)
}

func openBroken(t *testing.T) (*Provider, *brokenFile, string) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "ledger.db")
	p, err := Open(file, Config{})
	if err != nil {
		t.Fatal(err)
	}
	f := &brokenFile{ledgerFile: p.journal.file}
	p.journal.file = f
	if a := serveOnce(p, "k1", "r1"); a.status != 201 {
		t.Fatalf("before anything fails: %d %s", a.status, a.body)
	}
	return p, f, file
}

func wantFailed(t *testing.T, what string, a answer, says error) {
	t.Helper()
	if a.status != 500 || !strings.Contains(string(a.body), `"ledger_failed"`) || !strings.Contains(string(a.body), says.Error()) {
		t.Errorf("%s: %d %s, want 500 ledger_failed: %v", what, a.status, a.body, says)
	}
}

func wantClose(t *testing.T, p *Provider, says error) {
	t.Helper()
	if err := p.Close(); !errors.Is(err, says) {
		t.Errorf("Close: %v, want %v", err, says)
	}
}

// wantBooks opens the file anew: it is whole, and holds charges of these
// references, each of which replays under its key.
func wantBooks(t *testing.T, file string, keys ...string) {
	t.Helper()
	p, err := Open(file, Config{})
	if err != nil {
		t.Fatal(err)
	}
	if n := len(p.Charges()); n != len(keys) {
		t.Errorf("the file holds %d charges, want %d", n, len(keys))
	}
	for _, k := range keys {
		if a := serveOnce(p, "k"+k, "r"+k); a.status != 201 || !a.replayed {
			t.Errorf("key %s: %d replayed=%t", k, a.status, a.replayed)
		}
	}
	wantClose(t, p, nil)
}

// A charge that could not be written is not answered, nor is anything after
// it; the file keeps all that was, and nothing by halves.
func TestFullDiskFailsTheRequest(t *testing.T) {
	for _, stuck := range []bool{false, true} {
		p, f, file := openBroken(t)
		f.full.Store(true)
		f.stuck.Store(stuck)
		wantFailed(t, "full", serveOnce(p, "k2", "r2"), errFull)
		f.full.Store(false)
		f.stuck.Store(false)
		wantFailed(t, "after it", serveOnce(p, "k3", "r3"), errFull)
		if err := p.Settle("ch_000001", Failed); !errors.Is(err, errFull) {
			t.Errorf("Settle: %v", err)
		}
		wantClose(t, p, errFull)
		if stuck {
			wantBooks(t, file, "1", "2") // all but the log of the request, which is torn
		} else {
			wantBooks(t, file, "1")
		}
	}
}

// A sync that failed once has lost something, whatever the next one says.
func TestFailedSyncFailsTheRequest(t *testing.T) {
	p, f, file := openBroken(t)
	f.loses.Store(true)
	wantFailed(t, "lost", serveOnce(p, "k2", "r2"), errSync)
	f.loses.Store(false)
	wantFailed(t, "the same key", serveOnce(p, "k2", "r2"), errSync)
	wantFailed(t, "another", serveOnce(p, "k3", "r3"), errSync)
	wantClose(t, p, errSync)
	wantBooks(t, file, "1", "2") // this disk had it after all; nobody was told so
}

// A booking that is made while nobody waits, and cannot be written, is told
// to whoever asks next.
func TestFailedSyncOfALateBooking(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, f, _ := openBroken(t)
		p.Script(BookAfter(15 * time.Second))
		in := inboundCharge(p, "k2", "r2")
		x := p.arrive(in, choice{}) // its client goes away
		if err := p.journal.sync(); err != nil {
			t.Error(err)
		}
		x.leave()
		f.loses.Store(true)
		time.Sleep(15 * time.Second)
		synctest.Wait()
		f.loses.Store(false)
		wantFailed(t, "the next request", serveOnce(p, "k3", "r3"), errSync)
		wantClose(t, p, errSync)
	})
}

// Books that are empty beside a file that is not are books that failed.
func TestResetThatFails(t *testing.T) {
	p, f, file := openBroken(t)
	f.stuck.Store(true)
	if err := p.Reset(); !errors.Is(err, syscall.EIO) {
		t.Errorf("Reset: %v", err)
	}
	f.stuck.Store(false)
	wantFailed(t, "after it", serveOnce(p, "k2", "r2"), syscall.EIO)
	wantClose(t, p, syscall.EIO)
	wantBooks(t, file, "1")
}

// Nobody hears of a charge that is not on disk.
func TestFullDiskTellsNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		told := 0
		p, err := Open(filepath.Join(t.TempDir(), "ledger.db"), Config{Webhook: WebhookConfig{
			Handler: http.HandlerFunc(func(http.ResponseWriter, *http.Request) { told++ }),
			Secret:  "whsec_MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIz",
		}})
		if err != nil {
			t.Fatal(err)
		}
		f := &brokenFile{ledgerFile: p.journal.file}
		p.journal.file = f
		serveOnce(p, "k1", "r1")
		time.Sleep(time.Second)
		f.loses.Store(true)
		wantFailed(t, "lost", serveOnce(p, "k2", "r2"), errSync)
		time.Sleep(time.Second)
		if d := p.Webhooks("r2"); told != 1 || len(d) != 1 || d[0].Error != errSync.Error() || d[0].Status != 0 {
			t.Errorf("told %d times: %+v", told, d)
		}
		wantClose(t, p, errSync)
	})
}
