package namespace

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/metadata"
	clienttesting "k8s.io/client-go/testing"

	"kcmd.dev/pkg/controller/concurrent"
	"kcmd.dev/pkg/controllers/kit/requests"
	"kcmd.dev/test/controllertest"
	"kcmd.dev/test/must"
)

func TestReconcileLeavesOtherNamespacesAlone(t *testing.T) {
	active := terminating(func(ns *corev1.Namespace) {
		ns.DeletionTimestamp, ns.Status.Phase = nil, corev1.NamespaceActive
	})
	finalized := terminating(func(ns *corev1.Namespace) {
		ns.Spec.Finalizers = nil
		ns.Finalizers = []string{"example.com/ignored"}
	})
	for name, tc := range map[string]struct {
		cached *corev1.Namespace
		want   []string
	}{
		"NS-22: not in the cache":  {nil, nil},
		"NS-23: not deleted":       {active, []string{"get"}},
		"NS-25: already finalized": {finalized, []string{"get"}},
	} {
		t.Run(name, func(t *testing.T) {
			var objects []runtime.Object
			if tc.cached != nil {
				objects = append(objects, tc.cached)
			}
			f := start(t, serving(pods, secrets), objects...)
			f.Fake.ClearActions()
			if err := f.reconcile(f.Context(), "ns"); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, f.written()); diff != "" {
				t.Errorf("requests (-want +got):\n%s", diff)
			}
			if got := f.store.requests(); len(got) != 0 {
				t.Errorf("content was touched: %v", got)
			}
		})
	}
}

func TestReconcileOfANamespaceThatIsGoneOrUnreadable(t *testing.T) {
	for name, tc := range map[string]struct {
		err   error
		retry bool
	}{
		"NS-23, NS-49: gone": {apierrors.NewNotFound(corev1.Resource("namespaces"), "ns"), false},
		"NS-23: unreadable":  {errors.New("outage"), true},
	} {
		t.Run(name, func(t *testing.T) {
			f := start(t, serving(pods), terminating())
			f.Fake.PrependReactor("get", "namespaces", func(clienttesting.Action) (bool, runtime.Object, error) { return true, nil, tc.err })
			if err := f.reconcile(f.Context(), "ns"); (err != nil) != tc.retry {
				t.Errorf("reconcile = %v, want retry %v", err, tc.retry)
			}
		})
	}
}

// Pins NS-13, NS-14, NS-15, NS-24, NS-30, NS-33 and NS-60.
func TestAnEmptyNamespaceGoesWithOneListPerType(t *testing.T) {
	f := start(t, serving(pods, secrets, deployments), terminating(func(ns *corev1.Namespace) {
		ns.Status.Phase = corev1.NamespaceActive
		ns.Spec.Finalizers = []corev1.FinalizerName{"z", "kubernetes", "a"}
	}))
	finalized := f.finalized()
	if err := f.reconcile(f.Context(), "ns"); err != nil {
		t.Fatal(err)
	}
	lists := 0
	for _, action := range f.Fake.Actions() {
		if action.GetVerb() == "list" && action.GetResource() == pods && action.GetNamespace() == "ns" {
			lists++
		}
	}
	if lists != 1 {
		t.Errorf("pods were listed %d times", lists)
	}
	f.WantEvents(t)
	if diff := cmp.Diff([]string{"get", "update status", "update status", "create finalize"}, f.written()); diff != "" {
		t.Errorf("requests (-want +got):\n%s", diff)
	}
	got := f.store.requests()
	slices.Sort(got)
	if diff := cmp.Diff([]string{"list deployments limit=1", "list secrets limit=1"}, got); diff != "" {
		t.Errorf("requests for content (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(finalizers{{"a", "z"}}, *finalized); diff != "" {
		t.Errorf("finalizers (-want +got):\n%s", diff)
	}
	if ns := f.live(t); ns.Status.Phase != corev1.NamespaceTerminating || len(ns.Status.Conditions) != 5 {
		t.Errorf("status = %+v", ns.Status)
	}
}

// A namespace may have been created and deleted again while the cache still shows the one before. Pins NS-76.
func TestANamespaceThatNoEventHasShownSettlesFirst(t *testing.T) {
	f := startSeeing(t, epoch, serving(pods, secrets), terminating())
	f.Fake.PrependReactor("get", "namespaces", func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, terminating(func(ns *corev1.Namespace) { ns.UID = "new" }), nil
	})
	swept := make(chan time.Duration, 1)
	f.store.onList = func(schema.GroupVersionResource, int64) {
		select {
		case swept <- f.Clock.Since(epoch):
		default:
		}
	}
	f.Env.Run(t, f.namespaceController)
	f.EventuallyAsTimePasses(t, "it is swept", time.Second, func() bool { return len(swept) == 1 })
	if after := <-swept; after < 2*settleTime {
		t.Errorf("it is swept after %v", after)
	}
}

// The key may have been queued for a namespace that had the name before, or for the end of its last pod. Pins NS-78.
func TestANamespaceSettlesWhateverHasQueuedItEarlier(t *testing.T) {
	f := startSeeing(t, epoch, serving(pods, secrets), terminating())
	f.store.put(secrets, "s")
	finalized, queue := f.finalized(), &controllertest.Queue[string]{}
	f.queue = queue
	f.Env.Clock.Step(settleTime - time.Second)
	must.Succeed(t, f.reconcile(f.Context(), "ns"))
	if requests := f.store.requests(); len(requests) > 0 || len(*finalized) > 0 {
		t.Errorf("after %v it is swept: %q, finalized %v", settleTime-time.Second, requests, *finalized)
	}
	if delay := queue.TakeDelay("ns"); delay != time.Second {
		t.Errorf("it is reconciled again in %v", delay)
	}
	f.Env.Clock.Step(time.Second)
	must.Succeed(t, f.reconcile(f.Context(), "ns"))
	if len(f.store.items[secrets]) > 0 || len(*finalized) != 1 {
		t.Errorf("after %v it is finalized %v", settleTime, *finalized)
	}
}

// Pins NS-32 and NS-64.
func TestForeignFinalizersAloneAreSweptButNotWritten(t *testing.T) {
	f := start(t, serving(pods, secrets), terminating(func(ns *corev1.Namespace) {
		ns.Spec.Finalizers = []corev1.FinalizerName{"example.com/hold"}
	}))
	f.store.put(secrets, "s")
	if err := f.reconcile(f.Context(), "ns"); err != nil {
		t.Fatal(err)
	}
	if slices.Contains(f.written(), "create finalize") {
		t.Error("a finalize that changes nothing was sent")
	}
	if len(f.store.items[secrets]) != 0 {
		t.Error("the content was not swept")
	}
}

func TestNothingIsDeletedOnceTheNamespaceIsAnotherOne(t *testing.T) {
	another := func(ns *corev1.Namespace) { ns.UID = "another" }
	lives := func(ns *corev1.Namespace) { ns.DeletionTimestamp = nil }
	for name, tc := range map[string]struct {
		latest *corev1.Namespace
		err    error
		want   string
	}{
		"NS-48, NS-70: recreated":              {terminating(another, lives), nil, errRecreated.Error()},
		"NS-48, NS-70: recreated, and deleted": {terminating(another), nil, errRecreated.Error()},
		"NS-70: restored":                      {terminating(lives), nil, errRestored.Error()},
		"NS-70: gone":                          {nil, apierrors.NewNotFound(corev1.Resource("namespaces"), "ns"), "namespace ns is gone"},
		"NS-70: unreadable":                    {nil, errors.New("outage"), "reading namespace ns: outage"},
	} {
		// The namespace changes with the last list before a deletion.
		for how, last := range map[string]struct {
			verbs metav1.Verbs
			limit int64
		}{
			"together":   {allVerbs, 1},
			"one by one": {metav1.Verbs{"delete", "list"}, 0},
		} {
			t.Run(name+", "+how, func(t *testing.T) {
				s := &server{}
				s.add(widgets, last.verbs...)
				f := start(t, s, terminating())
				finalized := f.finalized()
				f.store.put(widgets, "w")
				changed := false
				f.store.onList = func(_ schema.GroupVersionResource, limit int64) {
					changed = changed || (limit == 1) == (last.limit == 1)
				}
				f.Fake.PrependReactor("get", "namespaces", func(clienttesting.Action) (bool, runtime.Object, error) {
					return changed, tc.latest, tc.err
				})
				if err := f.reconcile(f.Context(), "ns"); textOf(err) != tc.want {
					t.Errorf("reconcile = %v, want %q", err, tc.want)
				}
				if len(f.store.deletes) != 0 || len(*finalized) != 0 {
					t.Errorf("requests are %v, finalized %v", f.store.requests(), *finalized)
				}
			})
		}
	}
}

// Pins NS-26 and NS-52.
func TestErrorsWinOverTheEstimate(t *testing.T) {
	f := start(t, serving(pods, secrets, widgets), terminating())
	f.store.put(widgets, "w", "example.com/hold")
	f.store.put(secrets, "s")
	f.store.refused["deletecollection secrets"] = errors.New("boom")
	if err := f.reconcile(f.Context(), "ns"); textOf(err) != "boom" {
		t.Errorf("reconcile = %v, want the error", err)
	}
	got := f.live(t).Status.Conditions
	for i, want := range map[int]string{
		3: "Some resources are remaining: widgets.example.com has 1 resource instances",
		4: "Some content in the namespace has finalizers remaining: example.com/hold in 1 resource instances",
	} {
		if got[i].Message != want {
			t.Errorf("message = %q, want %q", got[i].Message, want)
		}
	}
}

// Pins NS-21.
func TestContentThatRemainsIsNoSuccess(t *testing.T) {
	f := start(t, serving(pods, widgets), terminating())
	f.store.put(widgets, "w", "example.com/hold")
	f.backoff.When("ns")
	if err := f.reconcile(f.Context(), "ns"); err != nil {
		t.Fatal(err)
	}
	f.backoff.Forget("ns") // as the loop does after a reconcile without an error
	if got := f.backoff.NumRequeues("ns"); got != 1 {
		t.Errorf("failures = %d, want the earlier one remembered", got)
	}
	f.store.clear(widgets)
	f.finalized()
	if err := f.reconcile(f.Context(), "ns"); err != nil {
		t.Fatal(err)
	}
	f.backoff.Forget("ns")
	if got := f.backoff.NumRequeues("ns"); got != 0 {
		t.Errorf("failures = %d after a success, want 0", got)
	}
}

func TestAPanicOfOneTypeIsAPanicOfTheReconcile(t *testing.T) {
	f := start(t, serving(secrets, widgets), terminating())
	f.namespaceController.Metadata = panicking{}
	defer func() {
		var panicked *concurrent.PanicError
		if err, ok := recover().(error); !ok || !errors.As(err, &panicked) || panicked.Value != "boom" {
			t.Errorf("recovered %v, want the panic", err)
		}
	}()
	_ = f.reconcile(f.Context(), "ns")
	t.Error("the panic was swallowed")
}

type panicking struct{ metadata.Interface }

func (panicking) Resource(schema.GroupVersionResource) metadata.Getter { panic("boom") }

func BenchmarkReconcile(b *testing.B) {
	for _, namespaces := range []int{10, 10_000} {
		b.Run(fmt.Sprintf("namespaces=%d", namespaces), func(b *testing.B) {
			objects := []runtime.Object{terminating()}
			for i := range namespaces {
				objects = append(objects, terminating(func(ns *corev1.Namespace) {
					ns.Name, ns.DeletionTimestamp = fmt.Sprintf("ns-%d", i), nil
				}))
			}
			f := start(b, serving(pods, secrets, configMaps, deployments, widgets), objects...)
			f.finalized()
			f.Clock.Step(settleTime)
			b.ReportAllocs()
			for b.Loop() {
				if err := f.reconcile(f.Context(), "ns"); err != nil {
					b.Fatal(err)
				}
				f.Fake.ClearActions()
			}
		})
	}
}

// The API server may execute a request that had no answer when the next namespace of that name has content, also if a
// list lacks this one meanwhile. Pins NS-77.
func TestANamespaceIsNotFinalizedWhileADeletionMayComeLate(t *testing.T) {
	for name, tc := range map[string]struct {
		answer error
		waits  bool
	}{
		"no answer": {apierrors.NewTimeoutError("late", 0), true},
		"refused":   {apierrors.NewForbidden(widgets.GroupResource(), "", errors.New("no")), false},
		"a webhook": {apierrors.NewInternalError(errors.New("failed calling webhook")), false},
	} {
		t.Run(name, func(t *testing.T) {
			f := start(t, serving(pods, widgets), terminating())
			finalized, queue := f.finalized(), &controllertest.Queue[string]{}
			f.queue = queue
			f.store.put(widgets, "w")
			f.store.refused["deletecollection widgets"] = tc.answer
			if err := f.reconcile(f.Context(), "ns"); err == nil {
				t.Fatal("reconcile hides the error")
			}
			f.store.clear(widgets)
			f.memory.forget("ns")
			f.memory.observe(terminating(), f.Clock.Now())
			f.Env.Succession.Leave(f.HandOver())
			f.late = newLateDeletions()
			must.Succeed(t, f.begin(f.Context()))
			f.Env.Clock.Step(requests.LateWithin - 1)
			must.Succeed(t, f.reconcile(f.Context(), "ns"))
			// The event of its status may queue it as well.
			if queued := queue.Take(); (len(*finalized) == 0) != tc.waits || slices.Contains(queued, "ns in 1ns") != tc.waits {
				t.Errorf("it is finalized %d times, and queued: %q", len(*finalized), queued)
			}
			f.Env.Clock.Step(1)
			must.Succeed(t, f.reconcile(f.Context(), "ns"))
			if len(*finalized) == 0 {
				t.Error("it is never finalized")
			}
		})
	}
}
