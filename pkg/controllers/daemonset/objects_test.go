package daemonset

import (
	"fmt"
	"maps"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	"kcmd.dev/test/controllertest"
)

const namespace = "ns"

var (
	start = controllertest.Epoch
	key   = types.NamespacedName{Namespace: namespace, Name: "agent"}
	app   = map[string]string{"app": "agent"}

	unready, orphan, deleting = controllertest.NotReady, controllertest.Orphaned, controllertest.Terminating
)

// newSet is a set whose strategy is the default one.
func newSet(changes ...func(*appsv1.DaemonSet)) *appsv1.DaemonSet {
	ds := &appsv1.DaemonSet{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "agent", UID: "set", Generation: 1},
		Spec: appsv1.DaemonSetSpec{
			Selector:             &metav1.LabelSelector{MatchLabels: app},
			RevisionHistoryLimit: ptr.To[int32](10),
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: maps.Clone(app)},
				Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "agent", Image: "agent:1"}}},
			},
		},
	}
	strategy(intstr.FromInt32(1), intstr.FromInt32(0))(ds)
	return controllertest.Changed(ds, changes...)
}

func strategy(maxUnavailable, maxSurge intstr.IntOrString) func(*appsv1.DaemonSet) {
	return func(ds *appsv1.DaemonSet) {
		ds.Spec.UpdateStrategy = appsv1.DaemonSetUpdateStrategy{
			Type:          appsv1.RollingUpdateDaemonSetStrategyType,
			RollingUpdate: &appsv1.RollingUpdateDaemonSet{MaxUnavailable: &maxUnavailable, MaxSurge: &maxSurge},
		}
	}
}

// surging sets maxSurge only.
func surging(n int32) func(*appsv1.DaemonSet) {
	return strategy(intstr.FromInt32(0), intstr.FromInt32(n))
}

func onDelete(ds *appsv1.DaemonSet) {
	ds.Spec.UpdateStrategy = appsv1.DaemonSetUpdateStrategy{Type: appsv1.OnDeleteDaemonSetStrategyType}
}

func minReady(seconds int32) func(*appsv1.DaemonSet) {
	return func(ds *appsv1.DaemonSet) { ds.Spec.MinReadySeconds = seconds }
}

func image(name string) func(*appsv1.DaemonSet) {
	return func(ds *appsv1.DaemonSet) { ds.Spec.Template.Spec.Containers[0].Image = name }
}

// newPod is a pod of the set agent, bound to the node, ready since the start, with the
// hash "new".
func newPod(name, node string, changes ...func(*corev1.Pod)) *corev1.Pod {
	labels := maps.Clone(app)
	labels[appsv1.DefaultDaemonSetUniqueLabelKey] = "new"
	pod := controllertest.Pod(namespace, name, controllertest.OnNode(node), controllertest.Labeled(app), controllertest.Created(start),
		controllertest.ReadySince(start), controllertest.ControlledBy(newSet(), daemonSetKind), hash("new"))
	return controllertest.Changed(pod, changes...)
}

func hash(value string) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Labels[appsv1.DefaultDaemonSetUniqueLabelKey] = value }
}

func phase(phase corev1.PodPhase) func(*corev1.Pod) {
	return controllertest.All(controllertest.InPhase(phase), unready)
}

func age(d time.Duration) func(*corev1.Pod) {
	return controllertest.Created(start.Add(-d))
}

func old(p *corev1.Pod) { hash("old")(p) }

// pinned makes a pod unscheduled and pinned to what was its node.
func pinned(p *corev1.Pod) {
	p.Spec.Affinity, p.Spec.NodeName = pin(nil, p.Spec.NodeName), ""
	p.Status = corev1.PodStatus{Phase: corev1.PodPending}
}

func newNode(name string, taints ...corev1.Taint) *corev1.Node {
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name), Labels: map[string]string{corev1.LabelHostname: name}},
		Spec:       corev1.NodeSpec{Taints: taints},
	}
}

func taint(effect corev1.TaintEffect) corev1.Taint { return corev1.Taint{Key: "taint", Effect: effect} }

var (
	runs    = eligibility{run: true, remain: true}
	remains = eligibility{remain: true}
	never   = eligibility{}
)

// observationOf is the observation of a set at the start. The nodes are those that sites names; what
// pods are on other nodes are strays.
func observationOf(ds *appsv1.DaemonSet, sites map[string]eligibility, claimed ...*corev1.Pod) *observation {
	var nodes []*corev1.Node
	for _, name := range slices.Sorted(maps.Keys(sites)) {
		nodes = append(nodes, newNode(name))
	}
	o := newObservation(ds, "new", start, claimed)
	o.place(nodes, func(node *corev1.Node) eligibility { return sites[node.Name] })
	return o
}

// sitesOf are n nodes n0, n1, … that should run a pod.
func sitesOf(n int) map[string]eligibility {
	sites := map[string]eligibility{}
	for i := range n {
		sites[fmt.Sprint("n", i)] = runs
	}
	return sites
}
