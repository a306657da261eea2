package watch_test

import (
	"fmt"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"

	"kcmd.dev/pkg/controllers/kit/reconcile"
	"kcmd.dev/pkg/controllers/kit/watch"
)

// capturing is an informer that only remembers its handler.
type capturing struct {
	cache.SharedIndexInformer
	handler cache.ResourceEventHandler
	err     error
}

func (c *capturing) AddEventHandler(h cache.ResourceEventHandler) (cache.ResourceEventHandlerRegistration, error) {
	c.handler = h
	return nil, c.err
}

func pod(name, version string) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, ResourceVersion: version}}
}

func lane(l reconcile.Lane) string {
	return map[reconcile.Lane]string{reconcile.Fresh: "fresh", reconcile.Backlog: "backlog"}[l]
}

func TestObjects(t *testing.T) {
	var seen []string
	informer := &capturing{}
	err := watch.Objects(informer, watch.Funcs[*corev1.Pod]{
		Add: func(l reconcile.Lane, p *corev1.Pod) { seen = append(seen, "add "+p.Name+" "+lane(l)) },
		Update: func(l reconcile.Lane, old, new *corev1.Pod) {
			seen = append(seen, fmt.Sprintf("update %s to %s %s", old.Name, new.Name, lane(l)))
		},
		Delete: func(p *corev1.Pod) { seen = append(seen, "delete "+p.Name) },
	})
	if err != nil {
		t.Fatal(err)
	}
	informer.handler.OnAdd(pod("replayed", "1"), true)
	informer.handler.OnAdd(pod("new", "1"), false)
	informer.handler.OnUpdate(pod("a", "1"), pod("b", "2"))
	informer.handler.OnUpdate(pod("a", "1"), pod("a", "1"))
	informer.handler.OnDelete(pod("gone", "1"))
	informer.handler.OnDelete(cache.DeletedFinalStateUnknown{Key: "missed", Obj: pod("missed", "1")})
	// Whatever is no pod is dropped.
	informer.handler.OnAdd(&corev1.Node{}, false)
	informer.handler.OnUpdate(&corev1.Node{}, pod("a", "1"))
	informer.handler.OnDelete(cache.DeletedFinalStateUnknown{Key: "odd", Obj: "odd"})
	informer.handler.OnDelete(nil)

	want := []string{
		"add replayed backlog", "add new fresh", "update a to b fresh", "update a to a backlog", "delete gone", "delete missed",
	}
	if !slices.Equal(seen, want) {
		t.Errorf("got  %q\nwant %q", seen, want)
	}
}

func TestFunctionsMayBeMissing(t *testing.T) {
	informer := &capturing{}
	if err := watch.Objects(informer, watch.Funcs[*corev1.Pod]{}); err != nil {
		t.Fatal(err)
	}
	informer.handler.OnAdd(pod("a", "1"), false)
	informer.handler.OnUpdate(pod("a", "1"), pod("a", "2"))
	informer.handler.OnDelete(pod("a", "2"))
}

func TestARefusedHandlerIsAnError(t *testing.T) {
	err := watch.Objects(&capturing{err: fmt.Errorf("stopped")}, watch.Funcs[*corev1.Pod]{})
	if err == nil || err.Error() != "adding a handler for *v1.Pod: stopped" {
		t.Errorf("got %v", err)
	}
}
