package csrsigning

import (
	certificatesv1 "k8s.io/api/certificates/v1"
	"k8s.io/client-go/tools/cache"

	"kcmd.dev/pkg/controllers/kit/certificates"
	"kcmd.dev/pkg/controllers/kit/reconcile"
	"kcmd.dev/pkg/controllers/kit/watch"
)

// watch enqueues requests that have to be signed. A deleted one needs no work, but its backoff has to be
// forgotten: a kubelet creates its request again under the same name.
func (c *signingController) watch(requests cache.SharedIndexInformer) {
	watch.Objects(requests, watch.Funcs[*certificatesv1.CertificateSigningRequest]{
		AddOrUpdate: c.enqueue,
		Delete:      c.deleted,
	})
}

func (c *signingController) deleted(csr *certificatesv1.CertificateSigningRequest) {
	if c.loop.Retries(csr.Name) > 0 {
		c.loop.Enqueue(reconcile.Gone(csr), csr.Name)
	}
}

func (c *signingController) enqueue(lane reconcile.Lane, csr *certificatesv1.CertificateSigningRequest) {
	if c.signerOf(csr) != nil {
		c.loop.Enqueue(lane, csr.Name)
	}
}

// signerOf returns the signer that has to sign a request now, or nil.
func (c *signingController) signerOf(csr *certificatesv1.CertificateSigningRequest) *signer {
	if certificates.Issued(csr) || !certificates.Approved(csr) || certificates.Failed(csr) {
		return nil
	}
	return c.signers[csr.Spec.SignerName]
}
