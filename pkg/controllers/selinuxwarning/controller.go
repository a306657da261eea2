// Package selinuxwarning warns about pods that could not run on one node, because they use a volume
// with different SELinux labels, or with different policies for changing the labels of its files.
//
// The model, in rules:
//
//  1. For each volume that a pod mounts, the controller keeps the label and the policy that the pod
//     asks for. It considers neither whether the pod runs nor where. A pod that has finished uses
//     nothing.
//  2. A volume of a CSI driver is mounted with a label if the CSIDriver says so. When that changes, all
//     pods of a volume are judged again at once, so that no conflict appears that does not last.
//  3. Two pods are in conflict if they use a volume with different values. Pods with the same values
//     form a group, so that finding conflicts costs as much as a volume has different values.
//  4. A new conflict causes an event on both pods. All that exist are in a metric, which is computed
//     when it is read. Nothing else is written.
//  5. The uses of volumes are handed over to the next instance: it repeats no event.
//
// Behaviour: docs/specs/selinux-warning-controller.md.
package selinuxwarning

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	corelisters "k8s.io/client-go/listers/core/v1"
	storagelisters "k8s.io/client-go/listers/storage/v1"

	"kcmd.dev/pkg/config/gates"
	"kcmd.dev/pkg/controller"
	"kcmd.dev/pkg/controllers/kit/index"
	"kcmd.dev/pkg/controllers/kit/reconcile"
	"kcmd.dev/pkg/controllers/kit/volumes"
)

// Descriptor describes selinux-warning-controller.
func Descriptor() controller.Descriptor {
	return controller.DescribeFixed(controller.Descriptor{
		Name:           "selinux-warning-controller",
		ServiceAccount: "selinux-warning-controller",
		ClusterScoped:  true,
		EventSource:    "selinux_warning",
		Gate:           gates.SELinuxChangePolicy,
		Requires: []schema.GroupVersionResource{
			corev1.SchemeGroupVersion.WithResource("pods"),
			corev1.SchemeGroupVersion.WithResource("persistentvolumeclaims"),
			corev1.SchemeGroupVersion.WithResource("persistentvolumes"),
			storagev1.SchemeGroupVersion.WithResource("csidrivers"),
		},
	}, newController)
}

type warner struct {
	controller.Env
	pods     corelisters.PodLister
	podsOf   index.ClaimPods
	drivers  storagelisters.CSIDriverLister
	resolver volumes.Resolver
	uses     *uses
	loop     *reconcile.Loop[types.NamespacedName]
}

func newController(env controller.Env) (*warner, error) {
	core, drivers := env.Informers.Core().V1(), env.Informers.Storage().V1().CSIDrivers()
	pods, claims, persistent := core.Pods(), core.PersistentVolumeClaims(), core.PersistentVolumes()
	c := &warner{
		Env:      env,
		pods:     pods.Lister(),
		podsOf:   index.NewClaimPods(pods.Informer()),
		drivers:  drivers.Lister(),
		resolver: volumes.Resolver{Claims: claims.Lister(), Volumes: persistent.Lister()},
		uses:     newUses(),
	}
	registerMetrics(env.Metrics, c.uses.conflicts)
	c.loop = reconcile.New(env, reconcile.Options[types.NamespacedName]{Queue: "selinux_warning", Workers: 1}, c.reconcile)
	c.watch(pods.Informer(), claims.Informer(), persistent.Informer(), drivers.Informer())
	return c, nil
}

// Run implements controller.Controller.
func (c *warner) Run(ctx context.Context) error {
	return reconcile.Run(ctx, c.Env, c.takeOver, c.loop.Run)
}
