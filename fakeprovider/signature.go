package fakeprovider

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// webhookKey reads a secret as Standard Webhooks writes it.
func webhookKey(secret string) ([]byte, error) {
	text, ok := strings.CutPrefix(secret, "whsec_")
	if !ok {
		return nil, errors.New("want whsec_ and base64")
	}
	key, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		return nil, errors.New("what follows whsec_ is no base64") // the cause would show the secret
	}
	if len(key) < 24 || len(key) > 64 {
		return nil, fmt.Errorf("%d bytes: want 24 to 64", len(key))
	}
	return key, nil
}

// sign returns the signature of one delivery: HMAC-SHA256 over id, timestamp
// and body, with dots between them.
func sign(key []byte, id string, at time.Time, body []byte) string {
	h := hmac.New(sha256.New, key)
	h.Write(append(strconv.AppendInt([]byte(id+"."), at.Unix(), 10), '.'))
	h.Write(body)
	return "v1," + base64.StdEncoding.EncodeToString(h.Sum(nil))
}
