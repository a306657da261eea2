// Package signer stands in for upstream's, see kcmd.dev/test/suites.
package signer

import (
	"context"
	"time"

	"kcmd.dev/test/suites/launch"
)

func NewKubeAPIServerClientCSRSigningController(_ context.Context, client, requests any, certFile, keyFile string,
	duration time.Duration,
) (*launch.Controller, error) {
	return launch.New([]any{client, requests}, "certificatesigningrequest-signing-controller",
		"--cluster-signing-kube-apiserver-client-cert-file="+certFile, "--cluster-signing-kube-apiserver-client-key-file="+keyFile,
		"--cluster-signing-duration="+duration.String()), nil
}
