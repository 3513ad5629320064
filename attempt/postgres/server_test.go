package postgres

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/chargeonce/chargeonce/attempt"
)

// ownServer is a server that a test starts, ends and starts again. With fsync, since it is to survive that.
type ownServer struct {
	bin, dir string
	as       *syscall.Credential // who runs it: PostgreSQL refuses to run as root
}

// programs finds PostgreSQL's programs, as ./scripts/test does.
func programs(t *testing.T) string {
	t.Helper()
	if path, err := exec.LookPath("initdb"); err == nil {
		if path, err = filepath.EvalSymlinks(path); err == nil {
			return filepath.Dir(path)
		}
	}
	found, _ := filepath.Glob("/usr/lib/postgresql/*/bin/initdb")
	if len(found) == 0 {
		// A server elsewhere serves the other tests.
		t.Skip("SKIPPED: PostgreSQL's programs are neither in PATH nor in /usr/lib/postgresql")
	}
	slices.Sort(found)
	return filepath.Dir(found[len(found)-1])
}

func startServer(t *testing.T) *ownServer {
	t.Helper()
	testURL(t)
	s := &ownServer{bin: programs(t)}
	var err error
	if s.dir, err = os.MkdirTemp("/tmp", "chargeonce-pg-"); err != nil { // the path of a socket has to fit into some 100 bytes
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(s.dir) })
	if os.Getuid() == 0 {
		u, err := user.Lookup("postgres")
		if err != nil {
			if u, err = user.Lookup("nobody"); err != nil {
				// root cannot
				t.Skip("SKIPPED: no user to run PostgreSQL as")
			}
		}
		uid, _ := strconv.Atoi(u.Uid)
		gid, _ := strconv.Atoi(u.Gid)
		s.as = &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
		if err := os.Chown(s.dir, uid, gid); err != nil {
			t.Fatal(err)
		}
	}
	s.run(t, "initdb", "-D", s.dir+"/data", "-U", "postgres", "--auth=trust", "--no-sync", "-E", "UTF8", "--locale=C")
	s.ctl(t, "start")
	t.Cleanup(func() { s.ctl(t, "stop", "-m", "immediate") })
	return s
}

func (s *ownServer) run(t *testing.T, program string, args ...string) {
	t.Helper()
	cmd := exec.Command(filepath.Join(s.bin, program), args...)
	cmd.Dir, cmd.SysProcAttr = s.dir, &syscall.SysProcAttr{Credential: s.as}
	out, err := os.CreateTemp(t.TempDir(), program) // no pipe: the server would hold its end open
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	cmd.Stdout, cmd.Stderr = out, out
	if err := cmd.Run(); err != nil {
		text, _ := os.ReadFile(out.Name())
		t.Fatalf("%s %v: %v\n%s", program, args, err, text)
	}
}

func (s *ownServer) ctl(t *testing.T, args ...string) {
	t.Helper()
	s.run(t, "pg_ctl", append([]string{"-D", s.dir + "/data", "-l", s.dir + "/log", "-w", "-t", "60",
		"-o", "-c listen_addresses= -c unix_socket_directories=" + s.dir}, args...)...)
}

func (s *ownServer) url() string {
	return "postgres://postgres@/postgres?host=" + s.dir + "&sslmode=disable"
}

// The server is ended at once, with everything under way, and comes back: what was reported is there, every outcome is written, and
// nothing is there twice.
func TestServerRestartsImmediately(t *testing.T) {
	server := startServer(t)
	if _, err := Migrate(t.Context(), server.url(), MigrateOptions{}); err != nil {
		t.Fatal(err)
	}
	s, err := Open(t.Context(), server.url(), Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	ctx, stop := context.WithCancel(t.Context())
	const callers = 8
	var recorded atomic.Int64
	more := func(n int64) {
		for until := recorded.Load() + n; recorded.Load() < until; {
			runtime.Gosched()
		}
	}
	paid := make(chan []string, callers)
	for c := range callers {
		go func() {
			var mine []string
			defer func() { paid <- mine }()
			for i := 0; ctx.Err() == nil; i++ {
				order := fmt.Sprint(c, "-", i)
				step := starts(order)
				if err := s.Apply(t.Context(), &step.Step); err != nil {
					if !errors.Is(err, attempt.ErrUnavailable) {
						t.Errorf("start %s: %v", order, err)
					}
					continue
				}
				if !step.began {
					t.Errorf("order %s was started by nobody else", order)
				}
				if err := s.Apply(t.Context(), approves(step.got).Step(&step.got)); err != nil {
					t.Errorf("outcome of %s: %v", order, err)
				}
				mine = append(mine, order)
				recorded.Add(1)
			}
		}()
	}
	for range 2 {
		more(20)
		server.ctl(t, "restart", "-m", "immediate")
	}
	more(20)
	stop()
	n := 0
	for range callers {
		for _, order := range <-paid {
			wantOne(t, s, order, attempt.StatusApproved, 2)
			n++
		}
	}
	if n == 0 {
		t.Error("nothing was paid")
	}
	t.Logf("%d payments, two crashes", n)
}

// A replica is refused for writing and good for looking, and a URL that names both finds the primary.
func TestReplica(t *testing.T) {
	primary := startServer(t)
	if _, err := Migrate(t.Context(), primary.url(), MigrateOptions{}); err != nil {
		t.Fatal(err)
	}
	replica := &ownServer{bin: primary.bin, as: primary.as, dir: primary.dir + "/replica"}
	if err := os.Mkdir(replica.dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if replica.as != nil {
		if err := os.Chown(replica.dir, int(replica.as.Uid), int(replica.as.Gid)); err != nil {
			t.Fatal(err)
		}
	}
	replica.run(t, "pg_basebackup", "-h", primary.dir, "-U", "postgres", "-D", replica.dir+"/data", "-R", "-c", "fast", "--no-sync", "-X", "stream")
	replica.ctl(t, "start")
	stopped := false
	defer func() {
		if !stopped {
			replica.ctl(t, "stop", "-m", "immediate")
		}
	}()

	_, err := Open(t.Context(), replica.url(), Options{})
	wantError(t, "a replica", err, attempt.ErrUnavailable)
	if err == nil || !strings.Contains(err.Error(), "read-only replica: name the primary") {
		t.Errorf("a replica: %v", err)
	}
	looking, err := Open(t.Context(), replica.url(), Options{ReadOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	if v, err := looking.Slot(t.Context(), slotOf("1001")); err != nil || len(v.Attempts) != 0 {
		t.Errorf("%d attempts: %v", len(v.Attempts), err)
	}
	if err := looking.Close(); err != nil {
		t.Error(err)
	}
	both := "host=" + replica.dir + "," + primary.dir + " user=postgres dbname=postgres sslmode=disable"
	s, err := Open(t.Context(), both, Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	known := start(t, s, "1001")

	// Fail-over: the primary ends, the replica takes its place; the outcome waits for it.
	for at := time.Now().Add(20 * time.Second); ; {
		r, err := Open(t.Context(), replica.url(), Options{ReadOnly: true})
		if err != nil {
			t.Fatal(err)
		}
		_, err = r.Attempt(t.Context(), known.ID)
		_ = r.Close()
		if err == nil {
			break // it has arrived there: what has not is lost by an asynchronous fail-over
		}
		if time.Now().After(at) {
			t.Fatal(err)
		}
	}
	primary.ctl(t, "stop", "-m", "immediate")
	recorded := make(chan error, 1)
	go func() { recorded <- s.Apply(t.Context(), approves(known).Step(&known)) }()
	replica.ctl(t, "promote")
	if err := <-recorded; err != nil {
		t.Error(err)
	}
	wantOne(t, s, "1001", attempt.StatusApproved, 2)
	start(t, s, "1002")
	replica.ctl(t, "stop", "-m", "immediate")
	stopped = true
	primary.ctl(t, "start")
}
