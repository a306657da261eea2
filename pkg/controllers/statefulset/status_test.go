package statefulset

import (
	"context"
	"errors"
	"net/url"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

func named(name string) *appsv1.ControllerRevision {
	return &appsv1.ControllerRevision{ObjectMeta: metav1.ObjectMeta{Name: name}}
}

// Pins STS-21 and STS-42.
func TestCountStatus(t *testing.T) {
	set := newSet(9, minReady(10))
	set.Generation = 7
	fresh := readySince(start.Add(-9 * time.Second))
	pods := []*corev1.Pod{
		podAt(set, "current", 0),
		podAt(set, "current", 1, fresh),
		podAt(set, "current", 2, notReady),
		podAt(set, "update", 3),
		podAt(set, "update", 4, terminating), // counts, but at no revision
		podAt(set, "update", 5, phase(corev1.PodPending), notReady),
		podAt(set, "older", 6, phase(corev1.PodFailed)), // its condition is left over
		newPod(set, "update", 7),
	}
	got := countStatus(set, revisions{current: named("current"), update: named("update"), collisions: 3}, pods, start)
	want := appsv1.StatefulSetStatus{
		ObservedGeneration: 7, CurrentRevision: "current", UpdateRevision: "update", CollisionCount: ptr.To[int32](3),
		Replicas: 7, ReadyReplicas: 4, AvailableReplicas: 3, CurrentReplicas: 3, UpdatedReplicas: 2,
	}
	if !apiequality.Semantic.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
	got = countStatus(set, revisions{current: named("update"), update: named("update")}, pods[3:4], start)
	if got.CurrentReplicas != 1 || got.UpdatedReplicas != 1 || got.CollisionCount == nil {
		t.Errorf("got %+v", got)
	}
}

// Pins STS-43.
func TestCompleted(t *testing.T) {
	full := appsv1.StatefulSetStatus{Replicas: 2, ReadyReplicas: 2, UpdatedReplicas: 2, CurrentReplicas: 0, CurrentRevision: "a", UpdateRevision: "b"}
	for _, test := range []struct {
		name   string
		set    setChange
		status func(*appsv1.StatefulSetStatus)
		want   bool
	}{
		{"complete", func(*appsv1.StatefulSet) {}, func(*appsv1.StatefulSetStatus) {}, true},
		{"no settings", withoutRollingUpdate, func(*appsv1.StatefulSetStatus) {}, true},
		{"OnDelete", onDelete, func(*appsv1.StatefulSetStatus) {}, false},
		{"one is not ready", func(*appsv1.StatefulSet) {}, func(s *appsv1.StatefulSetStatus) { s.ReadyReplicas = 1 }, false},
		{"one is outdated", func(*appsv1.StatefulSet) {}, func(s *appsv1.StatefulSetStatus) { s.UpdatedReplicas = 1 }, false},
		{"one is surplus", func(*appsv1.StatefulSet) {}, func(s *appsv1.StatefulSetStatus) { s.Replicas, s.ReadyReplicas, s.UpdatedReplicas = 3, 3, 3 }, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			status := full
			test.status(&status)
			got := completed(newSet(2, test.set), status)
			if done := got.CurrentRevision == "b" && got.CurrentReplicas == 2; done != test.want {
				t.Errorf("got %+v", got)
			}
		})
	}
}

// Pins STS-44.
func TestSaysMore(t *testing.T) {
	for name, test := range map[string]struct {
		change func(*appsv1.StatefulSetStatus)
		want   bool
	}{
		"nothing":          {func(*appsv1.StatefulSetStatus) {}, false},
		"generation":       {func(s *appsv1.StatefulSetStatus) { s.ObservedGeneration++ }, true},
		"older generation": {func(s *appsv1.StatefulSetStatus) { s.ObservedGeneration-- }, false},
		"replicas":         {func(s *appsv1.StatefulSetStatus) { s.Replicas++ }, true},
		"current":          {func(s *appsv1.StatefulSetStatus) { s.CurrentReplicas++ }, true},
		"ready":            {func(s *appsv1.StatefulSetStatus) { s.ReadyReplicas++ }, true},
		"updated":          {func(s *appsv1.StatefulSetStatus) { s.UpdatedReplicas++ }, true},
		"available":        {func(s *appsv1.StatefulSetStatus) { s.AvailableReplicas++ }, true},
		"current revision": {func(s *appsv1.StatefulSetStatus) { s.CurrentRevision = "x" }, true},
		"update revision":  {func(s *appsv1.StatefulSetStatus) { s.UpdateRevision = "x" }, true},
		"collisions":       {func(s *appsv1.StatefulSetStatus) { s.CollisionCount = ptr.To[int32](9) }, false},
		"conditions":       {func(s *appsv1.StatefulSetStatus) { s.Conditions = []appsv1.StatefulSetCondition{{}} }, false},
	} {
		stored := appsv1.StatefulSetStatus{ObservedGeneration: 5}
		next := stored
		test.change(&next)
		if got := differs(&next, &stored); got != test.want {
			t.Errorf("%s: %v", name, got)
		}
	}
	for name, test := range map[string]struct {
		change func(*appsv1.StatefulSetStatus)
		want   bool
	}{
		"one is not ready":     {func(s *appsv1.StatefulSetStatus) { s.ReadyReplicas = 4 }, true},
		"one is not available": {func(s *appsv1.StatefulSetStatus) { s.AvailableReplicas = 4 }, true},
		"one is gone":          {func(s *appsv1.StatefulSetStatus) { s.Replicas = 4 }, false},
	} {
		set := newSet(5)
		set.Status = appsv1.StatefulSetStatus{Replicas: 5, ReadyReplicas: 5, AvailableReplicas: 5, CurrentReplicas: 5, UpdatedReplicas: 5}
		next := set.Status
		test.change(&next)
		if got := isUrgent(set, &next); got != test.want {
			t.Errorf("of all, %s: %v", name, got)
		}
	}
}

// Pins STS-68.
func TestUrgency(t *testing.T) {
	for name, test := range map[string]struct {
		set    setChange
		change func(*appsv1.StatefulSetStatus)
		want   bool
	}{
		"nothing":           {change: func(*appsv1.StatefulSetStatus) {}},
		"on its way":        {change: func(s *appsv1.StatefulSetStatus) { s.Replicas, s.ReadyReplicas, s.AvailableReplicas = 3, 3, 3 }},
		"generation":        {change: func(s *appsv1.StatefulSetStatus) { s.ObservedGeneration = 2 }, want: true},
		"update revision":   {change: func(s *appsv1.StatefulSetStatus) { s.UpdateRevision = "x" }, want: true},
		"current revision":  {change: func(s *appsv1.StatefulSetStatus) { s.CurrentRevision = "x" }, want: true},
		"all there":         {change: func(s *appsv1.StatefulSetStatus) { s.Replicas = 5 }, want: true},
		"all ready":         {change: func(s *appsv1.StatefulSetStatus) { s.ReadyReplicas = 5 }, want: true},
		"all available":     {change: func(s *appsv1.StatefulSetStatus) { s.AvailableReplicas = 5 }, want: true},
		"all updated":       {change: func(s *appsv1.StatefulSetStatus) { s.UpdatedReplicas = 5 }, want: true},
		"down to partition": {set: partition(2), change: func(s *appsv1.StatefulSetStatus) { s.UpdatedReplicas = 3 }, want: true},
		"not yet partition": {set: partition(1), change: func(s *appsv1.StatefulSetStatus) { s.UpdatedReplicas = 3 }},
		"current replicas":  {change: func(s *appsv1.StatefulSetStatus) { s.CurrentReplicas = 3 }},
		"all current":       {change: func(s *appsv1.StatefulSetStatus) { s.CurrentReplicas = 5 }, want: true},
		"partition current": {set: partition(1), change: func(s *appsv1.StatefulSetStatus) { s.CurrentReplicas = 1 }, want: true},
		"one less ready":    {change: func(s *appsv1.StatefulSetStatus) { s.ReadyReplicas = 1 }},
		"needed next time":  {set: withoutRollingUpdate, change: func(s *appsv1.StatefulSetStatus) { s.CurrentReplicas = 3 }, want: true},
	} {
		set := newSet(5)
		set.Status = appsv1.StatefulSetStatus{Replicas: 2, ReadyReplicas: 2, AvailableReplicas: 2, CurrentReplicas: 2, UpdatedReplicas: 2}
		if test.set != nil {
			test.set(set)
		}
		next := set.Status
		test.change(&next)
		if got := isUrgent(set, &next); got != test.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// It is written with the next attempt. Pins WL-119.
func TestAStatusThatIsNotWrittenInTime(t *testing.T) {
	f := settled(t, 1, func(set *appsv1.StatefulSet) { set.Status.ReadyReplicas = 0 })
	f.Refuse("update statefulsets/status", &url.Error{Op: "Put", URL: "https://server", Err: context.DeadlineExceeded})
	if err := f.Reconcile(); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v", err)
	}
}
