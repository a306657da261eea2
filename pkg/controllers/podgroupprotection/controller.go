// Package podgroupprotection delays the deletion of a PodGroup until no active pod refers to
// it.
//
// The model, in rules:
//
//  1. The API server adds a finalizer to each PodGroup on creation. This controller only
//     removes it.
//  2. A PodGroup is reconciled when its deletion begins, and when one of its pods finishes or
//     is deleted while the group is being deleted.
//  3. The finalizer is removed when the group has no active pod. A pod is active until its
//     phase is Succeeded or Failed, even while it is being deleted and before it is scheduled.
//     The cache can prove only that there is such a pod. That there is none is concluded from a
//     live list, which is sent once for all groups of a namespace that were deleted by then (see
//     answer).
//
// Behaviour: docs/specs/podgroup-protection-controller.md.
package podgroupprotection

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	schedulingv1alpha2 "k8s.io/api/scheduling/v1alpha2"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	schedulinglisters "k8s.io/client-go/listers/scheduling/v1alpha2"
	"k8s.io/client-go/tools/cache"

	"kcmd.dev/pkg/config/gates"
	"kcmd.dev/pkg/controller"
	"kcmd.dev/pkg/controllers/kit/index"
	"kcmd.dev/pkg/controllers/kit/protection"
	"kcmd.dev/pkg/controllers/kit/reconcile"
)

const (
	// finalizer is set by the admission plugin PodGroupProtection.
	finalizer protection.Finalizer = "scheduling.k8s.io/podgroup-protection"

	// activePodsIndex indexes active pods by <namespace>/<name of their PodGroup>.
	activePodsIndex = "activePodSchedulingGroup"
)

// Descriptor describes podgroup-protection-controller.
func Descriptor() controller.Descriptor {
	return controller.DescribeFixed(controller.Descriptor{
		Name:           "podgroup-protection-controller",
		ServiceAccount: "podgroup-protection-controller",
		Gate:           gates.GenericWorkload,
		Requires: []schema.GroupVersionResource{
			schedulingv1alpha2.SchemeGroupVersion.WithResource("podgroups"),
			corev1.SchemeGroupVersion.WithResource("pods"),
		},
	}, newController)
}

type protectionController struct {
	controller.Env
	groups  schedulinglisters.PodGroupLister
	pods    cache.Indexer
	answers map[string]answer                     // by namespace, used only by the single worker
	queue   reconcile.Queue[types.NamespacedName] // the loop, except in tests
	loop    *reconcile.Loop[types.NamespacedName]
}

func newController(env controller.Env) (*protectionController, error) {
	groups, pods := env.Informers.Scheduling().V1alpha2().PodGroups(), env.Informers.Core().V1().Pods().Informer()
	index.Ensure(pods, activePodsIndex, activeGroupOf)
	c := &protectionController{
		Env: env, groups: groups.Lister(), pods: pods.GetIndexer(), answers: map[string]answer{},
	}
	c.loop = reconcile.New(env, reconcile.Options[types.NamespacedName]{
		Queue: "podgroupprotection", Workers: 1,
	}, c.reconcile)
	c.queue = c.loop
	c.watch(groups.Informer(), pods)
	return c, nil
}

// Run implements controller.Controller.
func (c *protectionController) Run(ctx context.Context) error { return c.loop.Run(ctx) }
