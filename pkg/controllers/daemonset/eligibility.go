package daemonset

import (
	corev1 "k8s.io/api/core/v1"
	corev1helpers "k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	"k8s.io/klog/v2"
)

// eligibility is whether a DaemonSet wants a pod on a node.
type eligibility struct {
	// run: the node should have a pod.
	run bool
	// remain: an existing pod may stay.
	remain bool
}

// placement is the parsed part of a pod template that decides eligibility. The readiness,
// resources and ports of a node are irrelevant, as is whether it is cordoned.
type placement struct {
	nodeName            string
	affinity            nodeaffinity.RequiredNodeAffinity
	tolerations         []corev1.Toleration
	comparisonOperators bool
}

func newPlacement(spec *corev1.PodSpec, comparisonOperators bool) placement {
	return placement{
		nodeName:            spec.NodeName,
		affinity:            nodeaffinity.GetRequiredNodeAffinity(&corev1.Pod{Spec: *spec}),
		tolerations:         daemonTolerations(spec),
		comparisonOperators: comparisonOperators,
	}
}

// on returns the eligibility of a node. An invalid affinity matches nothing.
func (p placement) on(logger klog.Logger, node *corev1.Node) eligibility {
	if p.nodeName != "" && p.nodeName != node.Name {
		return eligibility{}
	}
	if matches, err := p.affinity.Match(node); err != nil || !matches {
		return eligibility{}
	}
	if p.tolerates(logger, node, keepsOut) {
		return eligibility{run: true, remain: true}
	}
	return eligibility{remain: p.tolerates(logger, node, drivesOut)}
}

func (p placement) tolerates(logger klog.Logger, node *corev1.Node, which func(*corev1.Taint) bool) bool {
	if len(node.Spec.Taints) == 0 {
		return true
	}
	_, untolerated := corev1helpers.FindMatchingUntoleratedTaint(logger, node.Spec.Taints, p.tolerations, which,
		p.comparisonOperators)
	return !untolerated
}

func keepsOut(taint *corev1.Taint) bool {
	return taint.Effect == corev1.TaintEffectNoSchedule || drivesOut(taint)
}

func drivesOut(taint *corev1.Taint) bool { return taint.Effect == corev1.TaintEffectNoExecute }

// daemonTolerations returns the tolerations of a pod: those of the template, and those that let
// it run on a node in any condition. If the template has one of the latter, it is replaced by
// one without a time limit.
func daemonTolerations(spec *corev1.PodSpec) []corev1.Toleration {
	all := append([]corev1.Toleration(nil), spec.Tolerations...)
	for _, added := range defaultTolerations(spec.HostNetwork) {
		found := false
		for i := range all {
			if all[i].MatchToleration(&added) {
				all[i], found = added, true
			}
		}
		if !found {
			all = append(all, added)
		}
	}
	return all
}

func defaultTolerations(hostNetwork bool) []corev1.Toleration {
	exists := func(key string, effect corev1.TaintEffect) corev1.Toleration {
		return corev1.Toleration{Key: key, Operator: corev1.TolerationOpExists, Effect: effect}
	}
	all := []corev1.Toleration{
		exists(corev1.TaintNodeNotReady, corev1.TaintEffectNoExecute),
		exists(corev1.TaintNodeUnreachable, corev1.TaintEffectNoExecute),
		exists(corev1.TaintNodeDiskPressure, corev1.TaintEffectNoSchedule),
		exists(corev1.TaintNodeMemoryPressure, corev1.TaintEffectNoSchedule),
		exists(corev1.TaintNodePIDPressure, corev1.TaintEffectNoSchedule),
		exists(corev1.TaintNodeUnschedulable, corev1.TaintEffectNoSchedule),
	}
	if hostNetwork {
		all = append(all, exists(corev1.TaintNodeNetworkUnavailable, corev1.TaintEffectNoSchedule))
	}
	return all
}
