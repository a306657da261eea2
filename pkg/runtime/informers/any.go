package informers

import (
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
)

// AnyFor returns an informer of the whole objects of a resource if this process caches them
// whole anyway, of their metadata otherwise: that is if Options.Whole reports it, or if
// another scope currently holds an informer of all of them. The first answer for a resource
// holds as long as the scope.
func (s *Scope) AnyFor(resource schema.GroupVersionResource) (informers.GenericInformer, error) {
	if s.formOf(resource) == Typed {
		return s.ForResource(resource)
	}
	return s.MetadataFor(resource), nil
}

// formOf decides once for each resource.
func (s *Scope) formOf(resource schema.GroupVersionResource) Form {
	// Not under the lock: Whole belongs to somebody else.
	whole := s.whole
	if whole == nil {
		whole = s.informers.whole
	}
	decided := s.informers.formOf(resource, whole)
	s.mu.Lock()
	defer s.mu.Unlock()
	if form, found := s.forms[resource]; found {
		return form
	}
	if s.forms == nil {
		s.forms = map[schema.GroupVersionResource]Form{}
	}
	s.forms[resource] = decided
	return decided
}

func (i *Informers) formOf(resource schema.GroupVersionResource, whole func(schema.GroupVersionResource) bool) Form {
	objectType, known := resources().types[resource]
	if !known {
		return Metadata
	}
	if whole != nil && whole(resource) {
		return Typed
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	// One without references is about to be stopped.
	if b, found := i.bases[key{objectType: objectType, resource: resource, form: Typed}]; found && len(b.refs) > 0 {
		return Typed
	}
	return Metadata
}

// Release gives back an informer that was obtained through the scope: its handlers of this
// scope are removed, and it stops at once, without a grace period, if no other scope holds
// it. It is for a kind that is no longer served, whose informer would keep requesting it. It
// does not wait for a call of a handler in progress. An informer that was released, or that
// the scope does not hold, is ignored; requested again, it is a new one.
func (s *Scope) Release(of cache.SharedIndexInformer) {
	w, ok := of.(*informer)
	if !ok || w.scope != s {
		klog.Background().Error(nil, "Failed to release an informer, it belongs to another scope", "scope", s.name)
		return
	}
	for _, h := range s.letGo(w) {
		s.drop(h)
	}
	s.informers.releaseOne(s, w.base)
}

// letGo removes an informer from the scope and returns its handlers. They stay listed until
// they are removed, see drop.
func (s *Scope) letGo(w *informer) []*handler {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.held[w.base.key] == w {
		delete(s.held, w.base.key)
	}
	close(s.released)
	s.released = make(chan struct{})
	var handlers []*handler
	for h := range s.handlers {
		if h.base == w.base {
			handlers = append(handlers, h)
		}
	}
	return handlers
}

// releaseOne drops one reference of a scope, and the informer with the last one.
func (i *Informers) releaseOne(s *Scope, b *base) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if _, held := b.refs[s]; !held {
		return
	}
	delete(b.refs, s)
	if len(b.refs) > 0 || i.bases[b.key] != b {
		return
	}
	delete(i.bases, b.key)
	b.halt()
}
