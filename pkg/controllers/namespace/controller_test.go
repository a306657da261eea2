package namespace

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/metadata"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/ptr"

	"kcmd.dev/pkg/config/v1beta1"
	"kcmd.dev/pkg/controller"
	"kcmd.dev/pkg/controller/concurrent"
	"kcmd.dev/pkg/controllers/kit/reconcile"
	"kcmd.dev/test/await"
	"kcmd.dev/test/controllertest"
)

type finalizers = [][]corev1.FinalizerName

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
	f := start(t, serving(pods, secrets), terminating())
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

// Pins NS-16, NS-29b, NS-29c, NS-47 and NS-71.
func TestContentIsDeletedInTheBackground(t *testing.T) {
	s := serving(pods, secrets)
	s.add(configMaps, "delete", "list")
	f := start(t, s, terminating())
	f.finalized()
	f.store.put(secrets, "s")
	f.store.put(configMaps, "a")
	f.store.put(configMaps, "b")
	if err := f.reconcile(f.Context(), "ns"); err != nil {
		t.Fatal(err)
	}
	of := func(resource string) []string {
		return slices.DeleteFunc(slices.Clone(f.store.log), func(r string) bool { return !strings.Contains(r, " "+resource) })
	}
	if diff := cmp.Diff([]string{"list secrets limit=1", "deletecollection secrets", "list secrets"}, of("secrets")); diff != "" {
		t.Errorf("deleted together (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"list configmaps limit=1", "list configmaps", "delete configmaps a", "delete configmaps b", "list configmaps"}, of("configmaps")); diff != "" {
		t.Errorf("deleted one by one (-want +got):\n%s", diff)
	}
	background := metav1.DeletePropagationBackground
	want := []metav1.DeleteOptions{
		{PropagationPolicy: &background},
		{PropagationPolicy: &background, Preconditions: metav1.NewUIDPreconditions("a")},
		{PropagationPolicy: &background, Preconditions: metav1.NewUIDPreconditions("b")},
	}
	uidOf := func(o metav1.DeleteOptions) types.UID {
		if o.Preconditions == nil {
			return ""
		}
		return ptr.Deref(o.Preconditions.UID, "")
	}
	slices.SortFunc(f.store.deletes, func(a, b metav1.DeleteOptions) int { return strings.Compare(string(uidOf(a)), string(uidOf(b))) })
	if diff := cmp.Diff(want, f.store.deletes); diff != "" {
		t.Errorf("delete options (-want +got):\n%s", diff)
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

func TestTypesThatServeLessThanTheySay(t *testing.T) {
	for name, tc := range map[string]struct {
		refused map[string]error
		verbs   metav1.Verbs
		want    []string
		err     string
	}{
		"NS-29b: collection cannot be deleted": {
			map[string]error{"deletecollection widgets": methodNotSupported(widgets, "deletecollection")}, allVerbs,
			[]string{"list widgets limit=1", "deletecollection widgets", "list widgets", "delete widgets w", "list widgets"}, ""},
		"NS-29b, NS-44: collection is not found": {
			map[string]error{"deletecollection widgets": notFound(widgets)}, allVerbs,
			[]string{"list widgets limit=1", "deletecollection widgets", "list widgets", "delete widgets w", "list widgets"}, ""},
		"NS-29c: nothing but single deletes": {
			nil, metav1.Verbs{"delete"}, nil, ""},
		"NS-29d, NS-44: list is not found either": {
			map[string]error{"deletecollection widgets": notFound(widgets), "list widgets": notFound(widgets)}, allVerbs,
			[]string{"list widgets limit=1", "deletecollection widgets", "list widgets", "list widgets"}, ""},
		"NS-62: list is not supported, delete is": {
			nil, metav1.Verbs{"delete", "deletecollection"}, []string{"deletecollection widgets"}, ""},
		"NS-29c, NS-29e: delete of an item is not supported": {
			map[string]error{"deletecollection widgets": notFound(widgets), "delete widgets": methodNotSupported(widgets, "delete")}, allVerbs,
			[]string{"list widgets limit=1", "deletecollection widgets", "list widgets", "delete widgets w", "list widgets"},
			"unexpected items still remain in namespace: ns for gvr: example.com/v1, Resource=widgets"},
		"NS-29c: delete of an item fails": {
			map[string]error{"deletecollection widgets": notFound(widgets), "delete widgets": errors.New("boom")}, allVerbs,
			[]string{"list widgets limit=1", "deletecollection widgets", "list widgets", "delete widgets w"}, "boom"},
		"NS-29b: delete of the collection fails": {
			map[string]error{"deletecollection widgets": errors.New("boom")}, allVerbs,
			[]string{"list widgets limit=1", "deletecollection widgets"}, "boom"},
		"NS-29d: list fails, delete does not": {
			map[string]error{"list widgets": errors.New("boom")}, allVerbs,
			[]string{"list widgets limit=1", "deletecollection widgets", "list widgets"}, "boom"},
	} {
		t.Run(name, func(t *testing.T) {
			s := &server{}
			s.add(widgets, tc.verbs...)
			f := start(t, s, terminating())
			finalized := f.finalized()
			f.store.put(widgets, "w")
			for request, err := range tc.refused {
				f.store.refused[request] = err
			}
			err := f.reconcile(f.Context(), "ns")
			if textOf(err) != tc.err {
				t.Errorf("reconcile = %v, want %q", err, tc.err)
			}
			if diff := cmp.Diff(tc.want, f.store.requests()); diff != "" {
				t.Errorf("requests (-want +got):\n%s", diff)
			}
			if done := len(*finalized) == 1; done != (tc.err == "") {
				t.Errorf("finalized = %v after %v", done, err)
			}
			status := metav1.ConditionStatus("False")
			if tc.err != "" {
				status = "True"
			}
			if got := conditionsOf(f.live(t)); !slices.Contains(got, "NamespaceDeletionContentFailure="+string(status)) {
				t.Errorf("conditions = %v, want content failure %s", got, status)
			}
		})
	}
}

// Of several servers one may not serve the type: its items are still there.
func TestATypeThatWasShownIsNotCleanBecauseItIsNoLongerFound(t *testing.T) {
	for name, tc := range map[string]struct {
		lists      []error // the answers in order; the last one is repeated
		together   error   // the answer to the deletion of the collection
		emptyFirst bool    // lists begin with an empty page
	}{
		"NS-75: not found":                        {lists: []error{nil, notFound(widgets)}},
		"NS-75: not supported":                    {lists: []error{nil, methodNotSupported(widgets, "list")}},
		"NS-75: not found, then shown, and so on": {lists: []error{notFound(widgets), nil, notFound(widgets)}, together: notFound(widgets)},
		"NS-75: not found after an empty page":    {lists: []error{nil, notFound(widgets)}, together: notFound(widgets), emptyFirst: true},
		"NS-75: only the collection is found":     {lists: []error{notFound(widgets)}},
	} {
		t.Run(name, func(t *testing.T) {
			f := start(t, serving(pods, widgets), terminating())
			finalized := f.finalized()
			f.store.put(widgets, "w", "example.com/hold")
			f.store.emptyFirst[widgets] = tc.emptyFirst
			f.store.refused["deletecollection widgets"] = tc.together
			left := tc.lists
			f.store.onList = func(schema.GroupVersionResource, int64) {
				f.store.refused["list widgets"], left = left[0], left[min(1, len(left)-1):]
			}
			want := tc.lists[len(tc.lists)-1]
			if err := f.reconcile(f.Context(), "ns"); !errors.Is(err, want) || len(*finalized) != 0 {
				t.Fatalf("reconcile = %v, finalized %v, want %v", err, *finalized, want)
			}
			f.store.refused["deletecollection widgets"] = notFound(widgets)
			if err := f.reconcile(f.Context(), "ns"); err != nil || len(*finalized) != 1 {
				t.Errorf("while the type is not served at all: reconcile = %v, finalized %v", err, *finalized)
			}
		})
	}
}

// Pins NS-60.
func TestAnEmptyPageIsNotTakenForAnEmptyType(t *testing.T) {
	f := start(t, serving(pods, widgets), terminating())
	finalized := f.finalized()
	f.store.emptyFirst[widgets] = true
	f.store.put(widgets, "w", "example.com/hold")
	if err := f.reconcile(f.Context(), "ns"); err != nil {
		t.Fatal(err)
	}
	if len(*finalized) != 0 {
		t.Fatal("R8d: finalized with content left")
	}
	for _, c := range f.live(t).Status.Conditions {
		if want := "Some resources are remaining: widgets.example.com has 1 resource instances"; c.Type == corev1.NamespaceContentRemaining && c.Message != want {
			t.Errorf("message = %q, want %q", c.Message, want)
		}
	}
	f.store.clear(widgets)
	if err := f.reconcile(f.Context(), "ns"); err != nil {
		t.Fatal(err)
	}
	if len(*finalized) != 1 {
		t.Error("not finalized")
	}
}

// Pins NS-28d.
func TestAnErrorOfOneTypeDoesNotKeepTheOthers(t *testing.T) {
	f := start(t, serving(pods, secrets, widgets, deployments), terminating())
	finalized := f.finalized()
	f.store.put(secrets, "s")
	f.store.put(deployments, "d")
	f.store.refused["deletecollection widgets"] = errors.New("boom")
	f.store.put(widgets, "w")
	if err := f.reconcile(f.Context(), "ns"); err == nil {
		t.Fatal("reconcile hides the error")
	}
	if len(f.store.items[secrets])+len(f.store.items[deployments]) != 0 {
		t.Errorf("items left: %v", f.store.items)
	}
	if len(*finalized) != 0 {
		t.Error("finalized with content left")
	}
}

// Pins NS-28, NS-28a and NS-41.
func TestPodsGoFirst(t *testing.T) {
	grace := int64(30)
	running := pod(corev1.PodRunning, &grace)
	f := start(t, serving(pods, secrets), terminating(), running)
	f.store.put(secrets, "s")
	f.store.put(pods, "pod", "example.com/hold")
	finalized := f.finalized()

	if err := f.reconcile(f.Context(), "ns"); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"deletecollection pods", "list pods"}, f.store.requests()); diff != "" {
		t.Errorf("requests while pods run (-want +got):\n%s", diff)
	}
	want := []string{
		"NamespaceDeletionDiscoveryFailure=False", "NamespaceDeletionGroupVersionParsingFailure=False",
		"NamespaceDeletionContentFailure=False", "NamespaceContentRemaining=False", "NamespaceFinalizersRemaining=False",
	}
	if diff := cmp.Diff(want, conditionsOf(f.live(t))); diff != "" {
		t.Errorf("conditions while pods run (-want +got):\n%s", diff)
	}

	// The grace period is over, but a finalizer holds the pod.
	f.Clock.Step(30 * time.Second)
	if err := f.reconcile(f.Context(), "ns"); err != nil {
		t.Fatal(err)
	}
	if len(f.store.items[secrets]) != 1 || len(*finalized) != 0 {
		t.Fatal("other content was touched while a pod exists")
	}

	f.store.clear(pods)
	if err := f.Fake.CoreV1().Pods("ns").Delete(f.Context(), "pod", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := f.reconcile(f.Context(), "ns"); err != nil {
		t.Fatal(err)
	}
	if len(f.store.items[secrets]) != 0 || len(*finalized) != 1 {
		t.Errorf("items left %v, finalized %v", f.store.items, *finalized)
	}
}

// Other types wait for pods that are there, not for an answer about pods.
// Pins NS-28b and NS-29f.
func TestPodsThatCannotBeSweptDoNotKeepTheOthers(t *testing.T) {
	for name, arrange := range map[string]func(*fixture){
		"list fails": func(f *fixture) {
			f.Fake.PrependReactor("list", "pods", func(clienttesting.Action) (bool, runtime.Object, error) {
				return true, nil, errors.New("boom")
			})
		},
		"last list fails": func(f *fixture) { f.store.refused["list pods"] = errors.New("boom") },
		"delete fails":    func(f *fixture) { f.store.refused["deletecollection pods"] = errors.New("boom") },
	} {
		t.Run(name, func(t *testing.T) {
			f := start(t, serving(pods, secrets), terminating(), pod(corev1.PodRunning, nil))
			f.store.put(secrets, "s")
			finalized := f.finalized()
			arrange(f)
			err := f.reconcile(f.Context(), "ns")
			if want := "failed to delete pods for namespace: ns, err: boom"; textOf(err) != want {
				t.Errorf("reconcile = %v, want %q", err, want)
			}
			if len(f.store.items[secrets]) != 0 {
				t.Error("other content is left")
			}
			if len(*finalized) != 0 {
				t.Error("finalized although there may be pods")
			}
			for _, c := range f.live(t).Status.Conditions {
				want := "Failed to delete all resource types, 1 remaining: boom"
				if c.Type == corev1.NamespaceDeletionContentFailure && c.Message != want {
					t.Errorf("message = %q, want %q", c.Message, want)
				}
			}
		})
	}
}

// A type that was never swept may hold what keeps another one from becoming clean.
// Pins NS-63.
func TestATypeThatAppearsLateIsSweptBesideWhatWasLeft(t *testing.T) {
	s := serving(pods, secrets)
	f := start(t, s, terminating())
	f.store.put(secrets, "s", "example.com/hold")
	if err := f.reconcile(f.Context(), "ns"); err != nil {
		t.Fatal(err)
	}
	s.mu.Lock()
	s.add(widgets, allVerbs...)
	s.mu.Unlock()
	f.store.put(widgets, "w")
	f.Clock.Step(maxAge)
	if err := f.reconcile(f.Context(), "ns"); err != nil {
		t.Fatal(err)
	}
	if len(f.store.items[widgets]) != 0 {
		t.Error("R7d: the type was not swept")
	}
}

// Pins NS-4 and NS-67.
func TestPodsAreSweptWithTheRestWithoutTheGate(t *testing.T) {
	cfg := v1beta1.NewDefault()
	cfg.EmulatedVersion = "1.33"
	ordered := Descriptor().Value(cfg)
	cfg.FeatureGates = map[string]bool{"OrderedNamespaceDeletion": false}
	unordered := Descriptor().Value(cfg)
	if ordered == unordered {
		t.Fatal("the gate OrderedNamespaceDeletion has no effect")
	}
	f := start(t, serving(pods, secrets), terminating(), pod(corev1.PodRunning, ptr.To[int64](30)))
	f.podsFirst = unordered.(config).podsFirst
	f.store.put(secrets, "s")
	f.store.put(pods, "pod", "example.com/hold")
	if err := f.reconcile(f.Context(), "ns"); err != nil {
		t.Fatal(err)
	}
	if len(f.store.items[secrets]) != 0 {
		t.Error("secrets wait for pods")
	}
	for _, c := range f.live(t).Status.Conditions {
		if want := "Some resources are remaining: pods. has 1 resource instances"; c.Type == corev1.NamespaceContentRemaining && c.Message != want {
			t.Errorf("message = %q, want %q", c.Message, want)
		}
	}

	// What fails is no longer a step of its own.
	f.store.refused["deletecollection pods"] = errors.New("boom")
	if err := f.reconcile(f.Context(), "ns"); textOf(err) != "boom" {
		t.Errorf("reconcile = %v", err)
	}
}

// Pins NS-63.
func TestARepeatedSweepBeginsWithWhatWasLeft(t *testing.T) {
	f := start(t, serving(pods, secrets, widgets, deployments), terminating())
	finalized := f.finalized()
	f.store.put(widgets, "w", "example.com/hold")
	if err := f.reconcile(f.Context(), "ns"); err != nil {
		t.Fatal(err)
	}
	f.store.requests()

	if err := f.reconcile(f.Context(), "ns"); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"list widgets limit=1", "deletecollection widgets", "list widgets"}, f.store.requests()); diff != "" {
		t.Errorf("requests while the finalizer holds (-want +got):\n%s", diff)
	}
	if len(*finalized) != 0 {
		t.Fatal("finalized with content left")
	}

	// Something comes back in a type that had been clean: the last pass must find it.
	f.store.clear(widgets)
	f.store.put(secrets, "late")
	if err := f.reconcile(f.Context(), "ns"); err != nil {
		t.Fatal(err)
	}
	got := f.store.requests()
	if got[0] != "list widgets limit=1" {
		t.Errorf("first request = %q", got[0])
	}
	slices.Sort(got)
	want := []string{"deletecollection secrets", "list deployments limit=1", "list secrets", "list secrets limit=1", "list widgets limit=1"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("requests of the last pass (-want +got):\n%s", diff)
	}
	if len(*finalized) != 1 {
		t.Error("not finalized")
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

// Pins NS-27a, NS-27c and NS-51.
func TestFailedDiscoveryKeepsTheNamespace(t *testing.T) {
	s := serving(pods, secrets)
	s.err = &discovery.ErrGroupDiscoveryFailed{}
	f := start(t, s, terminating())
	f.store.put(secrets, "s")
	finalized := f.finalized()
	if err := f.reconcile(f.Context(), "ns"); err == nil {
		t.Error("reconcile hides the failure")
	}
	if len(f.store.items[secrets]) != 0 {
		t.Error("what was discovered must be swept")
	}
	if len(*finalized) != 0 {
		t.Error("finalized although types may be missing")
	}
	if got := conditionsOf(f.live(t)); got[0] != "NamespaceDeletionDiscoveryFailure=True" {
		t.Errorf("conditions = %v", got)
	}
	s.mu.Lock()
	s.err = nil
	s.mu.Unlock()
	if err := f.reconcile(f.Context(), "ns"); err != nil {
		t.Fatal(err)
	}
	if len(*finalized) != 1 || s.calls != 2 {
		t.Errorf("finalized %v after %d discoveries", *finalized, s.calls)
	}
}

// Pins NS-61.
func TestDiscoveryIsShared(t *testing.T) {
	f := start(t, serving(pods), terminating(), terminating(func(ns *corev1.Namespace) { ns.Name, ns.UID = "b", "uid-b" }))
	f.finalized()
	f.Clock.Step(settleTime)
	for _, name := range []string{"ns", "b", "ns"} {
		if err := f.reconcile(f.Context(), name); err != nil {
			t.Fatal(err)
		}
	}
	if f.server.calls != 1 {
		t.Errorf("%d discoveries for namespaces deleted before the first, want 1", f.server.calls)
	}
	later := terminating(func(ns *corev1.Namespace) { ns.Name, ns.UID = "c", "uid-c" })
	f.memory.observe(later, f.Clock.Now())
	f.Clock.Step(settleTime)
	if _, _, err := f.empty(f.Context(), later); err != nil {
		t.Fatal(err)
	}
	if f.server.calls != 2 {
		t.Errorf("%d discoveries, want one more for a namespace deleted after the first", f.server.calls)
	}
}

// Until five seconds after the deletion, something can be created of a type that was not served before. Pins NS-61.
func TestADiscoveryThatIsOlderThanTheLastContentIsNotUsed(t *testing.T) {
	s := serving(pods)
	f := start(t, s, terminating())
	f.memory.observe(terminating(), epoch)
	finalized := f.finalized()
	f.Clock.Step(settleTime - time.Second)
	f.catalogue.since(epoch.Add(-time.Minute)) // for another namespace
	s.add(widgets, allVerbs...)
	f.store.put(widgets, "w")
	f.Clock.Step(time.Second)
	if err := f.reconcile(f.Context(), "ns"); err != nil {
		t.Fatal(err)
	}
	if len(f.store.items[widgets]) != 0 || len(*finalized) != 1 || s.calls != 2 {
		t.Errorf("%d widgets are left, finalized %v after %d discoveries", len(f.store.items[widgets]), *finalized, s.calls)
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

// Pins NS-40.
func TestUnchangedConditionsAreNotWritten(t *testing.T) {
	f := start(t, serving(pods, widgets), terminating())
	f.store.put(widgets, "w", "example.com/hold")
	for _, want := range [][]string{{"get", "get", "update status"}, {"get", "get"}} {
		if err := f.reconcile(f.Context(), "ns"); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, f.written()); diff != "" {
			t.Errorf("requests (-want +got):\n%s", diff)
		}
	}
}

// Pins NS-40.
func TestAFailureToReportIsIgnored(t *testing.T) {
	f := start(t, serving(pods), terminating())
	finalized := f.finalized()
	f.Fake.PrependReactor("update", "namespaces", func(clienttesting.Action) (bool, runtime.Object, error) { return true, nil, conflict() })
	if err := f.reconcile(f.Context(), "ns"); err != nil {
		t.Fatal(err)
	}
	if len(*finalized) != 1 {
		t.Error("not finalized")
	}
}

// Pins NS-12 and NS-31.
func TestConflictsAreRetriedOnTheLatestState(t *testing.T) {
	f := start(t, serving(pods), terminating(func(ns *corev1.Namespace) { ns.Status.Phase = corev1.NamespaceActive }))
	finalized := f.finalized()
	left := map[string]int{"status": 2, "finalize": 2}
	f.Fake.PrependReactor("*", "namespaces", func(action clienttesting.Action) (bool, runtime.Object, error) {
		if left[action.GetSubresource()] > 0 {
			left[action.GetSubresource()]--
			return true, nil, conflict()
		}
		return false, nil, nil
	})
	if err := f.reconcile(f.Context(), "ns"); err != nil {
		t.Fatal(err)
	}
	want := []string{
		"get", "update status", "get", "update status", "get", "update status", // phase
		"update status", // conditions
		"create finalize", "get", "create finalize", "get", "create finalize",
	}
	if diff := cmp.Diff(want, f.written()); diff != "" {
		t.Errorf("requests (-want +got):\n%s", diff)
	}
	if len(*finalized) != 1 {
		t.Errorf("finalized = %v", *finalized)
	}
}

func TestConflictLoopEnds(t *testing.T) {
	recreated := terminating(func(ns *corev1.Namespace) { ns.UID = "another" })
	elsewhere := terminating(func(ns *corev1.Namespace) { ns.Spec.Finalizers = nil })
	for name, tc := range map[string]struct {
		latest  *corev1.Namespace
		readErr error
		want    error
	}{
		"NS-31, NS-48: another namespace of the name": {recreated, nil, errRecreated},
		"NS-31: gone":                {nil, apierrors.NewNotFound(corev1.Resource("namespaces"), "ns"), nil},
		"finalized by somebody else": {elsewhere, nil, nil},
	} {
		t.Run(name, func(t *testing.T) {
			f := start(t, serving(pods), terminating())
			f.Fake.PrependReactor("create", "namespaces", func(clienttesting.Action) (bool, runtime.Object, error) { return true, nil, conflict() })
			f.Fake.PrependReactor("get", "namespaces", func(clienttesting.Action) (bool, runtime.Object, error) {
				if tc.readErr != nil {
					return true, nil, tc.readErr
				}
				return true, tc.latest, nil
			})
			if err := f.finalize(f.Context(), terminating()); !errors.Is(err, tc.want) {
				t.Errorf("finalize = %v, want %v", err, tc.want)
			}
		})
	}
	t.Run("fenced", func(t *testing.T) {
		f := start(t, serving(pods), terminating())
		ctx, fence := context.WithCancel(f.Context())
		f.Fake.PrependReactor("create", "namespaces", func(clienttesting.Action) (bool, runtime.Object, error) {
			fence()
			return true, nil, conflict()
		})
		if err := f.finalize(ctx, terminating()); !errors.Is(err, context.Canceled) {
			t.Errorf("finalize = %v, want the end of its context", err)
		}
	})
	t.Run("NS-73: a webhook answers so, whatever is sent", func(t *testing.T) {
		f := start(t, serving(pods), terminating())
		ctx, fence := context.WithCancel(f.Context())
		defer fence()
		writes := 0
		f.Fake.PrependReactor("create", "namespaces", func(clienttesting.Action) (bool, runtime.Object, error) {
			if writes++; writes == 100 {
				fence()
			}
			return true, nil, conflict()
		})
		if err := f.finalize(ctx, terminating()); !apierrors.IsConflict(err) || writes != 11 {
			t.Errorf("finalize = %v after %d writes, want the conflict after 11", err, writes)
		}
	})
}

// The data of the API server was restored from a backup between two writes: the namespace is in use again. Pins NS-74.
func TestANamespaceThatIsNotDeletedAnyMoreKeepsItsFinalizer(t *testing.T) {
	f := start(t, serving(pods), terminating())
	restored := terminating(func(ns *corev1.Namespace) { ns.DeletionTimestamp, ns.Status.Phase = nil, corev1.NamespaceActive })
	f.Fake.PrependReactor("get", "namespaces", func(clienttesting.Action) (bool, runtime.Object, error) { return true, restored, nil })
	writes := 0
	f.Fake.PrependReactor("create", "namespaces", func(clienttesting.Action) (bool, runtime.Object, error) {
		if writes++; writes == 1 {
			return true, nil, conflict()
		}
		return true, restored, nil
	})
	if err := f.finalize(f.Context(), terminating()); err != nil {
		t.Fatal(err)
	}
	if writes != 1 {
		t.Errorf("the namespace was finalized %d times, want only before it was restored", writes)
	}
}

// An admission webhook may answer so, and no event follows. Pins NS-72.
func TestNotFoundOfAWriteDoesNotProveThatTheNamespaceIsGone(t *testing.T) {
	f := start(t, serving(pods)) // which has queued nothing by itself
	f.Fake.PrependReactor("create", "namespaces", func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, nil, apierrors.NewNotFound(corev1.Resource("quotas"), "q")
	})
	if err := f.finalize(f.Context(), terminating()); err != nil {
		t.Fatal(err)
	}
	due := f.Clock.Now().Add(reconcile.RecheckAfter)
	if keys := f.loop.Keys(func(string) bool { return true }); len(keys) != 1 || keys[0].Key != "ns" || !keys[0].Until.Equal(due) {
		t.Errorf("waiting are %+v", keys)
	}
}

// Pins NS-65.
func TestFinalizeStartsFromWhatTheStatusWriteReturned(t *testing.T) {
	f := start(t, serving(pods), terminating())
	f.Fake.PrependReactor("update", "namespaces", func(action clienttesting.Action) (bool, runtime.Object, error) {
		ns := action.(clienttesting.UpdateAction).GetObject().(*corev1.Namespace).DeepCopy()
		ns.ResourceVersion = "2"
		return true, ns, nil
	})
	var sent *corev1.Namespace
	f.Fake.PrependReactor("create", "namespaces", func(action clienttesting.Action) (bool, runtime.Object, error) {
		sent = action.(clienttesting.CreateAction).GetObject().(*corev1.Namespace)
		return true, sent, nil
	})
	if err := f.reconcile(f.Context(), "ns"); err != nil {
		t.Fatal(err)
	}
	if sent == nil || sent.ResourceVersion != "2" {
		t.Errorf("finalized %+v, want resource version 2", sent)
	}
}

// Pins NS-30.
func TestFinalizeKeepsMetadataAndSpecAndLeavesStatusEmpty(t *testing.T) {
	ns := terminating(func(ns *corev1.Namespace) {
		ns.Labels = map[string]string{"a": "b"}
		ns.Spec.Finalizers = []corev1.FinalizerName{"kubernetes"}
	})
	f := start(t, serving(pods), ns)
	var sent *corev1.Namespace
	f.Fake.PrependReactor("create", "namespaces", func(action clienttesting.Action) (bool, runtime.Object, error) {
		sent = action.(clienttesting.CreateAction).GetObject().(*corev1.Namespace)
		return true, sent, nil
	})
	before := ns.DeepCopy()
	if err := f.finalize(f.Context(), ns); err != nil {
		t.Fatal(err)
	}
	want := &corev1.Namespace{ObjectMeta: ns.ObjectMeta, Spec: corev1.NamespaceSpec{Finalizers: []corev1.FinalizerName{}}}
	if diff := cmp.Diff(want, sent); diff != "" {
		t.Errorf("finalized (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(before, ns); diff != "" {
		t.Errorf("the object passed in was changed:\n%s", diff)
	}
}

// Pins NS-10, NS-19, NS-21, NS-42 and NS-54.
func TestRunWaitsBeforeTheFirstSweepAndAfterAnEstimate(t *testing.T) {
	f := start(t, serving(pods, widgets), terminating(), terminating(func(ns *corev1.Namespace) {
		ns.Name, ns.UID, ns.DeletionTimestamp, ns.Status.Phase = "active", "uid-2", nil, corev1.NamespaceActive
	}))
	f.store.put(widgets, "w", "example.com/hold")
	f.Env.Run(t, f.namespaceController)
	reconciled := func() uint64 { return f.loop.Inspect().Reconciled }

	// The delaying queue of a running loop always has a heartbeat, and one timer for keys.
	controllertest.Eventually(t, "the namespace waits", func() bool { return f.Clock.Waiters() >= 2 })
	f.Clock.Step(5*time.Second - time.Nanosecond)
	await.Stays(t, "nothing is swept before that", 200*time.Millisecond, func(context.Context) error {
		if got := reconciled(); got != 0 {
			return fmt.Errorf("%d reconciles", got)
		}
		return nil
	})
	f.Clock.Step(time.Nanosecond)
	controllertest.Eventually(t, "it is swept", func() bool { return reconciled() == 1 })
	if got := f.loop.Inspect(); got.Failed != 0 || got.Depth != 0 {
		t.Errorf("after a sweep that left content: %+v", got)
	}

	// The finalizer is given 15 seconds, of which half plus one are waited.
	f.Clock.Step(8 * time.Second)
	controllertest.Eventually(t, "it is swept again", func() bool { return reconciled() >= 2 })
}

// Pins NS-68. The pods have five minutes to end; the namespace is swept again when they have, at once.
func TestTheEndOfTheLastPodIsNotWaitedForLonger(t *testing.T) {
	grace := int64(300)
	first, second := pod(corev1.PodRunning, &grace), pod(corev1.PodRunning, &grace)
	second.Name = "second"
	f := start(t, serving(pods, secrets), terminating(), first, second)
	f.store.put(pods, first.Name, "example.com/hold")
	f.Env.Run(t, f.namespaceController)
	reconciled := func() uint64 { return f.loop.Inspect().Reconciled }
	controllertest.Eventually(t, "the namespace waits", func() bool { return f.Clock.Waiters() >= 2 })
	f.Clock.Step(5 * time.Second)
	controllertest.Eventually(t, "it is swept", func() bool { return reconciled() == 1 })

	end := func(name string) {
		t.Helper()
		if _, exists, _ := f.pods.GetByKey("ns/" + name); !exists {
			t.Fatalf("the cache does not show %s", name)
		}
		if err := f.Fake.CoreV1().Pods("ns").Delete(f.Context(), name, metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		controllertest.Eventually(t, "the cache has seen it", func() bool {
			_, exists, _ := f.pods.GetByKey("ns/" + name)
			return !exists
		})
	}
	end(first.Name)
	await.Stays(t, "one pod is left", 200*time.Millisecond, func(context.Context) error {
		if got := reconciled(); got != 1 {
			return fmt.Errorf("%d reconciles", got)
		}
		return nil
	})
	f.store.clear(pods)
	end(second.Name)
	controllertest.Eventually(t, "it is swept at once", func() bool { return reconciled() >= 2 })
}

// Pins NS-68.
func TestPodsThatTheCacheDoesNotShowAreLookedForAgain(t *testing.T) {
	f := start(t, serving(pods), terminating())
	f.awaitPods(terminating())
	f.Env.Run(t, f.namespaceController)
	controllertest.Eventually(t, "the namespace waits", func() bool { return f.Clock.Waiters() >= 2 })
	f.Clock.Step(time.Second - time.Nanosecond)
	await.Stays(t, "nothing is swept before that", 200*time.Millisecond, func(context.Context) error {
		if got := f.loop.Inspect().Reconciled; got != 0 {
			return fmt.Errorf("%d reconciles", got)
		}
		return nil
	})
	f.Clock.Step(time.Nanosecond)
	controllertest.Eventually(t, "it is swept", func() bool { return f.loop.Inspect().Reconciled >= 1 })
}

// Pins NS-1, NS-2, NS-3, NS-6, NS-7, NS-8 and NS-18.
func TestDescriptor(t *testing.T) {
	d := Descriptor()
	cfg := v1beta1.NewDefault()
	before := d.Value(cfg)
	if enabled, _ := d.Enabled(cfg); !enabled || d.Name != "namespace-controller" || !slices.Equal(d.Aliases, []string{"namespace"}) || d.ServiceAccount != d.Name || d.Gate != "" {
		t.Errorf("%+v", d)
	}
	if before.(config).concurrentSyncs != 10 || cfg.Controllers.Namespace.ResyncPeriod.Duration != 5*time.Minute {
		t.Errorf("%+v, resynced every %v", before, cfg.Controllers.Namespace.ResyncPeriod)
	}
	cfg.Controllers.Namespace.ResyncPeriod = &metav1.Duration{Duration: time.Second}
	if d.Value(cfg) != before {
		t.Error("a resync period restarts the controller")
	}
	workers := int32(3)
	cfg.Controllers.Namespace.ConcurrentSyncs = &workers
	c, err := d.New(controllertest.New(t).Env, d.Value(cfg))
	if err != nil {
		t.Fatal(err)
	}
	if _, ok := c.(controller.Debuggable); ok {
		t.Error("it serves pages for debugging")
	}
	if got := c.(*namespaceController).loop.Inspect(); got.Workers != 3 || got.Queue != "namespace" {
		t.Errorf("loop = %+v", got)
	}
	if d.Limits.QPS != 20 || d.Limits.Burst != 100 {
		t.Errorf("limits = %+v", d.Limits)
	}
}

// Pins NS-9.
func TestAllNamespacesAreWatchedWithoutAnIndex(t *testing.T) {
	f := start(t, serving(), terminating(func(ns *corev1.Namespace) { ns.Labels = map[string]string{"a": "b"} }))
	informer := f.Env.Informers.Core().V1().Namespaces().Informer()
	if got := slices.Collect(maps.Keys(informer.GetIndexer().GetIndexers())); !slices.Equal(got, []string{cache.NamespaceIndex}) {
		t.Errorf("indexes are %q", got)
	}
	if got := informer.GetStore().ListKeys(); !slices.Equal(got, []string{"ns"}) {
		t.Errorf("cached are %q", got)
	}
}

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
