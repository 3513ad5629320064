//go:build unix

package manyrig

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

// server is a PostgreSQL server of the test's own, with fsync: it is to lose nothing when it crashes.
type server struct {
	bin, dir string
	as       *syscall.Credential // who runs it: PostgreSQL refuses to run as root
}

// missing skips aloud, but never in CI.
func missing(t *testing.T, why string) {
	t.Helper()
	if os.Getenv("CI") == "true" {
		t.Fatal(why)
	}
	t.Skip("SKIPPED: " + why) // without PostgreSQL there is nothing to prove here
}

func startServer(t *testing.T) *server {
	t.Helper()
	s := &server{}
	if path, err := exec.LookPath("initdb"); err == nil {
		if path, err = filepath.EvalSymlinks(path); err == nil {
			s.bin = filepath.Dir(path)
		}
	}
	if found, _ := filepath.Glob("/usr/lib/postgresql/*/bin/initdb"); s.bin == "" && len(found) > 0 {
		slices.Sort(found)
		s.bin = filepath.Dir(found[len(found)-1])
	}
	if s.bin == "" {
		missing(t, "PostgreSQL's programs are neither in PATH nor in /usr/lib/postgresql; ./scripts/test brings them")
	}
	var err error
	if s.dir, err = os.MkdirTemp("/tmp", "chargeonce-many-"); err != nil { // the path of a socket has to fit into some 100 bytes
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(s.dir) })
	if os.Getuid() == 0 {
		u, err := user.Lookup("postgres")
		if err != nil {
			if u, err = user.Lookup("nobody"); err != nil {
				missing(t, "there is no user to run PostgreSQL as")
			}
		}
		uid, _ := strconv.ParseUint(u.Uid, 10, 32)
		gid, _ := strconv.ParseUint(u.Gid, 10, 32)
		s.as = &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
		if err := os.Chown(s.dir, int(uid), int(gid)); err != nil {
			t.Fatal(err)
		}
	}
	s.run(t, "initdb", "-D", s.dir+"/data", "-U", "postgres", "--auth=trust", "--no-sync", "-E", "UTF8", "--locale=C")
	s.ctl(t, "start")
	t.Cleanup(func() { s.ctl(t, "stop", "-m", "immediate") })
	return s
}

func (s *server) ctl(t *testing.T, args ...string) {
	t.Helper()
	s.run(t, "pg_ctl", append([]string{"-D", s.dir + "/data", "-l", s.dir + "/log", "-w", "-t", "60",
		"-o", "-c listen_addresses= -c max_connections=200 -c unix_socket_directories=" + s.dir}, args...)...)
}

func (s *server) run(t *testing.T, program string, args ...string) {
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

func (s *server) url(database string) string {
	return "postgres://postgres@/" + database + "?sslmode=disable&host=" + s.dir
}

// pid is the number of the server's first process.
func (s *server) pid(t *testing.T) int {
	t.Helper()
	text, err := os.ReadFile(s.dir + "/data/postmaster.pid")
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
