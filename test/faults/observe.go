package faults

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"strings"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	watchtools "k8s.io/client-go/tools/watch"
)

// history is what happened to objects in a run, by key.
type history struct {
	created, deleted map[string]int
	most             map[string]int // that existed at the same time, and were neither ended nor leaving
}

// observer follows the objects of a run, by watches of its own that no fault concerns.
type observer struct {
	namespace string
	watches   []*watchtools.RetryWatcher
	reading   sync.WaitGroup

	mu   sync.Mutex
	keys map[types.UID]string // of all objects, as they were first seen: labels that show what was made up of a name may change
	now  map[types.UID]string // the keys of objects that exist and live
	seen history
	// names are those that the API server made up, and what stands for them.
	names map[string]string
	// events counts what was seen.
	events int
}

// observe follows the objects of some kinds in a world where there are none yet.
func observe(ctx context.Context, w *world, kinds []schema.GroupVersionResource) (*observer, error) {
	o := &observer{
		namespace: w.namespace,

		keys:  map[types.UID]string{},
		now:   map[types.UID]string{},
		names: map[string]string{},
		seen:  history{created: map[string]int{}, deleted: map[string]int{}, most: map[string]int{}},
	}
	for _, kind := range kinds {
		client, err := w.kind(kind)
		if err != nil {
			o.stop()
			return nil, err
		}
		list, err := client.List(ctx, metav1.ListOptions{})
		if err != nil {
			o.stop()
			return nil, fmt.Errorf("listing %s: %w", kind.Resource, err)
		}
		one, err := watchtools.NewRetryWatcherWithContext(ctx, list.GetResourceVersion(), &cache.ListWatch{
			WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
				return client.Watch(ctx, options)
			},
		})
		if err != nil {
			o.stop()
			return nil, fmt.Errorf("watching %s: %w", kind.Resource, err)
		}
		o.watches = append(o.watches, one)
		o.reading.Go(func() {
			for event := range one.ResultChan() {
				if object, ok := event.Object.(*unstructured.Unstructured); ok && w.has(kind.GroupResource(), object) {
					o.note(event.Type, kind.Resource, object)
				}
			}
		})
	}
	return o, nil
}

func (o *observer) stop() {
	for _, w := range o.watches {
		w.Stop()
	}
	o.reading.Wait()
}

func (o *observer) note(what watch.EventType, resource string, object *unstructured.Unstructured) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.events++
	if name, public := object.GetName(), publicName(object); name != public {
		o.names[name] = public
	}
	uid := object.GetUID()
	key := cmp.Or(o.keys[uid], strings.ReplaceAll(keyOf(resource, object), o.namespace, "NAMESPACE"))
	o.keys[uid] = key
	switch what {
	case watch.Added:
		o.seen.created[key]++
	case watch.Deleted:
		o.seen.deleted[key]++
	}
	if what == watch.Deleted || isLeaving(object) || hasEnded(object) {
		delete(o.now, uid)
		return
	}
	o.now[uid] = key
	o.seen.most[key] = max(o.seen.most[key], o.count(key))
}

// changes is how often something has changed so far.
func (o *observer) changes() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.events
}

func (o *observer) count(key string) (n int) {
	for _, other := range o.now {
		if other == key {
			n++
		}
	}
	return n
}

// isLeaving reports whether an object is being deleted. A volume is attached as long as its VolumeAttachment is
// there.
func isLeaving(o *unstructured.Unstructured) bool {
	return o.GetDeletionTimestamp() != nil && o.GetKind() != "VolumeAttachment"
}

func hasEnded(o *unstructured.Unstructured) bool {
	phase, _, err := unstructured.NestedString(o.Object, "status", "phase")
	return err == nil && o.GetKind() == "Pod" && (phase == "Succeeded" || phase == "Failed")
}

// sofar returns a copy of what was seen until now.
func (o *observer) sofar() history {
	o.mu.Lock()
	defer o.mu.Unlock()
	return history{created: maps.Clone(o.seen.created), deleted: maps.Clone(o.seen.deleted), most: maps.Clone(o.seen.most)}
}

// public returns a text without times, UIDs, addresses and made-up names, those of objects that are gone included.
func (o *observer) public(text string) string {
	o.mu.Lock()
	defer o.mu.Unlock()
	all, _ := steady(text, replacerOf(o.namespace, o.names)).(string)
	return all
}
