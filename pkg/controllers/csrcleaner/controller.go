// Package csrcleaner deletes CertificateSigningRequests that are no longer needed, of all
// signers.
//
// The model, in rules:
//
//  1. At the start and then once an hour, a pass examines all requests.
//  2. A request that was issued, denied or has failed is kept for another hour, in which the
//     requester can fetch the certificate or the reason. One that waits for a decision or for
//     its certificate is kept for a day. One whose certificate has expired is deleted at once.
//  3. The delete is conditional on the UID, so that a later request of the same name stays.
//     Failures are logged and retried by the next pass.
//
// Behaviour: docs/specs/certificatesigningrequest-cleaner-controller.md.
package csrcleaner

import (
	"context"

	certificatesv1 "k8s.io/api/certificates/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	certificateslisters "k8s.io/client-go/listers/certificates/v1"

	"kcmd.dev/pkg/controller"
	"kcmd.dev/pkg/controllers/kit/certificates"
	"kcmd.dev/pkg/controllers/kit/reconcile"
)

// Descriptor describes certificatesigningrequest-cleaner-controller.
func Descriptor() controller.Descriptor {
	return controller.DescribeFixed(controller.Descriptor{
		Name:           "certificatesigningrequest-cleaner-controller",
		Aliases:        []string{"csrcleaner"},
		ServiceAccount: certificates.ServiceAccount,
		ClusterScoped:  true,
		Requires:       []schema.GroupVersionResource{certificatesv1.SchemeGroupVersion.WithResource("certificatesigningrequests")},
	}, newCleaner)
}

type cleaner struct {
	controller.Env
	requests certificateslisters.CertificateSigningRequestLister
}

func newCleaner(env controller.Env) (*cleaner, error) {
	return &cleaner{Env: env, requests: env.Informers.Certificates().V1().CertificateSigningRequests().Lister()}, nil
}

// Run implements controller.Controller.
func (c *cleaner) Run(ctx context.Context) error {
	return reconcile.Run(ctx, c.Env, nil, reconcile.Passes(c.Env, passPeriod, c.pass))
}
