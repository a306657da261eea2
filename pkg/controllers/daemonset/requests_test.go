package daemonset

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	ktesting "k8s.io/client-go/testing"
	"k8s.io/utils/ptr"

	"kcmd.dev/pkg/controllers/kit/reconcile"
	"kcmd.dev/pkg/controllers/kit/workloads/podtemplate"
	"kcmd.dev/test/controllertest"
	"kcmd.dev/test/must"
)

func bare(r *appsv1.ControllerRevision) { delete(r.Labels, appsv1.DefaultDaemonSetUniqueLabelKey) }

// busySet is a set that has something of every kind to do, with its objects: pods to adopt, to release, to label and to
// delete, nodes without one, and duplicate, unlabelled and surplus revisions.
func busySet(t *testing.T) []runtime.Object {
	t.Helper()
	ds := newSet(func(ds *appsv1.DaemonSet) { ds.Spec.RevisionHistoryLimit = new(int32) })
	foreign := newPod("foreign", "n1")
	foreign.Labels = map[string]string{"app": "other"}
	payload := payloadOf(t, ds)
	orphaned := newRevision("orphan", 1, "{}")
	orphaned.OwnerReferences = nil
	return []runtime.Object{
		ds, newNode("n0"), newNode("n1"), newNode("bad", taint("NoExecute")),
		newRevision("older", 0, `{"older":1}`), orphaned, newRevision("copy", 2, payload), newRevision("new", 3, payload),
		newRevision("bare", 9, `{"bare":1}`, bare),
		newPod("orphan", "n0", orphan), foreign, newPod("a", "bad", hash("copy")),
	}
}

// Pins DS-10.
func TestRequestsOfASet(t *testing.T) {
	taken := newRevision("agent-"+podtemplate.Hash(&newSet().Spec.Template, nil), 1, "{}")
	taken.OwnerReferences[0].UID = "other"
	sent := map[string]bool{}
	for _, tc := range []struct {
		objects []runtime.Object
		fails   bool
	}{
		{objects: busySet(t)},
		{objects: []runtime.Object{newSet(), taken}, fails: true}, // the name of its revision is taken
	} {
		h := newHarness(t, true, tc.objects...)
		h.CatchUp(t)
		if err := h.Reconcile(); (err != nil) != tc.fails {
			t.Errorf("reconcile: %v", err)
		}
		for _, action := range h.Fake.Actions() {
			request := action.GetVerb() + " " + action.GetResource().Resource
			if action.GetSubresource() != "" {
				request += "/" + action.GetSubresource()
			}
			if patch, ok := action.(ktesting.PatchAction); ok {
				request += " " + string(patch.GetPatchType())
			}
			sent[request] = true
		}
	}
	want := []string{
		"create controllerrevisions", "create pods", "delete controllerrevisions", "delete pods",
		"get controllerrevisions", "get daemonsets", "patch controllerrevisions application/strategic-merge-patch+json",
		"patch pods application/merge-patch+json", "patch pods application/strategic-merge-patch+json",
		"update controllerrevisions", "update daemonsets/status",
	}
	if got := slices.Sorted(maps.Keys(sent)); !slices.Equal(got, want) {
		t.Errorf("requests are %q, want %q", got, want)
	}
}

// Pins WL-1.
func TestCachedObjectsStayAsTheyAre(t *testing.T) {
	for _, objects := range [][]runtime.Object{busySet(t), {newSet(), newNode("n0")}} {
		h := newHarness(t, true, objects...)
		h.CatchUp(t)
		before := map[runtime.Object]runtime.Object{}
		for _, kind := range h.Kinds {
			for _, item := range h.CacheOf(t, kind).List() {
				cached := item.(runtime.Object)
				before[cached] = cached.DeepCopyObject()
			}
		}
		h.MustReconcile(t)
		for cached, was := range before {
			if !apiequality.Semantic.DeepEqual(cached, was) {
				t.Errorf("the cache has %+v, had %+v", cached, was)
			}
		}
	}

	managed := newSet()
	managed.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "kubectl"}}
	env := controllertest.New(t, managed)
	must.Get(newController(env.Env, config{concurrentSyncs: 1}))(t)
	env.Start(t)
	if cached := env.CacheOf(t, newSet()).List(); len(cached) != 1 || cached[0].(*appsv1.DaemonSet).ManagedFields != nil {
		t.Errorf("the cache has %v", cached)
	}
}

// However often a set fails, it is tried again. Pins DS-12.
func TestASetThatFailsIsTriedForEver(t *testing.T) {
	h := newHarness(t, true, newSet(), newNode("n0"))
	var attempts atomic.Int32
	h.RefuseIf("create controllerrevisions", errors.New("boom"), func(int) bool { return attempts.Add(1) > 0 })
	h.c.owners.Queue = h.c.owners.Loop
	h.Start(t)
	h.Run(t, h.c)
	longest := time.Duration(0)
	h.EventuallyAsTimePasses(t, "it is tried 25 times", 1000*time.Second, func() bool {
		for _, key := range h.c.owners.Loop.Keys(func(key string) bool { return key == "ns/agent" }) {
			longest = max(longest, key.Until.Sub(h.Clock.Now()))
		}
		return attempts.Load() >= 25
	})
	if longest <= 15*time.Minute || longest > 1000*time.Second {
		t.Errorf("the longest delay is %v", longest)
	}
}

// Pins DS-14 and DS-42.
func TestASetWaitsForItsWritesAndIsForgotten(t *testing.T) {
	h := newHarness(t, true, newSet(), newNode("n0"))
	h.CatchUp(t)
	h.EmptyCache(t, &corev1.Pod{}, "5")
	h.MustReconcile(t)
	h.Env.CatchUp(t, &appsv1.DaemonSet{}, &appsv1.ControllerRevision{})
	h.c.owners.Writes.Hold(newSet(), time.Hour)
	const stale = "read version: 5 is not as new as written version: "
	if err := h.Reconcile(); !reconcile.IsExpected(err) || !strings.HasPrefix(err.Error(), stale) {
		t.Errorf("got %v", err)
	}
	h.WantRequests(t)
	if got := h.Series(t, "daemonset_controller_stale_sync_skips_total"); !slices.Equal(got, []string{"group= resource=pods 1"}) {
		t.Errorf("counted %q", got)
	}
	h.Uncache(t, newSet())
	h.c.owners.Deleted(newSet())
	h.MustReconcile(t)
	h.WantRequests(t)
	if left := h.c.owners.Writes.HandOver(); len(left) > 0 || len(h.c.blueprints.made) > 0 {
		t.Errorf("remembered are %v and %v", left, h.c.blueprints.made)
	}
	h.c.owners.Loop.Add(key)
	h.c.nodeLoop.Add("n0")
	adds := []string{"name=daemonset 1", "name=daemonset-node-updates 1"}
	if got := h.Series(t, "workqueue_adds_total"); !slices.Equal(got, adds) {
		t.Errorf("queues are %q", got)
	}
}

// Pins DS-41.
func TestEventsOfASet(t *testing.T) {
	h := newHarness(t, true, newSet(), newNode("empty"), newNode("n0"), newNode("n1"), newNode("bad", taint("NoExecute")),
		newPod("f", "n0", phase(corev1.PodFailed)), newPod("s", "n1", phase(corev1.PodSucceeded)), newPod("x", "bad"))
	h.reconcile(t)
	got := h.RecordedEvents()
	slices.Sort(got)
	want := []string{
		"Normal SuccessfulCreate Created pod: " + h.pods(t)[0].Name,
		"Normal SuccessfulDelete Deleted pod: f",
		"Normal SuccessfulDelete Deleted pod: s",
		"Normal SuccessfulDelete Deleted pod: x",
		"Normal SucceededDaemonPod Found succeeded daemon pod ns/s on node n1, will try to delete it",
		"Warning FailedDaemonPod Found failed daemon pod ns/f on node n0, will try to kill it",
	}
	if slices.Sort(want); !slices.Equal(got, want) {
		t.Errorf("events are %q, want %q", got, want)
	}
}

// All that is in the caches is queued when an instance begins, also if another one has used them before.
// Pins DS-53, WL-6 and WL-91.
func TestAnInstanceBeginsWithAllThatIsCached(t *testing.T) {
	h := newHarness(t, true, newSet(), newSet(otherSet), newNode("n0"), newNode("n1"), newNode("n2"),
		newPod("a", "n0"), newPod("b", "n1"))
	h.Start(t)
	for range 2 {
		h.Succeed(nil)
		c := must.Get(newController(h.Env.Env, config{concurrentSyncs: 1}))(t)
		controllertest.Eventually(t, "all sets and nodes are queued", func() bool {
			sets, nodes := c.owners.Loop.Inspect(), c.nodeLoop.Inspect()
			return sets.Depth == 2 && sets.Backlog == 2 && nodes.Depth == 3 && nodes.Backlog == 3
		})
	}
}

// Pins WL-6.
func TestNothingBeginsBeforeAllCachesAreFilled(t *testing.T) {
	t.Parallel() // the informer waits a while until it lists again
	env := controllertest.New(t)
	env.WantWaitsFor(t, must.Get(newController(env.Env, config{concurrentSyncs: 1}))(t), "controllerrevisions")
}

// The pods and revisions of a set are claimed once, and its template is read once.
// Pins DS-54 and WL-93.
func TestAReconcileClaimsOnce(t *testing.T) {
	h := newHarness(t, true, newSet(onDelete), newNode("n0"), newNode("n1"), newNode("bad", taint("NoExecute")),
		newPod("a", "n0", orphan), newPod("b", "n1", orphan), newPod("x", "bad"))
	h.reconcile(t)
	h.WantRequestsInAnyOrder(t, "get daemonsets agent", "patch pods a", "patch pods b", "create controllerrevisions",
		"delete pods x", "update daemonsets/status")
	h.WantEvents(t, "Normal SuccessfulDelete Deleted pod: x")
	first := must.Get(h.c.blueprints.of(newSet()))(t)
	if again := must.Get(h.c.blueprints.of(newSet()))(t); &again.payload[0] != &first.payload[0] {
		t.Error("the template is read again")
	}
}

// In a cluster that was restored from a backup, a generation of a set can occur twice.
func TestATemplateIsReadThoughTheGenerationIsKnown(t *testing.T) {
	h := newHarness(t, true, newSet())
	first := must.Get(h.c.blueprints.of(newSet()))(t)
	restored := newSet(image("restored"))
	if next := must.Get(h.c.blueprints.of(restored))(t); bytes.Equal(next.payload, first.payload) {
		t.Errorf("the payload is still %s", next.payload)
	}
}

// Pins DS-56.
func TestRolloutsCostTwoRequestsPerNode(t *testing.T) {
	const nodes = 5
	objects := []runtime.Object{newSet(strategy(intstr.FromInt32(2), intstr.FromInt32(0)))}
	for i := range nodes {
		objects = append(objects, newNode(fmt.Sprint("n", i)))
	}
	h := newHarness(t, true, objects...)
	sent := map[string]int{}
	h.Fake.PrependReactor("*", "*", func(action ktesting.Action) (bool, runtime.Object, error) {
		sent[action.GetVerb()+" "+action.GetResource().Resource]++
		return false, nil, nil
	})
	for round, want := range []map[string]int{{"create pods": nodes}, {"create pods": nodes, "delete pods": nodes}} {
		reconciles := 0
		h.Work = func(ctx context.Context, key types.NamespacedName) error {
			reconciles++
			return h.c.owners.Reconcile(ctx, key)
		}
		h.change(t, image(fmt.Sprint("agent:", round)))
		h.settle(t)
		if n := sent["update daemonsets"]; n > reconciles {
			t.Errorf("%d status updates in %d reconciles", n, reconciles)
		}
		delete(sent, "update daemonsets")
		if sent["create controllerrevisions"] != 1 {
			t.Errorf("%d revisions are created", sent["create controllerrevisions"])
		}
		delete(sent, "create controllerrevisions")
		if !maps.Equal(sent, want) {
			t.Errorf("sent %v, want %v", sent, want)
		}
		clear(sent)
		if got := len(h.RecordedEvents()); got != want["create pods"]+want["delete pods"] {
			t.Errorf("%d events", got)
		}
	}
	beat := newNode("n0")
	beat.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, LastHeartbeatTime: metav1.NewTime(start)}}
	h.c.nodeUpdated(reconcile.Fresh, newNode("n0"), beat)
	if depth := h.c.nodeLoop.Inspect().Depth; depth != 0 {
		t.Errorf("%d nodes are queued by a heartbeat", depth)
	}
}

// Pins DS-61.
func TestAReconcileWithNothingToDoRecordsNothing(t *testing.T) {
	h := newHarness(t, true, newSet(), newNode("n0"))
	h.settle(t)
	h.c.owners.Writes.ForgetAll(key)
	h.reconcile(t)
	h.WantRequests(t)
	if left := h.c.owners.Writes.HandOver(); len(left) > 0 {
		t.Errorf("recorded is %v", left)
	}
}

// Pins WL-69.
func TestPodsBearTheHashOfTheTemplate(t *testing.T) {
	h := newHarness(t, true, newSet(func(ds *appsv1.DaemonSet) { ds.Status.CollisionCount = ptr.To[int32](3) }), newNode("n0"))
	h.reconcile(t)
	want := podtemplate.Hash(&newSet().Spec.Template, ptr.To[int32](3))
	if got := h.pods(t)[0].Labels["controller-revision-hash"]; got != want {
		t.Errorf("the label is %q, want %q", got, want)
	}
}
