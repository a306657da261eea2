// Package pcrcleaner deletes PodCertificateRequests fifteen minutes after they were created,
// in whatever state: no kubelet waits that long.
//
// The model, in rules:
//
//  1. At the start and then every five minutes, a pass examines all requests.
//  2. The delete is conditional on the UID. Failures are logged and retried by the next pass.
//
// Only the metadata of the requests is cached.
// Behaviour: docs/specs/podcertificaterequest-cleaner-controller.md.
package pcrcleaner

import (
	"context"

	certificatesv1beta1 "k8s.io/api/certificates/v1beta1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/cache"

	"kcmd.dev/pkg/config/gates"
	"kcmd.dev/pkg/controller"
	"kcmd.dev/pkg/controllers/kit/reconcile"
)

var resource = certificatesv1beta1.SchemeGroupVersion.WithResource("podcertificaterequests")

// Descriptor describes podcertificaterequest-cleaner-controller.
func Descriptor() controller.Descriptor {
	return controller.DescribeFixed(controller.Descriptor{
		Name:           "podcertificaterequest-cleaner-controller",
		ServiceAccount: "podcertificaterequestcleaner",
		Requires:       []schema.GroupVersionResource{resource},
		Partial:        []schema.GroupVersionResource{resource},
		Gate:           gates.PodCertificateRequest,
	}, newCleaner)
}

type cleaner struct {
	controller.Env
	requests cache.GenericLister
}

func newCleaner(env controller.Env) (*cleaner, error) {
	return &cleaner{Env: env, requests: env.Informers.MetadataFor(resource).Lister()}, nil
}

// Run implements controller.Controller.
func (c *cleaner) Run(ctx context.Context) error {
	return reconcile.Run(ctx, c.Env, nil, reconcile.Passes(c.Env, passPeriod, c.pass))
}
