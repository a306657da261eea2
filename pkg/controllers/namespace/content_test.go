package namespace

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
)

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

// An API server that does not know a custom type yet answers all requests with the same page. Pins NS-81.
func TestATypeThatOneAPIServerDoesNotKnowYet(t *testing.T) {
	page := notFound(widgets)
	for name, tc := range map[string]struct {
		defined, served bool
		answer          error
		waits           bool
	}{
		"NS-81: it is served":                 {defined: true, served: true, answer: page, waits: true},
		"NS-81: no version of it is served":   {defined: true, answer: page},
		"NS-81: it has no definition":         {answer: page},
		"NS-81: its server has no collection": {defined: true, served: true, answer: apierrors.NewNotFound(widgets.GroupResource(), "")},
		"NS-81: it does not support it":       {defined: true, served: true, answer: methodNotSupported(widgets, "list")},
	} {
		t.Run(name, func(t *testing.T) {
			f := start(t, serving(pods, widgets), terminating())
			if tc.defined {
				f.define(t, "Namespaced", tc.served, metav1.ConditionTrue)
			}
			finalized := f.finalized()
			f.store.put(widgets, "w")
			f.store.refused["list widgets"], f.store.refused["deletecollection widgets"] = tc.answer, tc.answer
			err := f.reconcile(f.Context(), "ns")
			if tc.waits != errors.Is(err, tc.answer) || tc.waits != (len(*finalized) == 0) {
				t.Fatalf("error %v, finalized %v", err, *finalized)
			}
			if !tc.waits {
				return
			}
			f.store.refused = map[string]error{}
			if err := f.reconcile(f.Context(), "ns"); err != nil || len(*finalized) != 1 || len(f.store.items[widgets]) != 0 {
				t.Errorf("error %v, finalized %v, left are %v", err, *finalized, f.store.items[widgets])
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
