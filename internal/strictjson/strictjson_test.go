package strictjson_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/chargeonce/chargeonce/internal/strictjson"
)

var names = []string{"id", "status", "amount"}

func read(object string) (map[string]string, error) {
	got := make(map[string]string)
	err := strictjson.Object([]byte(object), names, func(i int, v jsontext.Value) error {
		got[names[i]] = string(v)
		return nil
	})
	return got, err
}

func TestObject(t *testing.T) {
	for _, tt := range []struct{ in, want, fault string }{
		{in: `{"id":"a","status":null,"amount":12}`, want: `map[amount:12 id:"a" status:null]`},
		{in: " {\"id\" : \"a\"}\n\t ", want: `map[id:"a"]`},
		{in: `{"other":{"id":1},"id":"a","more":[{"x":1},{"x":2}]}`, want: `map[id:"a"]`},
		{in: `{"\u0069d":"a"}`, want: `map[id:"a"]`},
		{in: `{}`, want: `map[]`},
		{in: ``, fault: "not a JSON object"},
		{in: `null`, fault: "not a JSON object"},
		{in: `[]`, fault: "not a JSON object"},
		{in: `"id"`, fault: "not a JSON object"},
		{in: `{"id":"a","id":"b"}`, fault: "duplicate"},
		{in: `{"id":"a","\u0069d":"b"}`, fault: "duplicate"},
		{in: `{"other":{"x":1,"x":2}}`, fault: "duplicate"},
		{in: `{"other":[{"x":1,"x":2}]}`, fault: "duplicate"},
		{in: `{"ID":"a"}`, fault: "another case"},
		{in: `{"\u017ftatus":"a"}`, fault: "another case"},
		{in: `{"id":"a"}{"id":"b"}`, fault: ""},
		{in: `{"id":"a"} <!-- -->`, fault: "invalid character"},
		{in: `{"id":"a"`, fault: "unexpected EOF"},
		{in: `{"id":"a",}`, fault: "invalid character"},
		{in: "{\"id\":\"\xff\"}", fault: "UTF-8"},
		{in: "{\"x\":\"\xff\"}", fault: "UTF-8"},
		{in: "\xef\xbb\xbf{}", fault: "not a JSON object"},
	} {
		got, err := read(tt.in)
		switch {
		case tt.want != "" && (err != nil || fmt.Sprint(got) != tt.want):
			t.Errorf("%s: got %v, %v, want %s", tt.in, got, err, tt.want)
		case tt.want == "" && (err == nil || !strings.Contains(err.Error(), tt.fault)):
			t.Errorf("%s: got %v, %v, want an error with %q", tt.in, got, err, tt.fault)
		}
	}
}

func TestScalars(t *testing.T) {
	for _, in := range []string{`1.0`, `1e3`, `"1"`, `null`, `9223372036854775808`, `true`} {
		if n, err := strictjson.Int(jsontext.Value(in)); err == nil {
			t.Errorf("Int(%s) = %d, want an error", in, n)
		}
	}
	if n, err := strictjson.Int(jsontext.Value(`-9223372036854775808`)); n != -1<<63 || err != nil {
		t.Errorf("the least number: %d, %v", n, err)
	}
	if s, err := strictjson.String(jsontext.Value(`"a\n\u00e9"`)); s != "a\né" || err != nil {
		t.Errorf("String: %q, %v", s, err)
	}
	if s, err := strictjson.String(jsontext.Value(`null`)); err == nil {
		t.Errorf("String(null) = %q, want an error", s)
	}
	if b, err := strictjson.Bool(jsontext.Value(`"true"`)); err == nil {
		t.Errorf("Bool of a string = %t, want an error", b)
	}
}

// FuzzObject compares with encoding/json: what is taken here means the same there.
func FuzzObject(f *testing.F) {
	f.Add(`{"id":"a","status":null,"amount":12}`)
	f.Add(`{"other":{"x":1,"x":2}}`)
	f.Add(`{"id":"a"}x`)
	f.Fuzz(func(t *testing.T, in string) {
		got, err := read(in)
		if err != nil {
			return
		}
		var want map[string]json.RawMessage
		if err := json.Unmarshal([]byte(in), &want); err != nil {
			t.Fatalf("taken here, and there: %v", err)
		}
		for _, name := range names {
			if a, b := got[name], strings.TrimSpace(string(want[name])); a != b {
				t.Fatalf("%s: %q here, %q there", name, a, b)
			}
		}
	})
}
