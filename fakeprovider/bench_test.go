package fakeprovider_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/chargeonce/chargeonce/fakeprovider"
)

// BenchmarkHandler compares the fake with a handler that gives a fixed answer
// of the same size, over loopback. The two take turns, so that what else the
// machine does hits both; "ratio" is the fake's speed as a share of the fixed
// handler's and should stay above 0.85.
func BenchmarkHandler(b *testing.B) {
	bank := fakeprovider.New(fakeprovider.Config{})
	defer bank.Close()
	const answer = `{"id":"ch_000001","status":"succeeded","amount":1000,"currency":"EUR","merchant_reference":` +
		`"01890a5d-ac96-774b-bcce-b302099a8057","created":"2026-01-01T00:00:00.123456789Z"}`
	fixed := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, err := io.Copy(io.Discard, r.Body); err != nil {
			b.Error(err)
		}
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Request-Id", "req_00000000_1")
		w.Header().Set("Content-Length", strconv.Itoa(len(answer)))
		w.WriteHeader(http.StatusCreated)
		if _, err := io.WriteString(w, answer); err != nil {
			b.Error(err)
		}
	})
	var base [2]string
	for i, h := range []http.Handler{fixed, bank} {
		srv := httptest.NewServer(h)
		defer srv.Close()
		base[i] = srv.URL
	}
	tr := &http.Transport{DisableCompression: true}
	defer tr.CloseIdleConnections()
	n := 0
	one := func(base string) time.Duration {
		n++
		id := fmt.Sprintf("01890a5d-ac96-774b-bcce-%012d", n)
		req, err := http.NewRequest("POST", base+"/v1/charges", strings.NewReader(payment(id, "tok_visa")))
		if err != nil {
			b.Fatal(err)
		}
		req.Header["Authorization"] = []string{"Bearer secret"}
		req.Header["Idempotency-Key"] = []string{`"` + id + `"`}
		start := time.Now()
		resp, err := tr.RoundTrip(req)
		if err != nil {
			b.Fatal(err)
		}
		if _, err := io.Copy(io.Discard, resp.Body); err != nil {
			b.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != 201 {
			b.Fatal(resp.Status)
		}
		return time.Since(start)
	}
	var took [2][]time.Duration
	for b.Loop() {
		first := n % 4 / 2 // each goes first as often as the other
		took[first] = append(took[first], one(base[first]))
		took[1-first] = append(took[1-first], one(base[1-first]))
	}
	var median [2]float64
	for i := range took {
		slices.Sort(took[i])
		median[i] = float64(took[i][len(took[i])/2].Nanoseconds())
	}
	b.ReportMetric(median[0]/median[1], "ratio")
	b.ReportMetric(median[0], "fixed-ns")
	b.ReportMetric(median[1], "fake-ns")
}

// BenchmarkKeyMemory makes 200,000 charges with keys and references of 36
// characters and reports what each costs in heap, charge and key together;
// it should stay below 400 bytes.
func BenchmarkKeyMemory(b *testing.B) {
	const keys = 200_000
	for b.Loop() {
		before := heap()
		bank := fakeprovider.New(fakeprovider.Config{})
		for i := range keys {
			id := fmt.Sprintf("01890a5d-ac96-774b-bcce-%012d", i)
			req := httptest.NewRequest("POST", "/v1/charges", strings.NewReader(payment(id, "tok_visa")))
			req.Header["Authorization"] = []string{"Bearer secret"}
			req.Header["Idempotency-Key"] = []string{`"` + id + `"`}
			w := httptest.NewRecorder()
			bank.ServeHTTP(w, req)
			if w.Code != 201 {
				b.Fatal(w.Body)
			}
		}
		b.ReportMetric(float64(heap()-before)/keys, "bytes/key")
		runtime.KeepAlive(bank)
	}
}

func heap() uint64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// BenchmarkRoundTrip is one charge in memory.
func BenchmarkRoundTrip(b *testing.B) {
	bank := fakeprovider.New(fakeprovider.Config{})
	n := 0
	b.ReportAllocs()
	for b.Loop() {
		n++
		id := fmt.Sprintf("01890a5d-ac96-774b-bcce-%012d", n)
		req, err := http.NewRequest("POST", "http://bank/v1/charges", strings.NewReader(payment(id, "tok_visa")))
		if err != nil {
			b.Fatal(err)
		}
		req.Header["Authorization"] = []string{"Bearer secret"}
		req.Header["Idempotency-Key"] = []string{`"` + id + `"`}
		resp, err := bank.RoundTrip(req)
		if err != nil {
			b.Fatal(err)
		}
		if _, err := io.Copy(io.Discard, resp.Body); err != nil {
			b.Fatal(err)
		}
		resp.Body.Close()
	}
}

// BenchmarkListPage is one page of 100 in the middle of full books. The time
// must not depend on how many charges there are.
func BenchmarkListPage(b *testing.B) {
	for _, charges := range []int{1_000, 100_000} {
		b.Run(strconv.Itoa(charges), func(b *testing.B) {
			bank := fakeprovider.New(fakeprovider.Config{RecordRequests: -1})
			for i := range charges {
				id := strconv.Itoa(i)
				req := httptest.NewRequest("POST", "/v1/charges", strings.NewReader(payment(id, "tok_visa")))
				req.Header["Authorization"] = []string{"Bearer secret"}
				req.Header["Idempotency-Key"] = []string{`"` + id + `"`}
				bank.ServeHTTP(httptest.NewRecorder(), req)
			}
			url := fmt.Sprintf("/v1/charges?created_from=0&starting_after=ch_%06d", charges/2)
			for b.Loop() {
				req := httptest.NewRequest("GET", url, nil)
				req.Header["Authorization"] = []string{"Bearer secret"}
				w := httptest.NewRecorder()
				bank.ServeHTTP(w, req)
				if w.Code != 200 || w.Body.Len() < 100*100 {
					b.Fatal(w.Body)
				}
			}
		})
	}
}

// BenchmarkReport writes a report of 200,000 lines; "peak-bytes" is how much
// the heap grows meanwhile, which must not depend on the number of lines.
func BenchmarkReport(b *testing.B) {
	const charges = 200_000
	bank := fakeprovider.New(fakeprovider.Config{RecordRequests: -1})
	for i := range charges {
		id := strconv.Itoa(i)
		req := httptest.NewRequest("POST", "/v1/charges", strings.NewReader(payment(id, "tok_visa")))
		req.Header["Authorization"] = []string{"Bearer secret"}
		req.Header["Idempotency-Key"] = []string{`"` + id + `"`}
		bank.ServeHTTP(httptest.NewRecorder(), req)
	}
	before, peak := heap(), uint64(0)
	for b.Loop() {
		w := heapWatcher{peak: &peak}
		if err := bank.WriteReport(&w, fakeprovider.ReportOptions{}); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(charges)*float64(b.N)/b.Elapsed().Seconds(), "lines/s")
	b.ReportMetric(float64(max(peak, before)-before), "peak-bytes")
}

// heapWatcher measures the live heap now and then while it is written to.
type heapWatcher struct {
	writes int
	peak   *uint64
}

func (w *heapWatcher) Write(b []byte) (int, error) {
	if w.writes++; w.writes%100 == 0 {
		*w.peak = max(*w.peak, heap())
	}
	return len(b), nil
}
