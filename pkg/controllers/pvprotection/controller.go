// Package pvprotection keeps a PersistentVolume from being deleted while it is bound to a claim.
//
// The model, in rules:
//
//  1. The API server adds a finalizer to each volume on creation. If it is missing, the controller
//     adds it.
//  2. The controller removes the finalizer from a volume that is being deleted, unless the phase of
//     the volume is Bound. Only the phase counts. The volume binder writes it.
//  3. The write is based on the cached volume. If the volume has been bound in the meantime, the API
//     server rejects the write, and the retry finds the volume bound.
//
// Behaviour: docs/specs/persistentvolume-protection-controller.md.
package pvprotection

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	corelisters "k8s.io/client-go/listers/core/v1"

	"kcmd.dev/pkg/controller"
	"kcmd.dev/pkg/controllers/kit/protection"
	"kcmd.dev/pkg/controllers/kit/reconcile"
)

// finalizer is set by the admission plugin StorageObjectInUseProtection.
const finalizer protection.Finalizer = "kubernetes.io/pv-protection"

// Descriptor describes persistentvolume-protection-controller.
func Descriptor() controller.Descriptor {
	return controller.DescribeFixed(controller.Descriptor{
		Name:           "persistentvolume-protection-controller",
		Aliases:        []string{"pv-protection"},
		ServiceAccount: "pv-protection-controller",
		ClusterScoped:  true,
		Requires:       []schema.GroupVersionResource{corev1.SchemeGroupVersion.WithResource("persistentvolumes")},
	}, newController)
}

type protectionController struct {
	controller.Env
	volumes corelisters.PersistentVolumeLister
	queue   reconcile.Queue[string] // the loop, except in tests
	loop    *reconcile.Loop[string]
}

func newController(env controller.Env) (*protectionController, error) {
	volumes := env.Informers.Core().V1().PersistentVolumes()
	c := &protectionController{Env: env, volumes: volumes.Lister()}
	c.loop = reconcile.New(env, reconcile.Options[string]{Queue: "pvprotection", Workers: 1}, c.reconcile)
	c.queue = c.loop
	c.watch(volumes.Informer())
	return c, nil
}

// Run implements controller.Controller.
func (c *protectionController) Run(ctx context.Context) error { return c.loop.Run(ctx) }
