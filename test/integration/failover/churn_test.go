package failover

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strconv"
	"sync"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	watchtools "k8s.io/client-go/tools/watch"
	"k8s.io/utils/ptr"

	"kcmd.dev/test/await"
	"kcmd.dev/test/must"
)

// churn gives the managers work without end: ReplicaSets whose number of replicas changes
// all the time, so that there is always something to write.
func churn(t testing.TB, period time.Duration) *podLog {
	t.Helper()
	const count = 6
	namespace := plane.Namespace(t)
	pods := followPods(t, namespace)
	sets := plane.AdminClient().AppsV1().ReplicaSets(namespace)
	for n := range count {
		labels := map[string]string{"app": fmt.Sprint("churn-", n)}
		_, err := sets.Create(t.Context(), &appsv1.ReplicaSet{
			ObjectMeta: metav1.ObjectMeta{Name: labels["app"]},
			Spec: appsv1.ReplicaSetSpec{
				Replicas: ptr.To[int32](0),
				Selector: &metav1.LabelSelector{MatchLabels: labels},
				Template: corev1.PodTemplateSpec{
					ObjectMeta: metav1.ObjectMeta{Labels: labels},
					Spec:       corev1.PodSpec{SchedulerName: "nobody", Containers: []corev1.Container{{Name: "c", Image: "x"}}},
				},
			},
		}, metav1.CreateOptions{})
		must.Succeed(t, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		tick := time.NewTicker(period)
		defer tick.Stop()
		for n := 0; ; n++ {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
			patch := fmt.Appendf(nil, `{"spec":{"replicas":%d}}`, 1+n/count%3)
			request, stop := context.WithTimeout(ctx, 5*time.Second)
			_, err := sets.Patch(request, fmt.Sprint("churn-", n%count), types.MergePatchType, patch, metav1.PatchOptions{})
			stop()
			if err != nil && ctx.Err() == nil {
				t.Errorf("changing a ReplicaSet: %v", err)
				return
			}
		}
	}()
	t.Cleanup(func() {
		cancel()
		<-done
	})
	return pods
}

// podLog is every change of a pod in a namespace that was stored, as a watch tells it.
type podLog struct {
	namespace string

	mu      sync.Mutex
	changes map[uint64]podChange // by resource version
	err     error
}

// podChange is one change that was stored.
type podChange struct {
	pod     string
	created bool // else it is a step of its deletion: nobody else changes pods
}

// followPods watches the pods of a namespace until the end of the test.
func followPods(t testing.TB, namespace string) *podLog {
	t.Helper()
	pods := plane.AdminClient().CoreV1().Pods(namespace)
	list, err := pods.List(t.Context(), metav1.ListOptions{})
	must.Succeed(t, err)
	w, err := watchtools.NewRetryWatcherWithContext(t.Context(), list.ResourceVersion, &cache.ListWatch{
		WatchFuncWithContext: pods.Watch,
	})
	must.Succeed(t, err)
	l := &podLog{namespace: namespace, changes: map[uint64]podChange{}}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for event := range w.ResultChan() {
			l.add(event)
		}
	}()
	t.Cleanup(func() {
		w.Stop()
		<-done
	})
	return l
}

func (l *podLog) add(event watch.Event) {
	l.mu.Lock()
	defer l.mu.Unlock()
	pod, ok := event.Object.(*corev1.Pod)
	if !ok {
		l.err = errors.Join(l.err, apierrors.FromObject(event.Object))
		return
	}
	number, err := strconv.ParseUint(pod.ResourceVersion, 10, 64)
	l.err = errors.Join(l.err, err)
	l.changes[number] = podChange{pod: pod.Name, created: event.Type == watch.Added}
}

// grow waits until another change has been stored: whoever leads now has got to work.
func (l *podLog) grow(t testing.TB) {
	t.Helper()
	size := func() int {
		l.mu.Lock()
		defer l.mu.Unlock()
		return len(l.changes)
	}
	before := size()
	await.That(t, "a pod changes", func(context.Context) error {
		if now := size(); now == before {
			return fmt.Errorf("%d changes seen", now)
		}
		return nil
	})
}

// finish returns all changes up to now.
func (l *podLog) finish(t testing.TB) map[uint64]podChange {
	t.Helper()
	last, err := plane.AdminClient().CoreV1().Pods(l.namespace).Create(t.Context(), &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "last"},
		Spec:       corev1.PodSpec{SchedulerName: "nobody", Containers: []corev1.Container{{Name: "c", Image: "x"}}},
	}, metav1.CreateOptions{})
	must.Succeed(t, err)
	end, err := strconv.ParseUint(last.ResourceVersion, 10, 64)
	must.Succeed(t, err)
	await.That(t, "the watch has caught up", func(context.Context) error {
		l.mu.Lock()
		defer l.mu.Unlock()
		if _, seen := l.changes[end]; !seen {
			return fmt.Errorf("%d changes seen", len(l.changes))
		}
		return nil
	})
	l.mu.Lock()
	defer l.mu.Unlock()
	must.Succeed(t, l.err)
	all := maps.Clone(l.changes)
	maps.DeleteFunc(all, func(number uint64, _ podChange) bool { return number >= end })
	return all
}
