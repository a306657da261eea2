package simulation

import (
	"strings"
	"testing"

	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

func TestListsAreSelectedAndSorted(t *testing.T) {
	w := New(t, 1)
	for _, name := range []string{"c", "a", "d", "b"} {
		w.Create(newPod(name))
	}
	for _, test := range []struct {
		options metav1.ListOptions
		want    string
	}{
		{metav1.ListOptions{}, "a b c d"},
		{metav1.ListOptions{LabelSelector: "app in (d,b)"}, "b d"},
		{metav1.ListOptions{FieldSelector: "metadata.name=c"}, "c"},
		{metav1.ListOptions{FieldSelector: "metadata.name=c", LabelSelector: "app=a"}, ""},
	} {
		list, err := w.Client.CoreV1().Pods("ns").List(t.Context(), test.options)
		if err != nil {
			t.Fatal(err)
		}
		var names []string
		for _, pod := range list.Items {
			names = append(names, pod.Name)
		}
		if got := strings.Join(names, " "); got != test.want {
			t.Errorf("%+v: got %q, want %q", test.options, got, test.want)
		}
	}
}

// gaps collects what the simulation could not do.
type gaps struct {
	testing.TB
	found int
}

func (g *gaps) Error(...any) { g.found++ }

func TestWhatCannotBeAnsweredFailsTheTest(t *testing.T) {
	w := New(t, 1)
	w.Create(newPod("p"))
	failed := &gaps{TB: t}
	w.t = failed
	pods, empty := w.Client.CoreV1().Pods("ns"), []byte(`{}`)
	for name, send := range map[string]func() error{
		"JSON patch": func() error {
			_, err := pods.Patch(t.Context(), "p", types.JSONPatchType, []byte(`[]`), metav1.PatchOptions{})
			return err
		},
		"apply without force": func() error {
			_, err := pods.Patch(t.Context(), "p", types.ApplyPatchType, []byte(`{"status":{}}`), metav1.PatchOptions{}, "status")
			return err
		},
		"patch of another subresource": func() error {
			_, err := pods.Patch(t.Context(), "p", types.MergePatchType, empty, metav1.PatchOptions{}, "resize")
			return err
		},
		"create of a subresource": func() error {
			return pods.EvictV1(t.Context(), &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Name: "p"}})
		},
		"update of another subresource": func() error {
			_, err := pods.UpdateResize(t.Context(), "p", newPod("p"), metav1.UpdateOptions{})
			return err
		},
		"list by a field": func() error {
			_, err := pods.List(t.Context(), metav1.ListOptions{FieldSelector: "spec.schedulerName=s"})
			return err
		},
	} {
		failed.found = 0
		if err := send(); err == nil || failed.found != 1 {
			t.Errorf("%s: %v, the test fails %d times", name, err, failed.found)
		}
	}
}
