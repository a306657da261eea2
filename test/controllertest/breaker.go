package controllertest

import (
	"context"
	"sync"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"kcmd.dev/pkg/controller"
)

// Breaker is a controller.Breaker that a test operates. It counts single objects.
type Breaker struct {
	mu        sync.Mutex
	stopped   map[schema.GroupResource]bool
	counted   int
	followers map[*func()]bool
}

// Stop stops a kind.
func (b *Breaker) Stop(of schema.GroupResource) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.stopped = map[schema.GroupResource]bool{of: true}
}

// Resume stops nothing any more.
func (b *Breaker) Resume() {
	b.mu.Lock()
	b.stopped = nil
	var followers []func()
	for told := range b.followers {
		followers = append(followers, *told)
	}
	b.mu.Unlock()
	for _, told := range followers {
		told()
	}
}

// Counted is how many objects were counted and not given back.
func (b *Breaker) Counted() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.counted
}

// On implements controller.Breaker.
func (b *Breaker) On() bool { return true }

// Ask implements controller.Breaker.
func (b *Breaker) Ask(_ context.Context, by string, of schema.GroupResource, _, _ string) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.stopped[of] {
		return 0, &controller.StoppedError{Resource: of, Why: by + " was about to delete too many"}
	}
	b.counted++
	return 1, nil
}

// GiveBack implements controller.Breaker.
func (b *Breaker) GiveBack(_ schema.GroupResource, counted int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.counted -= counted
}

// Stopped implements controller.Breaker.
func (b *Breaker) Stopped(of schema.GroupResource) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.stopped[of]
}

// Follow implements controller.Breaker.
func (b *Breaker) Follow(resumed func()) (end func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.followers == nil {
		b.followers = map[*func()]bool{}
	}
	b.followers[&resumed] = true
	return func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		delete(b.followers, &resumed)
	}
}
