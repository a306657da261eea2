package replicas

import (
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"

	"kcmd.dev/pkg/controllers/kit/reconcile"
	"kcmd.dev/pkg/controllers/kit/writes"
	"kcmd.dev/test/controllertest"
)

func controlledBy(rs *appsv1.ReplicaSet) func(*corev1.Pod) {
	return controllertest.ControlledBy(rs, setKind)
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
	f.Cache(t, replicaSet(1),
		replicaSet(1, named("other", "other")),
		replicaSet(1, named("slow", "slow"), selecting("s"), func(rs *appsv1.ReplicaSet) { rs.Spec.MinReadySeconds = 10 }),
		replicaSet(1, named("everything", "everything"), func(rs *appsv1.ReplicaSet) { rs.Spec.Selector = &metav1.LabelSelector{} }),
		replicaSet(1, named("elsewhere", "elsewhere"), func(rs *appsv1.ReplicaSet) { rs.Namespace = "ns2" }),
	)
	return f
}

// Pins RS-7a.
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
			f.engine.podsOfOwners().Added(reconcile.Fresh, test.pod)
			f.Queued.WantInAnyOrder(t, test.want...)
		})
	}
	f := watchFixture(t)
	f.engine.podsOfOwners().Added(reconcile.Backlog, replicaPod("p"))
	f.Queued.Want(t, "backlog rs")
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
		{"RS-7b: labels", replicaPod("p"), replicaPod("p", labeled("b")), []string{"rs"}},
		{"RS-52: nothing that matters", replicaPod("p"), replicaPod("p", func(p *corev1.Pod) {
			p.Status.PodIP = "10.0.0.1"
			p.Annotations = map[string]string{"a": "b"}
		}), nil},
		{"RS-7b: ready, to be available later", replicaPod("p", controlledBy(slow)), replicaPod("p", controlledBy(slow), ready), []string{"slow", "slow in 10s"}},
		{"no longer ready", replicaPod("p", controlledBy(slow), ready), replicaPod("p", controlledBy(slow)), []string{"slow"}},
		{"RS-7b: begins to be deleted", replicaPod("p"), replicaPod("p", beingDeleted), []string{"rs"}},
		{"finishes while being deleted", replicaPod("p", beingDeleted), replicaPod("p", beingDeleted, inPhase(corev1.PodSucceeded)), []string{"rs"}},
		{"RS-7b: deleted and relabeled", replicaPod("p"), replicaPod("p", beingDeleted, labeled("b"), other), []string{"rs", "other"}},
		{"RS-7b: given away", replicaPod("p"), replicaPod("p", other), []string{"rs", "other"}},
		{"adopted", replicaPod("p", orphan), replicaPod("p"), []string{"rs"}},
		{"RS-7b: released", replicaPod("p"), replicaPod("p", orphan, labeled("s")), []string{"rs", "slow"}},
		{"RS-7b: orphan relabeled", replicaPod("p", orphan), replicaPod("p", orphan, labeled("s")), []string{"slow"}},
		{"RS-7b: orphan changes otherwise", replicaPod("p", orphan), replicaPod("p", orphan, ready), nil},
		{"orphan begins to be deleted", replicaPod("p", orphan), replicaPod("p", orphan, beingDeleted), nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			f := watchFixture(t)
			test.new.ResourceVersion = "21"
			f.engine.podsOfOwners().Updated(reconcile.Fresh, test.old, test.new)
			f.Queued.Want(t, test.want...)
		})
	}
	t.Run("resync", func(t *testing.T) {
		f := watchFixture(t)
		f.engine.podsOfOwners().Updated(reconcile.Backlog, replicaPod("p"), replicaPod("p"))
		f.Queued.Want(t)
	})
	t.Run("another's after its owner was deleted with orphaning", func(t *testing.T) {
		f := watchFixture(t)
		orphaned := replicaPod("p", orphan)
		orphaned.ResourceVersion = "21"
		f.engine.podsOfOwners().Updated(reconcile.Fresh, replicaPod("p", controlledBy(replicaSet(1, named("deleted", "d")))), orphaned)
		f.Queued.WantInAnyOrder(t, "other", "rs")
	})
}

// Pins RS-7c.
func TestPodDeletes(t *testing.T) {
	f := watchFixture(t)
	f.engine.podsOfOwners().Deleted(replicaPod("p"))
	f.Queued.Want(t, "rs")
	f.engine.podsOfOwners().Deleted(replicaPod("p", orphan))
	f.Queued.Want(t)
}

// Pins RC-19.
func TestWhatIsOfAnUnexpectedTypeIsDropped(t *testing.T) {
	f := watchFixture(t)
	informer := &controllertest.Captured{}
	f.engine.podsOfOwners().Watch(informer)
	informer.Handler.OnAdd("nonsense", false)
	informer.Handler.OnUpdate("nonsense", replicaPod("p"))
	informer.Handler.OnUpdate(replicaPod("p"), "nonsense")
	informer.Handler.OnDelete("nonsense")
	informer.Handler.OnDelete(cache.DeletedFinalStateUnknown{Key: "ns/p", Obj: "nonsense"})
	f.Queued.Want(t)
	informer.Handler.OnDelete(cache.DeletedFinalStateUnknown{Key: "ns/p", Obj: replicaPod("p")})
	f.Queued.Want(t, "rs")
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
		{"RS-6: changed by somebody", reconcile.Fresh, at("10"), at("12"), []string{"rs"}},
		{"RS-52: own status write", reconcile.Fresh, at("10"), at("11"), nil},
		{"own status write seen together with a new spec", reconcile.Fresh, at("10"), at("11", generation2), []string{"rs"}},
		{"own status write seen together with a deletion", reconcile.Fresh, at("10"), at("11", leaving), []string{"rs"}},
		{"resync", reconcile.Backlog, at("11"), at("11"), []string{"backlog rs"}},
		{"RS-6, RS-38: recreated", reconcile.Fresh, at("10"), at("11", named("rs", "new")), []string{"rs", "rs"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			f := watchFixture(t)
			f.engine.owners.Writes.WroteStatus(test.old, "11")
			f.engine.owners.Updated(test.lane, test.old, test.new)
			f.Queued.Want(t, test.want...)
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
		{"changed", func(f *fixture) { f.engine.owners.Updated(reconcile.Fresh, old, old) }, false},
		{"RS-6, RS-38: recreated", func(f *fixture) { f.engine.owners.Updated(reconcile.Fresh, old, recreated) }, true},
		{"deleted", func(f *fixture) { f.engine.owners.Deleted(old) }, true},
		{"an earlier one deleted", func(f *fixture) { f.engine.owners.Deleted(recreated) }, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			f := watchFixture(t)
			f.engine.owners.Writes.Hold(old, writes.Timeout)
			test.then(f)
			if forgotten := len(f.engine.owners.Writes.HandOver()) == 0; forgotten != test.want {
				t.Errorf("forgotten: %v", forgotten)
			}
			if len(f.Queued.Take()) == 0 {
				t.Error("the owner is not looked at")
			}
		})
	}
}
