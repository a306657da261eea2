package daemonset

import (
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	validation "k8s.io/apimachinery/pkg/util/validation/field"
	ktesting "k8s.io/client-go/testing"
	"k8s.io/utils/ptr"

	"kcmd.dev/pkg/controllers/kit/reconcile"
	"kcmd.dev/pkg/controllers/kit/workloads/history"
	"kcmd.dev/pkg/controllers/kit/workloads/podtemplate"
	"kcmd.dev/test/controllertest"
)

func payloadOf(t *testing.T, ds *appsv1.DaemonSet) string {
	t.Helper()
	payload, err := history.Payload(&ds.Spec.Template)
	if err != nil {
		t.Fatal(err)
	}
	return string(payload)
}

func hashLabel(r *appsv1.ControllerRevision) string {
	return r.Labels[appsv1.DefaultDaemonSetUniqueLabelKey]
}

func numbers(all []*appsv1.ControllerRevision) []int64 {
	var out []int64
	for _, r := range all {
		out = append(out, r.Revision)
	}
	return out
}

// Pins DS-36.
func TestARollbackTakesTheOldRevisionUpAgain(t *testing.T) {
	h := newHarness(t, true, newSet(), newNode("n0"))
	h.settle(t)
	first := h.revisions(t)[0]
	h.change(t, image("agent:2"))
	h.settle(t)
	h.change(t, image("agent:1"))
	h.settle(t)
	all := h.revisions(t)
	if !slices.Equal(numbers(all), []int64{2, 3}) || all[1].Name != first.Name {
		t.Errorf("revisions are %v %v", numbers(all), revisionNames(all))
	}
	if pod := h.pods(t)[0]; pod.Labels[appsv1.DefaultDaemonSetUniqueLabelKey] != hashLabel(first) {
		t.Errorf("the pod has labels %v", pod.Labels)
	}
}

// TestARevisionThatTheCacheDoesNotShowIsWaitedFor, since the next one would get the number of the one that the cache
// does not show. Pins DS-64.
func TestARevisionThatTheCacheDoesNotShowIsWaitedFor(t *testing.T) {
	h := newHarness(t, true, newSet(), newNode("n0"))
	h.reconcile(t)
	all := h.Kinds
	h.Kinds = []runtime.Object{&appsv1.DaemonSet{}, &corev1.Pod{}, &corev1.Node{}}
	h.change(t, image("agent:2"))
	h.CatchUp(t)
	h.Fake.ClearActions()
	if err := h.Reconcile(); !reconcile.IsExpected(err) {
		t.Errorf("got %v, want another attempt", err)
	}
	if requests := h.Requests(); len(requests) > 0 {
		t.Errorf("requests are %v", requests)
	}
	h.Kinds = all
	h.settle(t)
	if revisions := h.revisions(t); !slices.Equal(numbers(revisions), []int64{1, 2}) {
		t.Errorf("revisions are %v", numbers(revisions))
	}
}

// Pins DS-37.
func TestHistoryIsPruned(t *testing.T) {
	limit := func(ds *appsv1.DaemonSet) { ds.Spec.RevisionHistoryLimit = ptr.To[int32](1) }
	h := newHarness(t, true, newSet(limit), newNode("n0"))
	for _, name := range []string{"agent:2", "agent:3", "agent:4"} {
		h.settle(t)
		h.change(t, image(name))
	}
	h.settle(t)
	if all := h.revisions(t); !slices.Equal(numbers(all), []int64{3, 4}) {
		t.Errorf("revisions are %v", numbers(all))
	}
}

// It is protected by an admission webhook. Pins WL-124.
func TestARevisionThatIsNotPrunedKeepsNoOther(t *testing.T) {
	limit := func(ds *appsv1.DaemonSet) { ds.Spec.RevisionHistoryLimit = ptr.To[int32](0) }
	h := newHarness(t, true, newSet(limit), newRevision("x", 1, `"x"`), newRevision("y", 2, `"y"`))
	no := errors.New("no")
	h.Refuse("delete controllerrevisions x", no)
	h.CatchUp(t)
	if err := h.Reconcile(); !errors.Is(err, no) {
		t.Errorf("got %v", err)
	}
	if left := revisionNames(h.revisions(t)); slices.Contains(left, "y") {
		t.Errorf("left are %v", left)
	}
}

// Pins DS-35.
func TestDuplicatesAreMerged(t *testing.T) {
	ds := newSet(onDelete)
	payload := payloadOf(t, ds)
	h := newHarness(t, true, ds, newNode("n0"), newNode("n1"),
		newRevision("new", 1, payload), newRevision("copy", 2, payload),
		newPod("a", "n0"), newPod("b", "n1", hash("copy")))
	h.reconcile(t)
	h.WantRequestsInAnyOrder(t, "delete controllerrevisions", "patch pods", "update daemonsets/status")
	if all := revisionNames(h.revisions(t)); !slices.Equal(all, []string{"copy"}) {
		t.Errorf("revisions are %v", all)
	}
	for _, pod := range h.pods(t) {
		if got := pod.Labels[appsv1.DefaultDaemonSetUniqueLabelKey]; got != "copy" || pod.Labels["app"] != "agent" {
			t.Errorf("%s has labels %v", pod.Name, pod.Labels)
		}
	}
	// The new label counts at once.
	if s := h.set(t).Status; s.UpdatedNumberScheduled != 2 {
		t.Errorf("the status is %+v", s)
	}
}

// In the middle of a rollout, pods of another template must not pass for updated ones. Pins DS-67.
func TestPodsOfOtherTemplatesAreNotRelabelled(t *testing.T) {
	ds := newSet(onDelete)
	payload := payloadOf(t, ds)
	h := newHarness(t, true, ds, newNode("n0"), newNode("n1"), newNode("n2"),
		newRevision("old", 1, `{"old":1}`), newRevision("new", 2, payload), newRevision("copy", 3, payload),
		newPod("a", "n0"), newPod("b", "n1", old), newPod("c", "n2", hash("")))
	h.reconcile(t)
	h.WantRequests(t, "patch pods a", "delete controllerrevisions new", "update daemonsets/status")
	if s := h.set(t).Status; s.UpdatedNumberScheduled != 1 {
		t.Errorf("the status is %+v", s)
	}
}

// A pod of the name may be another one than the cache shows. Pins DS-65.
func TestPodsAreRelabelledByUID(t *testing.T) {
	ds := newSet(onDelete)
	payload := payloadOf(t, ds)
	h := newHarness(t, true, ds, newNode("n0"), newRevision("new", 1, payload), newRevision("copy", 2, payload), newPod("a", "n0"))
	h.CatchUp(t)
	var sent struct{ Metadata metav1.ObjectMeta }
	h.Intercept("patch pods", func(action ktesting.Action) error {
		return json.Unmarshal(action.(ktesting.PatchAction).GetPatch(), &sent)
	})
	h.MustReconcile(t)
	want := metav1.ObjectMeta{UID: newPod("a", "n0").UID, Labels: map[string]string{appsv1.DefaultDaemonSetUniqueLabelKey: "copy"}}
	if diff := cmp.Diff(want, sent.Metadata); diff != "" || want.UID == "" {
		t.Error(diff)
	}
}

// Pins DS-33.
func TestRevisionsAreAdoptedAndLabelled(t *testing.T) {
	ds := newSet()
	bare := newRevision("bare", 1, payloadOf(t, ds), func(r *appsv1.ControllerRevision) {
		r.OwnerReferences, r.Labels = nil, map[string]string{"app": "agent"}
	})
	foreign := newRevision("foreign", 5, "{}", func(r *appsv1.ControllerRevision) { r.OwnerReferences, r.Labels = nil, nil })
	h := newHarness(t, true, ds, bare, foreign)
	h.CatchUp(t)
	// The fake API server refuses the stale version that an update after the patch has not.
	if err := h.Reconcile(); err != nil {
		t.Fatal(err)
	}
	h.WantRequestsInAnyOrder(t, "get daemonsets", "patch controllerrevisions", "update controllerrevisions", "update daemonsets/status")
	for _, r := range h.revisions(t) {
		if r.Name == "bare" && hashLabel(r) != "bare" {
			t.Errorf("labels are %v", r.Labels)
		}
		if r.Name == "foreign" && (r.OwnerReferences != nil || r.Labels != nil) {
			t.Errorf("%s was touched: %+v", r.Name, r.ObjectMeta)
		}
	}
}

// TestAnotherEncodingKeepsPods is what happens when the encoding of a template changes, as
// it did from 1.33 to 1.34: the old revision does not match, its name is taken, and a new
// one is made; but pods stay, because they are of the same template generation.
// Pins DS-45.
func TestAnotherEncodingKeepsPods(t *testing.T) {
	ds := newSet(templateGenerationOf("1"))
	name := podtemplate.Hash(&ds.Spec.Template, nil)
	stored := newRevision("agent-"+name, 1, `{"spec":{"template":{"metadata":{"creationTimestamp":null}}}}`,
		func(r *appsv1.ControllerRevision) { r.Labels[appsv1.DefaultDaemonSetUniqueLabelKey] = name })
	h := newHarness(t, true, ds, newNode("n0"), stored, newPod("a", "n0", hash(name), generation("1")))
	h.CatchUp(t)
	if err := h.Reconcile(); !apierrors.IsAlreadyExists(err) {
		t.Fatalf("got %v", err)
	}
	h.WantRequestsInAnyOrder(t, "create controllerrevisions", "get controllerrevisions", "get daemonsets", "update daemonsets/status")
	h.settle(t)
	if all := h.revisions(t); !slices.Equal(numbers(all), []int64{1, 2}) || hashLabel(all[1]) != podtemplate.Hash(&ds.Spec.Template, ptr.To[int32](1)) {
		t.Errorf("revisions are %v %v", numbers(all), revisionNames(all))
	}
	if all := controllertest.Names(h.pods(t)); !slices.Equal(all, []string{"a"}) {
		t.Errorf("pods are %v", all)
	}
	s := h.set(t).Status
	if s.UpdatedNumberScheduled != 1 || s.CollisionCount == nil || *s.CollisionCount != 1 {
		t.Errorf("the status is %+v", s)
	}
}

// Pins DS-34.
func TestANameThatIsTaken(t *testing.T) {
	ds := newSet()
	name := "agent-" + podtemplate.Hash(&ds.Spec.Template, nil)
	t.Run("by the same payload", func(t *testing.T) {
		h := newHarness(t, true, ds.DeepCopy(), newNode("n0"))
		h.CatchUp(t)
		h.Store(t, newRevision(name, 1, payloadOf(t, ds), func(r *appsv1.ControllerRevision) { r.Labels = nil }))
		if err := h.Reconcile(); err != nil {
			t.Fatal(err)
		}
		h.WantRequestsInAnyOrder(t, "create controllerrevisions", "create pods", "get controllerrevisions", "update controllerrevisions", "update daemonsets/status")
		if pod := h.pods(t)[0]; pod.Labels[appsv1.DefaultDaemonSetUniqueLabelKey] != name {
			t.Errorf("the pod has labels %v", pod.Labels)
		}
	})
	t.Run("and counted already", func(t *testing.T) {
		h := newHarness(t, true, ds.DeepCopy(), newNode("n0"))
		h.CatchUp(t)
		h.Store(t, newRevision(name, 1, "{}"))
		live := h.set(t)
		live.Status.CollisionCount = ptr.To[int32](1)
		h.Store(t, live)
		if err := h.Reconcile(); !reconcile.IsExpected(err) {
			t.Fatalf("got %v", err)
		}
		h.WantRequestsInAnyOrder(t, "create controllerrevisions", "get controllerrevisions", "get daemonsets")
	})
	t.Run("WL-102: the name is taken, and somebody else changes the set", func(t *testing.T) {
		h := newHarness(t, true, ds.DeepCopy(), newNode("n0"))
		h.CatchUp(t)
		h.Store(t, newRevision(name, 1, "{}"))
		h.Refuse("update daemonsets/status", apierrors.NewConflict(daemonSetResource, "agent", errors.New("old")))
		if err := h.Reconcile(); !reconcile.IsExpected(err) || !apierrors.IsConflict(err) {
			t.Fatalf("got %v", err)
		}
	})
	t.Run("and the set was recreated", func(t *testing.T) {
		h := newHarness(t, true, ds.DeepCopy(), newNode("n0"))
		h.CatchUp(t)
		h.Store(t, newRevision(name, 1, "{}"))
		live := h.set(t)
		live.UID = "other"
		h.Store(t, live)
		if err := h.Reconcile(); !reconcile.IsExpected(err) {
			t.Fatalf("got %v", err)
		}
	})
}

// A set was deleted and created again, and its revision, which is deleted with the former set, is still there. That is
// no event of the new one. Pins DS-71.
func TestTheRevisionOfAFormerSetIsReplaced(t *testing.T) {
	ds := newSet()
	name := "agent-" + podtemplate.Hash(&ds.Spec.Template, nil)
	former := newRevision(name, 1, payloadOf(t, ds), func(r *appsv1.ControllerRevision) { r.OwnerReferences[0].UID = "former" })
	h := newHarness(t, true, ds, former)
	h.reconcile(t)
	h.Queued.Want(t, "agent in 10s")
	h.Remove(t, former)
	h.reconcile(t)
	h.Queued.Want(t)
	if all := h.revisions(t); len(all) != 1 || !metav1.IsControlledBy(all[0], ds) {
		t.Errorf("the revisions are %v", all)
	}
}

// Pins DS-16, DS-69 and WL-117.
func TestHistoryFailures(t *testing.T) {
	boom := errors.New("boom")
	ds := newSet(onDelete)
	payload := payloadOf(t, ds)
	h := newHarness(t, true, ds, newNode("n0"), newRevision("new", 1, payload), newRevision("copy", 2, payload), newPod("a", "n0"))
	h.Refuse("patch pods", boom)
	h.CatchUp(t)
	if err := h.Reconcile(); !errors.Is(err, boom) {
		t.Errorf("got %v", err)
	}
	// A duplicate that pods are labelled with is not deleted.
	h.WantRequestsInAnyOrder(t, "patch pods")

	// The answer of a proxy does not mean that the pod is gone either.
	ofAProxy := apierrors.NewGenericServerResponse(
		http.StatusNotFound, "patch", corev1.Resource("pods"), "a", "404 page not found", 0, true)
	h.Refuse("patch pods", ofAProxy)
	if err := h.Reconcile(); !errors.Is(err, ofAProxy) {
		t.Errorf("got %v", err)
	}
	h.WantRequestsInAnyOrder(t, "patch pods")

	// By now another pod has the name, which the cache will show.
	namesake := apierrors.NewInvalid(corev1.SchemeGroupVersion.WithKind("Pod").GroupKind(), "a",
		validation.ErrorList{validation.Invalid(validation.NewPath("metadata", "uid"), "b", "field is immutable")})
	h.Refuse("patch pods", namesake)
	if err := h.Reconcile(); !reconcile.IsExpected(err) {
		t.Errorf("got %v", err)
	}
	h.WantRequestsInAnyOrder(t, "patch pods")

	invalid := apierrors.NewInvalid(corev1.SchemeGroupVersion.WithKind("Pod").GroupKind(), "a",
		validation.ErrorList{validation.Invalid(validation.NewPath("metadata", "labels"), "b", "too long")})
	h.Refuse("patch pods", invalid)
	if err := h.Reconcile(); err == nil || reconcile.IsExpected(err) {
		t.Errorf("got %v", err)
	}
	h.WantRequestsInAnyOrder(t, "patch pods")

	gone := apierrors.NewNotFound(appsv1.Resource("pods"), "a")
	h.Refuse("patch pods", gone)
	h.reconcile(t)
	if all := revisionNames(h.revisions(t)); !slices.Equal(all, []string{"copy"}) {
		t.Errorf("revisions are %v", all)
	}
}

// Pins WL-126.
func TestTheRevisionOfASetWithALongNameHasAValidName(t *testing.T) {
	h := newHarness(t, true, newSet(func(ds *appsv1.DaemonSet) { ds.Name = strings.Repeat("x", 253) }), newNode("n0"))
	h.CatchUp(t)
	if err := h.Work(h.Context(), types.NamespacedName{Namespace: namespace, Name: strings.Repeat("x", 253)}); err != nil {
		t.Fatal(err)
	}
	for _, revision := range h.revisions(t) {
		if problems := apivalidation.NameIsDNSSubdomain(revision.Name, false); len(problems) > 0 {
			t.Errorf("the revision is called %s: %q", revision.Name, problems)
		}
	}
}
