package daemonset

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	"kcmd.dev/pkg/config/v1beta1"
	"kcmd.dev/pkg/controller"
	"kcmd.dev/pkg/controllers/kit/pods"
	"kcmd.dev/pkg/controllers/kit/reconcile"
	"kcmd.dev/test/must"
)

// Pins DS-3 and DS-4.
func TestValue(t *testing.T) {
	d := Descriptor()
	gate := func(name string, on bool) func(*controller.Config) {
		return func(c *controller.Config) { c.FeatureGates = map[string]bool{name: on} }
	}
	for _, test := range []struct {
		name   string
		change func(*controller.Config)
		want   config
	}{
		{"defaults", func(*controller.Config) {}, config{2, true, false}},
		{"workers", func(c *controller.Config) { *c.Controllers.DaemonSet.ConcurrentSyncs = 7 }, config{7, true, false}},
		{"consistency", gate("StaleControllerConsistencyDaemonSet", false), config{2, false, false}},
		{"operators", gate("TaintTolerationComparisonOperators", true), config{2, true, true}},
	} {
		c := v1beta1.NewDefault()
		test.change(c)
		if got := d.Value(c); got != test.want {
			t.Errorf("%s: %+v, want %+v", test.name, got, test.want)
		}
	}
}

func TestPodsAreCreatedAndCounted(t *testing.T) {
	ds := newSet(templateGenerationOf("5"), func(ds *appsv1.DaemonSet) { ds.Spec.Template.Spec.HostNetwork = true })
	h := newHarness(t, true, ds, newNode("n0"), newNode("n1"), newNode("tainted", taint("NoSchedule")))
	h.reconcile(t)
	h.WantRequestsInAnyOrder(t, "create controllerrevisions", "create pods", "create pods", "update daemonsets/status")

	revision := h.revisions(t)[0]
	hash := revision.Labels[appsv1.DefaultDaemonSetUniqueLabelKey]
	if revision.Name != "agent-"+hash || revision.Revision != 1 || revision.Labels["app"] != "agent" || !metav1.IsControlledBy(revision, ds) {
		t.Errorf("the revision is %+v", revision)
	}
	if diff := cmp.Diff(ds.Annotations, revision.Annotations); diff != "" {
		t.Errorf("annotations: %s", diff)
	}
	var events []string
	targets := map[string]bool{}
	for _, pod := range h.pods(t) {
		targets[targetOf(pod)] = true
		want := map[string]string{"app": "agent", appsv1.DefaultDaemonSetUniqueLabelKey: hash, generationLabel: "5"}
		if !maps.Equal(pod.Labels, want) || len(pod.Spec.Tolerations) != 7 || !metav1.IsControlledBy(pod, ds) || pod.GenerateName != "agent-" {
			t.Errorf("the pod is %+v", pod)
		}
		events = append(events, "Normal SuccessfulCreate Created pod: "+pod.Name)
	}
	if !targets["n0"] || !targets["n1"] || len(targets) != 2 {
		t.Errorf("pods are for %v", targets)
	}
	got := h.RecordedEvents()
	slices.Sort(got)
	slices.Sort(events)
	if !slices.Equal(got, events) {
		t.Errorf("events %q, want %q", got, events)
	}
	status := h.set(t).Status
	// What was created is counted when the caches show it.
	if countsOf(status) != (counts{desired: 2, unavailable: 2}) || status.ObservedGeneration != 1 {
		t.Errorf("the status is %+v", status)
	}

	h.settle(t)
	status = h.set(t).Status
	if countsOf(status) != (counts{desired: 2, current: 2, ready: 2, updated: 2, available: 2}) {
		t.Errorf("the status is %+v", status)
	}
}

// Pins DS-57.
func TestNothingIsDoneTwice(t *testing.T) {
	for _, requireFresh := range []bool{true, false} {
		h := newHarness(t, requireFresh, newSet(), newNode("n0"))
		h.reconcile(t)
		// The caches do not show all of it yet.
		h.c.owners.Writes.Wrote(newSet(), pods.Resource, "1000")
		h.Fake.ClearActions()
		err := h.Reconcile()
		if requireFresh != reconcile.IsExpected(err) {
			t.Errorf("requireFresh %v: %v", requireFresh, err)
		}
		for _, request := range h.Requests() {
			if strings.Contains(request, " pods") {
				t.Errorf("requireFresh %v: %s", requireFresh, request)
			}
		}
		skips := strings.Join(h.Series(t, "daemonset_controller_stale_sync_skips_total"), " ")
		if requireFresh != strings.Contains(skips, "resource=") {
			t.Errorf("requireFresh %v: skips are %q", requireFresh, skips)
		}
	}
}

// Pins DS-17.
func TestAGenerationIsNotObservedBeforeItIsActedOn(t *testing.T) {
	h := newHarness(t, true, newSet(onDelete), newNode("n0"))
	h.settle(t)
	// Somebody's duplicate is deleted; that is not in the cache when the spec changes.
	pod := h.pods(t)[0]
	h.c.owners.Writes.Deleting(newSet(), pods.Resource, pod)
	h.change(t, func(ds *appsv1.DaemonSet) { ds.Spec.Template.Spec.NodeSelector = map[string]string{"none": "such"} })
	h.reconcile(t)
	// The revision is made all the same, and the counts are those of the new spec.
	h.WantRequestsInAnyOrder(t, "create controllerrevisions", "update daemonsets/status")
	if s := h.set(t).Status; s.ObservedGeneration != 1 || s.NumberMisscheduled != 1 || s.DesiredNumberScheduled != 0 {
		t.Errorf("the status is %+v", s)
	}
	h.reconcile(t)
	h.WantRequestsInAnyOrder(t) // counts are right; the generation has to wait
	if h.Queued.TakeDelay(key) == 0 {
		t.Error("nothing looks again")
	}
	h.c.owners.Writes.ForgetAll(key)
	h.reconcile(t)
	if s := h.set(t).Status; s.ObservedGeneration != 2 {
		t.Errorf("the status is %+v", s)
	}
	h.WantRequestsInAnyOrder(t, "delete pods", "update daemonsets/status")
}

// Pins DS-15.
func TestSetsThatAreLeftAlone(t *testing.T) {
	all := newSet(func(ds *appsv1.DaemonSet) { ds.Spec.Selector = &metav1.LabelSelector{} })
	h := newHarness(t, true, all, newNode("n0"))
	h.reconcile(t)
	h.WantRequestsInAnyOrder(t)
	h.WantEvents(t, "Warning SelectingAll This daemon set is selecting all pods. A non-empty selector is required.")

	going := newSet(func(ds *appsv1.DaemonSet) { ds.DeletionTimestamp = ptr.To(metav1.NewTime(start)) })
	h = newHarness(t, true, going, newNode("n0"))
	h.reconcile(t)
	h.WantRequestsInAnyOrder(t)

	h = newHarness(t, true)
	h.c.owners.Writes.Wrote(newSet(), pods.Resource, "1")
	h.c.owners.Deleted(newSet())
	h.reconcile(t)
	if state := h.c.owners.Writes.HandOver(); len(state) != 0 {
		t.Errorf("of a set that is gone is left %v", state)
	}

	invalid := newSet(func(ds *appsv1.DaemonSet) {
		ds.Spec.Selector.MatchExpressions = []metav1.LabelSelectorRequirement{{Key: "a", Operator: "Bad"}}
	})
	h = newHarness(t, true, invalid)
	h.CatchUp(t)
	if err := h.Reconcile(); err == nil {
		t.Error("an invalid selector is no error")
	}
}

// Pins DS-23.
func TestPodsAreAdoptedAndReleased(t *testing.T) {
	foreign := newPod("foreign", "n1")
	foreign.Labels = map[string]string{"app": "other"}
	h := newHarness(t, true, newSet(onDelete), newNode("n0"), newNode("n1"), newPod("orphan", "n0", orphan), foreign)
	h.reconcile(t)
	h.WantRequestsInAnyOrder(t, "create controllerrevisions", "create pods", "get daemonsets", "patch pods", "patch pods", "update daemonsets/status")
	for _, pod := range h.pods(t) {
		if owned := metav1.GetControllerOf(pod) != nil; owned == (pod.Name == "foreign") {
			t.Errorf("%s is owned by %v", pod.Name, pod.OwnerReferences)
		}
	}
}

func TestAPodIsReplacedWhenItIsGone(t *testing.T) {
	h := newHarness(t, true, newSet(), newNode("n0"))
	h.settle(t)
	h.change(t, image("agent:2"))
	h.reconcile(t)
	h.WantRequestsInAnyOrder(t, "create controllerrevisions", "delete pods", "update daemonsets/status")
	h.reconcile(t)
	h.WantRequestsInAnyOrder(t, "create pods", "update daemonsets/status") // that of a pod which is gone is not put off
	h.settle(t)
	if s := h.set(t).Status; s.UpdatedNumberScheduled != 1 || s.NumberAvailable != 1 || s.ObservedGeneration != 2 {
		t.Errorf("the status is %+v", s)
	}
}

// Pins DS-18.
func TestOnDeleteReplacesNothing(t *testing.T) {
	h := newHarness(t, true, newSet(onDelete), newNode("n0"))
	h.settle(t)
	h.change(t, image("agent:2"))
	h.settle(t)
	if s := h.set(t).Status; s.UpdatedNumberScheduled != 0 || s.NumberAvailable != 1 {
		t.Errorf("the status is %+v", s)
	}
}

func TestSurgeOverlaps(t *testing.T) {
	h := newHarness(t, true, newSet(surging(1)), newNode("n0"), newNode("n1"))
	h.settle(t)
	h.change(t, image("agent:2"))
	most := 0
	for range 12 {
		h.reconcile(t)
		all := h.pods(t)
		most = max(most, len(all))
		for _, pod := range all {
			pod.Spec.NodeName, pod.Status = targetOf(pod), newPod("", "").Status
			h.Store(t, pod)
		}
		if len(all) < 2 {
			t.Fatalf("there are %d pods", len(all))
		}
		h.Clock.Step(time.Second)
	}
	h.settle(t)
	if s := h.set(t).Status; most != 3 || s.UpdatedNumberScheduled != 2 || len(h.pods(t)) != 2 {
		t.Errorf("at most %d pods, then %d; the status is %+v", most, len(h.pods(t)), s)
	}
}

// Pins DS-5 and DS-29.
func TestAtMostABurstIsChangedAtOnce(t *testing.T) {
	objects := []runtime.Object{newSet(strategy(intstr.FromString("100%"), intstr.FromInt32(0)))}
	for i := range burst + 20 {
		objects = append(objects, newNode(fmt.Sprint("n", i)))
	}
	h := newHarness(t, true, objects...)
	h.reconcile(t)
	if n := len(h.pods(t)); n != burst {
		t.Errorf("%d pods are created", n)
	}
	h.settle(t)
	if n := len(h.pods(t)); n != burst+20 {
		t.Errorf("there are %d pods", n)
	}
	h.change(t, image("agent:2"))
	h.reconcile(t)
	if n := len(h.pods(t)); n != 20 {
		t.Errorf("%d pods are left", n)
	}
}

// The reconcile of a node may still hold a set that is gone, or was replaced, and has been forgotten.
func TestBlueprintsOfSetsThatAreGoneAreNotKept(t *testing.T) {
	recreated := newSet()
	recreated.UID = "new"
	for name, test := range map[string]struct {
		cached []runtime.Object
		kept   int
	}{
		"there":     {[]runtime.Object{newSet()}, 1},
		"gone":      {nil, 0},
		"recreated": {[]runtime.Object{recreated}, 0},
	} {
		h := newHarness(t, true, test.cached...)
		h.CatchUp(t)
		must.Get(h.c.blueprints.of(newSet()))(t)
		if got := len(h.c.blueprints.made); got != test.kept {
			t.Errorf("%s: %d are kept, want %d", name, got, test.kept)
		}
	}
}

func TestFailuresOfTheAPI(t *testing.T) {
	boom := errors.New("boom")
	t.Run("DS-29: creating", func(t *testing.T) {
		h := newHarness(t, true, newSet(), newNode("n0"), newNode("n1"), newNode("n2"), newNode("bad", taint("NoExecute")), newPod("x", "bad"))
		h.Refuse("create pods", boom)
		h.CatchUp(t)
		if err := h.Reconcile(); !errors.Is(err, boom) {
			t.Errorf("got %v", err)
		}
		// The first failure ends the creations, but not the deletions and the status.
		h.WantRequestsInAnyOrder(t, "create controllerrevisions", "create pods", "delete pods", "update daemonsets/status")
		h.WantEvents(t, "Warning FailedCreate Error creating: boom", "Normal SuccessfulDelete Deleted pod: x")
	})
	t.Run("WL-115: creating without an answer", func(t *testing.T) {
		h := newHarness(t, true, newSet(), newNode("n0"))
		answers := h.Refuse("create pods", io.ErrUnexpectedEOF)
		h.CatchUp(t)
		if err := h.Reconcile(); !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Errorf("got %v", err)
		}
		answers()
		h.Requests()
		// Pods are deleted meanwhile, and what is to be created does not wait for the breaker.
		h.Store(t, newNode("bad", taint("NoExecute")), newPod("x", "bad"))
		works := h.Refuse("delete pods", &controller.StoppedError{Resource: pods.Resource, Why: "too many"})
		h.CatchUp(t)
		err := h.Reconcile()
		if stopped, only := controller.StoppedIn(err); len(stopped) != 1 || only || !reconcile.IsExpected(err) {
			t.Errorf("got %v", err)
		}
		h.WantRequestsInAnyOrder(t, "delete pods")
		works()
		h.Clock.Step(reconcile.RecheckAfter)
		h.MustReconcile(t)
		h.WantRequestsInAnyOrder(t, "create pods", "delete pods", "update daemonsets/status")
	})
	t.Run("DS-29: in a namespace that is going away", func(t *testing.T) {
		h := newHarness(t, true, newSet(), newNode("n0"), newNode("n1"))
		going := apierrors.NewForbidden(pods.Resource, "", errors.New("going"))
		going.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: corev1.NamespaceTerminatingCause}}
		h.Refuse("create pods", going)
		h.reconcile(t)
		h.WantEvents(t)
		h.reconcile(t)
		h.WantRequestsInAnyOrder(t) // it holds still
	})
	t.Run("DS-29: deleting", func(t *testing.T) {
		h := newHarness(t, true, newSet(), newNode("n0", taint("NoExecute")), newPod("x", "n0"))
		h.Refuse("delete pods", &apierrors.StatusError{ErrStatus: metav1.Status{Code: http.StatusForbidden, Message: "boom"}})
		h.CatchUp(t)
		if err := h.Reconcile(); err == nil || err.Error() != "unable to delete pods: boom" {
			t.Errorf("got %v", err)
		}
		h.CatchUp(t)
		if err := h.Reconcile(); err == nil {
			t.Error("it is not tried again")
		}
	})
	t.Run("WL-112: deleting what is another pod by now", func(t *testing.T) {
		h := newHarness(t, true, newSet(), newNode("n0", taint("NoExecute")), newPod("x", "n0"))
		h.Refuse("delete pods", apierrors.NewConflict(pods.Resource, "x", errors.New("other UID")))
		for range 2 {
			h.CatchUp(t)
			if err := h.Reconcile(); !reconcile.IsExpected(err) {
				t.Errorf("got %v", err)
			}
			h.WantEvents(t)
		}
	})
	t.Run("DS-39: writing the status", func(t *testing.T) {
		h := newHarness(t, true, newSet())
		h.Refuse("update daemonsets/status", boom)
		h.CatchUp(t)
		if err := h.Reconcile(); err == nil || err.Error() != "error storing status for daemon set ns/agent: boom" {
			t.Errorf("got %v", err)
		}
		h.WantRequestsInAnyOrder(t, "create controllerrevisions", "get daemonsets", "update daemonsets/status", "update daemonsets/status")
	})
	t.Run("WL-102: somebody else writes the status twice", func(t *testing.T) {
		h := newHarness(t, true, newSet())
		h.Refuse("update daemonsets/status", apierrors.NewConflict(daemonSetResource, "agent", boom))
		h.CatchUp(t)
		if err := h.Reconcile(); !reconcile.IsExpected(err) || !apierrors.IsConflict(err) {
			t.Errorf("got %v", err)
		}
	})
	t.Run("WL-102: a quota that others update, and the status", func(t *testing.T) {
		h := newHarness(t, true, newSet(), newNode("n0"))
		h.Refuse("create pods", apierrors.NewConflict(corev1.Resource("resourcequotas"), "q", boom))
		works := h.Refuse("update daemonsets/status", boom)
		h.CatchUp(t)
		if err := h.Reconcile(); !errors.Is(err, boom) || reconcile.IsExpected(err) {
			t.Errorf("got %v", err)
		}
		works()
		h.CatchUp(t)
		if err := h.Reconcile(); !reconcile.IsExpected(err) || !apierrors.IsConflict(err) {
			t.Errorf("got %v", err)
		}
	})
	t.Run("WL-102: somebody else writes the revision", func(t *testing.T) {
		h := newHarness(t, true, newSet(), newNode("n0"), newRevision("bare", 1, payloadOf(t, newSet()), bare))
		h.Refuse("update controllerrevisions", apierrors.NewConflict(revisionResource, "bare", boom))
		h.CatchUp(t)
		const failed = "failed to construct revisions of DaemonSet: "
		if err := h.Reconcile(); !reconcile.IsExpected(err) || !strings.HasPrefix(err.Error(), failed) {
			t.Errorf("got %v", err)
		}
		h.WantRequests(t, "update controllerrevisions bare")
	})
	t.Run("creating the revision", func(t *testing.T) {
		h := newHarness(t, true, newSet(), newNode("n0"))
		h.Refuse("create controllerrevisions", boom)
		h.CatchUp(t)
		if err := h.Reconcile(); err == nil || err.Error() != "failed to construct revisions of DaemonSet: boom" {
			t.Errorf("got %v", err)
		}
		h.WantRequestsInAnyOrder(t, "create controllerrevisions")
	})
}

// Pins DS-39 and DS-60.
func TestStatusIsWrittenOnceAndCoalesced(t *testing.T) {
	h := newHarness(t, true, newSet(onDelete), newNode("n0"), newNode("n1"), newNode("n2"))
	h.settle(t)
	h.reconcile(t)
	h.WantRequestsInAnyOrder(t)
	lose := func(i int) {
		pod := h.pods(t)[i]
		unready(pod)
		h.Store(t, pod)
		h.reconcile(t)
	}
	lose(0)
	h.WantRequestsInAnyOrder(t, "update daemonsets/status")
	h.Queued.TakeDelay(key)
	lose(1)
	h.WantRequestsInAnyOrder(t)
	delay := h.Queued.TakeDelay(key)
	if delay <= 0 || delay > time.Second {
		t.Fatalf("it looks again in %v", delay)
	}
	h.Clock.Step(delay)
	h.reconcile(t)
	h.WantRequestsInAnyOrder(t, "update daemonsets/status")
	if s := h.set(t).Status; s.NumberReady != 1 {
		t.Errorf("the status is %+v", s)
	}
}

// Pins DS-40.
func TestAvailabilityIsNoticed(t *testing.T) {
	h := newHarness(t, true, newSet(minReady(30)), newNode("n0"))
	h.settle(t)
	if delay := h.Queued.TakeDelay(key); delay <= 0 || delay > 30*time.Second {
		t.Fatalf("it looks again in %v", delay)
	}
	if s := h.set(t).Status; s.NumberReady != 1 || s.NumberAvailable != 0 {
		t.Errorf("the status is %+v", s)
	}
	h.Clock.Step(30 * time.Second)
	h.reconcile(t)
	if s := h.set(t).Status; s.NumberAvailable != 1 {
		t.Errorf("the status is %+v", s)
	}
}

// Pins DS-25.
func TestAFailedPodIsLookedAtAgain(t *testing.T) {
	h := newHarness(t, true, newSet(onDelete), newNode("n0"), newPod("a", "n0", phase(corev1.PodFailed)))
	h.c.failures.backoff.Next("set/0/n0", h.Clock.Now())
	h.reconcile(t)
	if delay := h.Queued.TakeDelay(key); delay != time.Second {
		t.Errorf("it looks again in %v", delay)
	}
	if len(h.pods(t)) != 1 {
		t.Error("the pod did not stay")
	}
}
