package controller

import (
	"fmt"
	"os"

	"k8s.io/client-go/util/cert"
)

// CABundle reads the CA bundle of the API server, in PEM: the bytes of the file as they are,
// provided that they hold a certificate, or ClusterCA if no file is named.
func (e Env) CABundle(file string) ([]byte, error) {
	if file == "" {
		return e.ClusterCA, nil
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
