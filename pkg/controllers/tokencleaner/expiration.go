package tokencleaner

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	bootstrapapi "k8s.io/cluster-bootstrap/token/api"
	bootstrapsecrets "k8s.io/cluster-bootstrap/util/secrets"
)

// fate is the decision about a token.
type fate int

const (
	stays     fate = iota // it has no expiration
	expires               // later
	expired               // or it expires now
	malformed             // its expiration is no time, which counts as expired
)

// fateOf decides about a token, and returns the time until it expires if that is later.
func fateOf(secret *corev1.Secret, now time.Time) (fate, time.Duration) {
	expiration := bootstrapsecrets.GetData(secret, bootstrapapi.BootstrapTokenExpirationKey)
	if expiration == "" {
		return stays, 0
	}
	at, err := time.Parse(time.RFC3339, expiration)
	if err != nil {
		return malformed, 0
	}
	if remaining := at.Sub(now); remaining > 0 {
		return expires, remaining
	}
	return expired, 0
}
