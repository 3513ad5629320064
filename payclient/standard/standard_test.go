package standard_test

import (
	"strings"
	"testing"

	"github.com/chargeonce/chargeonce/payclient"
	"github.com/chargeonce/chargeonce/payclient/standard"
)

func TestNewReportsEveryMistake(t *testing.T) {
	for _, token := range []string{"", "sk test", "sk\ntest", "sk_\u00fc", "sk\x7f"} {
		_, err := standard.New(standard.Config{Token: payclient.NewSecret(token), KeyRetention: -1, LookupLag: -1, IdleTimeout: -1})
		for _, field := range []string{"Token", "KeyRetention", "LookupLag", "IdleTimeout"} {
			if err == nil || !strings.Contains(err.Error(), "standard: "+field+":") {
				t.Errorf("token %q: %v\nwant it to name %s", token, err, field)
			}
		}
		if err != nil && len(token) > 3 && strings.Contains(err.Error(), token) {
			t.Errorf("the error shows the token: %v", err)
		}
	}
}
