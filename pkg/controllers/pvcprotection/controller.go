// Package pvcprotection keeps a PersistentVolumeClaim from being deleted while a pod uses it, so
// that a pod does not lose its data.
//
// The model, in rules:
//
//  1. The API server adds a finalizer to each claim on creation. If it is missing, the controller
//     adds it.
//  2. The controller removes the finalizer from a claim that is being deleted once no scheduled pod
//     refers to the claim. The phase of the pod does not matter: a finished pod holds its claims
//     until it is deleted. An unscheduled pod holds no claim, because a kubelet does not start a
//     pod whose claim is being deleted.
//  3. A claim created for a generic ephemeral volume is held by the pod that controls it. The pod
//     holds it until the kubelet has shut down the pod. A claim with the same name that the pod
//     does not control was not created for the pod, and the pod does not hold it.
//  4. The cache can prove only that a claim is in use. To prove that it is not, the controller
//     lists the pods of the namespace live, after it has seen that the claim is being deleted. One
//     list answers once for each such claim of the namespace (see answers).
//  5. The write is based on the cached claim. If the claim has changed or was recreated, the API
//     server rejects the write, and the retry lists again.
//  6. With the feature gate PersistentVolumeClaimUnusedSinceTime, a condition shows since when no
//     unfinished pod, scheduled or not, has referred to the claim.
//
// Instances hand nothing over: each instance finds every claim that lacks the finalizer or is being
// deleted in its caches, and examines the pods of every claim that is not shown as unused.
//
// Behaviour: docs/specs/persistentvolumeclaim-protection-controller.md.
package pvcprotection

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"

	"kcmd.dev/pkg/config/gates"
	"kcmd.dev/pkg/controller"
	"kcmd.dev/pkg/controllers/kit/index"
	"kcmd.dev/pkg/controllers/kit/protection"
	"kcmd.dev/pkg/controllers/kit/reconcile"
)

// finalizer is set by the admission plugin StorageObjectInUseProtection.
const finalizer protection.Finalizer = "kubernetes.io/pvc-protection"

// Descriptor describes persistentvolumeclaim-protection-controller.
func Descriptor() controller.Descriptor {
	return controller.Describe(controller.Descriptor{
		Name:           "persistentvolumeclaim-protection-controller",
		Aliases:        []string{"pvc-protection"},
		ServiceAccount: "pvc-protection-controller",
		Requires: []schema.GroupVersionResource{
			corev1.SchemeGroupVersion.WithResource("persistentvolumeclaims"),
			corev1.SchemeGroupVersion.WithResource("pods"),
		},
	}, configOf, newController)
}

type config struct {
	unusedSince bool // whether a condition shows since when a claim is unused
}

func configOf(c *controller.Config) config {
	return config{unusedSince: gates.Enabled(c, gates.PersistentVolumeClaimUnusedSinceTime)}
}

type protectionController struct {
	controller.Env
	config
	claims  corelisters.PersistentVolumeClaimLister
	indexer cache.Indexer // of claims, with deletedClaimsIndex and claimsInUseIndex
	pods    index.ClaimPods
	answers answers                               // used only by the single worker
	queue   reconcile.Queue[types.NamespacedName] // the loop, except in tests
	loop    *reconcile.Loop[types.NamespacedName]
}

func newController(env controller.Env, config config) (*protectionController, error) {
	core := env.Informers.Core().V1()
	claims := core.PersistentVolumeClaims()
	index.Ensure(claims.Informer(), deletedClaimsIndex, deletedClaims)
	if config.unusedSince {
		index.Ensure(claims.Informer(), claimsInUseIndex, claimsInUse)
	}
	c := &protectionController{
		Env:     env,
		config:  config,
		claims:  claims.Lister(),
		indexer: claims.Informer().GetIndexer(),
		pods:    index.NewClaimPods(core.Pods().Informer()),
		answers: answers{clock: env.Clock, of: map[string]answer{}},
	}
	c.loop = reconcile.New(env, reconcile.Options[types.NamespacedName]{Queue: "pvcprotection", Workers: 1}, c.reconcile)
	c.queue = c.loop
	c.watch(claims.Informer(), core.Pods().Informer())
	return c, nil
}

// Run implements controller.Controller.
func (c *protectionController) Run(ctx context.Context) error { return c.loop.Run(ctx) }
