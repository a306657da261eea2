package informers

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Status describes one shared informer.
type Status struct {
	Group         string `json:"group,omitempty"`
	Version       string `json:"version"`
	Resource      string `json:"resource"`
	Form          Form   `json:"form"`
	Namespace     string `json:"namespace,omitempty"`
	FieldSelector string `json:"fieldSelector,omitempty"`
	LabelSelector string `json:"labelSelector,omitempty"`

	// Running is false before the informer was started.
	Running bool `json:"running"`
	// Synced reports whether the cache was complete at least once.
	Synced bool `json:"synced"`
	// Objects is the number of objects in the cache.
	Objects int `json:"objects"`
	// ResourceVersion is that of the newest state of the cache.
	ResourceVersion string `json:"resourceVersion,omitempty"`
	// Indexes are the names of the indexes, sorted.
	Indexes []string `json:"indexes,omitempty"`
	// Handlers is the number of event handlers, Refs that of scopes that hold the
	// informer, and Scopes their names, sorted.
	Handlers int      `json:"handlers"`
	Refs     int      `json:"refs"`
	Scopes   []string `json:"scopes,omitempty"`
	// IdleSince is when the last scope released it; zero while there is one.
	IdleSince time.Time `json:"idleSince,omitzero"`
	// LastError is the error that keeps it from making progress, empty if there is none.
	LastError     string    `json:"lastError,omitempty"`
	LastErrorTime time.Time `json:"lastErrorTime,omitzero"`
}

// Name is that of the resource, with its group.
func (s *Status) Name() string {
	return schema.GroupResource{Group: s.Group, Resource: s.Resource}.String()
}

// Status lists the informers, sorted by resource, form and filter. Its cost is in
// proportion to the number of cached objects.
func (i *Informers) Status() []Status {
	i.mu.Lock()
	list := make([]Status, 0, len(i.bases))
	bases := make([]*base, 0, len(i.bases))
	for _, b := range i.bases {
		list = append(list, b.referencesLocked())
		bases = append(bases, b)
	}
	i.mu.Unlock()

	for n, b := range bases {
		b.observe(&list[n])
	}
	slices.SortFunc(list, func(x, y Status) int {
		return cmp.Or(
			cmp.Compare(x.Group, y.Group),
			cmp.Compare(x.Resource, y.Resource),
			cmp.Compare(x.Version, y.Version),
			cmp.Compare(x.Form, y.Form),
			cmp.Compare(x.Namespace, y.Namespace),
			cmp.Compare(x.FieldSelector, y.FieldSelector),
			cmp.Compare(x.LabelSelector, y.LabelSelector),
		)
	})
	return list
}

// referencesLocked fills in what is known under the lock of Informers.
func (b *base) referencesLocked() Status {
	s := Status{
		Group:         b.key.resource.Group,
		Version:       b.key.resource.Version,
		Resource:      b.key.resource.Resource,
		Form:          b.key.form,
		Namespace:     b.key.filter.Namespace,
		FieldSelector: b.key.filter.FieldSelector,
		LabelSelector: b.key.filter.LabelSelector,
		Running:       b.stop != nil,
		Refs:          len(b.refs),
	}
	if s.Resource == "" {
		s.Resource = b.key.objectType.String()
	}
	for scope := range b.refs {
		s.Scopes = append(s.Scopes, scope.name)
	}
	slices.Sort(s.Scopes)
	if len(b.refs) == 0 {
		s.IdleSince = b.idleSince
	}
	return s
}

// observe fills in what the informer itself knows.
func (b *base) observe(s *Status) {
	s.Synced = b.informer.HasSynced()
	s.Running = s.Running && !b.informer.IsStopped()
	s.Objects = len(b.informer.GetStore().ListKeys())
	s.ResourceVersion = b.informer.GetStore().LastStoreSyncResourceVersion()
	s.Handlers = int(b.handlers.Load())
	s.Indexes = slices.Sorted(maps.Keys(b.indexers()))
	if last, found := b.lastFailure(); found {
		s.LastError = last.err.Error()
		s.LastErrorTime = last.at
	}
}

// Count returns how many informers run whose caches have been complete, and how many others run.
func (i *Informers) Count() (synced, filling int) {
	i.mu.Lock()
	defer i.mu.Unlock()
	for _, b := range i.bases {
		switch {
		case b.stop == nil:
		case b.informer.HasSynced():
			synced++
		default:
			filling++
		}
	}
	return synced, filling
}

// Unsynced lists the informers that run and whose cache has never been complete, sorted.
func (i *Informers) Unsynced() []string {
	i.mu.Lock()
	defer i.mu.Unlock()
	var list []string
	for k, b := range i.bases {
		if b.stop != nil && !b.informer.HasSynced() {
			list = append(list, k.String())
		}
	}
	slices.Sort(list)
	return list
}
