package informers

import (
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"
)

// A handler that does not return is shown, by the kind it is about and since when.
func TestHandlerThatDoesNotReturnIsShown(t *testing.T) {
	h := newHarness(t, pods(1)...)
	s := h.open(ScopeOptions{Name: "hangs"})
	entered, leave := make(chan struct{}), make(chan struct{})
	addHandler(t, s.Core().V1().Pods().Informer(), cache.ResourceEventHandlerFuncs{AddFunc: func(any) {
		close(entered)
		<-leave
	}})
	if busy := s.Busy(0); len(busy) != 0 {
		t.Errorf("busy before anything happens: %v", busy)
	}
	s.StartWithContext(t.Context())
	<-entered
	began := h.clock.Now()
	h.clock.Step(time.Second)
	if busy := s.Busy(time.Minute); len(busy) != 0 {
		t.Errorf("busy for a minute after a second: %v", busy)
	}
	if busy := s.Busy(time.Second); len(busy) != 1 || busy[0].Key != "pods" || !busy[0].Since.Equal(began) {
		t.Errorf("busy %v, want pods since %v", busy, began)
	}
	close(leave)
	eventually(t, "the handler to be done", func() bool { return len(s.Busy(0)) == 0 })
}

// The wall clock may be set while a handler is called: it has not been called for an hour then. Pins MGR-204.
func TestHowLongAHandlerIsBusyDoesNotFollowTheWallClock(t *testing.T) {
	h := newHarness(t, pods(1)...)
	own := New(Options{Client: h.client, Clock: clock.RealClock{}})
	own.Start(t.Context())
	t.Cleanup(own.Shutdown)
	s := own.NewScope(ScopeOptions{Name: "busy"})
	t.Cleanup(s.Close)
	entered, leave := make(chan struct{}), make(chan struct{})
	addHandler(t, s.Core().V1().Pods().Informer(), cache.ResourceEventHandlerFuncs{AddFunc: func(any) {
		close(entered)
		<-leave
	}})
	s.StartWithContext(t.Context())
	<-entered
	defer close(leave)
	busy := s.Busy(0)
	if len(busy) != 1 || !strings.Contains(busy[0].Since.String(), "m=") {
		t.Errorf("busy %v, want one with a monotonic reading", busy)
	}
}

// The callback is called when a list or watch fails.
func TestFailureOfAWatchIsTold(t *testing.T) {
	h := newHarness(t)
	told, once := make(chan struct{}), sync.Once{}
	h.failed = func() { once.Do(func() { close(told) }) }
	h.client.PrependReactor("list", "nodes", func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, &corev1.NodeList{}, errors.New("not served")
	})
	s := h.open(ScopeOptions{Name: "told"})
	s.Core().V1().Nodes().Informer()
	s.StartWithContext(t.Context())
	select {
	case <-told:
	case <-time.After(patience):
		t.Error("nobody was told")
	}
}
