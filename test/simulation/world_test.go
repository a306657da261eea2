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
	"k8s.io/apimachinery/pkg/types"
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
	w.Faulty, w.restarts = true, 50
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

func TestAnOlderStateCannotBeChanged(t *testing.T) {
	w := New(t, 1)
	w.Create(newPod("changed"))
	w.Create(newPod("deleted"))
	changed, _ := Get[*corev1.Pod](w, "ns", "changed")
	Change(w, changed, func(p *corev1.Pod) { p.Labels = nil })
	deleted, _ := Get[*corev1.Pod](w, "ns", "deleted")
	w.Delete(deleted, nil)
	for _, pod := range []*corev1.Pod{changed, deleted} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("pod %s: an older state replaced what is stored", pod.Name)
				}
			}()
			Change(w, pod, func(p *corev1.Pod) { p.Labels = map[string]string{"a": "b"} })
		}()
	}
}

func TestCreatedObjectsAreStoredAsCopies(t *testing.T) {
	w := New(t, 1)
	pod := newPod("p")
	w.Create(pod)
	pod.Labels["app"] = "other"
	if stored, _ := Get[*corev1.Pod](w, "ns", "p"); stored.Labels["app"] != "p" || pod.UID != "" {
		t.Errorf("stored %v, sent %v", stored.ObjectMeta, pod.ObjectMeta)
	}
}

func TestAnyNumberOfEventsIsRecorded(t *testing.T) {
	w := New(t, 1)
	for range 5000 {
		w.Env.Env.Events.Event(newPod("p"), corev1.EventTypeNormal, "Reason", "message")
	}
}

func TestGarbageIsCollected(t *testing.T) {
	w := New(t, 1)
	w.Create(newPod("owner"))
	owner, _ := Get[*corev1.Pod](w, "ns", "owner")
	by := func(suffix types.UID) metav1.OwnerReference {
		return metav1.OwnerReference{APIVersion: "v1", Kind: "Pod", Name: "owner", UID: owner.UID + suffix}
	}
	refs := func(all ...metav1.OwnerReference) func(*corev1.Pod) {
		return func(p *corev1.Pod) { p.OwnerReferences = all }
	}
	w.Create(newPod("free"))
	w.Create(newPod("owned", refs(by(""))))
	w.Create(newPod("of-predecessor", refs(by("-before"))))
	w.Create(newPod("of-both", refs(by("-before"), by(""))))
	if !w.CollectGarbage() || w.CollectGarbage() {
		t.Error("garbage is not collected at once")
	}
	var left []string
	for _, pod := range All[*corev1.Pod](w) {
		left = append(left, fmt.Sprint(pod.Name, len(pod.OwnerReferences)))
	}
	if want := []string{"free0", "of-both1", "owned1", "owner0"}; !slices.Equal(left, want) {
		t.Errorf("left %v, want %v", left, want)
	}
}
