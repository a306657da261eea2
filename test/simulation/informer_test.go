package simulation

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/cache"
)

func TestASyncedHandlerHasSeenTheCache(t *testing.T) {
	w := New(t, 1)
	w.Create(newPod("p"))
	var seen []string
	_, err := w.Env.Env.Informers.Core().V1().Pods().Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: func(o any) { seen = append(seen, o.(*corev1.Pod).Name) },
	})
	must(err)
	if len(seen) > 0 {
		t.Errorf("seen at once: %v", seen)
	}
	if w.SyncHandlers(); len(seen) != 1 {
		t.Errorf("seen %v", seen)
	}
}
