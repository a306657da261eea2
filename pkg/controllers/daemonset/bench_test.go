package daemonset

import (
	"fmt"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"

	"kcmd.dev/test/must"
)

// BenchmarkReconcile is one reconcile that finds nothing to do. It grows with the nodes,
// not with the other sets and their pods.
func BenchmarkReconcile(b *testing.B) {
	for _, size := range []struct{ nodes, others int }{{3, 0}, {3, 10_000}, {1_000, 0}, {10_000, 0}} {
		b.Run(fmt.Sprintf("nodes=%d/others=%d", size.nodes, size.others), func(b *testing.B) {
			h := benchHarness(b, size.nodes, size.others)
			h.MeasureIdle(b)
		})
	}
}

// BenchmarkReconcileNode is an event of one node of a cluster with many sets.
func BenchmarkReconcileNode(b *testing.B) {
	for _, sets := range []int{10, 100, 1_000} {
		b.Run(fmt.Sprintf("sets=%d", sets), func(b *testing.B) {
			h := benchHarness(b, 1_000, sets)
			ctx := klog.NewContext(b.Context(), klog.Logger{})
			b.ReportAllocs()
			for b.Loop() {
				if err := h.c.reconcileNode(ctx, "n0"); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// benchHarness has a set with a pod on each of the nodes, and others that no node suits,
// each with a pod elsewhere.
func benchHarness(b *testing.B, nodes, others int) *harness {
	h := newHarness(b, true)
	ds := newSet(func(ds *appsv1.DaemonSet) {
		ds.Spec.Template.Spec.Tolerations = []corev1.Toleration{{Operator: corev1.TolerationOpExists}}
		ds.Status = appsv1.DaemonSetStatus{
			ObservedGeneration: 1, DesiredNumberScheduled: int32(nodes), CurrentNumberScheduled: int32(nodes),
			NumberReady: int32(nodes), UpdatedNumberScheduled: int32(nodes), NumberAvailable: int32(nodes),
		}
	})
	blueprint := must.Get(newBlueprint(ds, false))(b)
	h.Cache(b, ds, newRevision("new", 1, string(blueprint.payload)))
	for i := range nodes {
		name := fmt.Sprint("n", i)
		h.Cache(b, newNode(name, taint("NoSchedule")), newPod("pod-"+name, name))
	}
	for i := range others {
		name := fmt.Sprint("other-", i)
		other := newSet(otherSet, func(o *appsv1.DaemonSet) {
			o.Name, o.UID, o.Spec.Template.Spec.NodeSelector = name, types.UID(name), map[string]string{"none": "such"}
		})
		h.Cache(b, other, ownedBy(newPod(name, "elsewhere"), other))
	}
	return h
}
