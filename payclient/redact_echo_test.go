package payclient_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/chargeonce/chargeonce/attempt"
	"github.com/chargeonce/chargeonce/payclient"
	"github.com/chargeonce/chargeonce/payclient/standard"
)

// A provider that was sent card details repeats a part of them in one of its answer's members, written in another way:
// nothing of it is stored or told.
func TestPartsOfCardDetailsStayOut(t *testing.T) {
	const card = `{"number":"4111111111111111","cvc":"9371","holder":"CANARY HOLDERSON","exp":"11/29"}`
	problem := func(member, text string) (int, map[string]any) {
		return 402, map[string]any{"type": "u", "code": "bad", "status": 402, member: text}
	}
	charge := func(id string, change map[string]any) (int, map[string]any) {
		c := map[string]any{"id": id, "status": "pending", "amount": wireMinor, "currency": "TRY"}
		for name, value := range change {
			c[name] = value
		}
		return 201, c
	}
	link := func(url string) map[string]any { return map[string]any{"next_action": map[string]any{"url": url}} }
	for name, answer := range map[string]func() (int, map[string]any){
		"dots":              func() (int, map[string]any) { return problem("detail", "number 4111.1111.1111.1111 no") },
		"slashes":           func() (int, map[string]any) { return problem("detail", "number 4111/1111/1111/1111 no") },
		"as an address":     func() (int, map[string]any) { return problem("detail", "dial tcp 41.111.111.111:11111") },
		"letters":           func() (int, map[string]any) { return problem("detail", "4111x1111x1111x1111") },
		"no-break spaces":   func() (int, map[string]any) { return problem("code", "4111\u00a01111\u00a01111\u00a01111") },
		"zero-width spaces": func() (int, map[string]any) { return problem("code", "4111\u200b1111\u200b1111\u200b1111") },
		"full width": func() (int, map[string]any) {
			return problem("code", "４１１１１１１１１１１１１１１１")
		},
		"the code in a detail": func() (int, map[string]any) { return problem("detail", "cvc 9371 is wrong") },
		"the code as a code":   func() (int, map[string]any) { return problem("decline_code", "cvc_9371") },
		"the holder":           func() (int, map[string]any) { return problem("detail", "no such person: Canary Holderson") },
		"the id":               func() (int, map[string]any) { return charge("4111111111111111", nil) },
		"in the id":            func() (int, map[string]any) { return charge("ch_4111-1111-1111-1111", nil) },
		"the id in full width": func() (int, map[string]any) { return charge("４１１１１１１１１１１１１１１１", nil) },
		"the holder in the id": func() (int, map[string]any) { return charge("ch_holderson", nil) },
		"in a link":            func() (int, map[string]any) { return charge("ch_1", link("https://acs.test/?pan=4111111111111111")) },
		"in a link, encoded": func() (int, map[string]any) {
			return charge("ch_1", link("https://acs.test/4111%201111%201111%201111"))
		},
		"the holder in a link": func() (int, map[string]any) { return charge("ch_1", link("https://acs.test/?n=%48olderson")) },
		"a failed charge's code": func() (int, map[string]any) {
			return charge("ch_1", map[string]any{"status": "failed", "decline_code": "9371"})
		},
		"a charge without amount": func() (int, map[string]any) { return charge("4111111111111111", map[string]any{"amount": nil}) },
	} {
		t.Run(name, func(t *testing.T) {
			mem, asked := new(attempt.Memory), 0
			transport := wireStranger(func(r *http.Request) (*http.Response, error) {
				asked++
				var sent struct {
					Reference string `json:"merchant_reference"`
				}
				body, err := io.ReadAll(r.Body)
				if err != nil || json.Unmarshal(body, &sent) != nil || !bytes.Contains(body, []byte("9371")) {
					t.Errorf("the request does not hold the card: %q, %v", body, err)
				}
				code, members := answer()
				members["merchant_reference"] = sent.Reference
				b, err := json.Marshal(members)
				return &http.Response{
					StatusCode: code, ProtoMajor: 1, Header: http.Header{"Content-Type": {"application/json"}},
					ContentLength: int64(len(b)), Body: io.NopCloser(bytes.NewReader(b)),
				}, err
			})
			adapter, err := standard.New(standard.Config{Token: payclient.NewSecret("t"), NoLookup: true})
			if err != nil {
				t.Fatal(err)
			}
			client, err := payclient.New(payclient.Config{
				Provider: adapter, Store: mem, BaseURL: "http://127.0.0.1", Transport: transport, Retries: -1,
				DigestKeys: []attempt.DigestKey{{ID: "k", Secret: bytes.Repeat([]byte("x"), 32)}},
			})
			if err != nil {
				t.Fatal(err)
			}
			intent := wireIntent("1001")
			intent.Source = attempt.Sensitive(card)
			res, err := client.Pay(t.Context(), intent)
			var out strings.Builder
			show := func(v any) {
				b, err := json.Marshal(v)
				fmt.Fprintf(&out, "%+v\n%s %v\n", v, b, err)
			}
			show(res)
			show(err)
			if err := client.Close(t.Context()); err != nil {
				t.Error(err)
			}
			stored := 0
			for a, err := range mem.List(t.Context(), attempt.Filter{}) {
				stored++
				show(a)
				show(err)
				events, err := mem.Events(t.Context(), a.ID)
				show(events)
				show(err)
			}
			if asked != 1 || stored != 1 {
				t.Fatalf("%d requests and %d attempts, want one of each", asked, stored)
			}
			all := strings.ToLower(out.String())
			for _, part := range []string{"1111.1", "1111/1", "41.111", "1111x", "1111\u00a0", "1111\u200b", "１１", "11111111", "1111 1", "1111%", "1111-1", "cvc 9371", "_9371", `"9371"`, "code:9371", "canary", "olderson"} {
				if i := strings.Index(all, part); i >= 0 {
					t.Errorf("%q is in what was kept: ...%s...", part, all[max(0, i-200):min(len(all), i+50)])
				}
			}
		})
	}
}
