package simulation

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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

func TestAStalledCache(t *testing.T) {
	w := New(t, 1)
	of := w.Env.Env.Informers.Core().V1()
	pods, nodes := of.Pods().Informer().GetStore(), of.Nodes().Informer().GetStore()
	w.Create(newPod("p"))
	w.Create(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}})
	began := w.Clock.Now()
	w.Stall(&corev1.Pod{}, time.Hour)
	if len(pods.List()) != 0 || len(nodes.List()) != 1 || w.Clock.Since(began) != time.Hour {
		t.Errorf("after %v %d pods and %d nodes are shown", w.Clock.Since(began), len(pods.List()), len(nodes.List()))
	}
	if w.Drain(); len(pods.List()) != 1 {
		t.Errorf("then %d pods are shown", len(pods.List()))
	}
}
