package bootstrapsigner

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	bootstrapapi "k8s.io/cluster-bootstrap/token/api"
	bootstrapsecrets "k8s.io/cluster-bootstrap/util/secrets"
)

// token is a bootstrap token that signs.
type token struct {
	id, secret string
	// remaining is the time until it expires, 0 if it never does.
	remaining time.Duration
}

// String leaves out the secret, so that no format prints it.
func (t token) String() string { return t.id }

// GoString is String.
func (t token) GoString() string { return t.id }

// tokenOf returns the token of a Secret, or why it does not sign. A token without the usage
// has no reason: nothing is wrong with it.
func tokenOf(secret *corev1.Secret, now time.Time) (t token, ok bool, wrong string) {
	id, named := bootstrapsecrets.ParseName(secret.Name)
	if !named {
		return token{}, false, "the name of the Secret is not bootstrap-token-<token ID>"
	}
	switch bootstrapsecrets.GetData(secret, bootstrapapi.BootstrapTokenIDKey) {
	case "":
		return token{}, false, "it has no token-id"
	case id:
	default:
		return token{}, false, "its token-id is not the one in its name"
	}
	key := bootstrapsecrets.GetData(secret, bootstrapapi.BootstrapTokenSecretKey)
	if key == "" {
		return token{}, false, "it has no token-secret"
	}
	remaining, wrong := remainingOf(secret, now)
	if wrong != "" {
		return token{}, false, wrong
	}
	if bootstrapsecrets.GetData(secret, bootstrapapi.BootstrapTokenUsageSigningKey) != "true" {
		return token{}, false, ""
	}
	return token{id: id, secret: key, remaining: remaining}, true, ""
}

// remainingOf returns the time until a token expires, 0 if it never does, or why it is expired.
func remainingOf(secret *corev1.Secret, now time.Time) (remaining time.Duration, wrong string) {
	expiration := bootstrapsecrets.GetData(secret, bootstrapapi.BootstrapTokenExpirationKey)
	if expiration == "" {
		return 0, ""
	}
	at, err := time.Parse(time.RFC3339, expiration)
	if err != nil {
		return 0, "its expiration is not an RFC 3339 time"
	}
	if remaining = at.Sub(now); remaining <= 0 {
		return 0, "it has expired"
	}
	return remaining, ""
}
