package resourcequota

import (
	"errors"
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/cache"

	"kcmd.dev/pkg/controller"
	"kcmd.dev/pkg/controllers/kit/reconcile"
	"kcmd.dev/pkg/controllers/kit/watch"
)

// monitor is the watch of a resource that can come and go.
type monitor struct {
	resource      schema.GroupVersionResource
	informers     []cache.SharedIndexInformer
	registrations []cache.ResourceEventHandlerRegistration
	// end is called when the resource is no longer watched.
	end func()
}

// complete reports whether the handlers of the monitor have been shown all objects.
func (m *monitor) complete() bool {
	return !slices.ContainsFunc(m.registrations, func(r cache.ResourceEventHandlerRegistration) bool {
		return !r.HasSynced()
	})
}

// monitors are the watches of all resources that can come and go. They are confined to the
// goroutine that follows discovery, once the controller is built.
type monitors struct {
	scope controller.Scope
	// watch makes the monitor of a resource; nil if the resource is watched otherwise.
	watch  func(schema.GroupVersionResource) (*monitor, error)
	byKind map[schema.GroupResource]*monitor
}

// watched returns the resources that have a monitor.
func (m *monitors) watched() resources {
	all := resources{}
	for kind, monitor := range m.byKind {
		all[kind] = monitor.resource
	}
	return all
}

// follow ends the monitors of resources that are not wanted, or not in that version, makes those
// that are missing, and returns the latter. One that cannot be made is tried again the next time.
func (m *monitors) follow(wanted resources) (added []*monitor, err error) {
	for kind, monitor := range m.byKind {
		if wanted[kind] != monitor.resource {
			delete(m.byKind, kind)
			m.release(monitor)
		}
	}
	var failures []error
	for kind, resource := range wanted {
		if m.byKind[kind] != nil {
			continue
		}
		monitor, err := m.watch(resource)
		if err != nil {
			failures = append(failures, fmt.Errorf("watching %s: %w", resource, err))
			continue
		}
		if monitor != nil {
			m.byKind[kind] = monitor
			added = append(added, monitor)
		}
	}
	return added, errors.Join(failures...)
}

func (m *monitors) release(monitor *monitor) {
	if monitor.end != nil {
		monitor.end()
	}
	for _, informer := range monitor.informers {
		m.scope.Release(informer)
	}
}

// add adds a handler to an informer of the monitor. There is no resync: the present state of each
// object has already been acted upon.
func (m *monitor) add(informer cache.SharedIndexInformer, handler cache.ResourceEventHandler) error {
	m.informers = append(m.informers, informer)
	registration, err := informer.AddEventHandlerWithResyncPeriod(handler, 0)
	if err != nil {
		return err
	}
	m.registrations = append(m.registrations, registration)
	return nil
}

// watchResource watches a resource that can come and go.
func (c *quotaController) watchResource(resource schema.GroupVersionResource) (*monitor, error) {
	kind := resource.GroupResource()
	switch {
	case resource == claims && c.deviceClaims:
		return c.watchClaims()
	case c.evaluators.special[kind] != nil:
		return nil, nil // watched from the start, or in no other version
	}
	generic, err := c.Informers.AnyFor(resource)
	if err != nil {
		return nil, err
	}
	m := &monitor{resource: resource}
	counter := newCounter(resource, m.complete)
	if err := m.add(generic.Informer(), watch.Handler(watch.Funcs[metav1.Object]{
		Add: func(_ reconcile.Lane, object metav1.Object) { counter.count(object.GetNamespace(), 1) },
		Update: func(_ reconcile.Lane, old, new metav1.Object) {
			if old.GetUID() != new.GetUID() {
				c.released(kind, new.GetNamespace()) // deleted and created again
			}
		},
		Delete: func(object metav1.Object) {
			counter.count(object.GetNamespace(), -1)
			c.released(kind, object.GetNamespace())
		},
	})); err != nil {
		c.monitors.release(m)
		return nil, err
	}
	m.end = func() { c.evaluators.remove(counter) }
	c.evaluators.add(counter)
	return m, nil
}
