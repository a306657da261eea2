package simulation

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/ptr"

	"kcmd.dev/pkg/controller"
)

// history is what happens to a controller that labels pods, while they are created, deleted and end.
func history(t *testing.T, seed uint64) []string {
	w := New(t, seed)
	w.Start = func(env controller.Env, _ any) Instance {
		informer := env.Informers.Core().V1().Pods().Informer()
		queue := NewQueue(w, func(ctx context.Context, name string) error {
			pod, err := env.Client.CoreV1().Pods("ns").Get(ctx, name, metav1.GetOptions{})
			if apierrors.IsNotFound(err) || err == nil && pod.Labels["seen"] != "" {
				return nil
			}
			if err != nil {
				return err
			}
			pod.Labels = map[string]string{"seen": "yes"}
			_, err = env.Client.CoreV1().Pods("ns").Update(ctx, pod, metav1.UpdateOptions{})
			return err
		})
		tell := func(what string, object any) {
			key, err := cache.DeletionHandlingMetaNamespaceKeyFunc(object)
			must(err)
			w.Note("%s %s", what, key)
			_, name, err := cache.SplitMetaNamespaceKey(key)
			must(err)
			queue.AddAfter(name, time.Second)
		}
		_, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
			AddFunc:    func(object any) { tell("add", object) },
			UpdateFunc: func(_, object any) { tell("update", object) },
			DeleteFunc: func(object any) { tell("delete", object) },
		})
		must(err)
		return Instance{Runners: []Runner{queue}}
	}
	kubelet := Kubelet{World: w, Unready: 3}
	for i := range 10 {
		w.Create(newPod(fmt.Sprint("p", i)))
	}
	w.Begin()
	w.Faulty, w.MayComeLate, w.restarts = true, AnyWrite, 50
	w.Play(func() { kubelet.Act(false) }, func() {
		for _, pod := range All[*corev1.Pod](w) {
			if w.OneIn(2) {
				w.Delete(pod, ptr.To[int64](0))
			}
		}
		w.Create(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", GenerateName: "q"}})
	})
	w.Settle(time.Hour, nil)
	return w.trace
}

func TestASeedDeterminesAHistory(t *testing.T) {
	for seed := range uint64(5) {
		one, other := history(t, seed), history(t, seed)
		if !slices.Equal(one, other) {
			t.Errorf("seed %d has two histories", seed)
		}
	}
	if slices.Equal(history(t, 1), history(t, 2)) {
		t.Error("two seeds have the same history")
	}
}

func TestAnyNumberOfEventsIsRecorded(t *testing.T) {
	w := New(t, 1)
	for range 5000 {
		w.Env.Env.Events.Event(newPod("p"), corev1.EventTypeNormal, "Reason", "message")
	}
}
