package main

import (
	"bytes"
	"cmp"
	"context"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"
)

var update = flag.Bool("update", false, "write the answers into README.md")

// TestTranscript runs the commands of README.md against the running service and compares its answers: the status, the headers
// that are shown, and the body.
func TestTranscript(t *testing.T) {
	readme, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	everywhere(t, func(t *testing.T, at place) { playTranscript(t, at, string(readme)) })
}

func playTranscript(t *testing.T, at place, readme string) {
	s := serve(t, at)
	other := serve(t, place{db: at.db, bank: s.url})
	var out strings.Builder
	commands, patient, inConsole := 0, false, false
	var command *curl
	orders := numbers{}
	finish := func(more bool) {
		if command == nil {
			return
		}
		commands++
		command.path = orders.here(command.path)
		on := s.site
		if command.other {
			on = other.site
		}
		answer := orders.learn(command.answer, command.run(t, on))
		for end := time.Now().Add(30 * time.Second); patient && !same(command.answer, answer) && time.Now().Before(end); {
			answer = orders.learn(command.answer, command.run(t, on)) // what the next answer waits for happens in its own time
		}
		if !same(command.answer, answer) && !*update {
			t.Errorf("$ %s\ngot:\n%s\nwant:\n%s", command.line, answer, command.answer)
		}
		out.WriteString(answer)
		if more {
			out.WriteString("\n")
		}
		command, patient = nil, false
	}
	for line := range strings.Lines(readme) {
		text := strings.TrimSuffix(line, "\n")
		rest, isCommand := strings.CutPrefix(text, "$ ")
		switch {
		case text == "```console":
			inConsole = true
		case !inConsole:
		case text == "```" || isCommand:
			finish(isCommand)
			inConsole = isCommand
		}
		switch {
		case !inConsole || !isCommand:
			if command != nil {
				command.answer += line
				continue
			}
		case strings.HasPrefix(rest, "curl "):
			command = parseCurl(t, rest)
		case strings.HasPrefix(rest, "sleep "):
			patient = true
		case strings.HasPrefix(rest, "shop="), strings.HasPrefix(rest, "other="):
		default:
			t.Fatalf("%q is no command of a transcript", text)
		}
		out.WriteString(line)
	}
	if commands < 20 {
		t.Errorf("%d commands were run: is this the transcript?", commands)
	}
	other.stop()
	s.stop()
	if *update {
		if err := os.WriteFile("README.md", []byte(out.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// curl is a command of the transcript.
type curl struct {
	line               string
	method, path, body string
	headers            bool
	other              bool   // at the other shop
	answer             string // what is printed, as README.md has it
}

// parseCurl reads the few flags that the transcript uses; any other fails the test.
func parseCurl(t *testing.T, line string) *curl {
	t.Helper()
	c := &curl{line: line, method: http.MethodGet}
	words := regexp.MustCompile(`'[^']*'|\S+`).FindAllString(line, -1)[1:]
	for i := 0; i < len(words); i++ {
		path, isURL := strings.CutPrefix(words[i], "$shop")
		if !isURL {
			path, isURL = strings.CutPrefix(words[i], "$other")
			c.other = c.other || isURL
		}
		switch {
		case isURL:
			c.path = path
		case words[i] == "-i":
			c.headers = true
		case words[i] == "-X" && i+1 < len(words):
			i++
			c.method = words[i]
		case words[i] == "--json" && i+1 < len(words):
			i++
			c.method, c.body = http.MethodPost, strings.Trim(words[i], "'")
		default:
			t.Fatalf("%s: %q is not known here", line, words[i])
		}
	}
	return c
}

// run does what curl would, and prints it as curl would, the headers that are not expected left out.
func (c *curl) run(t *testing.T, s site) string {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), c.method, s.url+c.path, strings.NewReader(c.body))
	if err != nil {
		t.Fatal(err)
	}
	if c.body != "" {
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("Accept", "application/json")
	}
	resp, err := s.client.Do(req)
	if err != nil {
		t.Fatalf("%s: %v", c.line, err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatalf("%s: %v", c.line, err)
	}
	var out bytes.Buffer
	if c.headers {
		fmt.Fprintf(&out, "%s %s\n", resp.Proto, resp.Status)
		for _, name := range []string{"Location", "Retry-After"} {
			if strings.Contains(c.answer, "\n"+name+": ") {
				fmt.Fprintf(&out, "%s: %s\n", name, resp.Header.Get(name))
			}
		}
		out.WriteString("\n")
	}
	out.Write(bytes.TrimSpace(body))
	out.WriteString("\n")
	return out.String()
}

// numbers are those of orders that are others here than in README.md, by README.md's: PostgreSQL leaves out the number of an order
// that was refused.
type numbers map[string]string

var orderMade = regexp.MustCompile(`Location: /orders/(\d+)`)

// learn returns what the service has said with the numbers of README.md, which says want.
func (n numbers) learn(want, said string) string {
	w, s := orderMade.FindStringSubmatch(want), orderMade.FindStringSubmatch(said)
	if w != nil && s != nil {
		n[w[1]] = s[1]
	}
	return someNumber.ReplaceAllStringFunc(said, func(number string) string {
		for theirs, ours := range n {
			if ours == number {
				return theirs
			}
		}
		return number
	})
}

// here returns a path with the numbers of this service.
func (n numbers) here(path string) string {
	return someNumber.ReplaceAllStringFunc(path, func(number string) string { return cmp.Or(n[number], number) })
}

var someNumber = regexp.MustCompile(`\b1\d{3}\b`)

var someID = regexp.MustCompile(`[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}`)

// same tells whether two answers are, but for ids.
func same(a, b string) bool {
	plain := func(s string) string { return someID.ReplaceAllString(strings.TrimSpace(s), "ID") }
	return plain(a) == plain(b)
}

// service is the whole program, on a socket.
type service struct {
	site
	stop func()
}

// serve runs the program in this process until the test, or stop, ends it.
func serve(t *testing.T, at place) *service {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	ready, ended := make(chan string, 1), make(chan error, 1)
	go func() {
		ended <- run(ctx, options{listen: "127.0.0.1:0", db: at.db, books: at.books, bank: at.bank}, slog.New(slog.NewTextHandler(t.Output(), nil)), func(url string) { ready <- url })
	}()
	s := &service{}
	stopped := false
	s.stop = func() {
		if stopped {
			return
		}
		stopped = true
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("the service ends with: %v", err)
		}
	}
	select {
	case url := <-ready:
		s.site = siteAt(url)
	case err := <-ended:
		t.Fatal(err)
	}
	t.Cleanup(s.stop)
	return s
}
