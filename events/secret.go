package events

import "github.com/chargeonce/chargeonce/internal/signing"

// Secret is a signing secret that cannot be printed, logged or marshalled by accident.
type Secret = signing.Secret

// NewSecret hides a signing secret as Standard Webhooks writes it: whsec_ and the base64 of 24 to 64 bytes.
func NewSecret(text string) Secret { return signing.NewSecret(text) }
