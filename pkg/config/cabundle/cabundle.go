// Package cabundle says what may be published to every pod as the CA bundle of the API server.
// The configuration is checked by the same functions that the controllers read the bundle with,
// so that both agree.
package cabundle

import (
	"bytes"
	"errors"

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

// marker is part of the first line of every private key in PEM format. The whole bundle is
// searched for it, since a PEM decoder skips blocks that it does not understand (after a byte
// order mark, indented, or without an end), and they would be published all the same.
const marker = "PRIVATE KEY"

// CheckNoKey refuses a bundle with a private key, or with a comment that has these words.
func CheckNoKey(bundle []byte) error {
	if bytes.Contains(bundle, []byte(marker)) {
		return errPrivateKey
	}
	return nil
}
