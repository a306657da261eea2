package benchmark

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
)

// sightings records when a watch received the changes that a manager makes to silent nodes.
type sightings struct {
	mu      sync.Mutex
	nodes   map[string]time.Time // became unready
	pods    map[string]time.Time // became unready
	evicted map[string]time.Time
	err     error
}

// watch records changes of nodes and pods until the caller calls stop.
func (f *fleet) watch(ctx context.Context) (_ *sightings, stop func(), _ error) {
	s := &sightings{nodes: map[string]time.Time{}, pods: map[string]time.Time{}, evicted: map[string]time.Time{}}
	nodes, err := f.client.CoreV1().Nodes().Watch(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, nil, fmt.Errorf("watching nodes: %w", err)
	}
	pods, err := f.client.CoreV1().Pods(load).Watch(ctx, metav1.ListOptions{})
	if err != nil {
		nodes.Stop()
		return nil, nil, fmt.Errorf("watching pods: %w", err)
	}
	stopped := make(chan struct{})
	var watching sync.WaitGroup
	for _, w := range []watch.Interface{nodes, pods} {
		watching.Go(func() {
			for event := range w.ResultChan() {
				s.see(event, time.Now())
			}
			select {
			case <-stopped:
			default:
				s.fail(errors.New("a watch has ended"))
			}
		})
	}
	return s, func() {
		close(stopped)
		nodes.Stop()
		pods.Stop()
		watching.Wait()
	}, nil
}

// see records the time of the first change of each kind for each object. A watch starts with all
// existing objects. For an object that is already unready, see records the zero time.
func (s *sightings) see(event watch.Event, now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if event.Type == watch.Added {
		now = time.Time{}
	}
	first := func(times map[string]time.Time, name string) {
		if _, known := times[name]; !known {
			times[name] = now
		}
	}
	switch object := event.Object.(type) {
	case *corev1.Node:
		if slices.ContainsFunc(object.Status.Conditions, readyUnknown) {
			first(s.nodes, object.Name)
		}
	case *corev1.Pod:
		switch {
		case event.Type == watch.Deleted:
			first(s.evicted, object.Name)
		case !podReady(object):
			first(s.pods, object.Name)
		}
	}
}

func readyUnknown(c corev1.NodeCondition) bool {
	return c.Type == corev1.NodeReady && c.Status == corev1.ConditionUnknown
}

func (s *sightings) fail(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.err = errors.Join(s.err, err)
}

// complete returns nil once the given number of nodes and all their pods have become unready and the
// given number of pods have been evicted. A pod may be evicted before it becomes unready.
func (s *sightings) complete(nodes, evicted int) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	unready := since(s.nodes)
	pods := len(since(s.pods))
	gone := since(s.evicted)
	for name := range s.evicted {
		if at, seen := s.pods[name]; !seen || at.IsZero() {
			pods++
		}
	}
	if s.err != nil || len(unready) < nodes || pods < nodes*podsPerNode || len(gone) < evicted {
		return errors.Join(s.err, fmt.Errorf("%d nodes and %d pods are unready, %d pods are evicted", len(unready), pods, len(gone)))
	}
	return nil
}

// since returns the times of changes after the start of the watch, in order.
func since(times map[string]time.Time) []time.Time {
	var all []time.Time
	for _, at := range times {
		if !at.IsZero() {
			all = append(all, at)
		}
	}
	slices.SortFunc(all, time.Time.Compare)
	return all
}

// lastUnready returns the time when the last node or pod became unready.
func (s *sightings) lastUnready() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	var last time.Time
	for _, times := range []map[string]time.Time{s.nodes, s.pods} {
		for _, at := range times {
			if at.After(last) {
				last = at
			}
		}
	}
	return last
}

// firstEviction returns the time of the first eviction, or the zero time if there was none.
func (s *sightings) firstEviction() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	if all := since(s.evicted); len(all) > 0 {
		return all[0]
	}
	return time.Time{}
}
