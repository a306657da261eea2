package faultproxy

import (
	"slices"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"

	"kcmd.dev/test/await"
)

// watching opens a watch of ConfigMaps.
func watching(t *testing.T, c kubernetes.Interface, namespace string) watch.Interface {
	t.Helper()
	w, err := c.CoreV1().ConfigMaps(namespace).Watch(t.Context(), metav1.ListOptions{ResourceVersion: "0"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.Stop)
	return w
}

// next returns the type and name of the next event.
func next(t *testing.T, w watch.Interface) string {
	t.Helper()
	select {
	case e := <-w.ResultChan():
		object, err := meta.Accessor(e.Object)
		if err != nil {
			t.Fatalf("%s: %v", e.Type, err)
		}
		return string(e.Type) + " " + object.GetName()
	case <-time.After(10 * time.Second):
		t.Fatal("no event")
		return ""
	}
}

func expect(t *testing.T, w watch.Interface, want ...string) {
	t.Helper()
	for _, one := range want {
		if got := next(t, w); got != one {
			t.Fatalf("got %s, want %s", got, one)
		}
	}
}

func expectNothing(t *testing.T, w watch.Interface) {
	t.Helper()
	select {
	case e := <-w.ResultChan():
		t.Fatalf("got %s %v", e.Type, e.Object)
	case <-time.After(50 * time.Millisecond):
	}
}

func TestHeldEventsComeInOrderAfterwards(t *testing.T) {
	for name, contentType := range contentTypes {
		t.Run(name, func(t *testing.T) {
			p := Start(t, plane)
			namespace := plane.Namespace(t)
			held := client(t, p, withContentType(contentType), withAgent("held"))
			free := client(t, p, withContentType(contentType), withAgent("free"))
			h, f := watching(t, held, namespace), watching(t, free, namespace)
			create(t, namespace, "before")
			expect(t, h, "ADDED before")
			expect(t, f, "ADDED before")

			fault := p.HoldEvents(Requests{Client: "held", Resource: configMaps})
			create(t, namespace, "a", "b")
			remove(t, namespace, "a")
			expect(t, f, "ADDED a", "ADDED b", "DELETED a")
			await.True(t, "the events have come", func() bool { return fault.Hits() == 3 })
			expectNothing(t, h)
			fault.Lift()
			create(t, namespace, "c")
			expect(t, h, "ADDED a", "ADDED b", "DELETED a", "ADDED c")
		})
	}
}

func TestEventsOfOneObjectHoldWhatFollows(t *testing.T) {
	p := Start(t, plane)
	namespace, other := plane.Namespace(t), plane.Namespace(t)
	a, b, c := namespace+"-a", namespace+"-b", namespace+"-c"
	w := watching(t, client(t, p), "")
	fault := p.HoldEvents(Requests{Resource: configMaps, Namespace: namespace, Name: b})
	create(t, other, b)
	create(t, namespace, a, b, c)
	for got := ""; got != "ADDED "+b; got = next(t, w) { // what exists comes first
	}
	expect(t, w, "ADDED "+a)
	await.True(t, "the event has come", func() bool { return fault.Hits() == 1 })
	expectNothing(t, w)
	fault.Lift()
	expect(t, w, "ADDED "+b, "ADDED "+c)
}

func TestDelayedEventsAreLate(t *testing.T) {
	p := Start(t, plane)
	namespace := plane.Namespace(t)
	w := watching(t, client(t, p), namespace)
	const delay = 300 * time.Millisecond
	fault := p.DelayEvents(Requests{Resource: configMaps}, delay)
	begin := time.Now()
	create(t, namespace, "a", "b")
	expect(t, w, "ADDED a", "ADDED b")
	if took := time.Since(begin); took < delay {
		t.Errorf("arrived after %s", took)
	}
	fault.Lift()
	fault = p.DelayEvents(Requests{}, time.Hour)
	create(t, namespace, "c")
	await.True(t, "the event has come", func() bool { return fault.Hits() == 1 })
	fault.Lift()
	expect(t, w, "ADDED c")
}

func TestDroppedEventsAreThoseChosen(t *testing.T) {
	for name, contentType := range contentTypes {
		t.Run(name, func(t *testing.T) {
			p := Start(t, plane)
			namespace := plane.Namespace(t)
			w := watching(t, client(t, p, withContentType(contentType)), namespace)
			asked := make(chan Event, 10)
			fault := p.DropEvents(Requests{Resource: configMaps}, func(e Event) bool {
				asked <- e
				return e.Type == watch.Deleted && e.Name == "a"
			})
			create(t, namespace, "a", "b")
			remove(t, namespace, "a", "b")
			expect(t, w, "ADDED a", "ADDED b", "DELETED b")
			fault.Lift()
			if fault.Hits() != 1 || len(asked) != 4 {
				t.Fatalf("%d of %d events were dropped", fault.Hits(), len(asked))
			}
			close(asked)
			for e := range asked {
				if e.Namespace != namespace || e.UID == "" || e.ResourceVersion == "" {
					t.Errorf("the event is %+v", e)
				}
			}
		})
	}
}

func TestBookmarksAreNotDropped(t *testing.T) {
	p := Start(t, plane)
	namespace := plane.Namespace(t)
	create(t, namespace, "a")
	p.DropEvents(Requests{}, func(Event) bool { return true })
	streaming := true
	w, err := client(t, p).CoreV1().ConfigMaps(namespace).Watch(t.Context(), metav1.ListOptions{
		SendInitialEvents: &streaming, AllowWatchBookmarks: true, ResourceVersionMatch: metav1.ResourceVersionMatchNotOlderThan,
	})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Stop()
	expect(t, w, "BOOKMARK ")
}

// informer runs an informer of ConfigMaps and returns the names in its cache.
func informer(t *testing.T, c kubernetes.Interface, namespace string) (names func() []string, synced func() bool) {
	t.Helper()
	factory := informers.NewSharedInformerFactoryWithOptions(c, 0, informers.WithNamespace(namespace))
	shared := factory.Core().V1().ConfigMaps().Informer()
	stop := make(chan struct{})
	factory.Start(stop)
	t.Cleanup(func() {
		close(stop)
		factory.Shutdown()
	})
	return func() []string {
		var names []string
		for _, key := range shared.GetStore().ListKeys() {
			_, name, err := cache.SplitMetaNamespaceKey(key)
			if err != nil {
				t.Error(err)
			}
			names = append(names, name)
		}
		slices.Sort(names)
		return names
	}, shared.HasSynced
}

func TestInformerFollowsThroughTheProxy(t *testing.T) {
	p := Start(t, plane)
	namespace := plane.Namespace(t)
	create(t, namespace, "a")
	fault := p.HoldEvents(Requests{Resource: configMaps})
	names, synced := informer(t, client(t, p), namespace)
	await.True(t, "the initial event has come", func() bool { return fault.Hits() > 0 })
	if synced() {
		t.Error("the informer has synced although the initial events are held")
	}
	fault.Lift()
	await.True(t, "the informer has synced", synced)
	create(t, namespace, "b")
	await.True(t, "the informer knows b", func() bool { return slices.Equal(names(), []string{"a", "b"}) })
	p.Cut()
	remove(t, namespace, "a")
	await.True(t, "the informer knows that a is gone", func() bool { return slices.Equal(names(), []string{"b"}) })
}
