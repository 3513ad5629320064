package fakeprovider_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/chargeonce/chargeonce/fakeprovider"
)

// charge sends one charge and says what came of it.
func charge(client *http.Client, key, source string) string {
	body := `{"amount":54890,"currency":"TRY","source":"` + source + `","merchant_reference":"INV-7"}`
	req, err := http.NewRequest("POST", "http://bank/v1/charges", strings.NewReader(body))
	if err != nil {
		return err.Error()
	}
	req.Header.Set("Authorization", "Bearer secret")
	req.Header.Set("Idempotency-Key", `"`+key+`"`)
	resp, err := client.Do(req)
	if err != nil {
		return "no answer"
	}
	defer resp.Body.Close()
	if _, err := io.ReadAll(resp.Body); err != nil {
		return "half an answer"
	}
	return fmt.Sprint(resp.StatusCode, " replayed=", resp.Header.Get("Idempotent-Replayed"))
}

// The bank charges, the answer is lost, and the same key finds the charge.
func Example() {
	bank := fakeprovider.New(fakeprovider.Config{})
	bank.Script(fakeprovider.LoseAnswer, fakeprovider.Answer)
	client := bank.Client()

	fmt.Println(charge(client, "key-1", "tok_visa"))
	fmt.Println(charge(client, "key-1", "tok_visa"))
	fmt.Println("charges:", len(bank.Charges("INV-7")), "keys:", bank.DistinctKeys())
	// Output:
	// no answer
	// 201 replayed=true
	// charges: 1 keys: 1
}
