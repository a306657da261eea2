package statefulset

import (
	"fmt"
	"testing"

	"kcmd.dev/pkg/controllers/kit/reconcile"
)

// BenchmarkReconcile is one reconcile that finds nothing to do. It must grow with the
// pods of the set, not with the other pods and sets of the cluster.
func BenchmarkReconcile(b *testing.B) {
	for _, size := range []struct{ own, others int }{{3, 0}, {3, 10_000}, {1_000, 0}, {10_000, 0}} {
		b.Run(fmt.Sprintf("own=%d/others=%d", size.own, size.others), func(b *testing.B) {
			f := benchFixture(b, size.own, size.others)
			f.MustReconcile(b)
			f.WantRequests(b)
			f.MeasureIdle(b)
		})
	}
}

// BenchmarkOrphanEvent is an event of a pod that nobody controls, in a namespace of many sets.
func BenchmarkOrphanEvent(b *testing.B) {
	f := benchFixture(b, 0, 10_000)
	pod := podAt(newSet(1), "r", 0, orphaned)
	f.c.podsOfOwners().Added(reconcile.Fresh, pod)
	b.ReportAllocs()
	for b.Loop() {
		f.Queued.Clear()
		f.c.podsOfOwners().Added(reconcile.Fresh, pod)
	}
}

// benchFixture has a set of some ready pods with a claim each, and as many other sets as
// other pods.
func benchFixture(b *testing.B, own, others int) *fixture {
	b.Helper()
	revision := revisionAt(b, 1)
	set := newSet(int32(own), claims("data"), retention(retain, retain), settledAt(revision.Name))
	f := newFixture(b, set, revision)
	for i := range own {
		f.Cache(b, podAt(set, revision.Name, i), newClaim(set, &set.Spec.VolumeClaimTemplates[0], i))
	}
	for i := range others {
		name := fmt.Sprint("other-", i)
		other := newSet(1, withName(name), settledAt(name))
		other.Spec.Selector = other.Spec.Selector.DeepCopy()
		other.Spec.Selector.MatchLabels["app"] = name
		f.Cache(b, other, podAt(other, name, 0))
	}
	return f
}
