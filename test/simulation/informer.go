package simulation

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/cache"
)

// cached is what an informer caches: the objects of a resource, whole or only their metadata.
type cached struct {
	resource schema.GroupVersionResource
	partial  bool
}

func (c cached) String() string {
	if c.partial {
		return c.resource.String() + " (metadata)"
	}
	return c.resource.String()
}

// informer is one whose events the world delivers.
type informer struct {
	cache.SharedIndexInformer
	cached
	w        *World
	seen     int // how much of the history
	handlers []cache.ResourceEventHandler
	pending  []func() // notifications of the handlers

	lost          losses
	unlisted      bool // it has not listed yet
	registrations []*registration
}

func (i *informer) HasSynced() bool { return !i.unlisted }

func (i *informer) AddEventHandler(h cache.ResourceEventHandler) (cache.ResourceEventHandlerRegistration, error) {
	i.handlers = append(i.handlers, h)
	r := &registration{i: i, done: make(chan struct{})}
	i.registrations = append(i.registrations, r)
	for _, object := range i.shown() {
		i.pending = append(i.pending, func() { h.OnAdd(object, true) })
	}
	r.expect()
	return r, nil
}

func (i *informer) AddEventHandlerWithResyncPeriod(
	h cache.ResourceEventHandler, _ time.Duration,
) (cache.ResourceEventHandlerRegistration, error) {
	return i.AddEventHandler(h)
}

// deliver has the cache show the next change.
func (i *informer) deliver() {
	if i.w.server.unserved[i.resource] {
		return
	}
	if i.unlisted {
		i.relist()
		return
	}
	history := i.w.server.of(i.resource).history
	if i.seen >= len(history) {
		return
	}
	next := history[i.seen]
	i.seen++
	name := nameOf(accessor(next.object))
	_, lost := i.lost[name]
	switch {
	case next.deleted && lost: // no event reports it
	case next.deleted:
		must(i.GetIndexer().Delete(next.object))
		i.tell(func(h cache.ResourceEventHandler) { h.OnDelete(i.form(next.object)) })
	default:
		i.show(next.object)
	}
	delete(i.lost, name)
	i.GetIndexer().Bookmark(strconv.Itoa(next.version))
}

// relist has the cache show everything as it is, without what happened in between.
func (i *informer) relist() {
	if i.w.server.unserved[i.resource] {
		i.unlisted = true // until it is served
		return
	}
	i.unlisted = false
	defer i.listed()
	st, indexer := i.w.server.of(i.resource), i.GetIndexer()
	i.seen, i.lost = len(st.history), i.lose()
	for _, old := range i.shown() {
		name := nameOf(accessor(old))
		_, exists := st.objects[name]
		if _, lost := i.lost[name]; exists && !lost {
			continue
		}
		must(indexer.Delete(old))
		last := cache.DeletedFinalStateUnknown{Key: cache.ObjectName(name).String(), Obj: old}
		i.tell(func(h cache.ResourceEventHandler) {
			h.OnDelete(last)
			i.told(name)
		})
	}
	for _, name := range sortedNames(st.objects) {
		if _, lost := i.lost[name]; !lost {
			i.show(st.objects[name])
		}
	}
	indexer.Bookmark(strconv.Itoa(i.w.server.version))
}

// listOlder fills a new cache from an API server that is some changes behind.
func (i *informer) listOlder() {
	history := i.w.server.of(i.resource).history
	if i.w.server.unserved[i.resource] || len(history) == 0 {
		return
	}
	i.unlisted = false
	i.seen = len(history) - i.w.Rand.IntN(min(len(history), 10)+1)
	for _, past := range history[:i.seen] {
		if past.deleted {
			must(i.GetIndexer().Delete(past.object))
		} else {
			must(i.GetIndexer().Update(i.form(past.object)))
		}
	}
	i.w.log("%s is listed as of %d of %d changes", i.resource.Resource, i.seen, len(history))
}

// isBehind reports whether a cache has something to show.
func (i *informer) isBehind() bool {
	return !i.w.server.unserved[i.resource] && (i.unlisted || i.seen < len(i.w.server.of(i.resource).history))
}

// notify calls a handler with what it was told.
func (i *informer) notify() {
	if len(i.pending) > 0 {
		do := i.pending[0]
		i.pending = i.pending[1:]
		do()
	}
}

// show has the cache show an object.
func (i *informer) show(object runtime.Object) {
	object = i.form(object)
	indexer := i.GetIndexer()
	m := accessor(object)
	old, exists, err := indexer.GetByKey(cache.ObjectName(nameOf(m)).String())
	must(err)
	must(indexer.Update(object))
	if exists {
		i.tell(func(h cache.ResourceEventHandler) { h.OnUpdate(old, object) })
	} else {
		i.tell(func(h cache.ResourceEventHandler) { h.OnAdd(object, false) })
	}
}

// shown returns what the cache shows, in the order of the keys.
func (i *informer) shown() []runtime.Object {
	indexer := i.GetIndexer()
	var all []runtime.Object
	for _, key := range slices.Sorted(slices.Values(indexer.ListKeys())) {
		object, _, err := indexer.GetByKey(key)
		must(err)
		all = append(all, object.(runtime.Object))
	}
	return all
}

// form returns an object as an informer shows it.
func (i *informer) form(object runtime.Object) runtime.Object {
	if !i.partial {
		return object
	}
	return meta.AsPartialObjectMetadata(accessor(object))
}

// tell lets the handlers know of a change later.
func (i *informer) tell(do func(cache.ResourceEventHandler)) {
	for _, h := range i.handlers {
		i.pending = append(i.pending, func() { do(h) })
	}
}

// sorted returns the informers in an order that does not change.
func (w *World) sorted() []*informer {
	var all []*informer
	for _, i := range w.informers {
		all = append(all, i)
	}
	slices.SortFunc(all, func(a, b *informer) int { return strings.Compare(a.cached.String(), b.cached.String()) })
	return all
}

// Event has an event reach a cache, or a handler.
func (w *World) Event() {
	all := w.sorted()
	if len(all) == 0 {
		return
	}
	if i := all[w.Rand.IntN(len(all))]; w.OneIn(2) {
		i.deliver()
	} else {
		i.notify()
	}
}

// Relist interrupts the watch of the kind of an object: its cache does not show the events that it missed, only what
// has become of the objects.
func (w *World) Relist(object runtime.Object) {
	resource, _ := kindOf(object)
	for _, i := range w.sorted() {
		if i.resource == resource {
			w.log("relist %s", resource.Resource)
			i.relist()
		}
	}
}

// stallSteps is in how many steps time passes while a cache is stalled.
const stallSteps = 20

// Stall has the cache of the kind of an object show nothing for a time, as while its watch fails. Everything else goes
// on. It does nothing while a key is being reconciled.
func (w *World) Stall(object runtime.Object, d time.Duration) {
	if w.working != nil {
		return
	}
	resource, _ := kindOf(object)
	w.log("the cache of %s is stalled", resource.Resource)
	for range stallSteps {
		for _, i := range w.sorted() {
			for i.resource != resource && i.isBehind() {
				i.deliver()
			}
			for len(i.pending) > 0 {
				i.notify()
			}
		}
		w.work()
		w.Clock.Step(d / stallSteps)
		w.rest()
	}
	w.log("the cache of %s goes on", resource.Resource)
}

// SyncHandlers runs the handlers until they have seen all that the caches show, for a controller that waits for its
// caches before it begins.
func (w *World) SyncHandlers() {
	for _, i := range w.sorted() {
		for len(i.pending) > 0 {
			i.notify()
		}
	}
}
