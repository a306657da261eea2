package tainteviction

import (
	"math"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
)

// forever is the time for which a pod tolerates what it tolerates without a limit.
const forever time.Duration = math.MaxInt64

// noExecute returns those of the taints of a node that evict pods.
func noExecute(node *corev1.Node) []corev1.Taint {
	var taints []corev1.Taint
	for i := range node.Spec.Taints {
		if isNoExecute(node.Spec.Taints[i]) {
			taints = append(taints, node.Spec.Taints[i])
		}
	}
	return taints
}

// evicts reports whether a node has a taint that evicts pods.
func evicts(node *corev1.Node) bool { return slices.ContainsFunc(node.Spec.Taints, isNoExecute) }

func isNoExecute(taint corev1.Taint) bool { return taint.Effect == corev1.TaintEffectNoExecute }

// tolerance is for how long a pod tolerates a taint.
type tolerance struct {
	taint *corev1.Taint
	lasts time.Duration
}

// tolerances returns for how long a pod tolerates each of the taints, and false if it does not
// tolerate one of them at all.
func (c config) tolerances(
	logger klog.Logger, tolerations []corev1.Toleration, taints []corev1.Taint,
) ([]tolerance, bool) {
	all := make([]tolerance, 0, len(taints))
	for i := range taints {
		toleration := c.first(logger, tolerations, &taints[i])
		if toleration == nil {
			return nil, false
		}
		all = append(all, tolerance{&taints[i], durationOf(toleration)})
	}
	return all, true
}

// first returns the first of the tolerations that tolerates a taint, nil if none does.
func (c config) first(logger klog.Logger, tolerations []corev1.Toleration, taint *corev1.Taint) *corev1.Toleration {
	for i := range tolerations {
		if tolerations[i].ToleratesTaint(logger, taint, c.comparisonOperators) {
			return &tolerations[i]
		}
	}
	return nil
}

// durationOf returns for how long a toleration tolerates a taint that it matches. Seconds that do
// not fit into a duration are forever.
func durationOf(toleration *corev1.Toleration) time.Duration {
	switch seconds := toleration.TolerationSeconds; {
	case seconds == nil || *seconds > int64(forever/time.Second):
		return forever
	case *seconds <= 0:
		return 0
	default:
		return time.Duration(*seconds) * time.Second
	}
}

// shortest returns the shortest of some tolerances, forever if there is none.
func shortest(tolerances []tolerance) time.Duration {
	least := forever
	for _, t := range tolerances {
		least = min(least, t.lasts)
	}
	return least
}
