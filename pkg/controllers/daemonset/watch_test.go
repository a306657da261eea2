package daemonset

import (
	"math"
	"slices"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"

	"kcmd.dev/pkg/controllers/kit/pods"
	"kcmd.dev/pkg/controllers/kit/reconcile"
)

// otherSet selects app=other.
func otherSet(ds *appsv1.DaemonSet) {
	ds.Name, ds.UID = "other", "other"
	ds.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"app": "other"}}
}

func versioned[T metav1.Object](obj T, version string) T {
	obj.SetResourceVersion(version)
	return obj
}

func labelled[T metav1.Object](obj T, value string) T {
	obj.SetLabels(map[string]string{"app": value})
	return obj
}

func ownedBy[T metav1.Object](obj T, ds *appsv1.DaemonSet) T {
	obj.SetOwnerReferences([]metav1.OwnerReference{*metav1.NewControllerRef(ds, daemonSetKind)})
	return obj
}

// Pins DS-8.
func TestPodEvents(t *testing.T) {
	other := newSet(otherSet)
	recreated := newSet(func(ds *appsv1.DaemonSet) { ds.UID = "earlier" })
	was := func(changes ...func(*corev1.Pod)) *corev1.Pod { return versioned(newPod("a", "n0", changes...), "1") }
	is := func(changes ...func(*corev1.Pod)) *corev1.Pod { return versioned(newPod("a", "n0", changes...), "2") }
	bound := is(pinned)
	bound.Spec.NodeName = "n0"
	address := is()
	address.Status.PodIP = "10.0.0.1"
	for _, test := range []struct {
		name string
		do   func(c *daemonSetController)
		want []string
	}{
		{"added", func(c *daemonSetController) { c.podsOfOwners().Added(reconcile.Fresh, was()) }, none("agent")},
		{"replayed", func(c *daemonSetController) { c.podsOfOwners().Added(reconcile.Backlog, was()) }, none("backlog agent")},
		{"added for an earlier set", func(c *daemonSetController) { c.podsOfOwners().Added(reconcile.Fresh, ownedBy(was(), recreated)) }, none()},
		{"added orphan", func(c *daemonSetController) { c.podsOfOwners().Added(reconcile.Fresh, labelled(was(orphan), "other")) }, none("other")},
		{"added orphan without labels", func(c *daemonSetController) {
			pod := was(orphan)
			pod.Labels = nil
			c.podsOfOwners().Added(reconcile.Fresh, pod)
		}, none()},
		{"added on its way out", func(c *daemonSetController) { c.podsOfOwners().Added(reconcile.Fresh, was(deleting)) }, none("agent")},
		{"added orphan on its way out", func(c *daemonSetController) { c.podsOfOwners().Added(reconcile.Fresh, was(orphan, deleting)) }, none()},

		{"resynced", func(c *daemonSetController) { c.podsOfOwners().Updated(reconcile.Backlog, was(), was()) }, none()},
		{"DS-63: of no importance", func(c *daemonSetController) { c.podsOfOwners().Updated(reconcile.Fresh, was(), address) }, none()},
		{"not ready any more", func(c *daemonSetController) { c.podsOfOwners().Updated(reconcile.Fresh, was(), is(unready)) }, none("agent")},
		{"failed", func(c *daemonSetController) {
			c.podsOfOwners().Updated(reconcile.Fresh, was(), is(phase(corev1.PodFailed)))
		}, none("agent")},
		{"bound to its node", func(c *daemonSetController) { c.podsOfOwners().Updated(reconcile.Fresh, was(pinned), bound) }, none()},
		{"bound to any node", func(c *daemonSetController) {
			free := was()
			free.Spec.NodeName = ""
			c.podsOfOwners().Updated(reconcile.Fresh, free, is())
		}, none("agent")},
		{"deleting", func(c *daemonSetController) { c.podsOfOwners().Updated(reconcile.Fresh, was(), is(deleting)) }, none("agent")},
		{"changed hands", func(c *daemonSetController) { c.podsOfOwners().Updated(reconcile.Fresh, was(), ownedBy(is(), other)) }, none("agent", "other")},
		{"released", func(c *daemonSetController) {
			c.podsOfOwners().Updated(reconcile.Fresh, was(), labelled(is(orphan), "other"))
		}, none("agent", "other")},
		{"orphan with new labels", func(c *daemonSetController) {
			c.podsOfOwners().Updated(reconcile.Fresh, labelled(was(orphan), "none"), labelled(is(orphan), "other"))
		}, none("other")},
		{"orphan, not ready any more", func(c *daemonSetController) {
			c.podsOfOwners().Updated(reconcile.Fresh, was(orphan), is(orphan, unready))
		}, none()},
	} {
		t.Run(test.name, func(t *testing.T) {
			h := newHarness(t, true, newSet(), other.DeepCopy())
			h.CatchUp(t)
			test.do(h.c)
			h.Queued.WantInAnyOrder(t, test.want...)
		})
	}
}

// Pins DS-8 and DS-43.
func TestAPodThatBecomesReadyIsLookedAtAgain(t *testing.T) {
	for seconds, want := range map[int32]time.Duration{
		10:            11 * time.Second,
		math.MaxInt32: (math.MaxInt32 + 1) * time.Second,
	} {
		h := newHarness(t, true, newSet(minReady(seconds)))
		h.CatchUp(t)
		h.c.podsOfOwners().Updated(reconcile.Fresh, versioned(newPod("a", "n0", unready), "1"), versioned(newPod("a", "n0"), "2"))
		if delay := h.Queued.TakeDelay(key); delay != want {
			t.Errorf("looks again in %v, want %v", delay, want)
		}
	}
}

func TestRevisionEvents(t *testing.T) {
	other := newSet(otherSet)
	orphaned := func(r *appsv1.ControllerRevision) { r.OwnerReferences = nil }
	going := func(r *appsv1.ControllerRevision) { r.DeletionTimestamp = &metav1.Time{Time: start} }
	was := func(changes ...func(*appsv1.ControllerRevision)) *appsv1.ControllerRevision {
		return versioned(newRevision("r", 1, "{}", changes...), "1")
	}
	is := func(changes ...func(*appsv1.ControllerRevision)) *appsv1.ControllerRevision {
		return versioned(newRevision("r", 1, "{}", changes...), "2")
	}
	for _, test := range []struct {
		name string
		do   func(c *daemonSetController)
		want []string
	}{
		{"DS-44: added", func(c *daemonSetController) { c.revisionsOfOwners().Added(reconcile.Fresh, was()) }, none()},
		{"DS-7: added orphan", func(c *daemonSetController) { c.revisionsOfOwners().Added(reconcile.Fresh, was(orphaned)) }, none("agent")},
		{"DS-7: added on its way out", func(c *daemonSetController) { c.revisionsOfOwners().Added(reconcile.Fresh, was(going)) }, none("agent")},
		{"DS-7: resynced", func(c *daemonSetController) { c.revisionsOfOwners().Updated(reconcile.Backlog, was(), was()) }, none()},
		{"DS-7: updated", func(c *daemonSetController) { c.revisionsOfOwners().Updated(reconcile.Fresh, was(), is()) }, none("agent")},
		{"DS-7: changed hands", func(c *daemonSetController) {
			c.revisionsOfOwners().Updated(reconcile.Fresh, was(), ownedBy(is(), other))
		}, none("agent", "other")},
		{"DS-7: orphan, nothing new", func(c *daemonSetController) {
			c.revisionsOfOwners().Updated(reconcile.Fresh, was(orphaned), is(orphaned))
		}, none()},
		{"DS-7: orphan with new labels", func(c *daemonSetController) {
			c.revisionsOfOwners().Updated(reconcile.Fresh, was(orphaned), labelled(is(orphaned), "other"))
		}, none("other")},
	} {
		t.Run(test.name, func(t *testing.T) {
			h := newHarness(t, true, newSet(), other.DeepCopy())
			h.CatchUp(t)
			test.do(h.c)
			h.Queued.WantInAnyOrder(t, test.want...)
		})
	}
}

func TestSetEvents(t *testing.T) {
	h := newHarness(t, true, newSet(), newNode("n0"))
	h.settle(t)
	written := h.set(t)
	before := versioned(written.DeepCopy(), "1")
	annotated := written.DeepCopy()
	annotated.Annotations = map[string]string{"a": "b"}
	grown := written.DeepCopy()
	grown.Generation++
	recreated := written.DeepCopy()
	recreated.UID = "later"
	h.Queued.Take()
	h.c.owners.Writes.Wrote(newSet(), pods.Resource, "100000")
	for _, test := range []struct {
		name string
		ds   *appsv1.DaemonSet
		lane reconcile.Lane
		want []string
	}{
		{"DS-63: the own status write", written, reconcile.Fresh, none()},
		{"a resync", written, reconcile.Backlog, none("backlog agent")},
		{"with a new generation", grown, reconcile.Fresh, none("agent")},
		{"with other annotations", annotated, reconcile.Fresh, none("agent")},
		{"somebody's write", versioned(written.DeepCopy(), "100001"), reconcile.Fresh, none("agent")},
		{"DS-6: recreated", recreated, reconcile.Fresh, none("agent", "agent")},
	} {
		h.c.owners.Updated(test.lane, before, test.ds)
		if got := h.Queued.Take(); !slices.Equal(got, test.want) {
			t.Errorf("%s: queued %v, want %v", test.name, got, test.want)
		}
	}
	if state := h.c.owners.Writes.HandOver(); len(state) != 0 {
		t.Errorf("of the earlier set is left %v", state)
	}
	h.c.owners.Writes.Wrote(recreated, pods.Resource, "100000")
	h.c.owners.Deleted(written) // an old tombstone
	if len(h.c.owners.Writes.HandOver()) != 1 {
		t.Error("another set of that name was forgotten")
	}
	h.c.owners.Deleted(recreated)
	if len(h.c.owners.Writes.HandOver()) != 0 {
		t.Error("a deleted set is remembered")
	}
}

// Pins DS-9.
func TestNodeEvents(t *testing.T) {
	h := newHarness(t, true)
	heartbeat, relabelled, tainted := newNode("n"), newNode("n"), newNode("n", taint("NoSchedule"))
	heartbeat.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady}}
	heartbeat.Spec.Taints = []corev1.Taint{} // as good as none
	relabelled.Labels["zone"] = "b"
	for _, test := range []struct {
		name string
		do   func()
		want int
	}{
		{"heartbeat", func() { h.c.nodeUpdated(reconcile.Fresh, newNode("n"), heartbeat) }, 0},
		{"added", func() { h.c.nodeAdded(reconcile.Backlog, newNode("a")) }, 1},
		{"labels", func() { h.c.nodeUpdated(reconcile.Fresh, newNode("n"), relabelled) }, 2},
		{"taints", func() { h.c.nodeUpdated(reconcile.Fresh, newNode("m"), tainted) }, 2}, // the same key
	} {
		test.do()
		if got := h.c.nodeLoop.Inspect().Depth; got != test.want {
			t.Errorf("%s: %d nodes are queued, want %d", test.name, got, test.want)
		}
	}
}

// What nodes are compared with may have changed between what a status was computed from and its echo. Pins DS-49 and
// DS-63.
func TestMayBeEcho(t *testing.T) {
	for _, test := range []struct {
		name   string
		change func(*appsv1.DaemonSet)
		want   bool
	}{
		{"counts", func(ds *appsv1.DaemonSet) { ds.Status.NumberReady = 1 }, true},
		{"the template generation", func(ds *appsv1.DaemonSet) {
			ds.Annotations = map[string]string{appsv1.DeprecatedTemplateGeneration: "2"}
		}, false},
		{"misscheduled pods", func(ds *appsv1.DaemonSet) { ds.Status.NumberMisscheduled = 1 }, false},
	} {
		if got := mayBeEcho(newSet(), newSet(test.change)); got != test.want {
			t.Errorf("%s: %v", test.name, got)
		}
	}
}

// Pins DS-13.
func TestConcerned(t *testing.T) {
	for _, test := range []struct {
		name         string
		e            eligibility
		present      bool
		misscheduled int32
		want         bool
	}{
		{"a pod is missing", runs, false, 0, true},
		{"a pod is there", runs, true, 0, false},
		{"DS-49: a pod is there and is not out of place any more", runs, true, 1, true},
		{"a pod may remain", remains, true, 0, false},
		{"no pod should be there", remains, false, 3, false},
		{"a pod must go", never, true, 0, true},
		{"a pod is gone", never, false, 0, false},
	} {
		if got := concerned(test.e, test.present, test.misscheduled); got != test.want {
			t.Errorf("%s: %v", test.name, got)
		}
	}
}

// Pins DS-13.
func TestReconcileNode(t *testing.T) {
	pinnedTo := func(name, node string) *appsv1.DaemonSet {
		return newSet(otherSet, func(ds *appsv1.DaemonSet) {
			ds.Name, ds.Spec.Template.Spec.NodeSelector = name, map[string]string{corev1.LabelHostname: node}
		})
	}
	replica := newPod("replica", "n0")
	replica.OwnerReferences[0].Kind, replica.OwnerReferences[0].Name = "ReplicaSet", "here"
	misplaced := newPod("misplaced", "n0")
	misplaced.OwnerReferences[0].Name, misplaced.OwnerReferences[0].UID = "elsewhere", "whatever"
	h := newHarness(t, true, newSet(), pinnedTo("here", "n0"), pinnedTo("elsewhere", "n1"), newNode("n0"),
		newPod("a", "n0"), replica, misplaced)
	h.CatchUp(t)
	ctx := klog.NewContext(t.Context(), klog.Background())
	if err := h.c.reconcileNode(ctx, "n0"); err != nil {
		t.Fatal(err)
	}
	h.Queued.WantInAnyOrder(t, "elsewhere", "here")
	if err := h.c.reconcileNode(ctx, "gone"); err != nil {
		t.Fatal(err)
	}
	h.Queued.Want(t) // nothing for a node that is gone
}

// A node that is changed twice before it is reconciled is compared with what it was before both.
func TestTheFirstOfTheFormerStatesOfANodeCounts(t *testing.T) {
	var f formerNodes
	first, second := newNode("a"), newNode("a")
	f.keep(first)
	f.keep(second)
	if got := f.take("a"); got != first {
		t.Errorf("kept is %+v", got)
	}
	if got := f.take("a"); got != nil {
		t.Errorf("still kept is %+v", got)
	}
}
