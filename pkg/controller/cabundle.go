package controller

import (
	"fmt"
	"os"

	"kcmd.dev/pkg/config/cabundle"
)

// CABundle reads the CA bundle of the API server, in PEM: the bytes of the file as they are,
// provided that they hold a certificate, or ClusterCA if no file is named. One that holds a
// private key is refused.
func (e Env) CABundle(file string) ([]byte, error) {
	if file == "" {
		if err := cabundle.CheckPublishable(e.ClusterCA); err != nil {
			return nil, fmt.Errorf("the CA of the client configuration cannot be published: %w", err)
		}
		return e.ClusterCA, nil
	}
	bundle, err := os.ReadFile(file)
	if err == nil {
		err = cabundle.Check(bundle)
	}
	if err != nil {
		return nil, fmt.Errorf("error parsing root-ca-file at %s: %w", file, err)
	}
	return bundle, nil
}
