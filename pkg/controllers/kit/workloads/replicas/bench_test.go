package replicas

import (
	"fmt"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"kcmd.dev/pkg/controllers/kit/reconcile"
	"kcmd.dev/test/controllertest"
)

// BenchmarkReconcile is one reconcile that finds nothing to do. It must grow with the
// pods of the owner, not with the other pods and owners of the cluster.
func BenchmarkReconcile(b *testing.B) {
	for _, size := range []struct{ own, others int }{{3, 0}, {3, 10_000}, {1_000, 0}, {10_000, 0}} {
		b.Run(fmt.Sprintf("own=%d/others=%d", size.own, size.others), func(b *testing.B) {
			f := benchFixture(b, size.own, size.others)
			f.MustReconcile(b)
			f.Cache(b, controllertest.MustStored[*appsv1.ReplicaSet](b, f.Env, "ns", "rs"))
			f.MeasureIdle(b)
		})
	}
}

// BenchmarkOrphanEvent is an event of a pod that nobody controls, in a namespace of many owners.
func BenchmarkOrphanEvent(b *testing.B) {
	f := benchFixture(b, 0, 10_000)
	pod := replicaPod("p", orphan)
	f.engine.podsOfOwners().Added(reconcile.Fresh, pod)
	b.ReportAllocs()
	for b.Loop() {
		f.Queued.Clear()
		f.engine.podsOfOwners().Added(reconcile.Fresh, pod)
	}
}

// benchFixture has an owner of some pods, and as many other owners as other pods.
func benchFixture(b *testing.B, own, others int) *fixture {
	f := newFixture(b, lax, replicaSet(int32(own)))
	for i := range own {
		f.Cache(b, replicaPod(fmt.Sprint("own-", i), readySince(start)))
	}
	for i := range others {
		name := fmt.Sprint("other-", i)
		rs := replicaSet(1, named(name, types.UID(name)), func(rs *appsv1.ReplicaSet) {
			rs.Spec.Selector = rs.Spec.Selector.DeepCopy()
			rs.Spec.Selector.MatchLabels["app"] = name
		})
		f.Cache(b, rs, replicaPod(name, controlledBy(rs), labeled(name), func(p *corev1.Pod) { p.UID = types.UID(name) }))
	}
	return f
}
