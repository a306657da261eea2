package endpointslice

import (
	"context"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/endpointslice/util"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"
)

// written knows the slices of this controller as it last wrote or found them, in the
// tracker that the library keeps up to date with its writes.
//
//  1. A slice is tracked from the first write or from the initial list on. It stops being
//     tracked when it is deleted, being deleted, or labelled as somebody else's: such a
//     slice is not in the list that reconciles look at, and would be missed for ever.
//  2. The cache is stale for a Service while it shows a slice older than tracked, shows
//     one that we deleted, or lacks a tracked one.
//  3. A cache that is stale for longer than staleTimeout missed a notification. What it
//     shows is then taken for the truth.
type written struct {
	tracker *util.EndpointSliceTracker
	clock   clock.PassiveClock

	// mu keeps unseen, which reads a map of the tracker, apart from the handlers.
	mu         sync.Mutex
	staleSince map[types.NamespacedName]time.Time
}

func newWritten(c clock.PassiveClock) *written {
	return &written{
		tracker:    util.NewEndpointSliceTracker(),
		clock:      c,
		staleSince: map[types.NamespacedName]time.Time{},
	}
}

// found tracks a slice of the initial list. What is known of it already is newer.
func (w *written) found(slice *discoveryv1.EndpointSlice) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if ours(slice) && slice.DeletionTimestamp == nil && !w.tracker.Has(slice) {
		w.tracker.Update(slice)
	}
}

// differs says whether a slice is ours and not as we left it.
func (w *written) differs(slice *discoveryv1.EndpointSlice) bool {
	return ours(slice) && w.tracker.ShouldSync(slice)
}

// changed returns the states of a slice, before and after, whose Services have to be
// reconciled because of an update.
func (w *written) changed(old, slice *discoveryv1.EndpointSlice) []*discoveryv1.EndpointSlice {
	moved := old.Labels[discoveryv1.LabelServiceName] != slice.Labels[discoveryv1.LabelServiceName]
	if ours(old) && (moved || !ours(slice)) {
		w.mu.Lock()
		w.tracker.HandleDeletion(old)
		w.mu.Unlock()
	}
	switch {
	case moved:
		return []*discoveryv1.EndpointSlice{slice, old}
	case ours(old) != ours(slice) || w.differs(slice):
		return []*discoveryv1.EndpointSlice{slice}
	default:
		return nil
	}
}

// deletedByOthers notes the deletion of a slice and says whether it was tracked and the
// deletion not ours.
func (w *written) deletedByOthers(slice *discoveryv1.EndpointSlice) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return ours(slice) && w.tracker.Has(slice) && !w.tracker.HandleDeletion(slice)
}

// current returns those of the slices of a Service that are ours and not being deleted.
func (w *written) current(slices []*discoveryv1.EndpointSlice) []*discoveryv1.EndpointSlice {
	w.mu.Lock()
	defer w.mu.Unlock()
	current := make([]*discoveryv1.EndpointSlice, 0, len(slices))
	for _, slice := range slices {
		switch {
		case !ours(slice):
		case slice.DeletionTimestamp != nil:
			w.tracker.HandleDeletion(slice)
		default:
			current = append(current, slice)
		}
	}
	return current
}

// stale says whether the cache is too old to reconcile the Service with these slices.
func (w *written) stale(ctx context.Context, service *corev1.Service, slices []*discoveryv1.EndpointSlice) bool {
	name := types.NamespacedName{Namespace: service.Namespace, Name: service.Name}
	isStale := w.tracker.StaleSlices(service, slices)
	w.mu.Lock()
	defer w.mu.Unlock()
	if !isStale {
		delete(w.staleSince, name)
		return false
	}
	since, known := w.staleSince[name]
	if !known {
		w.staleSince[name] = w.clock.Now()
		return true
	}
	if w.clock.Since(since) < staleTimeout {
		return true
	}
	klog.FromContext(ctx).Info("the cache never showed a write to an EndpointSlice, going on with what it shows",
		"service", klog.KObj(service), "staleSince", since)
	delete(w.staleSince, name)
	w.tracker.DeleteService(name.Namespace, name.Name)
	for _, slice := range slices {
		w.tracker.Update(slice)
	}
	return false
}

// shown says whether these slices of a Service show everything that was written to them.
// Called with the slices that a reconcile began with, it says whether the reconcile wrote
// nothing that changed their number or content.
func (w *written) shown(service *corev1.Service, slices []*discoveryv1.EndpointSlice) bool {
	return !w.tracker.StaleSlices(service, slices)
}

// awaited returns the Service of a slice of ours if the cache was stale for it at the
// last look.
func (w *written) awaited(slice *discoveryv1.EndpointSlice) (types.NamespacedName, bool) {
	service := types.NamespacedName{Namespace: slice.Namespace, Name: slice.Labels[discoveryv1.LabelServiceName]}
	w.mu.Lock()
	defer w.mu.Unlock()
	_, stale := w.staleSince[service]
	return service, stale && ours(slice)
}

func (w *written) forgetService(namespace, name string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.staleSince, types.NamespacedName{Namespace: namespace, Name: name})
	w.tracker.DeleteService(namespace, name)
}

// ours says whether this controller manages the slice.
func ours(slice *discoveryv1.EndpointSlice) bool {
	return slice.Labels[discoveryv1.LabelManagedBy] == managedBy
}
