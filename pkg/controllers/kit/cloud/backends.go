package cloud

import (
	"sync"
	"sync/atomic"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/cache"
)

// backends finds out where a load balancer may have been left with nodes that are not the last ones. The library
// compares nodes with those of the call that began last, and makes a call for changed nodes while one for a changed
// Service is under way, so that the load balancer may not even exist yet. Which of the two has the last word is up to
// the provider, so the Service is processed once more after such calls.
type backends struct {
	// again is the handler of the library, which queues a Service that is added.
	again atomic.Pointer[cache.ResourceEventHandler]

	mu   sync.Mutex
	open map[string]*openCalls // by key of the Service
}

// openCalls are calls about one load balancer that have not ended.
type openCalls struct {
	n int
	// overlap is whether one of them began before another one had ended.
	overlap bool
}

// set records a call that sets the nodes of a load balancer. The returned function is called when it has ended.
func (b *backends) set(service *corev1.Service) (ended func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	key := keyOf(service)
	calls := b.open[key]
	if calls == nil {
		calls = &openCalls{}
		if b.open == nil {
			b.open = map[string]*openCalls{}
		}
		b.open[key] = calls
	}
	calls.n++
	calls.overlap = calls.overlap || calls.n > 1
	return func() {
		if b.end(key, calls) {
			b.queue(service)
		}
	}
}

// queue has a Service processed that wants a load balancer.
func (b *backends) queue(service *corev1.Service) {
	if handler := b.again.Load(); handler != nil {
		(*handler).OnAdd(service, false)
	}
}

// end ends one of the calls, and reports whether it is the last one of several that overlapped.
func (b *backends) end(key string, calls *openCalls) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if calls.n--; calls.n > 0 {
		return false
	}
	delete(b.open, key)
	return calls.overlap
}
