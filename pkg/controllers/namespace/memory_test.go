package namespace

import (
	"errors"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"

	"kcmd.dev/pkg/controllers/kit/requests"
	"kcmd.dev/test/controllertest"
)

func TestMemory(t *testing.T) {
	m, ns := newMemory(), terminating()
	if _, ok := m.recall(ns); ok {
		t.Error("recalls what was not observed")
	}
	m.note(ns, sweep{{resource: widgets}})
	if _, ok := m.recall(ns); ok {
		t.Error("a note brings back what was forgotten")
	}
	m.observe(ns, epoch)
	m.note(ns, sweep{{resource: widgets}, {resource: secrets}, {resource: deployments, remaining: 1}})
	first, _ := m.recall(ns)
	m.note(ns, sweep{{resource: secrets, err: errors.New("boom")}})
	m.observe(ns, epoch.Add(time.Hour))
	if got, ok := m.recall(ns); !ok || !got.seen.Equal(epoch) || !got.clean.Equal(sets.New(widgets)) {
		t.Errorf("recall = %+v, %v", got, ok)
	}
	if !first.clean.Has(secrets) {
		t.Error("what was recalled has changed")
	}
	recreated := terminating(func(ns *corev1.Namespace) { ns.UID = types.UID("another") })
	if _, ok := m.recall(recreated); ok {
		t.Error("recalls another namespace of the name")
	}
	m.observe(recreated, epoch.Add(time.Hour))
	if got, ok := m.recall(recreated); !ok || !got.seen.Equal(epoch.Add(time.Hour)) || got.clean.Len() != 0 {
		t.Errorf("recall = %+v, %v", got, ok)
	}
	m.forget("ns")
	if _, ok := m.recall(recreated); ok {
		t.Error("recalls what was forgotten")
	}
}

// Pins NS-68.
func TestTheLastPodThatANamespaceWaitedFor(t *testing.T) {
	m, ns := newMemory(), terminating()
	left := 0
	shown := func() int { return left }
	gone := func(what string, want bool) {
		t.Helper()
		if got := m.podGone("ns", shown); got != want {
			t.Errorf("%s: last is %v, want %v", what, got, want)
		}
	}
	await := func(ns *corev1.Namespace, count int) {
		t.Helper()
		if got := m.awaitPods(ns, func() int { return count }); got != count {
			t.Errorf("%d pods are waited for, want %d", got, count)
		}
	}
	await(ns, 1)
	gone("of a namespace that was not observed", false)
	m.observe(ns, epoch)
	gone("before any was waited for", false)
	await(ns, 2)
	gone("one of two", false)
	gone("the last", true)
	gone("one more", false)

	await(ns, 1)
	left = 2 // the pods that are gone were not among those counted
	gone("of before", false)
	left = 1
	gone("one of two", false)
	left = 0
	gone("the last", true)

	await(terminating(func(ns *corev1.Namespace) { ns.UID = "another" }), 1)
	gone("of a namespace of before", false)
	await(ns, 1)
	m.forget("ns")
	gone("of a namespace that is gone", false)
}

// A pod that ends while pods are counted is one of those that are waited for. Pins NS-68.
func TestAPodThatEndsWhilePodsAreCounted(t *testing.T) {
	m, ns := newMemory(), terminating()
	m.observe(ns, epoch)
	last := make(chan bool, 1)
	m.awaitPods(ns, func() int {
		go func() { last <- m.podGone("ns", func() int { return 0 }) }()
		if m.mu.TryLock() { // then nothing makes the end of the pod wait until it has been counted
			m.mu.Unlock()
			last <- <-last
		}
		return 1
	})
	if !<-last {
		t.Error("the last pod is not noticed")
	}
}

// Deletions of several namespaces may come late. Pins NS-77.
func TestALateDeletionIsRememberedForItsTime(t *testing.T) {
	late, now := newLateDeletions(), controllertest.Epoch
	late.add("a", now)
	late.add("b", now.Add(requests.LateWithin-1))
	if rest := late.rest("a", now.Add(requests.LateWithin-1)); rest != 1 {
		t.Errorf("%s are left for the first", rest)
	}
	late.add("c", now.Add(requests.LateWithin+1))
	if len(late.until) != 2 {
		t.Errorf("those are remembered that are over: %v", late.until)
	}
}
