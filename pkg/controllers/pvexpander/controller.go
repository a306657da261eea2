// Package pvexpander does what Kubernetes itself still does when a bound PersistentVolumeClaim
// requests more than it has. It never talks to storage: an external resizer or a kubelet does.
//
// The model, in rules:
//
//  1. A claim is reconciled when it is bound, when its request grows, and when its capacity grows.
//  2. For a volume of CSI, and for any other that is not named below, an event says that an
//     external controller expands it.
//  3. For a volume of an in-tree type that has been migrated to CSI, the claim also gets an
//     annotation with the name of the CSI driver, so that the resizer of the driver finds it.
//  4. A FlexVolume is expanded on the node. The controller only prepares that: it writes the new size
//     to the volume, and to the claim that the node is to go on. What the claim says of its
//     progress decides what is next, so a pass that failed in between is continued.
//  5. Whether anything may be done at all is decided by the volume as the API server has it. The
//     cache only shows that nothing is to be done.
//  6. Each write has the UID and the resource version of the object that it was decided on, which
//     is the one that the write before returned.
//
// Behaviour: docs/specs/persistentvolume-expander-controller.md.
package pvexpander

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	corelisters "k8s.io/client-go/listers/core/v1"
	csitranslation "k8s.io/csi-translation-lib"

	"kcmd.dev/pkg/controller"
	"kcmd.dev/pkg/controllers/kit/reconcile"
	"kcmd.dev/pkg/controllers/kit/volumes/operations"
)

// workers is how many claims are worked on at once.
const workers = 10

// Descriptor describes persistentvolume-expander-controller.
func Descriptor() controller.Descriptor {
	return controller.DescribeFixed(controller.Descriptor{
		Name:           "persistentvolume-expander-controller",
		Aliases:        []string{"persistentvolume-expander"},
		ServiceAccount: "expand-controller",
		EventSource:    "volume_expand",
		Requires: []schema.GroupVersionResource{
			corev1.SchemeGroupVersion.WithResource("persistentvolumes"),
			corev1.SchemeGroupVersion.WithResource("persistentvolumeclaims"),
		},
	}, newController)
}

// migration knows the in-tree types of volumes that were migrated to CSI.
type migration interface {
	// GetInTreePluginNameFromSpec returns an error if the type was not migrated.
	GetInTreePluginNameFromSpec(*corev1.PersistentVolume, *corev1.Volume) (string, error)
	GetCSINameFromInTreeName(plugin string) (string, error)
}

type expander struct {
	controller.Env
	claims     corelisters.PersistentVolumeClaimLister
	volumes    corelisters.PersistentVolumeLister
	migration  migration
	operations operations.Metrics
	queue      reconcile.Queue[types.NamespacedName] // the loop, except in tests
	loop       *reconcile.Loop[types.NamespacedName]
}

func newController(env controller.Env) (*expander, error) {
	core := env.Informers.Core().V1()
	claims, volumes := core.PersistentVolumeClaims(), core.PersistentVolumes()
	c := &expander{
		Env:        env,
		claims:     claims.Lister(),
		volumes:    volumes.Lister(),
		migration:  csitranslation.New(),
		operations: operations.New(env.Metrics),
	}
	c.loop = reconcile.New(env, reconcile.Options[types.NamespacedName]{Queue: "volume_expand", Workers: workers}, c.reconcile)
	c.queue = c.loop
	c.watch(claims.Informer())
	return c, nil
}

// Run implements controller.Controller.
func (c *expander) Run(ctx context.Context) error { return c.loop.Run(ctx) }
