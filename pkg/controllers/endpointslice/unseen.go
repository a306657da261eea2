package endpointslice

import (
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// deletedGeneration is what the tracker holds for a slice whose deletion it expects.
const deletedGeneration = -1

// write is a write to a slice that the cache did not show when it was noted.
type write struct {
	service    types.NamespacedName
	slice      types.UID
	generation int64 // deletedGeneration if the slice was deleted
	// existed says that the cache had an older state of the slice.
	existed bool
}

// seen says whether the cache shows the write, or a later one; cached is nil if the cache
// has no such slice.
func (wr write) seen(cached *discoveryv1.EndpointSlice) bool {
	switch {
	case wr.generation == deletedGeneration:
		return cached == nil || cached.DeletionTimestamp != nil
	case cached == nil:
		return wr.existed
	default:
		return cached.Generation >= wr.generation
	}
}

// unseen returns the writes to the slices of a Service that the cache does not show. It
// must not be called while the Service is being reconciled.
func (w *written) unseen(service types.NamespacedName, cached []*discoveryv1.EndpointSlice) []write {
	w.mu.Lock()
	defer w.mu.Unlock()
	generations, _ := w.tracker.GenerationsForSliceUnsafe(sliceOf(service))
	var unseen []write
	for uid, generation := range generations {
		slice := withUID(cached, uid)
		noted := write{service: service, slice: uid, generation: generation}
		if !noted.seen(slice) {
			noted.existed = slice != nil
			unseen = append(unseen, noted)
		}
	}
	return unseen
}

// expect tracks a write of the predecessor, unless the cache shows it by now.
func (w *written) expect(wr write, cached []*discoveryv1.EndpointSlice) {
	if wr.seen(withUID(cached, wr.slice)) {
		return
	}
	slice := sliceOf(wr.service)
	slice.UID, slice.Generation = wr.slice, wr.generation
	w.mu.Lock()
	defer w.mu.Unlock()
	if wr.generation == deletedGeneration {
		w.tracker.ExpectDeletion(slice)
		return
	}
	w.tracker.Update(slice)
}

func withUID(slices []*discoveryv1.EndpointSlice, uid types.UID) *discoveryv1.EndpointSlice {
	for _, slice := range slices {
		if slice.UID == uid {
			return slice
		}
	}
	return nil
}

// sliceOf is the least slice by which the tracker finds a Service.
func sliceOf(service types.NamespacedName) *discoveryv1.EndpointSlice {
	return &discoveryv1.EndpointSlice{ObjectMeta: metav1.ObjectMeta{
		Namespace: service.Namespace,
		Labels:    map[string]string{discoveryv1.LabelServiceName: service.Name},
	}}
}
