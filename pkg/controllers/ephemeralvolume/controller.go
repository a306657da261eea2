// Package ephemeralvolume creates the PersistentVolumeClaims of generic ephemeral volumes of
// pods.
//
// The model, in rules:
//
//  1. The controller creates the claim <pod>-<volume> from the template of the volume. The pod
//     controls the claim, so the garbage collector deletes it after the pod. The controller never
//     changes a claim.
//  2. The controller never adopts a claim of that name that the pod does not control: the name of
//     a pod must not give access to data. It reports an error and retries. If the claim is
//     deleted, it retries at once.
//  3. The controller reconciles a pod when the pod is created, and when a claim is deleted whose
//     name one of its volumes refers to. The volumes of a pod do not change. While the cache does
//     not show a claim that it created or read live, it looks again.
//  4. The controller processes the volumes of a pod in order. The first error ends the pass.
//  5. A claim may exist even if the cache does not contain it. Creating it then fails, and the
//     controller reads the claim from the API server to find out whether the pod controls it.
//
// Behaviour: docs/specs/ephemeral-volume-controller.md.
package ephemeralvolume

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	corelisters "k8s.io/client-go/listers/core/v1"

	"kcmd.dev/pkg/controller"
	"kcmd.dev/pkg/controllers/kit/index"
	"kcmd.dev/pkg/controllers/kit/reconcile"
)

// Descriptor describes ephemeral-volume-controller.
func Descriptor() controller.Descriptor {
	return controller.Describe(controller.Descriptor{
		Name:           "ephemeral-volume-controller",
		Aliases:        []string{"ephemeral-volume"},
		ServiceAccount: "ephemeral-volume-controller",
		EventSource:    "ephemeral_volume",
		Requires: []schema.GroupVersionResource{
			corev1.SchemeGroupVersion.WithResource("pods"),
			corev1.SchemeGroupVersion.WithResource("persistentvolumeclaims"),
		},
	}, configOf, newController)
}

type config struct{ workers int }

func configOf(c *controller.Config) config {
	return config{workers: int(*c.Controllers.EphemeralVolume.ConcurrentSyncs)}
}

type volumeController struct {
	controller.Env
	pods    corelisters.PodLister
	podsOf  index.ClaimPods
	claims  corelisters.PersistentVolumeClaimLister
	metrics controllerMetrics
	queue   reconcile.Queue[types.NamespacedName] // the loop, except in tests
	loop    *reconcile.Loop[types.NamespacedName]
}

func newController(env controller.Env, config config) (*volumeController, error) {
	core := env.Informers.Core().V1()
	pods, claims := core.Pods(), core.PersistentVolumeClaims()
	c := &volumeController{
		Env:     env,
		pods:    pods.Lister(),
		podsOf:  index.NewClaimPods(pods.Informer()),
		claims:  claims.Lister(),
		metrics: newMetrics(env.Metrics),
	}
	c.loop = reconcile.New(env, reconcile.Options[types.NamespacedName]{Queue: "ephemeral_volume", Workers: config.workers}, c.reconcile)
	c.queue = c.loop
	c.watch(pods.Informer(), claims.Informer())
	return c, nil
}

// Run implements controller.Controller.
func (c *volumeController) Run(ctx context.Context) error { return c.loop.Run(ctx) }
