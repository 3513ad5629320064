//go:build amd64 || arm64

package crashrig

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"unsafe"
)

// errNoTrace: this machine lets nobody trace a process.
var errNoTrace = errors.New("no process can be traced here (ptrace, Linux 5.3 or later)")

// task is what the tracer does.
type task struct {
	Args  []string // the program and its arguments
	Store string   // the database's file; or, of PostgreSQL, the server's socket: a path, or an address and a port
	Peer  string   // the provider: host and port
	Kill  int      // at which event, 1 for the first; 0: at none
	Point string   // of those with this name; empty: of all
	Keep  bool     // what is written
}

// trace is what the tracer has seen.
type trace struct {
	Events []event
	Killed bool
	At     string // the name of the point at which it was
	Code   int    // with which the program ended, if it was not killed
	Failed string
}

// The name of the variable that makes a test binary the tracer, its only child the traced program: a tracer waits for any
// child, and would take the exits of a test's other children.
const envTask = "CRASHRIG_TASK"

// Of linux/ptrace.h; package syscall has them not for every architecture.
const (
	ptraceGetSyscallInfo = 0x420e
	ptraceSyscallEntry   = 1
	ptraceSyscallExit    = 2
	optionExitKill       = 0x100000 // PTRACE_O_EXITKILL
	waitAll              = 0x40000000
	stopOfSyscall        = syscall.SIGTRAP | 0x80 // PTRACE_O_TRACESYSGOOD
)

// runTask is the tracer's main function.
func runTask(text string) {
	var t task
	var seen trace
	err := json.Unmarshal([]byte(text), &t)
	if err == nil {
		runtime.LockOSThread() // ptrace takes orders from one thread only
		err = (&tracer{task: t, peers: make(map[uint64]string), begun: make(map[int]*call), trace: &seen}).run()
	}
	if err != nil {
		seen.Failed = err.Error()
	}
	out, err := json.Marshal(seen)
	if err == nil {
		_, err = os.NewFile(3, "trace").Write(out)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// call is a system call under way.
type call struct {
	nr    uint64
	args  [6]uint64
	event int // its number, 0 if it is none
}

type tracer struct {
	task
	*trace
	pid   int
	peers map[uint64]string // descriptors that lead to the provider (its address), or to PostgreSQL (serverFile)
	begun map[int]*call     // by thread
	wire  wire
	named int // events so far of the name that is aimed at
}

func (t *tracer) run() error {
	p, err := os.StartProcess(t.Args[0], t.Args, &os.ProcAttr{
		Files: []*os.File{os.Stdin, os.Stdout, os.Stderr}, Sys: &syscall.SysProcAttr{Ptrace: true},
	})
	if errors.Is(err, syscall.EPERM) || errors.Is(err, syscall.ENOSYS) {
		return errNoTrace
	}
	if err != nil {
		return err
	}
	t.pid = p.Pid
	var ws syscall.WaitStatus
	if _, err := syscall.Wait4(t.pid, &ws, waitAll, nil); err != nil || !ws.Stopped() {
		return fmt.Errorf("the traced program does not stop: %w (%v)", err, ws)
	}
	const options = syscall.PTRACE_O_TRACESYSGOOD | syscall.PTRACE_O_TRACECLONE | optionExitKill
	if err := syscall.PtraceSetOptions(t.pid, options); err != nil {
		return fmt.Errorf("%w: %w", errNoTrace, err)
	}
	if err := syscall.PtraceSyscall(t.pid, 0); err != nil {
		return err
	}
	known := map[int]bool{t.pid: true}
	for {
		tid, err := syscall.Wait4(-1, &ws, waitAll, nil)
		if errors.Is(err, syscall.EINTR) {
			continue
		}
		if err != nil {
			return fmt.Errorf("wait for the traced program: %w", err)
		}
		switch {
		case ws.Exited() || ws.Signaled():
			if tid == t.pid {
				t.Code = ws.ExitStatus()
				if ws.Signaled() && !t.Killed {
					return fmt.Errorf("the traced program was ended by %v", ws.Signal())
				}
				return nil
			}
			continue
		case !ws.Stopped():
			continue
		}
		deliver := 0
		switch signal := ws.StopSignal(); {
		case signal == stopOfSyscall:
			if err := t.syscall(tid); err != nil {
				return err
			}
		case signal == syscall.SIGTRAP: // a new thread is told of
		case signal == syscall.SIGSTOP && !known[tid]: // a new thread's first stop
			known[tid] = true
		default:
			deliver = int(signal)
		}
		if err := syscall.PtraceSyscall(tid, deliver); err != nil && !errors.Is(err, syscall.ESRCH) {
			return fmt.Errorf("let the traced program go on: %w", err)
		}
	}
}

// syscall looks at a system call that begins or ends.
func (t *tracer) syscall(tid int) error {
	var info [88]byte // struct ptrace_syscall_info
	n, _, errno := syscall.Syscall6(syscall.SYS_PTRACE, ptraceGetSyscallInfo, uintptr(tid), uintptr(len(info)), uintptr(unsafe.Pointer(&info)), 0, 0)
	switch {
	case errno == syscall.ESRCH: // it has just died
		return nil
	case errno != 0:
		return fmt.Errorf("%w: %w", errNoTrace, errno)
	}
	word := func(at int) uint64 { return binary.NativeEndian.Uint64(info[at:]) }
	switch info[0] {
	case ptraceSyscallEntry:
		if n < 80 {
			return errNoTrace
		}
		c := &call{nr: word(24)}
		for i := range c.args {
			c.args[i] = word(32 + 8*i)
		}
		t.begun[tid] = c
		return t.begins(c)
	case ptraceSyscallExit:
		c := t.begun[tid]
		delete(t.begun, tid)
		if c != nil {
			return t.ends(c, int64(word(24)))
		}
	}
	return nil
}

func (t *tracer) begins(c *call) error {
	switch c.nr {
	case syscall.SYS_CONNECT:
		t.peers[c.args[0]] = t.toPeer(c.args[1], c.args[2])
		if t.peers[c.args[0]] == t.Peer {
			t.add(c, event{Kind: wireDial, Where: t.wire.where()})
		}
	case syscall.SYS_CLOSE:
		delete(t.peers, c.args[0])
	case syscall.SYS_WRITE, syscall.SYS_PWRITE64, syscall.SYS_WRITEV, syscall.SYS_PWRITEV, syscall.SYS_SENDTO, syscall.SYS_SENDMSG:
		if t.peers[c.args[0]] == t.Peer {
			if c.nr != syscall.SYS_WRITE {
				return fmt.Errorf("the program writes to the provider by system call %d, which is not understood here", c.nr)
			}
			data, err := t.memory(c.args[1], c.args[2])
			if err != nil {
				return err
			}
			t.wire.request(data)
			t.add(c, event{Kind: wireRequest, Where: t.wire.asked + ": before it is written", Data: data})
			return nil
		}
		file := t.file(c.args[0])
		if file == "" {
			return nil
		}
		if c.nr != syscall.SYS_WRITE && c.nr != syscall.SYS_PWRITE64 {
			return fmt.Errorf("the program writes to the store by system call %d, which is not understood here", c.nr)
		}
		data, err := t.memory(c.args[1], c.args[2])
		if err != nil {
			return err
		}
		t.add(c, event{Kind: storeWrite, File: file, Where: t.wire.where(), Data: data})
	case syscall.SYS_FSYNC, syscall.SYS_FDATASYNC:
		t.file1(c, storeSync)
	case syscall.SYS_FTRUNCATE:
		t.file1(c, storeTruncate)
	case sysUnlink:
		for suffix, file := range storeFiles {
			name, err := t.memory(c.args[0], uint64(len(t.Store)+len(suffix)+1))
			if err == nil && string(name) == t.Store+suffix+"\x00" { // a shorter name may end with the memory
				t.add(c, event{Kind: storeUnlink, File: file, Where: t.wire.where()})
			}
		}
	}
	return nil
}

func (t *tracer) ends(c *call, result int64) error {
	if c.event > 0 && result >= 0 {
		t.Events[c.event-1].Ended = len(t.Events)
	}
	switch {
	case c.event > 0 && t.Events[c.event-1].Kind == wireRequest && result > 0:
		t.add(c, event{Kind: wireSent, Where: t.wire.asked + ": written"})
	case c.event > 0 && t.Events[c.event-1].File == serverFile && result > 0:
		t.add(c, event{Kind: storeWritten, File: serverFile, Where: t.wire.where()})
	case c.nr == syscall.SYS_READ && t.peers[c.args[0]] == t.Peer && result > 0:
		t.wire.part++
		what := "answer arrives"
		if t.wire.part > 1 {
			what = "more of its answer arrives"
		}
		t.add(c, event{Kind: wireAnswer, Where: t.wire.asked + ": " + what})
	}
	return nil
}

// add counts an event, and kills the program if it is the one.
func (t *tracer) add(c *call, e event) {
	if !t.Keep {
		e.Data = nil
	}
	t.Events = append(t.Events, e)
	c.event = len(t.Events)
	at := len(t.Events)
	if t.Point != "" {
		if at = 0; e.point() == t.Point {
			t.named++
			at = t.named
		}
	}
	if at == t.Kill && at > 0 && !t.Killed {
		t.Killed, t.At = true, e.point()
		_ = syscall.Kill(t.pid, syscall.SIGKILL) // it is there: it is stopped
	}
}

func (t *tracer) file1(c *call, k kind) {
	if file := t.file(c.args[0]); file != "" {
		t.add(c, event{Kind: k, File: file, Where: t.wire.where()})
	}
}

var storeFiles = map[string]string{"": "db", "-wal": "wal", "-journal": "journal"}

// file says which of the store's files a descriptor is of; empty: none.
func (t *tracer) file(fd uint64) string {
	if t.peers[fd] == serverFile {
		return serverFile
	}
	path, err := os.Readlink(fmt.Sprintf("/proc/%d/fd/%d", t.pid, fd))
	if err != nil {
		return ""
	}
	if path == filepath.Dir(t.Store) {
		return "folder"
	}
	for suffix, file := range storeFiles {
		if path == t.Store+suffix {
			return file
		}
	}
	return ""
}

// toPeer says where an address in the program's memory leads: to the provider, to PostgreSQL, or elsewhere, which is empty.
func (t *tracer) toPeer(at, length uint64) string {
	data, err := t.memory(at, min(length, 110))
	if err != nil || len(data) < 3 {
		return ""
	}
	name := ""
	switch family := binary.NativeEndian.Uint16(data); {
	case family == syscall.AF_UNIX:
		name, _, _ = strings.Cut(string(data[2:]), "\x00")
	case family == syscall.AF_INET && len(data) >= 8:
		name = netip.AddrPortFrom(netip.AddrFrom4([4]byte(data[4:8])), binary.BigEndian.Uint16(data[2:])).String()
	}
	switch name {
	case t.Peer:
		return t.Peer
	case t.Store:
		return serverFile
	}
	return ""
}

// memory reads the traced program's memory.
func (t *tracer) memory(at, length uint64) ([]byte, error) {
	f, err := os.Open(fmt.Sprintf("/proc/%d/mem", t.pid))
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }() // only read
	data := make([]byte, length)
	if _, err := f.ReadAt(data, int64(at)); err != nil {
		return nil, fmt.Errorf("read the traced program's memory: %w", err)
	}
	return data, nil
}
