package simulation

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"
)

func TestThingsHappenWhileARequestIsUnderWay(t *testing.T) {
	w := New(t, 1)
	pods := w.Client.CoreV1().Pods("ns")
	happened := 0
	w.happens = func() {
		happened++
		if _, err := pods.List(t.Context(), metav1.ListOptions{}); err != nil { // a request within a request
			t.Error(err)
		}
		if happened == 1 {
			w.Create(newPod("p"))
		}
	}
	for hasty, want := range []bool{false, true} {
		w.Hasty = hasty
		listed, err := pods.List(t.Context(), metav1.ListOptions{})
		if err != nil || (happened > 0) != want || (len(listed.Items) == 1) != want {
			t.Errorf("hasty %d: %d things happened, listed %v, error %v", hasty, happened, listed, err)
		}
	}
}

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
