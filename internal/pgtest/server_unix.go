//go:build unix

package pgtest

import (
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// Server is a server that a test starts, ends and starts again. With fsync, since it is to lose nothing by that.
type Server struct {
	Dir string // its data, log and socket are there

	bin string
	as  *syscall.Credential // who runs it: PostgreSQL refuses to run as root
}

// Missing skips aloud, but never in CI: what a test needs is not on this machine.
func Missing(t *testing.T, why string) {
	t.Helper()
	if os.Getenv("CI") == "true" {
		t.Fatal(why)
	}
	t.Skip("SKIPPED: " + why) // without PostgreSQL's programs there is nothing to start
}

// New makes a folder for a server, which ends with the test, and starts nothing.
func New(t *testing.T) *Server {
	t.Helper()
	s := &Server{bin: programs(t)}
	var err error
	if s.Dir, err = os.MkdirTemp("/tmp", "chargeonce-pg-"); err != nil { // the path of a socket has to fit into some 100 bytes
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(s.Dir) })
	if os.Getuid() != 0 {
		return s
	}
	u, err := user.Lookup("postgres")
	if err != nil {
		if u, err = user.Lookup("nobody"); err != nil {
			Missing(t, "there is no user to run PostgreSQL as")
		}
	}
	uid, _ := strconv.ParseUint(u.Uid, 10, 32)
	gid, _ := strconv.ParseUint(u.Gid, 10, 32)
	s.as = &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
	if err := os.Chown(s.Dir, int(uid), int(gid)); err != nil { //nolint:gosec // 32 bits, as parsed
		t.Fatal(err)
	}
	return s
}

// Start makes a server and starts it. It ends with the test.
func Start(t *testing.T) *Server {
	t.Helper()
	s := New(t)
	s.Run(t, "initdb", "-D", s.Dir+"/data", "-U", "postgres", "--auth=trust", "--no-sync", "-E", "UTF8", "--locale=C")
	s.Ctl(t, "start")
	t.Cleanup(func() { s.Ctl(t, "stop", "-m", "immediate") })
	return s
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
		Missing(t, "PostgreSQL's programs are neither in PATH nor in /usr/lib/postgresql; ./scripts/test brings them")
	}
	slices.Sort(found)
	return filepath.Dir(found[len(found)-1])
}

// Run runs one of PostgreSQL's programs to its end.
func (s *Server) Run(t *testing.T, program string, args ...string) {
	t.Helper()
	cmd := exec.Command(filepath.Join(s.bin, program), args...) //nolint:noctx // a test's time-out ends it
	cmd.Dir, cmd.SysProcAttr = s.Dir, &syscall.SysProcAttr{Credential: s.as}
	out, err := os.CreateTemp(t.TempDir(), program) // no pipe: the server would hold its end open
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = out.Close() }()
	cmd.Stdout, cmd.Stderr = out, out
	if err := cmd.Run(); err != nil {
		text, _ := os.ReadFile(out.Name())
		t.Fatalf("%s %v: %v\n%s", program, args, err, text)
	}
}

// Background starts a program, as the user who runs the server and in its folder; stop ends it.
func (s *Server) Background(t *testing.T, program string, args ...string) (stop func()) {
	t.Helper()
	cmd := exec.Command(program, args...) //nolint:noctx // stop ends it
	cmd.Dir, cmd.SysProcAttr = s.Dir, &syscall.SysProcAttr{Credential: s.as}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return func() {
		if err := cmd.Process.Kill(); err != nil {
			t.Errorf("end %s: %v", program, err)
		}
		_ = cmd.Wait() // says that it was killed
	}
}

// Ctl starts and ends the server: pg_ctl's own words.
func (s *Server) Ctl(t *testing.T, args ...string) {
	t.Helper()
	s.Run(t, "pg_ctl", append([]string{"-D", s.Dir + "/data", "-l", s.Dir + "/log", "-w", "-t", "60",
		"-o", "-c listen_addresses= -c max_connections=200 -c unix_socket_directories=" + s.Dir}, args...)...)
}

// URL leads to one of its databases.
func (s *Server) URL(database string) string {
	return "postgres://postgres@/" + database + "?sslmode=disable&host=" + s.Dir
}

// Pid is the number of the server's first process.
func (s *Server) Pid(t *testing.T) int {
	t.Helper()
	text, err := os.ReadFile(s.Dir + "/data/postmaster.pid")
	if err != nil {
		t.Fatal(err)
	}
	line, _, _ := strings.Cut(string(text), "\n")
	pid, err := strconv.Atoi(line)
	if err != nil {
		t.Fatal(err)
	}
	return pid
}
