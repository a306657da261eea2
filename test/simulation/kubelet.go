package simulation

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"kcmd.dev/pkg/controllers/kit/pods"
)

// Kubelet stands in for the scheduler and the kubelets of a world. Each action takes a pod one step further: it is bound,
// then runs, then becomes ready. A ready pod may become unready or fail. A pod that is being deleted may fail before it
// is removed.
type Kubelet struct {
	World *World
	// Unready is how many of ten ready pods fail or lose their readiness.
	Unready int
	// NodeOf returns the node that a pod is bound to. Default: one node for all.
	NodeOf func(*corev1.Pod) string
	// Waits reports whether a pod stays as it is. Default: none does.
	Waits func(*corev1.Pod) bool
}

// Act takes a step with about a third of the pods, or with all of them, none of which gets worse then. It reports
// whether anything was done.
func (k Kubelet) Act(all bool) bool {
	did := false
	for _, pod := range All[*corev1.Pod](k.World) {
		if !all && !k.World.OneIn(3) || k.Waits != nil && k.Waits(pod) {
			continue
		}
		what, do := k.next(pod, all)
		if do == nil {
			continue
		}
		k.World.Note("kubelet: %s %s", pod.Name, what)
		do(pod)
		did = true
	}
	return did
}

// Live is a whole history, from its beginning until everything has settled. others is what components other than the
// kubelets do; it reports whether they did anything.
func (k Kubelet) Live(others func() bool, users func()) {
	k.World.Begin()
	k.World.Play(func() {
		if k.World.OneIn(3) {
			others()
		} else {
			k.Act(false)
		}
	}, users)
	k.World.Settle(2*time.Hour, func() bool { return others() || k.Act(true) })
}

// next returns what becomes of a pod, nil for nothing.
func (k Kubelet) next(pod *corev1.Pod, all bool) (what string, do func(*corev1.Pod)) {
	w := k.World
	switch {
	case pod.DeletionTimestamp != nil && !pods.IsTerminal(pod) && w.OneIn(2):
		return "failed", k.changed(k.fail)
	case pod.DeletionTimestamp != nil:
		return "is removed", func(pod *corev1.Pod) { w.Delete(pod, ptr.To[int64](0)) }
	case pods.IsTerminal(pod):
		return "", nil
	case pod.Spec.NodeName == "":
		return "is bound", k.changed(k.bind)
	case pod.Status.Phase == corev1.PodPending:
		return "runs", k.changed(k.run(corev1.ConditionFalse))
	case !pods.IsReady(pod):
		return "is ready", k.changed(k.run(corev1.ConditionTrue))
	case all || w.Rand.IntN(10) >= k.Unready:
		return "", nil
	case w.OneIn(3):
		return "failed", k.changed(k.fail)
	}
	return "is not ready", k.changed(k.run(corev1.ConditionFalse))
}

func (k Kubelet) changed(change func(*corev1.Pod)) func(*corev1.Pod) {
	return func(pod *corev1.Pod) { Change(k.World, pod, change) }
}

func (k Kubelet) bind(pod *corev1.Pod) {
	node := "n"
	if k.NodeOf != nil {
		node = k.NodeOf(pod)
	}
	pod.Spec.NodeName = node
}

// run has a pod run, ready or not.
func (k Kubelet) run(ready corev1.ConditionStatus) func(*corev1.Pod) {
	now := metav1.NewTime(k.World.Clock.Now().Truncate(time.Second))
	return func(pod *corev1.Pod) {
		pod.Status.Phase = corev1.PodRunning
		pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: ready, LastTransitionTime: now}}
	}
}

// fail has a pod fail. What is not the kubelet, but decides that a pod has failed, leaves its conditions as they are.
func (k Kubelet) fail(pod *corev1.Pod) {
	pod.Status.Phase = corev1.PodFailed
	if k.World.OneIn(2) {
		pod.Status.Conditions = nil
	}
}
