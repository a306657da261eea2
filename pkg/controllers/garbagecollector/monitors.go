package garbagecollector

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"kcmd.dev/pkg/controller"
	"kcmd.dev/pkg/controllers/kit/reconcile"
)

// monitor is the watch of one resource.
type monitor struct {
	monitored    *monitored
	informer     cache.SharedIndexInformer
	registration cache.ResourceEventHandlerRegistration
	// since is when the monitor was made.
	since time.Time
	// replayed is set once the replay of the monitor was reported, inGraph once the graph has what was replayed.
	replayed, inGraph bool
}

// monitors are the watches of all resources.
type monitors struct {
	scope controller.Scope
	clock clock.WithTicker
	// knows reports whether an object is in the graph; deliver accepts changes in order.
	knows   func(metav1.Object) bool
	deliver func(*change)

	mu         sync.RWMutex
	byResource map[schema.GroupVersionResource]*monitor

	// foreseen are informers requested before the wanted resources are known.
	foreseen map[schema.GroupVersionResource]cache.SharedIndexInformer
}

func newMonitors(
	scope controller.Scope, c clock.WithTicker, knows func(metav1.Object) bool, deliver func(*change),
) *monitors {
	return &monitors{
		scope:      scope,
		clock:      c,
		knows:      knows,
		deliver:    deliver,
		byResource: map[schema.GroupVersionResource]*monitor{},
	}
}

// foresee requests the informers of resources that will probably be wanted. A standby, which
// does no more than this, thereby keeps their caches filled.
func (m *monitors) foresee(resources map[schema.GroupVersionResource]*monitored) {
	m.foreseen = map[schema.GroupVersionResource]cache.SharedIndexInformer{}
	for resource := range resources {
		if generic, err := m.scope.AnyFor(resource); err == nil {
			m.foreseen[resource] = generic.Informer()
		}
	}
}

// drop stops the monitors that are not wanted and returns their resources.
func (m *monitors) drop(wanted map[schema.GroupVersionResource]*monitored) []*monitored {
	var stopped []*monitored
	var informers []cache.SharedIndexInformer
	m.mu.Lock()
	for resource, monitor := range m.byResource {
		if wanted[resource] == nil {
			delete(m.byResource, resource)
			stopped = append(stopped, monitor.monitored)
			informers = append(informers, monitor.informer)
		}
	}
	m.mu.Unlock()
	for resource, informer := range m.foreseen {
		if wanted[resource] == nil {
			informers = append(informers, informer)
		}
	}
	m.foreseen = nil
	for _, informer := range informers {
		m.scope.Release(informer)
	}
	return stopped
}

// start creates the wanted monitors that are missing. It starts the new ones if all could be
// created; otherwise they are kept, and the next call starts them.
func (m *monitors) start(ctx context.Context, wanted map[schema.GroupVersionResource]*monitored) error {
	var failures []error
	for resource, as := range wanted {
		if m.has(resource) {
			continue
		}
		if err := m.add(newMonitored(resource, as.kind)); err != nil {
			failures = append(failures, fmt.Errorf("watching %s: %w", resource, err))
		}
	}
	if len(failures) == 0 {
		m.scope.StartWithContext(ctx)
	}
	return errors.Join(failures...)
}

func (m *monitors) has(resource schema.GroupVersionResource) bool {
	m.mu.RLock()
	defer m.mu.RUnlock()
	return m.byResource[resource] != nil
}

func (m *monitors) add(as *monitored) error {
	generic, err := m.scope.AnyFor(as.resource)
	if err != nil {
		return err
	}
	informer := generic.Informer()
	// No resync: the present state of each object has already been acted upon.
	registration, err := informer.AddEventHandlerWithResyncPeriod(handler{m, as}, 0)
	if err != nil {
		m.scope.Release(informer)
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.byResource[as.resource] = &monitor{
		monitored: as, informer: informer, registration: registration, since: m.clock.Now(),
	}
	return nil
}

// watched returns the resources that have a monitor.
func (m *monitors) watched() map[schema.GroupVersionResource]*monitored {
	m.mu.RLock()
	defer m.mu.RUnlock()
	all := map[schema.GroupVersionResource]*monitored{}
	for resource, monitor := range m.byResource {
		all[resource] = monitor.monitored
	}
	return all
}

// synced reports whether a resource has a monitor that has synced.
func (m *monitors) synced(resource schema.GroupVersionResource) bool {
	m.mu.RLock()
	defer m.mu.RUnlock()
	monitor := m.byResource[resource]
	return monitor != nil && monitor.registration.HasSynced()
}

// filled reports whether the cache of a resource is complete: that of its monitor, or the one that
// was foreseen.
func (m *monitors) filled(resource schema.GroupVersionResource) bool {
	informer, foreseen := m.foreseen[resource]
	return foreseen && informer.HasSynced() || m.synced(resource)
}

// replayed returns the monitors that have synced since the last call.
func (m *monitors) replayed() []*monitor {
	m.mu.Lock()
	defer m.mu.Unlock()
	var complete []*monitor
	for _, monitor := range m.byResource {
		if !monitor.replayed && monitor.registration.HasSynced() {
			monitor.replayed = true
			complete = append(complete, monitor)
		}
	}
	return complete
}

// nowInGraph records that the graph has what monitors have replayed.
func (m *monitors) nowInGraph(complete []*monitor) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, monitor := range complete {
		monitor.inGraph = true
	}
}

// unfilled returns the resources of which the graph may lack objects, because their monitors have not been replayed
// yet, sorted. Those of monitors that are older than a limit are left out: it may be that they cannot be listed.
func (m *monitors) unfilled(limit time.Duration) []schema.GroupVersionResource {
	m.mu.RLock()
	defer m.mu.RUnlock()
	var missing []schema.GroupVersionResource
	for resource, monitor := range m.byResource {
		if !monitor.inGraph && m.clock.Since(monitor.since) < limit {
			missing = append(missing, resource)
		}
	}
	slices.SortFunc(missing, byText)
	return missing
}

// waitForSync waits until all monitors have synced, up to a time limit.
func (m *monitors) waitForSync(ctx context.Context, limit time.Duration) bool {
	m.mu.RLock()
	all := maps.Clone(m.byResource)
	m.mu.RUnlock()
	timer := m.clock.NewTimer(limit)
	defer timer.Stop()
	for _, monitor := range all {
		select {
		case <-monitor.registration.HasSyncedChecker().Done():
		case <-timer.C():
			return false
		case <-ctx.Done():
			return false
		}
	}
	return true
}

// cached returns the cached object. It must not be modified.
func (m *monitors) cached(resource schema.GroupVersionResource, id identity) (metav1.Object, bool) {
	m.mu.RLock()
	monitor := m.byResource[resource]
	m.mu.RUnlock()
	if monitor == nil {
		return nil, false
	}
	stored, found, err := monitor.informer.GetStore().GetByKey(cache.NewObjectName(id.namespace, id.name).String())
	if err != nil || !found {
		return nil, false
	}
	object, err := meta.Accessor(stored)
	if err != nil || object.GetUID() != id.uid {
		return nil, false
	}
	return object, true
}

// handler turns the notifications of one informer into changes of the graph.
type handler struct {
	monitors  *monitors
	monitored *monitored
}

func (h handler) OnAdd(obj any, isInInitialList bool) {
	object, ok := h.accessor(obj)
	if !ok {
		return
	}
	lane := reconcile.Fresh
	if isInInitialList {
		lane = reconcile.Backlog
	}
	h.monitors.deliver(&change{kind: changeObserved, lane: lane, monitored: h.monitored, new: object})
}

func (h handler) OnUpdate(old, new any) {
	was, okOld := h.accessor(old)
	is, okNew := h.accessor(new)
	if !okOld || !okNew {
		return
	}
	if was.GetUID() != is.GetUID() {
		// The object was deleted and recreated while the watch was interrupted, or an API server that is behind lists
		// the one that had its name before.
		h.monitors.deliver(&change{kind: changeMissed, monitored: h.monitored, old: was})
		h.monitors.deliver(&change{kind: changeObserved, monitored: h.monitored, new: is})
		return
	}
	if !concerns(was, is) && h.monitors.knows(is) {
		return
	}
	h.monitors.deliver(&change{kind: changeObserved, monitored: h.monitored, old: was, new: is})
}

func (h handler) OnDelete(obj any) {
	kind := changeGone
	if tombstone, ok := obj.(cache.DeletedFinalStateUnknown); ok {
		kind, obj = changeMissed, tombstone.Obj
	}
	if object, ok := h.accessor(obj); ok {
		h.monitors.deliver(&change{kind: kind, monitored: h.monitored, old: object})
	}
}

func (h handler) accessor(obj any) (metav1.Object, bool) {
	object, err := meta.Accessor(obj)
	if err != nil {
		klog.Background().Error(err, "Dropping a notification that contains no object", "resource", h.monitored.resource)
		return nil, false
	}
	return object, true
}
