package garbagecollector

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/metadata"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"

	"kcmd.dev/test/controllertest"
)

// siblings are objects with the same owner.
func siblings(count int) []runtime.Object {
	var all []runtime.Object
	for n := range count {
		all = append(all, typed(configMaps, object("a", fmt.Sprintf("child-%d", n), owner("Secret", "parent"))))
	}
	return all
}

// Whichever kind is listed first, nothing is read that the informers show in the end, neither at the start nor when an
// object is looked at. Pins GC-85 and GC-94.
func TestWhatInformersShowIsNotRead(t *testing.T) {
	for name, objects := range map[string][]runtime.Object{
		"owner and dependents": append(siblings(5), typed(secrets, object("a", "parent"))),
		"an owner of its own dependent": append(siblings(1),
			typed(secrets, object("a", "parent", owner("ConfigMap", "child-0")))),
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, objects...)
			w.env.Run(t, w.collector)
			w.settle(t)
			for _, n := range []string{"child-0", "parent"} {
				if err := w.consider(t.Context(), w.node(n)); err != nil {
					t.Error(err)
				}
			}
			if got := w.requests(); len(got) > 0 {
				t.Errorf("sent %q", got)
			}
		})
	}
}

// TestAnOwnerThatIsShownAfterItWasFoundAbsent has an owner deleted before its informer shows it: it does not count as
// alive until the informer, which is behind, shows its end too, for that would concern no dependent. Pins GC-110.
func TestAnOwnerThatIsShownAfterItWasFoundAbsent(t *testing.T) {
	parent := object("a", "parent")
	g := newGraph(clock.RealClock{})
	g.apply(added(secrets, object("a", "child", owner("ConfigMap", "parent"))))
	g.apply(refuted(id("ConfigMap", "a", "parent")))
	g.apply(added(configMaps, parent))
	g.apply(added(secrets, object("a", "later", owner("ConfigMap", "parent"))))
	ref := metav1.OwnerReference{APIVersion: "v1", Kind: "ConfigMap", Name: "parent", UID: "parent"}
	for name, want := range map[string]bool{"child": false, "later": true} {
		if _, lives := g.lives(ref, id("Secret", "a", name)); lives != want {
			t.Errorf("the owner of %s lives: %v, want %v", name, lives, want)
		}
	}
	if got := told(g.apply(lost(configMaps, parent))); got != "attempt Secret a/later" {
		t.Errorf("its end asks for %q", got)
	}
}

// The first object of a kind shows whether it supports strategic merge patches. The others are sent none that would be
// refused. Pins GC-85.
func TestAKindIsAskedOnceForStrategicMergePatches(t *testing.T) {
	unsupported := apierrors.NewGenericServerResponse(http.StatusUnsupportedMediaType, "patch", schema.GroupResource{}, "", "", 0, false)
	w := newWorld(t, siblings(3)...)
	w.server.PrependReactor("patch", "configmaps", func(action clienttesting.Action) (bool, runtime.Object, error) {
		return action.(clienttesting.PatchActionImpl).PatchType == "application/strategic-merge-patch+json", nil, unsupported
	})
	for _, child := range siblings(3) {
		w.apply(t.Context(), added(configMaps, child.(*metav1.PartialObjectMetadata)))
	}
	for n := range 3 {
		if err := w.release(t.Context(), w.node(fmt.Sprintf("child-%d", n)), "parent"); err != nil {
			t.Fatal(err)
		}
	}
	want := []string{
		"patch child-0 application/strategic-merge-patch+json", "get child-0", "patch child-0 application/merge-patch+json",
		"get child-1", "patch child-1 application/merge-patch+json", "get child-2", "patch child-2 application/merge-patch+json",
	}
	if got := w.requests(); !slices.Equal(got, want) {
		t.Errorf("sent %q, want %q", got, want)
	}
}

// Whoever else asks for the metadata of a kind gets the informer of the monitor, and nothing is watched twice. Once the
// kind is not served any more, the informer ends: it lists nothing again. Pins GC-84 and GC-97.
func TestTheInformerOfAKindIsSharedAndEnds(t *testing.T) {
	w := newWorld(t)
	w.served.set(nil, served("v1", "ConfigMap", "Secret"))
	w.env.Run(t, w.collector)
	w.settle(t)
	informer := func() cache.SharedIndexInformer {
		w.monitors.mu.RLock()
		defer w.monitors.mu.RUnlock()
		if monitor := w.monitors.byResource[secrets.resource]; monitor != nil {
			return monitor.informer
		}
		return nil
	}
	watched := informer()
	if shared, err := w.Informers.AnyFor(secrets.resource); err != nil || shared.Informer() != watched {
		t.Errorf("another informer is shared: %v", err)
	}
	w.served.set(nil, served("v1", "ConfigMap"))
	w.env.EventuallyAsTimePasses(t, "the kind is not watched", resyncPeriod, func() bool { return informer() == nil })
	controllertest.Eventually(t, "its informer has ended", watched.IsStopped)
}

// cutOff is a client whose deletions are answered when their context ends.
type cutOff struct {
	metadata.Interface
	began chan<- struct{}
}

func (c cutOff) Resource(r schema.GroupVersionResource) metadata.Getter {
	return cutOffOf{c.Interface.Resource(r), c.began}
}

type cutOffOf struct {
	metadata.Getter
	began chan<- struct{}
}

func (c cutOffOf) Namespace(name string) metadata.ResourceInterface {
	return cutOffIn{c.Getter.Namespace(name), c.began}
}

type cutOffIn struct {
	metadata.ResourceInterface
	began chan<- struct{}
}

func (c cutOffIn) Delete(ctx context.Context, _ string, _ metav1.DeleteOptions, _ ...string) error {
	select {
	case c.began <- struct{}{}:
	default: // it has been told
	}
	<-ctx.Done()
	return context.Cause(ctx)
}

// A deletion ends with the instance. Whether it was carried out is not known, so the object is handed over.
// Pins GC-80.
func TestADeletionEndsWithTheInstance(t *testing.T) {
	w := newWorld(t, siblings(1)...)
	began, fenced := make(chan struct{}, 1), make(chan struct{})
	w.env.Env.Metadata, w.env.Env.Fenced = cutOff{w.server, began}, fenced
	w.env.Succeed(nil)
	w.collector = newCollector(w.env.Env, config{concurrentSyncs: 1})
	stop := w.env.Run(t, w.collector)
	controllertest.Eventually(t, "a request is sent", func() bool { return len(began) > 0 })
	close(fenced)
	stop()
	if left := w.HandOver().attempt; !slices.Contains(left, w.node("child-0")) {
		t.Errorf("handed over are %v", left)
	}
}
