//go:build amd64 || arm64

package crashrig

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// deep is how many deaths in a row a payment has to survive.
const deep = 3

// table counts kills by verb and point.
type table struct {
	mu       sync.Mutex
	kills    map[string]map[string]int // by point and verb
	total    int
	trials   [deep + 1]int // by how often they were killed
	survived int           // runs under the tracer that no kill met
}

func newTable() *table { return &table{kills: make(map[string]map[string]int)} }

func (c *table) add(verb, point string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.kills[point] == nil {
		c.kills[point] = make(map[string]int)
	}
	c.kills[point][verb]++
	c.total++
}

func (c *table) count() int { c.mu.Lock(); defer c.mu.Unlock(); return c.total }

// met tells whether the verb was killed there.
func (c *table) met(verb, point string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.kills[point][verb] > 0
}

func (c *table) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d kills; %d traced runs ended by themselves; payments that were killed so often:", c.total, c.survived)
	for n, trials := range c.trials {
		fmt.Fprintf(&b, " %d times %d,", n, trials)
	}
	fmt.Fprintln(&b)
	for _, point := range slices.Sorted(maps.Keys(c.kills)) {
		n, by := 0, []string(nil)
		for _, verb := range slices.Sorted(maps.Keys(c.kills[point])) {
			n += c.kills[point][verb]
			by = append(by, fmt.Sprintf("%s %d", verb, c.kills[point][verb]))
		}
		fmt.Fprintf(&b, "%5d  %-52s %s\n", n, point, strings.Join(by, ", "))
	}
	return b.String()
}

// C53, P10, R7: whatever is killed, wherever, three times in a row: it is run again and ends, each reference is charged at
// most once and refunded at most once, nothing is lost, and what was told stays true. First each point that has a name, then
// store writes all over the run, until it was killed often enough: two thirds of it with SQLite, a third with PostgreSQL, of
// whose work a part is done by a process that nobody kills here.
func TestKills(t *testing.T) {
	want := *wantKills
	if testing.Short() {
		want = min(want, shortKills)
	}
	total, wanted, began := 0, 0, time.Now()
	kill := func(p *server, want int) func(t *testing.T) {
		return func(t *testing.T) {
			n, whole := killVerbs(t, p, want)
			total += n
			if whole { // -run may name some verbs only
				wanted += want
			}
		}
	}
	t.Run("SQLite", kill(nil, want-want/3))
	t.Run("PostgreSQL", func(t *testing.T) { kill(openServer(t), want/3)(t) })
	t.Logf("%d kills in all, wanted %d; %s", total, wanted, time.Since(began).Round(time.Second))
	if total < wanted && !t.Failed() {
		t.Errorf("%d kills, wanted %d", total, wanted)
	}
}

func killVerbs(t *testing.T, p *server, want int) (kills int, whole bool) {
	counts, began, ran := newTable(), time.Now(), 0
	for i, v := range verbs {
		v.server = p
		t.Run(v.name, func(t *testing.T) {
			ran++
			// What one verb has more than its share, since it has more points, the next ones have less.
			killVerb(t, v, max((want-counts.count())/(len(verbs)-i), deep), counts)
		})
	}
	t.Logf("%s%s", counts, time.Since(began).Round(time.Second))
	return counts.total, ran == len(verbs)
}

// aim is where a trial's first run is killed: at the n-th point, or at the first of a name.
type aim struct {
	round, n int
	name     string
}

func killVerb(t *testing.T, v verb, quota int, counts *table) {
	points, must := v.whole(t)
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Hour)
	defer cancel()
	trials := make(chan aim)
	var all sync.WaitGroup
	for range *workers {
		all.Go(func() {
			b, err := openBank(ctx, t.TempDir())
			if err != nil {
				t.Error(err)
				cancel()
				return
			}
			defer b.stop()
			for at := range trials {
				if err := v.trial(ctx, t, b, at, points, counts); err != nil {
					t.Errorf("%s, killed first at %+v, seed %d: %v", v.name, at, *seed, err)
				}
			}
		})
	}
	before := counts.count()
	enough := func() bool { return ctx.Err() != nil || counts.count()-before >= quota || t.Failed() }
	send := func(at aim) {
		select {
		case trials <- at:
		case <-ctx.Done():
		}
	}
	short := testing.Short() && !*wholeRuns
	for i, name := range points.names {
		if short && (enough() || len(points.names) > quota/deep && i%max(1, len(points.names)*deep/quota) != 0) {
			continue
		}
		send(aim{0, 1, name})
	}
	// Store writes from all over the run; those that were left off come in later rounds, and so do all other points.
	for round, stride := 1, max(1, len(points.writes)*deep/quota); !enough(); round++ {
		for i := (round - 1) % stride; i < len(points.writes) && !enough(); i += stride {
			send(aim{round, points.writes[i], ""})
		}
	}
	if *wholeRuns {
		// Past the last point a run survives; runs differ a little in how many points they have.
		for n := 1; n <= points.count+2 && ctx.Err() == nil; n++ {
			send(aim{0, n, ""})
		}
	}
	close(trials)
	all.Wait()

	var never []string
	for _, name := range points.names {
		for try := 1; try <= 5 && !short && !t.Failed() && !counts.met(v.name, name); try++ { // not every run comes by every point
			if err := v.trial(ctx, t, openOne(ctx, t), aim{-try, 1, name}, points, counts); err != nil {
				t.Errorf("%s, killed first at %q: %v", v.name, name, err)
			}
		}
		if !short && !counts.met(v.name, name) {
			never = append(never, name)
			if must[name] {
				t.Errorf("was never killed at %q", name)
			}
		}
	}
	if len(never) > 0 {
		t.Logf("of %d points with names, these did not come again: %q", len(points.names), never)
	}
}

// whole runs the verb under the tracer and kills nothing: the points that a run has, and those that each must have. On a busy
// machine two parts of an answer arrive as one, or a call's time is over: then it is run anew.
func (v verb) whole(t *testing.T) (p points, must map[string]bool) {
	t.Helper()
	must = make(map[string]bool)
	for _, name := range v.meets {
		if v.server != nil { // whose own log nobody sees from here
			name = strings.NewReplacer("write of wal", "write to PostgreSQL", "sync of wal", "written to PostgreSQL").Replace(name)
		}
		must[name] = true
	}
	b := openOne(t.Context(), t)
	wrong := ""
	for range 10 {
		w, err := v.world(t.Context(), b, t.TempDir())
		if errors.Is(err, errNotSetUp) {
			wrong = err.Error()
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		whole, _, err := w.traced(t.Context(), aim{}, false, v.run...)
		needTrace(t, err)
		p = newPoints(whole.Events)
		lacks := slices.DeleteFunc(slices.Sorted(maps.Keys(must)), func(name string) bool { return p.first[name] > 0 })
		if slices.Contains(v.codes, whole.Code) && len(lacks) == 0 {
			return p, must
		}
		wrong = fmt.Sprintf("ends with %d, and does not come by %q, only by %q", whole.Code, lacks, p.names)
	}
	t.Fatalf("a run that nobody kills: %s", wrong)
	return p, must
}

// openOne is a bank for one trial.
func openOne(ctx context.Context, t *testing.T) *bank {
	t.Helper()
	b, err := openBank(ctx, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.stop)
	return b
}

// begin makes a world in which the verb is to be run.
func (v verb) begin(t *testing.T, b *bank) *world {
	t.Helper()
	w, err := v.world(t.Context(), b, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return w
}

func (v verb) world(ctx context.Context, b *bank, dir string) (*world, error) {
	w, err := newWorld(dir, b, v.server, v.rows)
	if err == nil && v.server != nil {
		var talk string
		if _, talk, _, err = w.run(ctx, "migrate", "up"); err != nil {
			err = fmt.Errorf("migrate: %w: %s", err, talk)
		}
	}
	if err == nil && v.faults != "" {
		err = b.control("faults", v.faults)
	}
	for i, line := range v.setup {
		if err != nil {
			break
		}
		want := 0
		if i < len(v.leaves) {
			want = v.leaves[i]
		}
		_, talk, code, failed := w.run(ctx, line...)
		if err = failed; err == nil && code != want {
			// On a slow machine a call's time may be over before it has sent.
			err = errNotSetUp
		}
		if err != nil {
			err = fmt.Errorf("%v: ends with %d: %w: %s", line, code, err, talk)
		}
	}
	if err == nil && v.heal {
		err = b.control("faults", `{"clear":true}`)
	}
	return w, err
}

// errNotSetUp: what has to be there before the kills is not.
var errNotSetUp = errors.New("not what the trial begins with")

// points are those of a run that nobody kills.
type points struct {
	count  int
	names  []string // in the order in which they came first
	first  map[string]int
	writes []int // which of them are store writes
}

func newPoints(events []event) points {
	p := points{count: len(events), first: make(map[string]int)}
	for i, e := range events {
		if p.first[e.point()] == 0 {
			p.first[e.point()] = i + 1
			p.names = append(p.names, e.point())
		}
		if e.Kind == storeWrite || e.Kind == storeWritten {
			p.writes = append(p.writes, i+1)
		}
	}
	return p
}

// draw picks a point for a run that goes on after a death: by name, so that it is met wherever it comes, or by number, and
// then more often one of the first, since what is left to do is less than the whole.
func (p points) draw(number uint64) aim {
	switch n := number / 4; number % 4 {
	case 0:
		return aim{n: 1, name: p.names[n%uint64(len(p.names))]}
	case 1:
		return aim{n: 1 + int(n%uint64(p.count))}
	default:
		return aim{n: 1 + int(n%uint64(p.count/4+1))}
	}
}

// trial runs a verb and kills it where it is aimed at, then again at points drawn, then lets it end.
func (v verb) trial(ctx context.Context, t *testing.T, b *bank, first aim, points points, count *table) error {
	dir, err := os.MkdirTemp(t.TempDir(), "trial")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	w, err := v.world(ctx, b, dir)
	for tries := 1; errors.Is(err, errNotSetUp) && tries < 5; tries++ {
		if dir, err = os.MkdirTemp(dir, "again"); err == nil {
			w, err = v.world(ctx, b, dir)
		}
	}
	if err != nil {
		return err
	}
	u := newAudit()
	var story []string
	killed := 0
	for depth := range deep {
		at := first
		if depth > 0 { // from hash(seed, verb, aim, depth)
			h := fnv.New64a()
			fmt.Fprint(h, *seed, v.name, first, depth)
			at = points.draw(h.Sum64())
		}
		tr, stdout, err := w.traced(ctx, at, false, v.run...)
		if err != nil {
			return err
		}
		point := "survived"
		if tr.Killed {
			point = tr.At
			count.add(v.name, point)
			killed++
		} else {
			count.mu.Lock()
			count.survived++
			count.mu.Unlock()
		}
		story = append(story, point)
		u.hear(stdout)
		if _, _, err := u.look(ctx, w); err != nil {
			return fmt.Errorf("%w; killed at: %s", err, strings.Join(story, " | "))
		}
	}
	count.mu.Lock()
	count.trials[killed]++
	count.mu.Unlock()
	err = w.until(ctx, u, v.codes, v.run)
	if err == nil && v.finish != nil {
		err = w.until(ctx, u, []int{0}, v.finish)
	}
	if err == nil {
		err = u.end(ctx, w, v.endings)
	}
	if err == nil && len(u.wrong) > 0 {
		err = errors.New(strings.Join(u.wrong, "; "))
	}
	if err != nil {
		return fmt.Errorf("%w; killed at: %s", err, strings.Join(story, " | "))
	}
	return nil
}

// until runs the program until it ends with one of the codes.
func (w *world) until(ctx context.Context, u *audit, codes []int, args []string) error {
	for tries := 1; ; tries++ {
		stdout, talk, code, err := w.run(ctx, args...)
		if err != nil {
			return err
		}
		u.hear(stdout)
		if slices.Contains(codes, code) {
			return nil
		}
		if tries == 60 || code != 5 {
			return fmt.Errorf("%v ends with %d: %s", args, code, talk)
		}
		time.Sleep(100 * time.Millisecond) // of another process's time: a claim has to end, an answer to be asked for again
	}
}

// The rig finds a double charge where there is one: at a provider that forgets its keys, a payment that is killed behind its
// request and sent again is charged twice.
func TestRigFindsADoubleCharge(t *testing.T) {
	v := verbs[0]
	v.rows, v.faults, v.codes = "1,5.00,EUR,tok_visa\n", `{"rules":[{"match":{"method":"POST"},"always":"forget"}]}`, []int{0}
	b, err := openBank(t.Context(), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer b.stop()
	whole, _, err := v.begin(t, b).traced(t.Context(), aim{}, false, v.run...)
	needTrace(t, err)
	p := newPoints(whole.Events)
	const answered = "charge: answer arrives"
	if p.first[answered] == 0 {
		t.Fatalf("no charge is answered: %v", p.names)
	}
	err = v.trial(t.Context(), t, b, aim{0, 1, answered}, p, newTable())
	if err == nil || !strings.Contains(err.Error(), "2 times in the ledger") && !strings.Contains(err.Error(), "is charged twice") {
		t.Errorf("the rig says %v", err)
	}
}
