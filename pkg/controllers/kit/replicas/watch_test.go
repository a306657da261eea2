package replicas

import (
	"slices"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kcmd.dev/pkg/controllers/kit/expectations"
	"kcmd.dev/pkg/controllers/kit/reconcile"
)

func controlledBy(rs *appsv1.ReplicaSet) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(rs, setKind)}
	}
}

// watchFixture knows the owners rs and other, which want app=a, slow, which wants app=s and
// pods that are ready for 10 s, and namesakes that match nothing.
func watchFixture(t *testing.T) *fixture {
	selecting := func(value string) func(*appsv1.ReplicaSet) {
		return func(rs *appsv1.ReplicaSet) {
			rs.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"app": value}}
		}
	}
	f := newFixture(t, nil)
	f.cache(t, replicaSet(1),
		replicaSet(1, named("other", "other")),
		replicaSet(1, named("slow", "slow"), selecting("s"), func(rs *appsv1.ReplicaSet) { rs.Spec.MinReadySeconds = 10 }),
		replicaSet(1, named("everything", "everything"), func(rs *appsv1.ReplicaSet) { rs.Spec.Selector = &metav1.LabelSelector{} }),
		replicaSet(1, named("elsewhere", "elsewhere"), func(rs *appsv1.ReplicaSet) { rs.Namespace = "ns2" }),
	)
	return f
}

func TestPodAdds(t *testing.T) {
	for _, test := range []struct {
		name string
		pod  *corev1.Pod
		want []string
	}{
		{"owned", replicaPod("p"), []string{"rs"}},
		{"owned and being deleted", replicaPod("p", beingDeleted), []string{"rs"}},
		{"of an earlier owner", replicaPod("p", controlledBy(replicaSet(1, named("rs", "earlier")))), nil},
		{"of an unknown owner", replicaPod("p", controlledBy(replicaSet(1, named("unknown", "o")))), nil},
		{"of another kind", replicaPod("p", func(p *corev1.Pod) { p.OwnerReferences[0].Kind = "Job" }), nil},
		{"of another group", replicaPod("p", func(p *corev1.Pod) { p.OwnerReferences[0].APIVersion = "x/v1" }), []string{"rs"}},
		{"orphan", replicaPod("p", orphan), []string{"other", "rs"}},
		{"orphan that nobody wants", replicaPod("p", orphan, labeled("x")), nil},
		{"orphan without labels", replicaPod("p", orphan, func(p *corev1.Pod) { p.Labels = nil }), nil},
		{"orphan being deleted", replicaPod("p", orphan, beingDeleted), nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			f := watchFixture(t)
			f.podAdded(reconcile.Fresh, test.pod)
			got := f.queued.take()
			slices.Sort(got)
			if !slices.Equal(got, test.want) {
				t.Errorf("queued %q, want %q", got, test.want)
			}
		})
	}
	f := watchFixture(t)
	f.podAdded(reconcile.Backlog, replicaPod("p"))
	f.wantQueued(t, "backlog rs")
}

func TestPodUpdates(t *testing.T) {
	ready := readySince(start)
	slow := replicaSet(1, named("slow", "slow"))
	other := controlledBy(replicaSet(1, named("other", "other")))
	for _, test := range []struct {
		name     string
		old, new *corev1.Pod
		want     []string
	}{
		{"phase", replicaPod("p", inPhase(corev1.PodPending)), replicaPod("p"), []string{"rs"}},
		{"ready", replicaPod("p"), replicaPod("p", ready), []string{"rs"}},
		{"ready since another time", replicaPod("p", ready), replicaPod("p", readySince(start.Add(time.Second))), []string{"rs"}},
		{"labels", replicaPod("p"), replicaPod("p", labeled("b")), []string{"rs"}},
		{"nothing that matters", replicaPod("p"), replicaPod("p", func(p *corev1.Pod) {
			p.Status.PodIP = "10.0.0.1"
			p.Annotations = map[string]string{"a": "b"}
		}), nil},
		{"ready, to be available later", replicaPod("p", controlledBy(slow)), replicaPod("p", controlledBy(slow), ready), []string{"slow", "slow in 10s"}},
		{"no longer ready", replicaPod("p", controlledBy(slow), ready), replicaPod("p", controlledBy(slow)), []string{"slow"}},
		{"begins to be deleted", replicaPod("p"), replicaPod("p", beingDeleted), []string{"rs"}},
		{"finishes while being deleted", replicaPod("p", beingDeleted), replicaPod("p", beingDeleted, inPhase(corev1.PodSucceeded)), []string{"rs"}},
		{"deleted and relabeled", replicaPod("p"), replicaPod("p", beingDeleted, labeled("b"), other), []string{"other", "rs"}},
		{"given away", replicaPod("p"), replicaPod("p", other), []string{"rs", "other"}},
		{"adopted", replicaPod("p", orphan), replicaPod("p"), []string{"rs"}},
		{"released", replicaPod("p"), replicaPod("p", orphan, labeled("s")), []string{"rs", "slow"}},
		{"orphan relabeled", replicaPod("p", orphan), replicaPod("p", orphan, labeled("s")), []string{"slow"}},
		{"orphan changes otherwise", replicaPod("p", orphan), replicaPod("p", orphan, ready), nil},
		{"orphan begins to be deleted", replicaPod("p", orphan), replicaPod("p", orphan, beingDeleted), nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			f := watchFixture(t)
			test.new.ResourceVersion = "21"
			f.podUpdated(reconcile.Fresh, test.old, test.new)
			f.wantQueued(t, test.want...)
		})
	}
	t.Run("resync", func(t *testing.T) {
		f := watchFixture(t)
		f.podUpdated(reconcile.Backlog, replicaPod("p"), replicaPod("p"))
		f.wantQueued(t)
	})
	t.Run("another's after its owner was deleted with orphaning", func(t *testing.T) {
		f := watchFixture(t)
		orphaned := replicaPod("p", orphan)
		orphaned.ResourceVersion = "21"
		f.podUpdated(reconcile.Fresh, replicaPod("p", controlledBy(replicaSet(1, named("deleted", "d")))), orphaned)
		got := f.queued.take()
		slices.Sort(got)
		if !slices.Equal(got, []string{"other", "rs"}) {
			t.Errorf("queued %q", got)
		}
	})
}

func TestPodDeletes(t *testing.T) {
	f := watchFixture(t)
	f.podGone(replicaPod("p"))
	f.wantQueued(t, "rs")
	f.podGone(replicaPod("p", orphan))
	f.wantQueued(t)
}

func TestOwnerUpdates(t *testing.T) {
	at := func(version string, changes ...func(*appsv1.ReplicaSet)) *appsv1.ReplicaSet {
		return replicaSet(1, append(changes, func(rs *appsv1.ReplicaSet) { rs.ResourceVersion = version })...)
	}
	generation2 := func(rs *appsv1.ReplicaSet) { rs.Generation = 2 }
	leaving := func(rs *appsv1.ReplicaSet) { rs.DeletionTimestamp = &metav1.Time{Time: start} }
	for _, test := range []struct {
		name     string
		lane     reconcile.Lane
		old, new *appsv1.ReplicaSet
		want     []string
	}{
		{"changed by somebody", reconcile.Fresh, at("10"), at("12"), []string{"rs"}},
		{"own status write", reconcile.Fresh, at("10"), at("11"), nil},
		{"own status write seen together with a new spec", reconcile.Fresh, at("10"), at("11", generation2), []string{"rs"}},
		{"own status write seen together with a deletion", reconcile.Fresh, at("10"), at("11", leaving), []string{"rs"}},
		{"resync", reconcile.Backlog, at("11"), at("11"), []string{"backlog rs"}},
		{"recreated", reconcile.Fresh, at("10"), at("11", named("rs", "new")), []string{"rs", "rs"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			f := watchFixture(t)
			f.writes.Wrote(key, "11")
			f.ownerUpdated(test.lane, test.old, test.new)
			f.wantQueued(t, test.want...)
		})
	}
}

func TestWhatWasDoneForAnOwnerIsForgottenWithIt(t *testing.T) {
	old, recreated := replicaSet(1), replicaSet(1, named("rs", "new"))
	for _, test := range []struct {
		name string
		then func(*fixture)
		want bool
	}{
		{"changed", func(f *fixture) { f.ownerUpdated(reconcile.Fresh, old, old) }, false},
		{"recreated", func(f *fixture) { f.ownerUpdated(reconcile.Fresh, old, recreated) }, true},
		{"deleted", func(f *fixture) { f.ownerDeleted(old) }, true},
		{"an earlier one deleted", func(f *fixture) { f.ownerDeleted(recreated) }, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			f := watchFixture(t)
			f.tracker.Hold(key, "o", expectations.Timeout)
			test.then(f)
			if forgotten := len(f.tracker.HandOver()) == 0; forgotten != test.want {
				t.Errorf("forgotten: %v", forgotten)
			}
			if len(f.queued.take()) == 0 {
				t.Error("the owner is not looked at")
			}
		})
	}
}
