// Package podgroupprotection keeps a PodGroup that is being deleted until no pod that has
// not ended refers to it any more.
//
// The model, in rules:
//
//  1. The API server puts a finalizer on each PodGroup when it is created. This
//     controller only removes it.
//  2. A PodGroup is looked at when its deletion begins, and when a pod of it ends or goes
//     while it is being deleted.
//  3. The finalizer goes when there is no active pod of the group. A pod is active until
//     its phase says that it has ended, also while it is being deleted and before it is
//     scheduled. That a cache shows none proves it if the cache is as new as the deletion
//     of the group; otherwise the API server is asked, once for all groups of a namespace
//     that were deleted by then (see answer).
//
// Behaviour: specs/podgroup-protection-controller.md.
package podgroupprotection

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	schedulingv1alpha2 "k8s.io/api/scheduling/v1alpha2"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	schedulinglisters "k8s.io/client-go/listers/scheduling/v1alpha2"
	"k8s.io/client-go/tools/cache"

	kcmdconfig "kcmd.dev/pkg/config"
	"kcmd.dev/pkg/controllers/kit/controller"
	"kcmd.dev/pkg/controllers/kit/reconcile"
	"kcmd.dev/pkg/controllers/kit/watch"
)

const (
	// finalizer is set by the admission plugin PodGroupProtection.
	finalizer = "scheduling.k8s.io/podgroup-protection"

	// activePodsIndex holds active pods under <namespace>/<name of their PodGroup>.
	activePodsIndex = "activePodSchedulingGroup"
)

// Descriptor describes podgroup-protection-controller.
func Descriptor() controller.Descriptor {
	return controller.Describe(controller.Descriptor{
		Name:           "podgroup-protection-controller",
		Doc:            "Keeps PodGroups while they have pods.",
		ServiceAccount: "podgroup-protection-controller",
		Gate:           kcmdconfig.GenericWorkload,
		Requires: []schema.GroupVersionResource{
			schedulingv1alpha2.SchemeGroupVersion.WithResource("podgroups"),
			corev1.SchemeGroupVersion.WithResource("pods"),
		},
	}, func(*controller.Config) config { return config{} }, build)
}

// config is empty: the controller has no options.
type config struct{}

type protectionController struct {
	client kubernetes.Interface
	groups schedulinglisters.PodGroupLister
	pods   cache.Indexer
	last   answer // used by the one worker alone
	loop   *reconcile.Loop[types.NamespacedName]
}

func build(env controller.Env, _ config) (controller.Controller, error) {
	c, err := newController(env)
	if err != nil {
		return nil, err
	}
	return c, nil
}

func newController(env controller.Env) (*protectionController, error) {
	groups, pods := env.Informers.Scheduling().V1alpha2().PodGroups(), env.Informers.Core().V1().Pods().Informer()
	if err := pods.AddIndexers(cache.Indexers{activePodsIndex: activeGroupOf}); err != nil {
		return nil, fmt.Errorf("indexing pods by their group: %w", err)
	}
	c := &protectionController{client: env.Client, groups: groups.Lister(), pods: pods.GetIndexer()}
	c.loop = reconcile.New(env, reconcile.Options[types.NamespacedName]{Queue: "podgroupprotection", Workers: 1}, c.reconcile)
	err := watch.Objects(groups.Informer(), watch.Funcs[*schedulingv1alpha2.PodGroup]{
		Add:    c.groupSeen,
		Update: func(lane reconcile.Lane, _, group *schedulingv1alpha2.PodGroup) { c.groupSeen(lane, group) },
	})
	if err != nil {
		return nil, err
	}
	err = watch.Objects(pods, watch.Funcs[*corev1.Pod]{
		Add:    c.podSeen,
		Update: c.podUpdated,
		Delete: func(pod *corev1.Pod) { c.podGone(reconcile.Fresh, pod) },
	})
	if err != nil {
		return nil, err
	}
	return c, nil
}

// Run implements controller.Controller.
func (c *protectionController) Run(ctx context.Context) error { return c.loop.Run(ctx) }

func (c *protectionController) groupSeen(lane reconcile.Lane, group *schedulingv1alpha2.PodGroup) {
	if isCandidate(group) {
		c.loop.Enqueue(lane, types.NamespacedName{Namespace: group.Namespace, Name: group.Name})
	}
}

func (c *protectionController) podSeen(lane reconcile.Lane, pod *corev1.Pod) {
	if !isActive(pod) {
		c.podGone(lane, pod)
	}
}

func (c *protectionController) podUpdated(lane reconcile.Lane, old, pod *corev1.Pod) {
	if old.UID != pod.UID { // deleted and created again, seen as one update
		c.podGone(lane, old)
	}
	c.podSeen(lane, pod)
}

// podGone queues the group that a pod no longer holds, if the group waits for that. A
// group whose deletion the cache does not show yet is queued when it does.
func (c *protectionController) podGone(lane reconcile.Lane, pod *corev1.Pod) {
	name := groupOf(pod)
	if name == "" {
		return
	}
	group, err := c.groups.PodGroups(pod.Namespace).Get(name)
	if err != nil || !isCandidate(group) {
		return
	}
	c.loop.Enqueue(lane, types.NamespacedName{Namespace: pod.Namespace, Name: name})
}

func (c *protectionController) reconcile(ctx context.Context, key types.NamespacedName) error {
	group, err := c.groups.PodGroups(key.Namespace).Get(key.Name)
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("looking up pod group %s: %w", key, err)
	}
	if !isCandidate(group) {
		return nil
	}
	held, err := c.isHeld(ctx, group)
	if err != nil {
		return fmt.Errorf("looking up the pods of pod group %s: %w", key, err)
	}
	if held {
		return nil
	}
	group = group.DeepCopy()
	group.Finalizers = slices.DeleteFunc(group.Finalizers, func(f string) bool { return f == finalizer })
	if _, err := c.client.SchedulingV1alpha2().PodGroups(key.Namespace).Update(ctx, group, metav1.UpdateOptions{}); err != nil {
		return fmt.Errorf("releasing pod group %s: %w", key, err)
	}
	return nil
}

// isCandidate reports whether the finalizer of a PodGroup may have to go.
func isCandidate(group *schedulingv1alpha2.PodGroup) bool {
	return group.DeletionTimestamp != nil && slices.Contains(group.Finalizers, finalizer)
}

// isActive reports whether a pod holds its group.
func isActive(pod *corev1.Pod) bool {
	return pod.Status.Phase != corev1.PodSucceeded && pod.Status.Phase != corev1.PodFailed
}

// groupOf is the name of the PodGroup of a pod, empty if it has none.
func groupOf(pod *corev1.Pod) string {
	if pod.Spec.SchedulingGroup == nil || pod.Spec.SchedulingGroup.PodGroupName == nil {
		return ""
	}
	return *pod.Spec.SchedulingGroup.PodGroupName
}

// activeGroupOf is the index function of activePodsIndex.
func activeGroupOf(obj any) ([]string, error) {
	pod, ok := obj.(*corev1.Pod)
	if !ok || !isActive(pod) || groupOf(pod) == "" {
		return nil, nil
	}
	return []string{types.NamespacedName{Namespace: pod.Namespace, Name: groupOf(pod)}.String()}, nil
}
