package nodelifecycle

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

var (
	notReadyTaint    = corev1.Taint{Key: corev1.TaintNodeNotReady, Effect: corev1.TaintEffectNoExecute}
	unreachableTaint = corev1.Taint{Key: corev1.TaintNodeUnreachable, Effect: corev1.TaintEffectNoExecute}
)

func noSchedule(key string) corev1.Taint {
	return corev1.Taint{Key: key, Effect: corev1.TaintEffectNoSchedule}
}

// shown is the taint for a status of a condition.
var shown = []struct {
	condition corev1.NodeConditionType
	status    corev1.ConditionStatus
	key       string
}{
	{corev1.NodeReady, corev1.ConditionFalse, corev1.TaintNodeNotReady},
	{corev1.NodeReady, corev1.ConditionUnknown, corev1.TaintNodeUnreachable},
	{corev1.NodeMemoryPressure, corev1.ConditionTrue, corev1.TaintNodeMemoryPressure},
	{corev1.NodeDiskPressure, corev1.ConditionTrue, corev1.TaintNodeDiskPressure},
	{corev1.NodeNetworkUnavailable, corev1.ConditionTrue, corev1.TaintNodeNetworkUnavailable},
	{corev1.NodePIDPressure, corev1.ConditionTrue, corev1.TaintNodePIDPressure},
}

// change holds the taints to add to a node and the taints to remove from it.
type change struct{ add, remove []corev1.Taint }

func (c change) isEmpty() bool { return len(c.add) == 0 && len(c.remove) == 0 }

// evicts reports whether the change adds a taint that evicts pods.
func (c change) evicts() bool {
	return slices.ContainsFunc(c.add, func(t corev1.Taint) bool { return t.Effect == corev1.TaintEffectNoExecute })
}

// want adds a taint to the change if the taint is wanted and missing, or present and not wanted.
func (c *change) want(node *corev1.Node, taint corev1.Taint, wanted bool) {
	switch has := hasTaint(node, taint); {
	case wanted && !has:
		c.add = append(c.add, taint)
	case !wanted && has:
		c.remove = append(c.remove, taint)
	}
}

// changeOf returns what has to change about the taints of a node.
func changeOf(node *corev1.Node, what eviction) change {
	var c change
	for i := range shown {
		s := &shown[i]
		condition := conditionOf(node, s.condition)
		c.want(node, noSchedule(s.key), condition != nil && condition.Status == s.status)
	}
	c.want(node, noSchedule(corev1.TaintNodeUnschedulable), node.Spec.Unschedulable)
	ready := conditionOf(node, corev1.NodeReady)
	if ready == nil && what != stripped {
		return c
	}
	evicting := what != stripped && (what == granted || isEvicting(node))
	c.want(node, unreachableTaint, evicting && ready.Status == corev1.ConditionUnknown)
	c.want(node, notReadyTaint, evicting && ready.Status == corev1.ConditionFalse)
	return c
}

// isEvicting reports whether a node has a taint that evicts pods because the node is not ready.
func isEvicting(node *corev1.Node) bool {
	return hasTaint(node, unreachableTaint) || hasTaint(node, notReadyTaint)
}

func hasTaint(node *corev1.Node, taint corev1.Taint) bool {
	for i := range node.Spec.Taints {
		if node.Spec.Taints[i].Key == taint.Key && node.Spec.Taints[i].Effect == taint.Effect {
			return true
		}
	}
	return false
}

// applyTo returns the taints of a node after the change, with new taints last.
func (c change) applyTo(taints []corev1.Taint, now time.Time) []corev1.Taint {
	result := slices.DeleteFunc(slices.Clone(taints), func(t corev1.Taint) bool {
		return slices.ContainsFunc(c.remove, func(r corev1.Taint) bool { return t.MatchTaint(&r) })
	})
	for _, taint := range c.add {
		taint.TimeAdded = &metav1.Time{Time: now}
		result = append(result, taint)
	}
	return result
}

// taintsPatch returns the strategic merge patch that changes the taints of a node. The patch replaces all
// taints, so the API server accepts it only if the node has not changed.
func taintsPatch(node *corev1.Node, taints []corev1.Taint) ([]byte, error) {
	if taints == nil {
		taints = []corev1.Taint{}
	}
	body, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"resourceVersion": node.ResourceVersion, "uid": node.UID},
		"spec":     map[string]any{"taints": taints},
	})
	if err != nil {
		return nil, fmt.Errorf("encoding the taints of a node: %w", err)
	}
	return body, nil
}
