package pvbinder

import (
	"maps"
	"sync"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/utils/clock"

	"kcmd.dev/pkg/controllers/kit/volumes"
)

const (
	operationProvision = "provision"
	operationDelete    = "delete"
)

// timings measures how long it takes to provision a volume, from the first attempt until it is bound,
// and to delete one, from the first attempt until it is gone.
type timings struct {
	clock   clock.PassiveClock
	metrics *operationMetrics

	mu     sync.Mutex
	starts map[startKey]start
}

// startKey is what is measured: an operation on a volume or a claim.
type startKey struct {
	operation string
	object    types.UID
}

func newTimings(c clock.PassiveClock, m *operationMetrics) *timings {
	return &timings{clock: c, metrics: m, starts: map[startKey]start{}}
}

// begin records the first attempt. Later ones do not count.
func (t *timings) begin(operation string, object types.UID, plugin string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	key := startKey{operation, object}
	if _, ok := t.starts[key]; !ok {
		t.starts[key] = start{t.clock.Now(), plugin}
	}
}

// complete records the duration of an operation, if its beginning is known.
func (t *timings) complete(operation string, object types.UID) {
	t.mu.Lock()
	defer t.mu.Unlock()
	key := startKey{operation, object}
	if s, ok := t.starts[key]; ok {
		delete(t.starts, key)
		t.metrics.latency.WithLabelValues(s.plugin, operation).Observe(t.clock.Since(s.at).Seconds())
	}
}

// fail counts an error of an operation, if its beginning is known.
func (t *timings) fail(operation string, object types.UID) {
	t.mu.Lock()
	defer t.mu.Unlock()
	s, ok := t.starts[startKey{operation, object}]
	if !ok {
		return
	}
	if s.plugin == "" {
		s.plugin = volumes.UnknownPlugin
	}
	t.metrics.errors.WithLabelValues(s.plugin, operation).Inc()
	t.metrics.oldErrors.WithLabelValues(s.plugin, operation).Inc()
}

// drop forgets an operation.
func (t *timings) drop(operation string, object types.UID) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.starts, startKey{operation, object})
}

func (t *timings) copied() map[startKey]start {
	t.mu.Lock()
	defer t.mu.Unlock()
	return maps.Clone(t.starts)
}

func (t *timings) takeOver(starts map[startKey]start) {
	t.mu.Lock()
	defer t.mu.Unlock()
	maps.Copy(t.starts, starts)
}

// retain forgets the operations on all other objects.
func (t *timings) retain(objects sets.Set[types.UID]) {
	t.mu.Lock()
	defer t.mu.Unlock()
	maps.DeleteFunc(t.starts, func(key startKey, _ start) bool { return !objects.Has(key.object) })
}
