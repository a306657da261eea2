package controllertest

import (
	"context"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/klog/v2"
)

// Subject is an Env with a controller in it whose keys are reconciled by calls.
type Subject[K comparable] struct {
	*Env
	// Key is what is reconciled when nothing else is said.
	Key K
	// Work reconciles a key.
	Work func(context.Context, K) error
	// Queued records what is queued, if the test puts it in the place of the loop.
	Queued *Queue[K]
	// Kinds has an object of each kind that the controller caches.
	Kinds []runtime.Object
}

// NewSubject makes a Subject whose API server holds the objects. The test completes it.
func NewSubject[K comparable](t testing.TB, key K, objects ...runtime.Object) *Subject[K] {
	t.Helper()
	return &Subject[K]{Env: New(t, objects...), Key: key, Queued: &Queue[K]{}}
}

// Reconcile reconciles the key.
func (s *Subject[K]) Reconcile() error { return s.Work(s.Context(), s.Key) }

// MustReconcile reconciles the key without an error.
func (s *Subject[K]) MustReconcile(t testing.TB) {
	t.Helper()
	if err := s.Reconcile(); err != nil {
		t.Fatalf("reconcile: %v", err)
	}
}

// CatchUp makes the caches of the Kinds show what the API server holds, and forgets the
// requests so far.
func (s *Subject[K]) CatchUp(t testing.TB) {
	t.Helper()
	s.Env.CatchUp(t, s.Kinds...)
}

// MeasureIdle measures reconciles of the key that find nothing to do. One that sends anything
// fails the benchmark.
func (s *Subject[K]) MeasureIdle(b *testing.B) {
	b.Helper()
	ctx := klog.NewContext(b.Context(), klog.Logger{})
	s.Fake.ClearActions()
	b.ReportAllocs()
	for b.Loop() {
		if err := s.Work(ctx, s.Key); err != nil {
			b.Fatal(err)
		}
	}
	if requests := s.Requests(); len(requests) != 0 {
		b.Fatalf("not idle: %v", requests[0])
	}
}
