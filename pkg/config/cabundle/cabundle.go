// Package cabundle says what may be published to every pod as the CA bundle of the API server.
// The configuration is checked by the same functions that the controllers read the bundle with,
// so that both agree.
package cabundle

import (
	"encoding/pem"
	"errors"
	"strings"

	"k8s.io/client-go/util/cert"
)

// errPrivateKey refuses a file like those that hold a certificate together with its key.
var errPrivateKey = errors.New("it contains a private key, and everything in it would be published to all pods")

// Check requires at least one certificate in PEM format, and that the rest is no secret.
func Check(bundle []byte) error {
	if _, err := cert.ParseCertsPEM(bundle); err != nil {
		return err
	}
	return CheckNoKey(bundle)
}

// CheckNoKey refuses a bundle with a private key, of whatever kind, in PEM format.
func CheckNoKey(bundle []byte) error {
	for block, rest := pem.Decode(bundle); block != nil; block, rest = pem.Decode(rest) {
		if strings.HasSuffix(block.Type, "PRIVATE KEY") {
			return errPrivateKey
		}
	}
	return nil
}
