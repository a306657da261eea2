// Package cabundle says what may be published to every pod as the CA bundle of the API server.
// The configuration is checked by the same functions that the controllers read the bundle with,
// so that both agree.
package cabundle

import (
	"bytes"
	"encoding/pem"
	"errors"

	"k8s.io/client-go/util/cert"
)

// errPrivateKey refuses a file like those that hold a certificate together with its key.
var errPrivateKey = errors.New("it contains a private key, and everything in it would be published to all pods")

// errSkipped refuses a file that is still being written, among others.
var errSkipped = errors.New("it contains a PEM block that cannot be decoded, such as one without an end: it may be incomplete")

// Check requires at least one certificate in PEM format, and that the rest is no secret and complete.
func Check(bundle []byte) error {
	if _, err := cert.ParseCertsPEM(bundle); err != nil {
		return err
	}
	return CheckPublishable(bundle)
}

// marker is part of the first line of every private key in PEM format. The whole bundle is
// searched for it, since a PEM decoder skips blocks that it does not understand (after a byte
// order mark, indented, or without an end), and they would be published all the same.
const marker = "PRIVATE KEY"

// CheckPublishable refuses a bundle with a private key, or with a comment that has these words, and one with a block
// that a PEM decoder skips: readers of the bundle would lack that certificate.
func CheckPublishable(bundle []byte) error {
	if bytes.Contains(bundle, []byte(marker)) {
		return errPrivateKey
	}
	decoded := 0
	for block, rest := pem.Decode(bundle); block != nil; block, rest = pem.Decode(rest) {
		decoded++
	}
	if decoded < begun(bundle) {
		return errSkipped
	}
	return nil
}

// begun counts the blocks that begin in a bundle. One in a comment is none: it was taken out on purpose.
func begun(bundle []byte) (blocks int) {
	for line := range bytes.Lines(bundle) {
		if !bytes.HasPrefix(bytes.TrimSpace(line), []byte("#")) {
			blocks += bytes.Count(line, []byte("-----BEGIN "))
		}
	}
	return blocks
}
