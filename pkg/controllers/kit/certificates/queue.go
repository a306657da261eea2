package certificates

import (
	"time"

	"kcmd.dev/pkg/controllers/kit/reconcile"
)

const (
	// ServiceAccount is shared by the controllers of CertificateSigningRequests.
	ServiceAccount = "certificate-controller"

	// Workers is how many requests a signer, or the approver, processes concurrently.
	Workers = 5

	queueName  = "certificate"
	firstRetry = 200 * time.Millisecond
	lastRetry  = 1000 * time.Second
)

// Queue returns the options of a loop over requests.
func Queue(workers int) reconcile.Options[string] {
	return reconcile.Options[string]{
		Queue:   queueName,
		Workers: workers,
		Backoff: reconcile.Backoff[string](firstRetry, lastRetry),
	}
}
