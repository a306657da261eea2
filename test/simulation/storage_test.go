package simulation

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

func TestAWriteWithoutAChangeStoresAgainWhatIsStoredInAnotherWay(t *testing.T) {
	w, way := New(t, 1), "v1"
	w.Encoding = func(schema.GroupVersionResource) string { return way }
	resource := corev1.SchemeGroupVersion.WithResource("configmaps")
	client := (&Contents{World: w, Kinds: map[schema.GroupVersionResource]schema.GroupVersionKind{
		resource: corev1.SchemeGroupVersion.WithKind("ConfigMap"),
	}}).Resource(resource)
	w.Create(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "c"}})
	for _, test := range []struct{ way, version string }{{"v1", "1001"}, {"v2", "1002"}, {"v2", "1002"}} {
		way = test.way
		c, _ := Get[*corev1.ConfigMap](w, "ns", "c")
		patch := fmt.Sprintf(`{"metadata":{"uid":%q,"resourceVersion":%q}}`, c.UID, c.ResourceVersion)
		got, err := client.Namespace("ns").Patch(t.Context(), "c", types.ApplyPatchType, []byte(patch), metav1.PatchOptions{})
		must(err)
		list, err := client.List(t.Context(), metav1.ListOptions{})
		must(err)
		if got.ResourceVersion != test.version || w.EncodingOf(got) != way || list.ResourceVersion != test.version {
			t.Errorf("%s: it is stored as of %s in %s, the list is of %s", way, got.ResourceVersion, w.EncodingOf(got), list.ResourceVersion)
		}
	}
}

func TestABookmark(t *testing.T) {
	w := New(t, 1)
	w.Create(newPod("p"))
	store := w.Env.Informers.Core().V1().Pods().Informer().GetStore()
	for _, step := range []struct {
		do   func()
		want bool
		at   string
	}{
		{func() {}, false, "1001"},
		{func() { w.Create(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}}) }, true, "1002"},
		{func() { w.Create(newPod("q")) }, false, "1002"}, // whose event comes first
	} {
		step.do()
		if sent := w.Bookmark(&corev1.Pod{}); sent != step.want || store.LastStoreSyncResourceVersion() != step.at {
			t.Errorf("sent %v, the cache is at %s, want %s", sent, store.LastStoreSyncResourceVersion(), step.at)
		}
	}
}
