// Package podchanges queues Services for changes of pods, and of themselves.
//
//  1. Only a small projection of a notification is kept, the Change: the current labels and, if
//     they changed, the previous ones. Changes can be compared, so that equal ones, such as those of
//     the pods of one Deployment, are mapped once.
//  2. What counts as a change is decided by k8s.io/endpointslice: readiness, addresses,
//     deletion, labels, host name and subdomain. In addition, it counts that a pod has ended: another pod may
//     get its address. A pod that was deleted and recreated is another one, even if it looks like the one
//     before: its node and its ports may differ.
//  3. A relabelled pod concerns the Services that select it either before or after; if
//     something else changed too, also those that select it before and after.
//  4. A pod that no Service in the cache selects concerns none: a Service that is created later, or selects the pod
//     later, is queued by its own notification, and finds the pod as it is then.
//  5. Services are queued for every notification of their own, resyncs included.
package podchanges

import (
	"fmt"
	"maps"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/endpointslice/util"

	"kcmd.dev/pkg/controllers/kit/index"
	"kcmd.dev/pkg/controllers/kit/pods"
	"kcmd.dev/pkg/controllers/kit/reconcile"
	"kcmd.dev/pkg/controllers/kit/watch"
)

// Change is what a notification of a pod tells about the Services it concerns.
type Change struct {
	namespace string
	labels    string // in the form of labels.Set.String
	// relabelled pods had oldLabels before.
	relabelled bool
	oldLabels  string
	// podChanged is set if something besides the labels of a relabelled pod changed.
	podChanged bool
}

// Selects reports whether the addresses of a Service are those of the pods that it selects.
func Selects(service *corev1.Service) bool {
	return service.Spec.Type != corev1.ServiceTypeExternalName && service.Spec.Selector != nil
}

// ServiceFuncs queue a Service on every notification.
func ServiceFuncs(queue reconcile.Queue[types.NamespacedName]) watch.Funcs[*corev1.Service] {
	return watch.Funcs[*corev1.Service]{
		AddOrUpdate: func(lane reconcile.Lane, s *corev1.Service) { queue.Enqueue(lane, reconcile.KeyOf(s)) },
		Delete:      func(s *corev1.Service) { queue.Enqueue(reconcile.Gone(s), reconcile.KeyOf(s)) },
	}
}

// String is the key of the change in logs and status.
func (c Change) String() string { return c.namespace + "/{" + c.labels + "}" }

// Funcs queue the changes of pods that Services select. Replayed pods are left out: their Services are
// replayed too, and reconciled only when the pods are known.
func Funcs(queue reconcile.Queue[Change], services index.Services) watch.Funcs[*corev1.Pod] {
	return watch.Funcs[*corev1.Pod]{
		Add: func(lane reconcile.Lane, pod *corev1.Pod) {
			if !lane.IsBacklog() && services.Select(pod) {
				queue.Add(Between(nil, pod))
			}
		},
		Update: func(lane reconcile.Lane, old, pod *corev1.Pod) { enqueueUpdate(queue, services, lane, old, pod) },
		Delete: func(pod *corev1.Pod) {
			if services.Select(pod) {
				queue.Add(Between(pod, nil))
			}
		},
	}
}

func enqueueUpdate(
	queue reconcile.Queue[Change], services index.Services, lane reconcile.Lane, old, pod *corev1.Pod,
) {
	if old.UID != pod.UID { // deleted and recreated, seen as one update
		for _, one := range []*corev1.Pod{old, pod} {
			if services.Select(one) {
				queue.Enqueue(lane, Between(nil, one))
			}
		}
		return
	}
	if !services.Select(pod) && (maps.Equal(old.Labels, pod.Labels) || !services.Select(old)) {
		return
	}
	if change := projection(old, pod); change != nil {
		queue.Enqueue(lane, of(change))
	}
}

// Between returns the change from one state of a pod to another; a nil old is an addition, a
// nil pod a deletion. It is not meant for updates that change nothing.
func Between(old, pod *corev1.Pod) Change { return of(projection(old, pod)) }

// projection keeps nil pods from becoming interfaces that are not nil.
func projection(old, pod *corev1.Pod) *util.PodProjectionKey {
	switch {
	case old == nil:
		return util.GetPodUpdateProjectionKey(nil, pod)
	case pod == nil:
		return util.GetPodUpdateProjectionKey(old, nil)
	}
	change := util.GetPodUpdateProjectionKey(old, pod)
	if pods.IsTerminal(old) == pods.IsTerminal(pod) {
		return change
	}
	if change == nil {
		return util.GetPodUpdateProjectionKey(nil, pod)
	}
	change.PodChanged = true
	return change
}

func of(p *util.PodProjectionKey) Change {
	change := Change{namespace: p.Namespace, labels: p.Labels.String(), podChanged: p.PodChanged}
	// Labels before are nil also for a relabelled pod that had none. Without them it could
	// only be selected by empty selectors, which select it still.
	if p.OldLabels != nil {
		change.relabelled, change.oldLabels = true, p.OldLabels.String()
	}
	return change
}

// Enqueue queues the Services that the change concerns, after a delay in which further changes
// are gathered.
func (c Change) Enqueue(
	services index.Services, queue reconcile.Queue[types.NamespacedName], delay time.Duration,
) error {
	concerned, err := c.Concerned(services)
	if err != nil {
		return err
	}
	for _, service := range concerned {
		queue.AddAfter(service, delay)
	}
	return nil
}

// Concerned returns the Services that the change concerns, each once.
func (c Change) Concerned(services index.Services) ([]types.NamespacedName, error) {
	now, err := c.selecting(services, c.labels)
	if err != nil || !c.relabelled {
		return now, err
	}
	before, err := c.selecting(services, c.oldLabels)
	if err != nil {
		return nil, err
	}
	is, was := sets.New(now...), sets.New(before...)
	if c.podChanged {
		return is.Union(was).UnsortedList(), nil
	}
	return is.SymmetricDifference(was).UnsortedList(), nil
}

func (c Change) selecting(services index.Services, podLabels string) ([]types.NamespacedName, error) {
	found, err := services.Selecting(c.namespace, parseLabels(podLabels))
	if err != nil {
		return nil, fmt.Errorf("finding the Services of pod %s: %w", c, err)
	}
	keys := make([]types.NamespacedName, 0, len(found))
	for _, service := range found {
		keys = append(keys, reconcile.KeyOf(service))
	}
	return keys, nil
}

// parseLabels reads what labels.Set.String wrote. Neither keys nor values of labels can
// hold a comma or an equals sign.
func parseLabels(s string) labels.Set {
	set := labels.Set{}
	if s == "" {
		return set
	}
	for pair := range strings.SplitSeq(s, ",") {
		key, value, _ := strings.Cut(pair, "=")
		set[key] = value
	}
	return set
}
