package simulation

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"
)

// Whether the list that fills the cache is recent, old or late, it holds no whole objects.
func TestAnyForShowsMetadata(t *testing.T) {
	for seed := range uint64(20) {
		w := New(t, seed)
		scope := w.Env.Env.Informers
		anyPods := func() cache.SharedIndexInformer {
			generic, err := scope.AnyFor(corev1.SchemeGroupVersion.WithResource("pods"))
			must(err)
			return generic.Informer()
		}
		w.Create(newPod("before"))
		deleted := w.Create(newPod("deleted"))
		shown := anyPods()
		seen := map[string]int{}
		note := func(object any) { seen[object.(*metav1.PartialObjectMetadata).Name]++ }
		_, err := shown.AddEventHandler(cache.ResourceEventHandlerFuncs{AddFunc: note, DeleteFunc: note})
		must(err)
		w.Create(newPod("after"))
		w.Delete(deleted, nil)
		w.Drain()
		if seen["before"] != 1 || seen["after"] != 1 || seen["deleted"] == 1 {
			t.Errorf("seed %d: seen %v", seed, seen)
		}
		for _, object := range shown.GetIndexer().List() {
			if partial, ok := object.(*metav1.PartialObjectMetadata); !ok || partial.Labels["app"] == "" {
				t.Errorf("seed %d: the cache has %+v", seed, object)
			}
		}
		if anyPods() != shown || scope.Core().V1().Pods().Informer() == shown {
			t.Error("the informer of metadata is another one the second time, or shows whole pods")
		}
		scope.Release(shown)
		if anyPods() != scope.Core().V1().Pods().Informer() {
			t.Error("pods are cached twice")
		}
	}
}
