package sqlite_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"testing"
	"time"

	"github.com/chargeonce/chargeonce/attempt"
	"github.com/chargeonce/chargeonce/attempt/sqlite"
)

func BenchmarkBriefs(b *testing.B) {
	path := "/tmp/briefs2.db"
	_, statErr := os.Stat(path)
	s := open(b, path, sqlite.Options{})
	defer s.Close()
	const n = 200_000
	if statErr != nil {
		drive(b, 256, n, func(i int) error { return pay(b.Context(), s, fmt.Sprint("o", i)) })
	}
	var ids []string
	for a, err := range s.List(b.Context(), attempt.Filter{}) {
		if err != nil {
			b.Fatal(err)
		}
		ids = append(ids, a.ID)
	}
	for _, order := range []string{"sorted", "shuffled"} {
		if order == "shuffled" {
			rand.Shuffle(len(ids), func(i, j int) { ids[i], ids[j] = ids[j], ids[i] })
		}
		for _, by := range []string{"id", "charge"} {
			b.Run(order+by, func(b *testing.B) {
				begun := time.Now()
				at, lines := 0, 0
				for b.Loop() {
					part := ids[at : at+1000]
					at = (at + 1000) % n
					var got []attempt.Brief
					var err error
					if by == "id" {
						got, err = s.Briefs(b.Context(), part, nil)
					} else {
						ch := make([]string, 1000)
						for i := range part {
							ch[i] = "ch_" + part[i]
						}
						got, err = s.Briefs(b.Context(), nil, ch)
					}
					if err != nil || len(got) != 1000 {
						b.Fatal(len(got), err)
					}
					lines += 1000
				}
				b.ReportMetric(float64(lines)/time.Since(begun).Seconds(), "lines/s")
			})
		}
	}
}
