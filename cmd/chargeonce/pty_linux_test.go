package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"unsafe"
)

// openTerminal returns both ends of a terminal: what a program sees as one, and what it shows.
func openTerminal(t *testing.T, width uint16) (program *os.File, shown func() string) {
	t.Helper()
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Skipf("no terminals here: %v", err) // a container may have no /dev/ptmx
	}
	var number, unlock uint32
	size := [4]uint16{50, width}
	for request, value := range map[uintptr]unsafe.Pointer{
		syscall.TIOCGPTN: unsafe.Pointer(&number), syscall.TIOCSPTLCK: unsafe.Pointer(&unlock), syscall.TIOCSWINSZ: unsafe.Pointer(&size),
	} { // ioctl_tty(2)
		if _, _, errno := syscall.Syscall(syscall.SYS_IOCTL, master.Fd(), request, uintptr(value)); errno != 0 {
			t.Fatal(errno)
		}
	}
	program, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	text := make(chan string)
	go func() {
		all, _ := io.ReadAll(master) // ends with EIO once the program's end is closed
		text <- string(all)
	}()
	return program, func() string {
		defer func() { _ = master.Close() }() // only read
		if err := program.Close(); err != nil {
			t.Error(err)
		}
		return <-text
	}
}

// On a terminal the table, the talk and the progress stand one below the other, and nothing is left of the progress.
func TestOnATerminalTheTableStaysWhole(t *testing.T) {
	dir := t.TempDir()
	var rows strings.Builder
	rows.WriteString("order,amount,currency,source\n")
	for i := range 40 {
		source := "tok_visa"
		if i%10 == 3 {
			source = "tok_slow_150ms"
		}
		fmt.Fprintf(&rows, "%d,1.00,EUR,%s\n", i+1, source)
	}
	rows.WriteString("41,x,EUR,tok_visa\n")
	if err := os.WriteFile(filepath.Join(dir, "rows.csv"), []byte(rows.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	const width = 500
	program, shown := openTerminal(t, width)
	args := []string{"pay", filepath.Join(dir, "rows.csv"), "--provider", "fake", "--db", filepath.Join(dir, "chargeonce.db"), "--concurrency", "2"}
	code := run(t.Context(), args, streams{in: strings.NewReader(""), out: program, err: program}, nil)
	raw := shown()
	if code != exitRefused {
		t.Errorf("code %d, want %d", code, exitRefused)
	}
	if n := strings.Count(raw, "\x1b[K"); n < 10 {
		t.Errorf("the progress was drawn %d times, want it to have been there: %q", n, raw)
	}
	s := &screen{width: width}
	if _, err := io.WriteString(s, raw); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(s.String(), "\n")
	table := 0
	for _, line := range lines {
		switch f := strings.Fields(line); {
		case strings.HasPrefix(line, "chargeonce: new database"), strings.HasPrefix(line, " LINE  ORDER"), line == "", strings.HasPrefix(line, "EUR  approved 40.00 (40)"):
		case len(f) == 6 && f[3] == "EUR" && f[4] == "approved", len(f) > 3 && f[1] == "41" && f[2] == "refused":
			table++
		case line != "chargeonce: 41 rows, 40 approved, 1 refused":
			t.Errorf("a line that is none of the table's: %q", line)
		}
	}
	if table != 41 {
		t.Errorf("%d rows on the screen, want 41:\n%s", table, s)
	}
	// Whoever looks at the table has seen the refused row: it is not told a second time.
	if n := strings.Count(s.String(), "not a plain decimal number"); n != 1 {
		t.Errorf("the refused row is told %d times, want once", n)
	}
}
