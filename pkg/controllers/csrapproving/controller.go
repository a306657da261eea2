// Package csrapproving approves the CertificateSigningRequests with which kubelets get and
// renew their client certificates. It denies nothing, and approves nothing else.
//
// The model, in rules:
//
//  1. A request is a candidate if it names the signer of the client certificates of kubelets,
//     and has been neither approved nor denied.
//  2. It is recognised if the signer would accept it: as a request of a node for itself if the
//     requester is that node, and as a request for a node.
//  3. For each of these, in this order, a SubjectAccessReview asks whether the requester may
//     create the corresponding subresource. The first that is allowed approves the request.
//  4. A recognised request that may not be approved is retried, since the permission may be
//     granted later. That is not an error.
//
// Behaviour: docs/specs/certificatesigningrequest-approving-controller.md.
package csrapproving

import (
	"context"

	certificatesv1 "k8s.io/api/certificates/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	certificateslisters "k8s.io/client-go/listers/certificates/v1"

	"kcmd.dev/pkg/controller"
	"kcmd.dev/pkg/controllers/kit/certificates"
	"kcmd.dev/pkg/controllers/kit/reconcile"
	"kcmd.dev/pkg/controllers/kit/watch"
)

// Descriptor describes certificatesigningrequest-approving-controller.
func Descriptor() controller.Descriptor {
	return controller.DescribeFixed(controller.Descriptor{
		Name:           "certificatesigningrequest-approving-controller",
		Aliases:        []string{"csrapproving"},
		ServiceAccount: certificates.ServiceAccount,
		ClusterScoped:  true,
		Requires:       []schema.GroupVersionResource{certificatesv1.SchemeGroupVersion.WithResource("certificatesigningrequests")},
	}, newApprover)
}

type approver struct {
	controller.Env
	requests certificateslisters.CertificateSigningRequestLister
	loop     *reconcile.Loop[string]
}

func newApprover(env controller.Env) (*approver, error) {
	requests := env.Informers.Certificates().V1().CertificateSigningRequests()
	a := &approver{Env: env, requests: requests.Lister()}
	a.loop = reconcile.New(env, certificates.Queue(certificates.Workers), a.reconcile)
	watch.Objects(requests.Informer(), certificates.Funcs(a.loop, isCandidate))
	return a, nil
}

// Run implements controller.Controller.
func (a *approver) Run(ctx context.Context) error { return a.loop.Run(ctx) }
