package main

import (
	"io"
	"strings"
	"testing"

	"github.com/chargeonce/chargeonce/internal/batch"
)

// screen is what a terminal shows, as far as this program drives one.
type screen struct {
	lines []string // the cursor is in the last one
	at    int      // its column
	width int
}

func (s *screen) Write(b []byte) (int, error) {
	text := strings.ReplaceAll(string(b), "\x1b[K", "\x00")
	for _, r := range text {
		if len(s.lines) == 0 {
			s.lines = []string{""}
		}
		line := &s.lines[len(s.lines)-1]
		switch r {
		case '\r':
			s.at = 0
		case '\x00':
			*line = (*line)[:min(s.at, len(*line))]
		case '\n':
			s.lines, s.at = append(s.lines, ""), 0
		default:
			if s.at == s.width && s.width > 0 { // the text goes on in the next line
				s.lines, s.at = append(s.lines, ""), 0
				line = &s.lines[len(s.lines)-1]
			}
			*line = (*line)[:min(s.at, len(*line))] + string(r) + (*line)[min(s.at+1, len(*line)):]
			s.at++
		}
	}
	return len(b), nil
}

func (s *screen) String() string { return strings.TrimRight(strings.Join(s.lines, "\n"), "\n") }

// Rows and talk go above the line that shows the progress; it comes back below them, and leaves nothing behind.
func TestWhatIsWrittenGoesAboveTheProgress(t *testing.T) {
	s := &screen{width: 20}
	p := progress{to: s, width: func() int { return s.width }}
	total := totals{rows: 3}
	write := func(text string) {
		t.Helper()
		if _, err := io.WriteString(p.above(s), text); err != nil {
			t.Fatal(err)
		}
	}
	write("no progress yet\n")
	p.show(&total)
	p.show(&total) // too soon: not drawn again
	write("a row that is longer than the line is\n")
	write("talk\n")
	if got, want := s.String(), "no progress yet\na row that is longer\n than the line is\ntalk\n3 rows"; got != want {
		t.Errorf("the screen shows\n%s\nwant\n%s", got, want)
	}
	total = totals{rows: 123456, byOutcome: map[batch.Outcome]int{"approved": 123456}}
	p.clear()
	p.show(&total) // longer than the screen is wide
	write("x\n")
	p.clear()
	if got, want := s.String(), "no progress yet\na row that is longer\n than the line is\ntalk\nx"; got != want {
		t.Errorf("in the end the screen shows\n%s\nwant\n%s", got, want)
	}
	(&progress{}).show(&total) // nobody is watching
}
