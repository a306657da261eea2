package simulation

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/informers/apps"
	"k8s.io/client-go/informers/batch"
	"k8s.io/client-go/informers/coordination"
	"k8s.io/client-go/informers/core"
	"k8s.io/client-go/informers/internalinterfaces"
	"k8s.io/client-go/informers/policy"
	"k8s.io/client-go/informers/resource"
	"k8s.io/client-go/informers/scheduling"
	storageinformers "k8s.io/client-go/informers/storage"
	"k8s.io/client-go/tools/cache"

	"kcmd.dev/pkg/controller"
)

// scope has the informers of the world.
type scope struct {
	controller.Scope
	w *World
}

func (s *scope) Apps() apps.Interface     { return apps.New(factory{s.w}, "", nil) }
func (s *scope) Core() core.Interface     { return core.New(factory{s.w}, "", nil) }
func (s *scope) Batch() batch.Interface   { return batch.New(factory{s.w}, "", nil) }
func (s *scope) Policy() policy.Interface { return policy.New(factory{s.w}, "", nil) }

func (s *scope) Coordination() coordination.Interface {
	return coordination.New(factory{s.w}, "", nil)
}

func (s *scope) Resource() resource.Interface     { return resource.New(factory{s.w}, "", nil) }
func (s *scope) Scheduling() scheduling.Interface { return scheduling.New(factory{s.w}, "", nil) }

func (s *scope) Storage() storageinformers.Interface {
	return storageinformers.New(factory{s.w}, "", nil)
}

// Filtered returns the whole: the worlds have nothing that the filters of their controllers leave out.
func (s *scope) Filtered(controller.Filter) informers.SharedInformerFactory { return s }

type factory struct{ w *World }

func (f factory) Start(<-chan struct{})             {}
func (f factory) InformerName() *cache.InformerName { return nil }
func (f factory) InformerFor(
	object runtime.Object, newInformer internalinterfaces.NewInformerFunc,
) cache.SharedIndexInformer {
	resource, _ := kindOf(object)
	if i, ok := f.w.informers[resource]; ok {
		return i
	}
	i := &informer{SharedIndexInformer: newInformer(f.w.Fake, 0), w: f.w, resource: resource, unlisted: true}
	f.w.informers[resource] = i
	if !f.w.Late || f.w.OneIn(2) {
		i.relist()
	}
	return i
}

// informer is one whose events the world delivers.
type informer struct {
	cache.SharedIndexInformer
	w        *World
	resource schema.GroupVersionResource
	seen     int // how much of the history
	handlers []cache.ResourceEventHandler
	pending  []func() // notifications of the handlers

	partial       bool // it shows metadata only
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

// tell lets the handlers know of a change later.
func (i *informer) tell(do func(cache.ResourceEventHandler)) {
	for _, h := range i.handlers {
		i.pending = append(i.pending, func() { do(h) })
	}
}

func must(err error) {
	if err != nil {
		panic(err)
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

func sortedNames(objects map[types.NamespacedName]runtime.Object) []types.NamespacedName {
	names := make([]types.NamespacedName, 0, len(objects))
	for name := range objects {
		names = append(names, name)
	}
	slices.SortFunc(names, func(a, b types.NamespacedName) int {
		return cmp.Or(strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Name, b.Name))
	})
	return names
}

// notify calls a handler with what it was told.
func (i *informer) notify() {
	if len(i.pending) > 0 {
		do := i.pending[0]
		i.pending = i.pending[1:]
		do()
	}
}

// Relist interrupts the watch of the kind of an object: its cache does not show the events that it missed, only what
// has become of the objects.
func (w *World) Relist(object runtime.Object) {
	resource, _ := kindOf(object)
	if i, ok := w.informers[resource]; ok {
		w.log("relist %s", resource.Resource)
		i.relist()
	}
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
