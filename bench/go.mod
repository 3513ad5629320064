module github.com/chargeonce/chargeonce/bench

go 1.26.0

require (
	github.com/chargeonce/chargeonce v0.0.0
	github.com/failsafe-go/failsafe-go v0.9.8
	github.com/hashicorp/go-retryablehttp v0.7.8
	github.com/stripe/stripe-go/v85 v85.0.0
)

require (
	github.com/bits-and-blooms/bitset v1.24.4 // indirect
	github.com/go-json-experiment/json v1.27.2 // indirect
	github.com/google/uuid v1.6.0 // indirect
	github.com/hashicorp/go-cleanhttp v0.5.2 // indirect
	github.com/influxdata/tdigest v0.0.1 // indirect
)

replace github.com/chargeonce/chargeonce => ../
