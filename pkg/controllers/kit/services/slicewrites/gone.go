package slicewrites

import (
	"context"

	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"

	"kcmd.dev/pkg/controller"
)

// state is a state of a slice.
type state struct{ name, version string }

func (l *Ledger) noteLocked(service types.NamespacedName, uid types.UID, s state) {
	if l.last[service] == nil {
		l.last[service] = map[types.UID]state{}
	}
	l.last[service][uid] = s
}

func (l *Ledger) unnoteLocked(service types.NamespacedName, uid types.UID) {
	if delete(l.last[service], uid); len(l.last[service]) == 0 {
		delete(l.last, service)
	}
}

// Doubt notes that an update or deletion of a slice, which the cache showed like this, may have been executed although
// it failed.
func (l *Ledger) Doubt(shown *discoveryv1.EndpointSlice) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.doubts[shown.UID] = shown.ResourceVersion
}

// ask reads those slices of a Service that are in doubt and that the cache shows as before. It reports whether it is
// known what became of all of them.
func (l *Ledger) ask(ctx context.Context, service types.NamespacedName, cached []*discoveryv1.EndpointSlice) bool {
	known := true
	for _, shown := range l.doubted(cached) {
		live, err := l.client.EndpointSlices(service.Namespace).Get(ctx, shown.Name, metav1.GetOptions{})
		switch {
		case err == nil && l.isStill(live, shown.UID, service):
			l.Updated(live, cached)
		case err == nil || controller.Absent(err):
			l.mu.Lock()
			delete(l.doubts, shown.UID)
			l.Tracker.ExpectDeletion(shown) // the cache will come to show that it is gone, or not ours
			l.mu.Unlock()
		case apierrors.IsForbidden(err): // what may not be read is as the cache shows it
			l.mu.Lock()
			delete(l.doubts, shown.UID)
			l.mu.Unlock()
		default:
			klog.FromContext(ctx).Info("Cannot read an EndpointSlice that may have been written, trying again",
				"endpointSlice", klog.KObj(shown), "err", err)
			known = false
		}
	}
	return known
}

// doubted returns the slices in doubt that the cache shows as before.
func (l *Ledger) doubted(cached []*discoveryv1.EndpointSlice) (all []*discoveryv1.EndpointSlice) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, slice := range cached {
		switch before, doubted := l.doubts[slice.UID]; {
		case doubted && before == slice.ResourceVersion:
			all = append(all, slice)
		case doubted:
			delete(l.doubts, slice.UID)
		}
	}
	return all
}

// isStill reports whether a slice is the one that was tracked for a Service.
func (l *Ledger) isStill(live *discoveryv1.EndpointSlice, tracked types.UID, service types.NamespacedName) bool {
	return live.UID == tracked && serviceOf(live) == service && l.isCurrent(live)
}

// dropGone stops tracking slices that are gone, among those of a Service that a cache of this version lacks although it
// should show them.
func (l *Ledger) dropGone(
	ctx context.Context, service types.NamespacedName, cached []*discoveryv1.EndpointSlice, version string,
) {
	for uid, name := range l.overdue(service, cached, version) {
		live, err := l.client.EndpointSlices(service.Namespace).Get(ctx, name, metav1.GetOptions{})
		if err != nil && !controller.Absent(err) {
			klog.FromContext(ctx).V(2).Info("cannot read an EndpointSlice that the cache lacks, waiting for the cache",
				"endpointSlice", klog.KRef(service.Namespace, name), "err", err)
			continue
		}
		if err == nil && l.isStill(live, uid, service) {
			continue
		}
		gone := sliceOf(service)
		gone.UID = uid
		l.mu.Lock()
		l.dropLocked(gone)
		l.mu.Unlock()
	}
}

// overdue returns the names of the tracked slices of a Service that a cache of this version lacks, although it is as
// new as their last writes, or does not tell.
func (l *Ledger) overdue(
	service types.NamespacedName, cached []*discoveryv1.EndpointSlice, version string,
) map[types.UID]string {
	l.mu.Lock()
	defer l.mu.Unlock()
	names := map[types.UID]string{}
	for uid, last := range l.last[service] {
		slice := sliceOf(service)
		slice.UID = uid
		isAwaited := !l.Tracker.ShouldSync(slice) // true of one that is not tracked, or whose deletion is expected
		if isAwaited && withUID(cached, uid) == nil && !controller.IsOlder(version, last.version) {
			names[uid] = last.name
		}
	}
	return names
}
