package csrapproving

import (
	certificatesv1 "k8s.io/api/certificates/v1"
	"k8s.io/client-go/tools/cache"

	"kcmd.dev/pkg/controllers/kit/certificates"
	"kcmd.dev/pkg/controllers/kit/reconcile"
	"kcmd.dev/pkg/controllers/kit/watch"
)

// watch enqueues candidates. A deleted one needs no work, but its backoff has to be
// forgotten: a kubelet creates its request again under the same name.
func (a *approver) watch(requests cache.SharedIndexInformer) {
	watch.Objects(requests, watch.Funcs[*certificatesv1.CertificateSigningRequest]{
		AddOrUpdate: a.enqueue,
		Delete:      a.deleted,
	})
}

func (a *approver) deleted(csr *certificatesv1.CertificateSigningRequest) {
	if a.loop.Retries(csr.Name) > 0 {
		a.loop.Enqueue(reconcile.Gone(csr), csr.Name)
	}
}

func (a *approver) enqueue(lane reconcile.Lane, csr *certificatesv1.CertificateSigningRequest) {
	if isCandidate(csr) {
		a.loop.Enqueue(lane, csr.Name)
	}
}

// isCandidate reports whether a request may be approved, as far as is known without parsing it.
func isCandidate(csr *certificatesv1.CertificateSigningRequest) bool {
	return csr.Spec.SignerName == certificatesv1.KubeAPIServerClientKubeletSignerName && !certificates.Issued(csr) && !certificates.Decided(csr)
}
