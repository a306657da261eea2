package cloud

import (
	"context"
	"errors"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/cloud-provider/api"
	servicehelpers "k8s.io/cloud-provider/service/helpers"
	"k8s.io/utils/clock"

	"kcmd.dev/pkg/controller"
	"kcmd.dev/pkg/controllers/kit/writes"
)

// recheck is the delay before a Service is read again that the cache shows as it was before a write.
const recheck = time.Second

// processed has what the library has last read and written of each Service that it works on, by key, until the Service
// is found to be gone. The library works on a key in one goroutine at a time, beside the handler of its events.
type processed struct {
	clock clock.PassiveClock

	mu    sync.Mutex
	byKey map[string]written
	// balanced are the Services that may have a load balancer, by UID, until the provider has none. See owed.go.
	balanced map[types.UID]*corev1.Service
}

// written is what was written of a Service.
type written struct {
	uid types.UID
	// version is the newest one that the API server has answered with.
	version string
	// at is when it answered. A cache that is behind for longer is believed: versions may have gone back.
	at time.Time
	// unsure is whether the last write may have been carried out without an answer.
	unsure bool
	// owed is the Service if its load balancer is still to be deleted, gone whether it is gone itself. See owed.go.
	owed *corev1.Service
	gone bool
	// addressed is the version with which the Service had an address after the last write, or when it was first read;
	// empty if it had none.
	addressed string
	// restored is when the Service was last queued because it had lost that.
	restored time.Time
	// address is the last one that the Service had by the library, as far as that is known.
	address []corev1.LoadBalancerIngress
}

// of returns what was written of a Service of a key.
func (p *processed) of(key string) (written, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	w, ok := p.byKey[key]
	return w, ok
}

// change changes what was written of a Service of a key, if there is anything.
func (p *processed) change(key string, change func(w *written)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if w, ok := p.byKey[key]; ok {
		change(&w)
		p.byKey[key] = w
	}
}

// know begins to record what is written of a Service, and returns what was before.
func (p *processed) know(service *corev1.Service) written {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.byKey == nil {
		p.byKey = map[string]written{}
	}
	w := p.byKey[keyOf(service)]
	if w.uid != service.UID {
		w = written{uid: service.UID}
		w.noteAddress(service)
		p.byKey[keyOf(service)] = w
	}
	return w
}

func (p *processed) forget(key string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.byKey, key)
}

// begin records the Service that the cache shows, which the library begins to work on. It returns an error if that is
// older than what was written: the library would take it for granted that the Service has the finalizer which it has
// removed, or lacks the one that it has added.
func (p *processed) begin(ctx context.Context, live typedcorev1.ServiceInterface, cached *corev1.Service) error {
	w := p.know(cached)
	if w.unsure {
		is, err := live.Get(ctx, cached.Name, metav1.GetOptions{})
		if err != nil {
			// Not wrapped: the library would conclude from a NotFound that the Service is gone.
			return errors.New("reading what was written of Service " + keyOf(cached) + ": " + err.Error())
		}
		p.change(keyOf(cached), func(known *written) {
			known.unsure, known.at = false, p.clock.Now()
			if is.UID == known.uid {
				known.version = is.ResourceVersion
				known.noteAddress(is)
			}
			w = *known
		})
	}
	if controller.IsOlder(cached.ResourceVersion, w.version) && p.clock.Since(w.at) < writes.Timeout {
		return api.NewRetryError("waiting for the cache to show what was written of Service "+keyOf(cached), recheck)
	}
	return nil
}

// isNewer reports whether what was written of a Service may be newer than a state of it that the cache has shown. It may
// have had the finalizer then, which the cache has never shown.
func (p *processed) isNewer(than *corev1.Service) bool {
	w, _ := p.of(keyOf(than))
	return w.uid == than.UID && (w.unsure || controller.IsOlder(than.ResourceVersion, w.version))
}

// hasLost reports whether a Service has lost its finalizer or the address of its load balancer, with or without the
// cache having shown that it had them.
func (p *processed) hasLost(was, is *corev1.Service) bool {
	switch {
	case !servicehelpers.HasLBFinalizer(is):
		return servicehelpers.HasLBFinalizer(was) || p.isNewer(was)
	case wants(is) && !hasAddress(is):
		return p.hasLostAddress(is)
	}
	return false
}

// hasLostAddress reports whether a Service lacks the address that it had after the last write. It returns true once in
// writes.Timeout at most: a client that goes on taking addresses away may not have the provider called each time. A loss
// in between is found by a resync.
func (p *processed) hasLostAddress(is *corev1.Service) (lost bool) {
	p.change(keyOf(is), func(w *written) {
		lost = w.uid == is.UID && w.addressed != "" && controller.IsOlder(w.addressed, is.ResourceVersion) &&
			p.clock.Since(w.restored) >= writes.Timeout
		if lost {
			w.restored = p.clock.Now()
		}
	})
	return lost
}

func (w *written) noteAddress(is *corev1.Service) {
	w.addressed = ""
	if hasAddress(is) {
		w.addressed = is.ResourceVersion
	}
	if wants(is) {
		w.address = is.Status.LoadBalancer.Ingress
	}
}

// gave records the address that the library has given to a Service, whatever that wants by now.
func (p *processed) gave(key string, is *corev1.Service) {
	p.change(key, func(w *written) { w.address = is.Status.LoadBalancer.Ingress })
}

// ours returns a Service without an address of somebody else: that of a Service of another class, unless the library gave
// it. The library takes the address away from a Service whose load balancer it has deleted.
func (p *processed) ours(service *corev1.Service) *corev1.Service {
	w, _ := p.of(keyOf(service))
	ingress := service.Status.LoadBalancer.Ingress
	if service.Spec.LoadBalancerClass == nil || equality.Semantic.DeepEqual(ingress, w.address) {
		return service
	}
	service = service.DeepCopy()
	service.Status.LoadBalancer = corev1.LoadBalancerStatus{}
	return service
}

func hasAddress(service *corev1.Service) bool { return len(service.Status.LoadBalancer.Ingress) > 0 }

// wrote records the outcome of a write.
func (p *processed) wrote(key string, is *corev1.Service, err error) {
	p.change(key, func(w *written) {
		switch {
		case err != nil:
			w.unsure = true
		case is.UID == w.uid:
			w.version, w.at = is.ResourceVersion, p.clock.Now()
			w.noteAddress(is)
		}
	})
}
