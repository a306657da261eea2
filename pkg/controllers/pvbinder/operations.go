package pvbinder

import (
	"context"
	"maps"
	"sync"
	"time"

	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"kcmd.dev/pkg/controller/concurrent"
	"kcmd.dev/pkg/controllers/kit/reconcile"
)

const (
	firstBackoff = 500 * time.Millisecond
	maxBackoff   = 2*time.Minute + 2*time.Second
)

// operationSet runs what takes too long for a worker: each operation in a goroutine of its own, and at
// most one of a name at a time. After an error, its name is blocked for a while. What is not run now is
// not queued either: the next pass over the object starts it.
//
// Once the instance is to stop, nothing is started any more.
type operationSet struct {
	clock clock.PassiveClock

	mu sync.Mutex
	// stopping and working are the contexts of the instance, see reconcile.WorkContext. They are nil
	// while nothing may be started.
	stopping, working context.Context
	running           map[string]func() // waits for its end
	failed            map[string]failure
}

// failure is why the operations of a name are blocked.
type failure struct {
	at      time.Time
	backoff time.Duration
}

// operation is given the context that ends when the instance is to stop, for what can be continued by
// another instance, and the one for requests.
type operation func(stopping, working context.Context) error

func newOperations(c clock.PassiveClock) *operationSet {
	return &operationSet{clock: c, running: map[string]func(){}, failed: map[string]failure{}}
}

// begin allows operations to be started.
func (o *operationSet) begin(stopping, working context.Context) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.stopping, o.working = stopping, working
}

// finish waits until ctx ends and the operations have returned.
func (o *operationSet) finish(ctx context.Context) error {
	<-ctx.Done()
	o.mu.Lock()
	o.stopping, o.working = nil, nil
	running := maps.Clone(o.running)
	o.mu.Unlock()
	for _, wait := range running {
		wait()
	}
	return nil
}

// start runs an operation unless one of the name is running or has failed recently.
func (o *operationSet) start(name string, run operation) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if _, ok := o.running[name]; ok || o.working == nil || o.isBlocked(name) {
		return
	}
	stopping, working := o.stopping, o.working
	o.running[name] = concurrent.Start(func() {
		var err error
		if caught := concurrent.Catch(func() { err = run(stopping, working) }); caught != nil {
			err = caught
		}
		switch {
		case reconcile.IsExpected(err):
			klog.FromContext(working).V(3).Info("Operation met a conflict", "operation", name, "err", err)
		case err != nil:
			klog.FromContext(working).Error(err, "Operation failed", "operation", name)
		}
		o.ended(name, err)
	})
}

// isBlocked reports whether an operation of the name failed so recently that it is not tried again.
func (o *operationSet) isBlocked(name string) bool {
	f, ok := o.failed[name]
	return ok && o.clock.Since(f.at) <= f.backoff
}

func (o *operationSet) ended(name string, err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.running, name)
	if err == nil {
		delete(o.failed, name)
		return
	}
	f := failure{at: o.clock.Now(), backoff: firstBackoff}
	if before, ok := o.failed[name]; ok {
		f.backoff = min(2*before.backoff, maxBackoff)
	}
	o.failed[name] = f
	o.forget()
}

// forget drops failures of operations that were not tried again for a long time: their object is gone.
func (o *operationSet) forget() {
	maps.DeleteFunc(o.failed, func(_ string, f failure) bool { return o.clock.Since(f.at) > 2*maxBackoff })
}

// failures are the failures that block operations.
func (o *operationSet) failures() map[string]failure {
	o.mu.Lock()
	defer o.mu.Unlock()
	return maps.Clone(o.failed)
}

// takeOver blocks the operations that a predecessor saw fail.
func (o *operationSet) takeOver(failures map[string]failure) {
	o.mu.Lock()
	defer o.mu.Unlock()
	maps.Copy(o.failed, failures)
}
