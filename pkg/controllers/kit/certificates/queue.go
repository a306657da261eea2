package certificates

import (
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"

	"kcmd.dev/pkg/controllers/kit/reconcile"
	"kcmd.dev/pkg/controllers/kit/watch"
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

// Funcs enqueue the requests that concern a controller. A deleted one needs no work, but its backoff has to be
// forgotten: a kubelet creates its request again under the same name.
func Funcs(
	loop *reconcile.Loop[string], concerns func(*certificatesv1.CertificateSigningRequest) bool,
) watch.Funcs[*certificatesv1.CertificateSigningRequest] {
	return watch.Funcs[*certificatesv1.CertificateSigningRequest]{
		AddOrUpdate: func(lane reconcile.Lane, csr *certificatesv1.CertificateSigningRequest) {
			if concerns(csr) {
				loop.Enqueue(lane, csr.Name)
			}
		},
		Delete: func(csr *certificatesv1.CertificateSigningRequest) {
			if loop.Retries(csr.Name) > 0 {
				loop.Enqueue(reconcile.Gone(csr), csr.Name)
			}
		},
	}
}
