package watch_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"

	"kcmd.dev/pkg/controllers/kit/index"
	"kcmd.dev/pkg/controllers/kit/reconcile"
	"kcmd.dev/pkg/controllers/kit/watch"
	"kcmd.dev/pkg/runtime/informers"
	"kcmd.dev/test/controllertest"
	"kcmd.dev/test/fakeclient"
)

// A watch that was interrupted may show the successor of an object as an update of it. Then its key starts over. Pins
// MGR-228.
func TestAnUpdateToAnotherObjectBeginsAnew(t *testing.T) {
	options := reconcile.Options[string]{Queue: "q", Workers: 1}
	queue := reconcile.New(controllertest.New(t).Env, options, func(context.Context, string) error { return nil })
	handler := watch.Handler(watch.Funcs[*corev1.Pod]{
		Update: func(l reconcile.Lane, _, p *corev1.Pod) { queue.Enqueue(l, p.Name) },
	})
	first, second := pod("a", "1"), pod("a", "5")
	second.UID = "second"
	for _, step := range []struct {
		old, new *corev1.Pod
		want     int
	}{{first, first, 1}, {first, second, 0}, {second, second, 1}} {
		queue.AddRateLimited("a")
		handler.OnUpdate(step.old, step.new)
		if got := queue.Retries("a"); got != step.want {
			t.Errorf("%d retries after an update from %q to %q, want %d", got, step.old.UID, step.new.UID, step.want)
		}
	}
}

func pod(name, version string) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, ResourceVersion: version}}
}

func lane(l reconcile.Lane) string {
	return map[bool]string{false: "fresh", true: "backlog"}[l.IsBacklog()]
}

// Pins WL-85 and CIDR-8.
func TestObjects(t *testing.T) {
	var seen []string
	informer := &controllertest.Captured{}
	watch.Objects(informer, watch.Funcs[*corev1.Pod]{
		Add: func(l reconcile.Lane, p *corev1.Pod) { seen = append(seen, "add "+p.Name+" "+lane(l)) },
		Update: func(l reconcile.Lane, old, new *corev1.Pod) {
			seen = append(seen, fmt.Sprintf("update %s to %s %s", old.Name, new.Name, lane(l)))
		},
		Delete: func(p *corev1.Pod) { seen = append(seen, "delete "+p.Name) },
	})
	informer.Handler.OnAdd(pod("replayed", "1"), true)
	informer.Handler.OnAdd(pod("new", "1"), false)
	informer.Handler.OnUpdate(pod("a", "1"), pod("b", "2"))
	informer.Handler.OnUpdate(pod("a", "1"), pod("a", "1"))
	informer.Handler.OnDelete(pod("gone", "1"))
	informer.Handler.OnDelete(cache.DeletedFinalStateUnknown{Key: "missed", Obj: pod("missed", "1")})
	// Whatever is no pod is dropped.
	informer.Handler.OnAdd(&corev1.Node{}, false)
	informer.Handler.OnUpdate(&corev1.Node{}, pod("a", "1"))
	informer.Handler.OnDelete(cache.DeletedFinalStateUnknown{Key: "odd", Obj: "odd"})
	informer.Handler.OnDelete(nil)

	want := []string{
		"add replayed backlog", "add new fresh", "update a to b fresh", "update a to a backlog", "delete gone", "delete missed",
	}
	if !slices.Equal(seen, want) {
		t.Errorf("got  %q\nwant %q", seen, want)
	}
}

// An informer that lists again after a break of the watch passes off as deleted what the list lacks.
func TestWhatAListLacksIsMissed(t *testing.T) {
	tombstone := func(name string) cache.DeletedFinalStateUnknown {
		return cache.DeletedFinalStateUnknown{Key: name, Obj: pod(name, "1")}
	}
	for name, tc := range map[string]struct {
		deletes, misses bool // whether there are these functions
		event           any
		want            string // the call, if any
	}{
		"deleted":                            {true, true, pod("a", "1"), "delete a"},
		"missed":                             {true, true, tombstone("a"), "miss a"},
		"missed, there is no Missed":         {true, false, tombstone("a"), "delete a"},
		"missed, there is no Delete":         {false, true, tombstone("a"), "miss a"},
		"deleted, there is no Delete":        {false, true, pod("a", "1"), ""},
		"missed, another":                    {true, true, tombstone("other"), ""},
		"missed, there is neither":           {false, false, tombstone("a"), ""},
		"missed, something of another type":  {true, true, cache.DeletedFinalStateUnknown{Obj: "odd"}, ""},
		"missed, nobody knows what it was":   {true, true, cache.DeletedFinalStateUnknown{Key: "a"}, ""},
		"deleted, something of another type": {true, true, "odd", ""},
	} {
		t.Run(name, func(t *testing.T) {
			var seen string
			funcs := watch.Funcs[*corev1.Pod]{Only: func(p *corev1.Pod) bool { return p.Name != "other" }}
			if tc.deletes {
				funcs.Delete = func(p *corev1.Pod) { seen += "delete " + p.Name }
			}
			if tc.misses {
				funcs.Missed = func(p *corev1.Pod) { seen += "miss " + p.Name }
			}
			h := watch.Handler(funcs)
			h.OnDelete(tc.event)
			if seen != tc.want {
				t.Errorf("calls are %q, want %q", seen, tc.want)
			}
			if wants := h.(informers.Selective).WantsDelete(tc.event); !wants && tc.want != "" {
				t.Error("the informer would not deliver it")
			}
		})
	}
}

// What Funcs do not want does not reach them, whoever calls them, and informers are told so.
func TestOnlyWhatIsWanted(t *testing.T) {
	var seen []string
	informer := &controllertest.Captured{}
	watch.Objects(informer, watch.Funcs[*corev1.Pod]{
		Only:        func(p *corev1.Pod) bool { return p.Name != "other" },
		UpdateIf:    func(old, new *corev1.Pod) bool { return old.ResourceVersion != new.ResourceVersion },
		AddOrUpdate: func(_ reconcile.Lane, p *corev1.Pod) { seen = append(seen, p.Name) },
		Delete:      func(p *corev1.Pod) { seen = append(seen, p.Name) },
	})
	h := informer.Handler.(informers.Selective)
	mine, newer, other := pod("mine", "1"), pod("mine", "2"), pod("other", "1")
	for name, test := range map[string]struct {
		tell  func()
		wants bool
		want  bool
	}{
		"added":               {func() { informer.Handler.OnAdd(mine, false) }, h.WantsAdd(mine), true},
		"another is added":    {func() { informer.Handler.OnAdd(other, false) }, h.WantsAdd(other), false},
		"updated":             {func() { informer.Handler.OnUpdate(mine, newer) }, h.WantsUpdate(mine, newer), true},
		"without a change":    {func() { informer.Handler.OnUpdate(mine, mine) }, h.WantsUpdate(mine, mine), false},
		"another is updated":  {func() { informer.Handler.OnUpdate(other, pod("other", "2")) }, h.WantsUpdate(other, pod("other", "2")), false},
		"begins to matter":    {func() { informer.Handler.OnUpdate(other, newer) }, h.WantsUpdate(other, newer), true},
		"ceases to matter":    {func() { informer.Handler.OnUpdate(newer, other) }, h.WantsUpdate(newer, other), true},
		"deleted":             {func() { informer.Handler.OnDelete(mine) }, h.WantsDelete(mine), true},
		"another is deleted":  {func() { informer.Handler.OnDelete(other) }, h.WantsDelete(other), false},
		"found to be deleted": {func() { informer.Handler.OnDelete(cache.DeletedFinalStateUnknown{Obj: mine}) }, h.WantsDelete(cache.DeletedFinalStateUnknown{Obj: mine}), true},
		"another is missed":   {func() { informer.Handler.OnDelete(cache.DeletedFinalStateUnknown{Obj: other}) }, h.WantsDelete(cache.DeletedFinalStateUnknown{Obj: other}), false},
	} {
		seen = nil
		test.tell()
		if reached := len(seen) == 1; reached != test.want || test.wants != test.want {
			t.Errorf("%s: reached the functions: %v, is wanted: %v, want %v", name, reached, test.wants, test.want)
		}
	}
	// What has another type is wanted, so that it is logged.
	if !h.WantsAdd("odd") || !h.WantsUpdate("odd", mine) || !h.WantsUpdate(mine, nil) || !h.WantsDelete(nil) {
		t.Error("an object of another type is not wanted")
	}
}

func TestFunctionsMayBeMissing(t *testing.T) {
	informer := &controllertest.Captured{}
	watch.Objects(informer, watch.Funcs[*corev1.Pod]{})
	informer.Handler.OnAdd(pod("a", "1"), false)
	informer.Handler.OnUpdate(pod("a", "1"), pod("a", "2"))
	informer.Handler.OnDelete(pod("a", "2"))
	if h := informer.Handler.(informers.Selective); h.WantsAdd(pod("a", "1")) || h.WantsUpdate(pod("a", "1"), pod("a", "2")) || h.WantsDelete(pod("a", "2")) {
		t.Error("it wants something without a function for it")
	}
}

func TestARefusedHandlerOrIndexFailsTheScope(t *testing.T) {
	for name, add := range map[string]func(informer cache.SharedIndexInformer){
		"handler": func(informer cache.SharedIndexInformer) {
			watch.Objects(informer, watch.Funcs[*corev1.Pod]{})
		},
		"handler with a resync period": func(informer cache.SharedIndexInformer) {
			watch.ObjectsEvery(informer, time.Hour, watch.Funcs[*corev1.Pod]{})
		},
		"index": func(informer cache.SharedIndexInformer) { index.NewPods(informer) },
	} {
		t.Run(name, func(t *testing.T) {
			shared := informers.New(informers.Options{Client: fakeclient.New()})
			shared.Start(t.Context())
			scope := shared.NewScope(informers.ScopeOptions{Name: "test"})
			defer scope.Close()
			informer := scope.Core().V1().Pods().Informer()
			scope.StartWithContext(t.Context())
			if !scope.WaitUntilReady(t.Context()) || scope.Err() != nil {
				t.Fatalf("not ready: %v", scope.Err())
			}
			shared.Shutdown() // what is stopped takes nothing any more
			add(informer)
			if scope.Err() == nil {
				t.Error("nobody learns of it")
			}
		})
	}
}

// The lane of a notification names the object, so that who asks learns why a key was queued.
func TestTheLaneNamesTheObject(t *testing.T) {
	env := controllertest.New(t)
	loop := reconcile.New(env.Env, reconcile.Options[string]{Queue: "q"}, func(context.Context, string) error { return nil })
	informer := &controllertest.Captured{}
	watch.Objects(informer, watch.Funcs[*corev1.Pod]{
		Add:    func(l reconcile.Lane, p *corev1.Pod) { loop.Enqueue(l, p.Name) },
		Update: func(l reconcile.Lane, _, p *corev1.Pod) { loop.Enqueue(l, p.Name) },
		Delete: func(p *corev1.Pod) { loop.Enqueue(reconcile.Gone(p), p.Name) },
	})
	informer.Handler.OnAdd(pod("added", "1"), false)
	informer.Handler.OnAdd(pod("replayed", "1"), true)
	informer.Handler.OnUpdate(pod("updated", "1"), pod("updated", "2"))
	informer.Handler.OnUpdate(pod("resynced", "1"), pod("resynced", "1"))
	informer.Handler.OnDelete(pod("deleted", "1"))
	want := map[string]string{"added": "Pod added added", "replayed": "start", "updated": "Pod updated updated", "resynced": "resync", "deleted": "Pod deleted deleted"}
	for _, key := range loop.Keys(func(string) bool { return true }) {
		if key.Trigger != want[key.Key] {
			t.Errorf("%s was queued because of %q, want %q", key.Key, key.Trigger, want[key.Key])
		}
		delete(want, key.Key)
	}
	if len(want) > 0 {
		t.Errorf("not queued: %v", want)
	}
}
