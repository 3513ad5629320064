package settlement

import (
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"testing"
)

// What goes in comes out, cut by cut, however much of it went through the file.
func TestSpill(t *testing.T) {
	for _, limit := range []int{1, 7, 100, 1 << 20} {
		t.Run(fmt.Sprint(limit), func(t *testing.T) {
			dir := t.TempDir()
			s := newSpill(dir, limit)
			random := rand.New(rand.NewPCG(1, 2))
			var want []entry
			for i := range 1000 {
				e := entry{value: int64(i%5) - 2}
				for j := range e.key {
					e.key[j] = byte(random.IntN(3) << 6)
				}
				want = append(want, e)
				if err := s.add(e); err != nil {
					t.Fatal(err)
				}
			}
			files, err := os.ReadDir(dir)
			if err != nil || len(files) != map[bool]int{true: 1}[limit < 1000] {
				t.Errorf("%d files, %v", len(files), err)
			}
			var got, room []entry
			for cut := range cutCount {
				if room, err = s.load(cut, room); err != nil {
					t.Fatal(err)
				}
				for i, e := range room {
					if int(e.key[15]) != cut || i > 0 && (compareKeys(&room[i-1].key, &e.key) > 0 || room[i-1].key == e.key && room[i-1].value > e.value) {
						t.Fatalf("cut %d: %v", cut, room)
					}
				}
				got = append(got, room...)
			}
			order := func(a, b entry) int {
				if c := compareKeys(&a.key, &b.key); c != 0 {
					return c
				}
				return int(a.value - b.value)
			}
			slices.SortFunc(want, order)
			slices.SortFunc(got, order)
			if !slices.Equal(got, want) {
				t.Errorf("%d entries came out, %d went in", len(got), len(want))
			}
			if err := s.close(); err != nil {
				t.Error(err)
			}
			if files, err := os.ReadDir(dir); err != nil || len(files) != 0 {
				t.Errorf("%v left behind, %v", files, err)
			}
			if room, err = s.load(0, room); err != nil || len(room) != 0 {
				t.Errorf("%v is left, %v", room, err)
			}
			if err := s.close(); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestSpillWithoutADirectory(t *testing.T) {
	s := newSpill(t.TempDir()+"/missing", 1)
	if err := s.add(entry{}); err == nil {
		t.Error("an entry went nowhere")
	}
	if err := s.close(); err != nil {
		t.Error(err)
	}
}

func TestKeyOf(t *testing.T) {
	const id = "0190a1b2-3c4d-7e5f-8a9b-0c1d2e3f4a5b"
	key, err := keyOf(id)
	if err != nil || idOf(key) != id {
		t.Errorf("%x, %s, %v", key, idOf(key), err)
	}
	for _, bad := range []string{"", "x", id + "00", id[:35] + "x"} {
		if _, err := keyOf(bad); err == nil {
			t.Errorf("%q was taken", bad)
		}
	}
}
