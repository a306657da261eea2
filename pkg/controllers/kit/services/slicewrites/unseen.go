package slicewrites

import (
	"fmt"
	"time"

	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"kcmd.dev/pkg/controllers/kit/index"
)

// deletedGeneration is what the tracker holds for a slice whose deletion it expects.
const deletedGeneration = -1

// Unseen are the writes that an instance leaves to its successor in the same process. The
// successor finds the slices of all others in its caches.
type Unseen struct {
	left   time.Time
	writes []write
}

// write is a write to a slice that the cache did not show when it was noted.
type write struct {
	service    types.NamespacedName
	slice      types.UID
	last       state
	generation int64 // deletedGeneration if the slice was deleted
	// replaced is the version in which the cache showed the slice before, empty if that is not known.
	replaced string
	// existed says that the cache had an older state of the slice.
	existed bool
	// unanswered is the version in which the cache showed the slice before a write that had no answer, else empty. If
	// it is set, generation, replaced and existed are not.
	unanswered string
	// doubted is that version if the slice is in doubt, like unanswered.
	doubted string
}

// seen reports whether the cache shows the write, or a later one; cached is nil if the cache
// has no such slice.
func (wr write) seen(cached *discoveryv1.EndpointSlice) bool {
	switch {
	case wr.generation == deletedGeneration:
		return cached == nil || cached.DeletionTimestamp != nil
	case cached == nil:
		return wr.existed
	default:
		return cached.Generation >= wr.generation && (wr.replaced == "" || cached.ResourceVersion != wr.replaced)
	}
}

// Unseen returns the writes to the slices of these Services that the cache does not show.
// It must not be called while one of them is being reconciled.
func (l *Ledger) Unseen(services []types.NamespacedName, cache index.EndpointSlices) (Unseen, error) {
	unseen := Unseen{left: l.clock.Now()}
	for _, service := range services {
		cached, err := cache.Of(service.Namespace, service.Name)
		if err != nil {
			return Unseen{}, fmt.Errorf("looking up the EndpointSlices of %s: %w", service, err)
		}
		unseen.writes = append(unseen.writes, l.unseenOf(service, cached)...)
	}
	return unseen, nil
}

// Expect tracks the writes of the predecessor that the cache does not show by now. After
// a long stop the caches are past every write of ours, and other processes may have undone
// them: then it tracks none. It is called once by each successor, also without a predecessor.
func (l *Ledger) Expect(unseen Unseen, cache index.EndpointSlices) error {
	defer l.forgetGone()
	if l.clock.Since(unseen.left) >= StaleTimeout {
		return nil
	}
	for _, w := range unseen.writes {
		cached, err := cache.Of(w.service.Namespace, w.service.Name)
		if err != nil {
			return fmt.Errorf("inheriting the unseen writes to EndpointSlices: %w", err)
		}
		l.expect(w, cached)
	}
	return nil
}

func (l *Ledger) forgetGone() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.gone = nil
}

func (l *Ledger) unseenOf(service types.NamespacedName, cached []*discoveryv1.EndpointSlice) []write {
	l.mu.Lock()
	defer l.mu.Unlock()
	generations, _ := l.Tracker.GenerationsForSliceUnsafe(sliceOf(service))
	var unseen []write
	for uid, generation := range generations {
		slice := withUID(cached, uid)
		noted := write{
			service: service, slice: uid, last: l.last[service][uid], generation: generation, replaced: l.replaced[uid],
		}
		if !noted.seen(slice) {
			noted.existed = slice != nil
			unseen = append(unseen, noted)
		}
	}
	for _, slice := range cached {
		if before, waits := l.unanswered[slice.UID]; waits && before == slice.ResourceVersion {
			unseen = append(unseen, write{service: service, slice: slice.UID, unanswered: before})
		}
		if before, doubted := l.doubts[slice.UID]; doubted && before == slice.ResourceVersion {
			unseen = append(unseen, write{service: service, slice: slice.UID, doubted: before})
		}
	}
	return unseen
}

// expect tracks a write of the predecessor, unless the cache shows it by now.
func (l *Ledger) expect(wr write, cached []*discoveryv1.EndpointSlice) {
	shown := withUID(cached, wr.slice)
	if wr.unanswered != "" {
		l.awaitAnswer(wr.slice, wr.unanswered, shown, l.unanswered)
		return
	}
	if wr.doubted != "" {
		l.awaitAnswer(wr.slice, wr.doubted, shown, l.doubts)
		return
	}
	if wr.seen(shown) {
		return
	}
	slice := sliceOf(wr.service)
	slice.UID, slice.Generation = wr.slice, wr.generation
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.gone.Has(wr.slice) {
		return // no further notification would end the wait for it
	}
	if wr.generation == deletedGeneration {
		l.Tracker.ExpectDeletion(slice)
		return
	}
	l.Tracker.Update(slice)
	l.noteLocked(wr.service, wr.slice, wr.last)
	if wr.replaced != "" {
		l.replaced[wr.slice] = wr.replaced
	}
}

// awaitAnswer takes over a write of the predecessor that had no answer, unless the cache shows its outcome by now.
func (l *Ledger) awaitAnswer(
	slice types.UID, before string, shown *discoveryv1.EndpointSlice, into map[types.UID]string,
) {
	if shown == nil || shown.ResourceVersion != before {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.gone.Has(slice) {
		into[slice] = before
	}
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
