package informers

import (
	"context"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/client-go/tools/cache"

	"kcmd.dev/pkg/controller"
)

// TestEverythingAtOnce lets the race detector look at all that can coincide.
func TestEverythingAtOnce(t *testing.T) {
	h := newHarness(t, pods(200)...)
	h.mu.Lock()
	h.grace = 2 * time.Second // some informers stop in between, some do not
	h.mu.Unlock()
	ctx, cancel := context.WithCancel(t.Context())
	var group, background sync.WaitGroup
	background.Go(func() {
		for ctx.Err() == nil {
			h.clock.Step(time.Second)
			h.Status()
			h.snapshot()
			runtime.Gosched()
		}
	})
	for worker := range 6 {
		group.Go(func() {
			random := rand.New(rand.NewPCG(uint64(worker), 1))
			for range 60 {
				churn(t, h, random)
			}
		})
	}
	group.Wait()
	cancel()
	background.Wait()
	if got := h.snapshot(); got.scopes != 0 || got.handlers != 0 {
		t.Errorf("left behind %+v", got)
	}
	last := h.open(ScopeOptions{Name: "last"})
	seen := newRecorder()
	addHandler(t, last.Core().V1().Pods().Informer(), seen)
	startAndSync(t, last)
	if adds, _ := seen.count(); adds != 200 {
		t.Errorf("handler saw %d of 200 pods", adds)
	}
}

// churn opens a scope, uses it, and closes it at some point of what it began.
func churn(t *testing.T, h *harness, random *rand.Rand) {
	s := h.NewScope(ScopeOptions{Name: "churn"})
	s.SetResyncPeriod(time.Second)
	closed := &atomic.Bool{}
	guard := cache.ResourceEventHandlerFuncs{
		AddFunc: func(any) {
			if closed.Load() {
				t.Error("called after Close")
			}
		},
		UpdateFunc: func(_, _ any) {
			if closed.Load() {
				t.Error("resynced after Close")
			}
		},
	}
	remove, end := random.IntN(3) == 0, random.IntN(3)
	var parts sync.WaitGroup
	parts.Go(func() {
		registered, err := s.Core().V1().Pods().Informer().AddEventHandler(guard)
		if err == nil && remove {
			_ = s.Core().V1().Pods().Informer().RemoveEventHandler(registered)
		}
	})
	parts.Go(func() {
		_, _ = s.Filtered(controller.Filter{LabelSelector: "app=p1"}).Core().V1().Pods().Informer().AddEventHandlerWithResyncPeriod(guard, time.Second)
		s.StartWithContext(t.Context())
	})
	parts.Go(func() {
		_ = s.Core().V1().Pods().Informer().AddIndexers(cache.Indexers{"node": byNode})
		_, _ = s.Core().V1().Pods().Informer().GetIndexer().ByIndex("node", "node-p1")
		s.SetResyncPeriod(2 * time.Second)
	})
	switch end {
	case 0:
	case 1:
		parts.Wait()
	case 2:
		parts.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		s.StartWithContext(ctx)
		if !s.WaitUntilReady(ctx) {
			t.Error("handlers did not sync")
		}
		cancel()
	}
	s.Close()
	closed.Store(true)
	parts.Wait()
}
