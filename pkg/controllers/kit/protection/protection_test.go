package protection

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"kcmd.dev/test/fakeclient"
)

const own Finalizer = "example.com/protection"

func object(isDeleted bool, finalizers ...string) *corev1.ConfigMap {
	o := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "object", UID: "uid", ResourceVersion: "7", Finalizers: finalizers}}
	if isDeleted {
		o.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)}
	}
	return o
}

func TestWhatAFinalizerMeansForAnObject(t *testing.T) {
	for name, tc := range map[string]struct {
		object          *corev1.ConfigMap
		missing, blocks bool
	}{
		"live and protected":         {object(false, "a/b", string(own)), false, false},
		"live and not protected":     {object(false, "a/b"), true, false},
		"live without finalizers":    {object(false), true, false},
		"deleted and protected":      {object(true, string(own), "a/b"), false, true},
		"deleted and not protected":  {object(true, "a/b"), false, false},
		"deleted without finalizers": {object(true), false, false},
	} {
		t.Run(name, func(t *testing.T) {
			if own.IsMissing(tc.object) != tc.missing || own.Blocks(tc.object) != tc.blocks || own.Concerns(tc.object) != (tc.missing || tc.blocks) {
				t.Errorf("missing %v, blocks %v, concerns %v", own.IsMissing(tc.object), own.Blocks(tc.object), own.Concerns(tc.object))
			}
		})
	}
}

type change func(context.Context, Finalizer, *corev1.ConfigMap, Update[*corev1.ConfigMap]) error

func TestChangesAreBasedOnTheObject(t *testing.T) {
	for name, tc := range map[string]struct {
		change change
		has    []string
		want   []string
	}{
		"added at the end":        {Add[*corev1.ConfigMap], []string{"a/b"}, []string{"a/b", string(own)}},
		"added as the only one":   {Add[*corev1.ConfigMap], nil, []string{string(own)}},
		"removed from the middle": {Remove[*corev1.ConfigMap], []string{"a/b", string(own), "c/d"}, []string{"a/b", "c/d"}},
		"removed twice":           {Remove[*corev1.ConfigMap], []string{string(own), "a/b", string(own)}, []string{"a/b"}},
		"removed as the only one": {Remove[*corev1.ConfigMap], []string{string(own)}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			given := object(true, slices.Clip(tc.has)...)
			before := given.DeepCopy()
			var sent *corev1.ConfigMap
			err := tc.change(t.Context(), own, given, func(_ context.Context, o *corev1.ConfigMap, _ metav1.UpdateOptions) (*corev1.ConfigMap, error) {
				sent = o
				return o, nil
			})
			if err != nil || !slices.Equal(sent.Finalizers, tc.want) || (sent.Finalizers == nil) != (tc.want == nil) {
				t.Errorf("sent %q, %v, want %q", sent.Finalizers, err, tc.want)
			}
			if sent.UID != "uid" || sent.ResourceVersion != "7" {
				t.Errorf("sent %+v", sent)
			}
			if !slices.Equal(given.Finalizers, before.Finalizers) {
				t.Errorf("the object was changed: %q", given.Finalizers)
			}
		})
	}
}

func TestARefusedChangeIsReturned(t *testing.T) {
	boom := errors.New("boom")
	refuse := func(context.Context, *corev1.ConfigMap, metav1.UpdateOptions) (*corev1.ConfigMap, error) {
		return nil, boom
	}
	if err := Add(t.Context(), own, object(false), refuse); !errors.Is(err, boom) {
		t.Errorf("Add: %v", err)
	}
	if err := Remove(t.Context(), own, object(true, string(own)), refuse); !errors.Is(err, boom) {
		t.Errorf("Remove: %v", err)
	}
}

// pages returns a client that lists one pod per page. If last is not nil, the last page fails.
func pages(names []string, last error, asked *[]string) *fake.Clientset {
	client := fakeclient.New()
	client.PrependReactor("list", "pods", func(a clienttesting.Action) (bool, runtime.Object, error) {
		options := a.(clienttesting.ListActionImpl).ListOptions
		*asked = append(*asked, fmt.Sprintf("%s %s %d %q", a.GetNamespace(), options.FieldSelector, options.Limit, options.ResourceVersion))
		page := len(*asked) - 1
		if page == len(names)-1 && last != nil {
			return true, nil, last
		}
		list := &corev1.PodList{Items: []corev1.Pod{{ObjectMeta: metav1.ObjectMeta{Name: names[page]}}}}
		list.ResourceVersion = "9"
		if page < len(names)-1 {
			list.Continue = "more"
		}
		return true, list, nil
	})
	return client
}

func TestEachPodVisitsAllPages(t *testing.T) {
	var asked, visited []string
	version, err := EachPod(t.Context(), pages([]string{"a", "b", "c"}, nil, &asked), "ns", fields.OneTermNotEqualSelector("spec.nodeName", ""),
		func(p *corev1.Pod) { visited = append(visited, p.Name) })
	if err != nil || version != "9" || !slices.Equal(visited, []string{"a", "b", "c"}) {
		t.Errorf("visited %q as of %q, %v", visited, version, err)
	}
	if len(asked) != 3 || asked[0] != `ns spec.nodeName!= 500 ""` {
		t.Errorf("asked %q", asked)
	}
}

func TestEachPodReturnsTheErrorOfAnyPage(t *testing.T) {
	var asked []string
	boom := errors.New("boom")
	if _, err := EachPod(t.Context(), pages([]string{"a", "b"}, boom, &asked), "ns", fields.Everything(), func(*corev1.Pod) {}); !errors.Is(err, boom) {
		t.Errorf("got %v", err)
	}
}
