package reload

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
)

// recording is what happened to the ReplicaSets and pods of a namespace. The watches of
// the two kinds are not in step, so it is put in order by resource version, which etcd
// counts for all objects, and looked at afterwards.
type recording struct {
	stop context.CancelFunc
	done sync.WaitGroup

	mu      sync.Mutex
	events  []occurrence
	initial int // the first events are the state at the beginning
}

type occurrence struct {
	revision uint64
	event    watch.Event
}

func record(t *testing.T, namespace string) *recording {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	r := &recording{stop: cancel}
	pods, sets := plane.AdminClient().CoreV1().Pods(namespace), plane.AdminClient().AppsV1().ReplicaSets(namespace)
	podList, err := pods.List(ctx, metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	setList, err := sets.List(ctx, metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for n := range setList.Items {
		r.add(watch.Event{Type: watch.Added, Object: &setList.Items[n]})
	}
	for n := range podList.Items {
		r.add(watch.Event{Type: watch.Added, Object: &podList.Items[n]})
	}
	r.initial = len(r.events)
	podWatch, err := pods.Watch(ctx, metav1.ListOptions{ResourceVersion: podList.ResourceVersion})
	if err != nil {
		t.Fatal(err)
	}
	setWatch, err := sets.Watch(ctx, metav1.ListOptions{ResourceVersion: setList.ResourceVersion})
	if err != nil {
		t.Fatal(err)
	}
	r.done.Go(func() { r.follow(ctx, podWatch) })
	r.done.Go(func() { r.follow(ctx, setWatch) })
	return r
}

func (r *recording) follow(ctx context.Context, w watch.Interface) {
	defer w.Stop()
	for {
		select {
		case event, open := <-w.ResultChan():
			if !open {
				return
			}
			r.add(event)
		case <-ctx.Done():
			return
		}
	}
}

func (r *recording) add(event watch.Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.events = append(r.events, occurrence{revision: revision(event.Object), event: event})
}

func revision(object runtime.Object) uint64 {
	if m, ok := object.(metav1.Object); ok {
		if n, err := strconv.ParseUint(m.GetResourceVersion(), 10, 64); err == nil {
			return n
		}
	}
	return 0
}

// observation is what a recording shows.
type observation struct {
	created    int
	spec       int32 // most replicas asked for at once, over all ReplicaSets
	available  int   // fewest available pods
	violations []string
}

// replaySet is a ReplicaSet during a replay.
type replaySet struct {
	name             string
	asked, askedOnce int32 // the replicas asked for now, and before that
	active           map[types.UID]bool
}

// replay looks at the recording in order. A ReplicaSet may create a pod if it was asked
// for it now or a change ago, as its controller may not know of the newest change yet,
// and likewise for deletions.
func (r *recording) replay(t *testing.T) observation {
	t.Helper()
	r.stop()
	r.done.Wait()
	slices.SortStableFunc(r.events, func(a, b occurrence) int { return cmp.Compare(a.revision, b.revision) })
	sets := map[types.UID]*replaySet{}
	ready := map[types.UID]bool{}
	seen := observation{available: int(^uint(0) >> 1)}
	for n, o := range r.events {
		if n == r.initial {
			seen.created, seen.violations = 0, nil
		}
		switch object := o.event.Object.(type) {
		case *appsv1.ReplicaSet:
			seen.replicaSet(sets, o.event.Type, object)
		case *corev1.Pod:
			seen.pod(sets, o.event.Type, object)
			ready[object.UID] = o.event.Type != watch.Deleted && isReady(object)
		}
		if n < r.initial {
			continue
		}
		available := 0
		for _, is := range ready {
			if is {
				available++
			}
		}
		seen.available = min(seen.available, available)
	}
	return seen
}

func (s *observation) replicaSet(sets map[types.UID]*replaySet, kind watch.EventType, object *appsv1.ReplicaSet) {
	if kind == watch.Deleted {
		delete(sets, object.UID)
		return
	}
	set, known := sets[object.UID]
	if !known {
		set = &replaySet{name: object.Name, asked: *object.Spec.Replicas, askedOnce: *object.Spec.Replicas, active: map[types.UID]bool{}}
		sets[object.UID] = set
	}
	if *object.Spec.Replicas != set.asked {
		set.askedOnce, set.asked = set.asked, *object.Spec.Replicas
	}
	total := int32(0)
	for _, other := range sets {
		total += other.asked
	}
	s.spec = max(s.spec, total)
}

func (s *observation) pod(sets map[types.UID]*replaySet, kind watch.EventType, pod *corev1.Pod) {
	owner := metav1.GetControllerOf(pod)
	if owner == nil || sets[owner.UID] == nil {
		return
	}
	set := sets[owner.UID]
	was := set.active[pod.UID]
	is := kind != watch.Deleted && pod.DeletionTimestamp == nil
	switch {
	case is && !was:
		set.active[pod.UID] = true
		s.created++
		if most := max(set.asked, set.askedOnce); int32(len(set.active)) > most {
			s.violations = append(s.violations, fmt.Sprintf("at revision %s %s has %d pods, asked for %d, before that %d",
				pod.ResourceVersion, set.name, len(set.active), set.asked, set.askedOnce))
		}
	case was && !is:
		delete(set.active, pod.UID)
		if fewest := min(set.asked, set.askedOnce); int32(len(set.active)) < fewest {
			s.violations = append(s.violations, fmt.Sprintf("at revision %s %s is left with %d pods, asked for %d, before that %d",
				pod.ResourceVersion, set.name, len(set.active), set.asked, set.askedOnce))
		}
	}
}

func isReady(pod *corev1.Pod) bool {
	if pod.DeletionTimestamp != nil {
		return false
	}
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodReady {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}
