// Package cabundle reads the CA bundle of the API server, which several controllers publish.
package cabundle

import (
	"fmt"
	"os"

	"k8s.io/client-go/util/cert"
)

// Load returns the bundle: the bytes of the file as they are, once they have shown to hold
// a certificate, or inline if no file is named.
func Load(file string, inline []byte) ([]byte, error) {
	if file == "" {
		return inline, nil
	}
	bundle, err := os.ReadFile(file)
	if err == nil {
		_, err = cert.ParseCertsPEM(bundle)
	}
	if err != nil {
		return nil, fmt.Errorf("error parsing root-ca-file at %s: %w", file, err)
	}
	return bundle, nil
}
