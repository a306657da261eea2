package daemonset

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/klog/v2"

	"kcmd.dev/pkg/controllers/kit/pods"
	"kcmd.dev/pkg/controllers/kit/reconcile"
)

// observation is the observed state on which one reconcile of a set decides.
type observation struct {
	ds *appsv1.DaemonSet
	// hash is the value of the label controller-revision-hash of pods made from the
	// current template, generation that of pod-template-generation, if there is one.
	hash       string
	generation string
	now        time.Time
	// retries is how often in a row the set was not reconciled successfully. With each retry the order of nodes and pods
	// begins with the next one: what the API server refuses for one must not keep the others waiting.
	retries int

	// claimed are all pods of the set.
	claimed []*corev1.Pod
	// sites are the existing nodes, in no particular order.
	sites []site
	// strays are nodes that do not exist but have pods that run on or are pinned to them.
	strays []site
}

// site is a node with the pods of one set.
type site struct {
	node string
	eligibility
	// pods are those that run on the node or are pinned to it, except for finished pods that
	// are being deleted, which no longer occupy the node.
	pods []*corev1.Pod
}

// observe groups the pods of a set by node, as cached.
func (c *daemonSetController) observe(
	ctx context.Context, ds *appsv1.DaemonSet, b *blueprint, hash string, claimed []*corev1.Pod,
) (*observation, error) {
	nodes, err := c.nodes.List(labels.Everything())
	if err != nil {
		return nil, fmt.Errorf("listing nodes: %w", err)
	}
	logger := klog.FromContext(ctx)
	o := newObservation(ds, hash, c.Clock.Now(), claimed)
	o.retries = c.owners.Loop.Retries(reconcile.KeyOf(ds))
	o.place(nodes, func(node *corev1.Node) eligibility { return b.placement.on(logger, node) })
	return o, nil
}

func newObservation(ds *appsv1.DaemonSet, hash string, now time.Time, claimed []*corev1.Pod) *observation {
	generation, _ := templateGeneration(ds)
	return &observation{ds: ds, hash: hash, generation: generation, now: now, claimed: claimed}
}

// place groups the pods by node.
func (o *observation) place(nodes []*corev1.Node, judge func(*corev1.Node) eligibility) {
	byTarget := groupByTarget(o.claimed)
	o.sites = make([]site, len(nodes))
	for i, node := range nodes {
		here := byTarget[node.Name]
		delete(byTarget, node.Name)
		o.sites[i] = site{node: node.Name, eligibility: judge(node), pods: here}
	}
	for node, there := range byTarget {
		o.strays = append(o.strays, site{node: node, pods: there})
	}
}

// groupByTarget omits pods without a target, and finished pods that are being deleted.
func groupByTarget(claimed []*corev1.Pod) map[string][]*corev1.Pod {
	byTarget := make(map[string][]*corev1.Pod, len(claimed))
	for i, pod := range claimed {
		target := targetOf(pod)
		if target == "" || pods.IsTerminal(pod) && pod.DeletionTimestamp != nil {
			continue
		}
		if group, ok := byTarget[target]; ok {
			byTarget[target] = append(group, pod)
			continue
		}
		// Nearly every node has one pod, which needs no extra slice.
		byTarget[target] = claimed[i : i+1 : i+1]
	}
	return byTarget
}

// loose returns how many pods of the current revision may be scheduled to any node. As created, each was pinned
// to one: an admission webhook has changed its affinity.
func (o *observation) loose() int {
	n := 0
	for _, pod := range o.claimed {
		if pods.IsActive(pod) && targetOf(pod) == "" && o.isUpdated(pod) {
			n++
		}
	}
	return n
}

// isUpdated reports whether a pod was made from the current template.
func (o *observation) isUpdated(pod *corev1.Pod) bool {
	return o.hasCurrentHash(pod) || o.generation != "" && pod.Labels[generationLabel] == o.generation
}

func (o *observation) hasCurrentHash(pod *corev1.Pod) bool {
	return o.hash != "" && pod.Labels[appsv1.DefaultDaemonSetUniqueLabelKey] == o.hash
}

func (o *observation) isAvailable(pod *corev1.Pod) bool {
	return pods.IsAvailable(pod, o.ds.Spec.MinReadySeconds, o.now)
}

// desired returns the number of nodes that should run a pod.
func (o *observation) desired() int {
	n := 0
	for i := range o.sites {
		if o.sites[i].run {
			n++
		}
	}
	return n
}

// maxSurge returns how many of n nodes may run two pods during an update.
func (o *observation) maxSurge(n int) (int, error) {
	strategy := o.ds.Spec.UpdateStrategy
	if strategy.Type != appsv1.RollingUpdateDaemonSetStrategyType || strategy.RollingUpdate == nil {
		return 0, nil
	}
	return scaled("maxSurge", strategy.RollingUpdate.MaxSurge, n)
}

// maxUnavailable returns how many of n nodes may lack an available pod during an update.
func (o *observation) maxUnavailable(n int) (int, error) {
	strategy := o.ds.Spec.UpdateStrategy
	if strategy.Type != appsv1.RollingUpdateDaemonSetStrategyType || strategy.RollingUpdate == nil {
		return 0, nil
	}
	return scaled("maxUnavailable", strategy.RollingUpdate.MaxUnavailable, n)
}

// scaled resolves a number or a percentage of n, rounded up. Nil is 0.
func scaled(field string, value *intstr.IntOrString, n int) (int, error) {
	count, err := intstr.GetScaledValueFromIntOrPercent(intstr.ValueOrDefault(value, intstr.FromInt32(0)), n, true)
	if err != nil {
		return 0, fmt.Errorf("reading %s: %w", field, err)
	}
	return count, nil
}

// surges reports whether updated pods are created beside old ones. It depends only on the spec,
// not on whether an update is in progress.
func (o *observation) surges() bool {
	surge, err := o.maxSurge(1)
	return err == nil && surge > 0
}

// oldestFirst orders pods of one node: scheduled before unscheduled, then by age.
func oldestFirst(a, b *corev1.Pod) int {
	if scheduled := a.Spec.NodeName != ""; scheduled != (b.Spec.NodeName != "") {
		if scheduled {
			return -1
		}
		return 1
	}
	return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.Name, b.Name))
}

// first returns the oldest pod of a site, or nil.
func (s *site) first() *corev1.Pod {
	if len(s.pods) == 0 {
		return nil
	}
	return slices.MinFunc(s.pods, oldestFirst)
}
