// Package slicewrites knows the EndpointSlices of a controller as it last wrote or found
// them, so that it never decides on a cache that lacks its own writes, and notices when
// somebody else changes what it wrote.
//
//  1. A slice is tracked from the first write, from the initial list, or from the first reconcile
//     that finds it. It stops being tracked when it is deleted, being deleted, replaced by another
//     of its name, or labelled as somebody else's: such a slice is not in the lists of reconciles,
//     and would count as missing for ever.
//  2. The cache is stale for a Service while it shows a slice older than tracked, shows
//     one that we deleted, or lacks a tracked one. Slices are ordered by their generation, which
//     annotations do not change: so a slice that is shown as it was before an update recorded by
//     Updated is stale, too. The outcome of an update without an answer is not known: if the cache
//     then shows another version, the slice counts as not being as the controller left it.
//  3. A cache that is stale for longer than StaleTimeout missed a notification. What it
//     shows is then taken for the truth, until it shows another version.
//  4. The answer to a write can come after the cache has shown that the slice is deleted or
//     taken over since: Writing stops tracking such a slice, because no notification will
//     arrive to do it.
//  5. The writes that the cache did not show when an instance ended are expected by its
//     successor, unless it starts so late that the caches must be past them, or has been shown that
//     the slice is gone: it is notified before it takes over.
//  6. A tracked slice that the cache lacks, although it is as new as the last write of the slice, was usually deleted
//     between two lists. A live read decides, since a list may lack what exists: if the slice is gone, it is not tracked
//     any more; if it exists, the cache is stale.
//  7. A slice of which Doubt notes that it may have been updated or deleted, because there was no answer, is read, too,
//     while the cache shows it as before. What is read is taken for the answer.
package slicewrites

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	discoveryclient "k8s.io/client-go/kubernetes/typed/discovery/v1"
	"k8s.io/endpointslice/util"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"kcmd.dev/pkg/controllers/kit/writes"
)

// StaleTimeout is how long the cache may lack a write before it is given up on. It is
// reached only if the cache shows neither the write nor what undid it.
const StaleTimeout = 5 * time.Minute

// maxGone is how many slices that are gone are remembered before Expect: an instance can wait for long until it begins.
const maxGone = 10_000

// ErrStaleCache ends a reconcile that would have been decided on an outdated cache.
var ErrStaleCache = errors.New("EndpointSlice informer cache is out of date")

// Ledger holds the writes of one controller, told from others by the managed-by label of
// its slices.
type Ledger struct {
	// Tracker is where the library records its writes, or the controller its own.
	Tracker *util.EndpointSliceTracker

	managedBy string
	clock     clock.PassiveClock
	store     writes.Store
	client    discoveryclient.EndpointSlicesGetter

	// mu keeps unseen, which reads a map of the tracker, apart from the handlers.
	mu         sync.Mutex
	staleSince map[types.NamespacedName]time.Time
	// last are the states in which the tracked slices of each Service were last written or found.
	last map[types.NamespacedName]map[types.UID]state
	// ended are the slices of Services that are being written for, and that have been shown
	// to be gone, or not ours any more, since Writing began.
	ended map[types.NamespacedName][]*discoveryv1.EndpointSlice
	// replaced has the resource version in which the cache showed a slice that was updated since.
	replaced map[types.UID]string
	// unanswered has the resource version in which the cache showed a slice when an update of it had no answer.
	unanswered map[types.UID]string
	// doubts has the resource version in which the cache showed a slice when an update or deletion of it had no answer.
	doubts map[types.UID]string
	// gone has the slices that were shown to be gone, or not ours any more, before Expect was called; nil since then.
	gone sets.Set[types.UID]
}

// New returns an empty ledger of the slices with this managed-by label. store is the cache of slices.
func New(
	managedBy string, c clock.PassiveClock, store writes.Store, client discoveryclient.EndpointSlicesGetter,
) *Ledger {
	return &Ledger{
		Tracker:    util.NewEndpointSliceTracker(),
		managedBy:  managedBy,
		clock:      c,
		store:      store,
		client:     client,
		staleSince: map[types.NamespacedName]time.Time{},
		last:       map[types.NamespacedName]map[types.UID]state{},
		ended:      map[types.NamespacedName][]*discoveryv1.EndpointSlice{},
		replaced:   map[types.UID]string{},
		unanswered: map[types.UID]string{},
		doubts:     map[types.UID]string{},
		gone:       sets.New[types.UID](),
	}
}

// Found tracks a slice of the initial list, or one that a reconcile has found, unless it is tracked already, in a newer
// state.
func (l *Ledger) Found(slice *discoveryv1.EndpointSlice) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.isCurrent(slice) && !l.Tracker.Has(slice) {
		l.trackLocked(slice)
	}
}

// Wrote tracks the answer to a create, or to an update that moves the generation.
func (l *Ledger) Wrote(answer *discoveryv1.EndpointSlice) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.trackLocked(answer)
}

func (l *Ledger) trackLocked(slice *discoveryv1.EndpointSlice) {
	l.Tracker.Update(slice)
	delete(l.doubts, slice.UID)
	l.noteLocked(serviceOf(slice), slice.UID, state{slice.Name, slice.ResourceVersion})
}

// Updated tracks the answer to an update of one of the slices that the cache showed. One that changed
// nothing replaced nothing.
func (l *Ledger) Updated(answer *discoveryv1.EndpointSlice, cached []*discoveryv1.EndpointSlice) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.trackLocked(answer)
	delete(l.unanswered, answer.UID)
	if before := withUID(cached, answer.UID); before != nil && before.ResourceVersion != answer.ResourceVersion {
		l.replaced[answer.UID] = before.ResourceVersion
		return
	}
	delete(l.replaced, answer.UID)
}

// Unanswered notes that an update of one of the slices that the cache showed has failed, although it may have been
// executed.
func (l *Ledger) Unanswered(name string, cached []*discoveryv1.EndpointSlice) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, slice := range cached {
		if slice.Name == name {
			l.unanswered[slice.UID] = slice.ResourceVersion
		}
	}
}

// Differs reports whether a slice is ours and not as we left it.
func (l *Ledger) Differs(slice *discoveryv1.EndpointSlice) bool {
	return l.ours(slice) && (l.Tracker.ShouldSync(slice) || l.answers(slice))
}

// answers reports whether a slice shows the outcome of an update without an answer.
func (l *Ledger) answers(slice *discoveryv1.EndpointSlice) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.answersLocked(slice)
}

func (l *Ledger) answersLocked(slice *discoveryv1.EndpointSlice) bool {
	before, waits := l.unanswered[slice.UID]
	return waits && slice.ResourceVersion != before
}

// Changed returns the states of a slice, before and after, whose Services have to be
// reconciled because of an update.
func (l *Ledger) Changed(old, slice *discoveryv1.EndpointSlice) []*discoveryv1.EndpointSlice {
	moved := old.Labels[discoveryv1.LabelServiceName] != slice.Labels[discoveryv1.LabelServiceName]
	recreated := old.UID != slice.UID // seen as one update
	if l.ours(old) && (moved || recreated || !l.ours(slice)) {
		l.mu.Lock()
		l.endLocked(old)
		l.mu.Unlock()
	}
	switch {
	case moved:
		return []*discoveryv1.EndpointSlice{slice, old}
	case l.ours(old) != l.ours(slice) || l.Differs(slice):
		return []*discoveryv1.EndpointSlice{slice}
	default:
		return nil
	}
}

// DeletedByOthers notes the deletion of a slice and reports whether it was tracked and the
// deletion not ours.
func (l *Ledger) DeletedByOthers(slice *discoveryv1.EndpointSlice) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.ours(slice) {
		return false
	}
	tracked := l.Tracker.Has(slice)
	return !l.endLocked(slice) && tracked
}

// endLocked stops tracking a slice, and reports whether that was expected.
func (l *Ledger) endLocked(slice *discoveryv1.EndpointSlice) (expected bool) {
	service := serviceOf(slice)
	if ended, writing := l.ended[service]; writing {
		l.ended[service] = append(ended, slice)
	}
	if l.gone != nil && len(l.gone) < maxGone {
		l.gone.Insert(slice.UID)
	}
	return l.dropLocked(slice)
}

// dropLocked forgets a slice, and reports whether it was not tracked, or its deletion expected.
func (l *Ledger) dropLocked(slice *discoveryv1.EndpointSlice) (expected bool) {
	delete(l.replaced, slice.UID)
	delete(l.unanswered, slice.UID)
	delete(l.doubts, slice.UID)
	l.unnoteLocked(serviceOf(slice), slice.UID)
	return l.Tracker.HandleDeletion(slice)
}

// Writing calls write, which writes slices of a Service, and reports whether one of them was deleted
// or taken over by somebody else before the answer to its write came. Then the Service has to be
// reconciled again. There may be only one call for a Service at a time.
func (l *Ledger) Writing(service types.NamespacedName, write func() error) (undone bool, err error) {
	l.mu.Lock()
	l.ended[service] = nil
	l.mu.Unlock()
	defer func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		for _, slice := range l.ended[service] {
			delete(l.doubts, slice.UID)
			undone = l.Tracker.Has(slice) && !l.dropLocked(slice) || undone
		}
		delete(l.ended, service)
	}()
	return false, write()
}

// Current returns those of the slices of a Service that are ours and not being deleted.
func (l *Ledger) Current(slices []*discoveryv1.EndpointSlice) []*discoveryv1.EndpointSlice {
	l.mu.Lock()
	defer l.mu.Unlock()
	current := make([]*discoveryv1.EndpointSlice, 0, len(slices))
	for _, slice := range slices {
		switch {
		case !l.isCurrent(slice):
			// The handler may have noted this before the library tracked its last write.
			l.dropLocked(slice)
		default:
			if l.answersLocked(slice) {
				delete(l.unanswered, slice.UID) // the caller decides by what the slice shows
			}
			current = append(current, slice)
		}
	}
	return current
}

func (l *Ledger) isCurrent(slice *discoveryv1.EndpointSlice) bool {
	return l.ours(slice) && slice.DeletionTimestamp == nil
}

// Stale reports whether the cache is too old to reconcile the Service with these slices.
func (l *Ledger) Stale(ctx context.Context, service types.NamespacedName, slices []*discoveryv1.EndpointSlice) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.shownLocked(service, slices) {
		delete(l.staleSince, service)
		return false
	}
	since, known := l.staleSince[service]
	if !known {
		l.staleSince[service] = l.clock.Now()
		return true
	}
	if l.clock.Since(since) < StaleTimeout {
		return true
	}
	klog.FromContext(ctx).Info("the cache never showed a write to an EndpointSlice, going on with what it shows",
		"service", service, "staleSince", since)
	l.forgetLocked(service)
	for _, slice := range slices {
		l.trackLocked(slice)
		if before, ok := l.replaced[slice.UID]; ok && before == slice.ResourceVersion {
			l.unanswered[slice.UID] = slice.ResourceVersion // the cache may still show the update later
		}
		delete(l.replaced, slice.UID)
	}
	return false
}

// ListCurrent returns those of the listed slices of a Service that are Current, and reports whether they are Stale.
// If they are, it lists again, because an event that arrived before the Service was marked stale has not queued it, and
// reads those that the cache should show by now. They count as stale, too, while the API server cannot say what became
// of a write without an answer.
func (l *Ledger) ListCurrent(
	ctx context.Context, service types.NamespacedName, list lister,
) (found []*discoveryv1.EndpointSlice, stale bool, err error) {
	for again := false; ; again = true {
		version := l.store.LastStoreSyncResourceVersion() // before the list, which may be newer
		listed, err := list()
		if err != nil {
			return nil, false, err
		}
		found = l.Current(listed)
		if !l.ask(ctx, service, found) {
			return found, true, nil
		}
		if stale = l.Stale(ctx, service, found); !stale {
			return found, false, nil
		}
		if again {
			l.dropGone(ctx, service, found, version)
			return found, l.Stale(ctx, service, found), nil
		}
	}
}

// lister lists the slices of a Service in a cache.
type lister = func() ([]*discoveryv1.EndpointSlice, error)

// Shown reports whether these slices of a Service show everything that was written to them.
// Called with the slices that a reconcile began with, it reports whether the reconcile wrote
// nothing that changed their number or content.
func (l *Ledger) Shown(service types.NamespacedName, slices []*discoveryv1.EndpointSlice) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.shownLocked(service, slices)
}

func (l *Ledger) shownLocked(service types.NamespacedName, all []*discoveryv1.EndpointSlice) bool {
	named := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: service.Namespace, Name: service.Name}}
	asBefore := func(slice *discoveryv1.EndpointSlice) bool {
		version, updated := l.replaced[slice.UID]
		return updated && slice.ResourceVersion == version
	}
	return !l.Tracker.StaleSlices(named, all) && !slices.ContainsFunc(all, asBefore)
}

// Awaited returns the Service of a slice of ours, and reports whether the cache was stale for it when
// it was last checked.
func (l *Ledger) Awaited(slice *discoveryv1.EndpointSlice) (types.NamespacedName, bool) {
	service := serviceOf(slice)
	l.mu.Lock()
	defer l.mu.Unlock()
	_, stale := l.staleSince[service]
	return service, stale && l.ours(slice)
}

// ServiceOf returns the Service that the label of a slice names. If the slice mirrors Endpoints, these
// have the same name. It returns an error if there is no such label.
func ServiceOf(slice *discoveryv1.EndpointSlice) (types.NamespacedName, error) {
	service := serviceOf(slice)
	if service.Name == "" {
		return service, fmt.Errorf("finding the Service of EndpointSlice %s/%s: there is no label %s",
			slice.Namespace, slice.Name, discoveryv1.LabelServiceName)
	}
	return service, nil
}

func serviceOf(slice *discoveryv1.EndpointSlice) types.NamespacedName {
	return types.NamespacedName{Namespace: slice.Namespace, Name: slice.Labels[discoveryv1.LabelServiceName]}
}

// Forget drops what is known of the slices of a Service.
func (l *Ledger) Forget(service types.NamespacedName) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.forgetLocked(service)
}

func (l *Ledger) forgetLocked(service types.NamespacedName) {
	delete(l.staleSince, service)
	delete(l.last, service)
	l.Tracker.DeleteService(service.Namespace, service.Name)
}

// ours reports whether this controller manages the slice.
func (l *Ledger) ours(slice *discoveryv1.EndpointSlice) bool {
	return slice.Labels[discoveryv1.LabelManagedBy] == l.managedBy
}
