package informers

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"weak"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/watch"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/cache"
)

// lagging is an informer that passes a change of its store on when it is told to.
type lagging struct {
	// mu keeps changes and registrations apart, as client-go does.
	mu      sync.Mutex
	store   cache.Store
	version int
	handler cache.ResourceEventHandler
	queue   []func()
	synced  chan struct{}
}

// newLagging returns an informer that has listed pods of the names, its feed, and a function that adds a handler.
func newLagging(t *testing.T, names ...string) (*lagging, *feed, func(cache.ResourceEventHandler) *handler) {
	t.Helper()
	source := &lagging{store: cache.NewStore(cache.MetaNamespaceKeyFunc), synced: make(chan struct{})}
	for _, name := range names {
		source.set(name)
	}
	close(source.synced)
	ctx, cancel := context.WithCancel(t.Context())
	f := newFeed(source)
	f.begin(ctx)
	h := newHarness(t)
	scope := h.open(ScopeOptions{Name: "test"})
	b := &base{ctx: ctx, feed: f, clock: h.clock}
	t.Cleanup(func() {
		cancel()
		f.end()
	})
	return source, f, func(next cache.ResourceEventHandler) *handler {
		added := newHandler(scope, b, next, nil)
		b.handlers.Add(1)
		if err := f.join(added); err != nil {
			t.Error(err)
		}
		return added
	}
}

func (l *lagging) AddEventHandlerWithOptions(h cache.ResourceEventHandler, _ cache.HandlerOptions) (cache.ResourceEventHandlerRegistration, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.handler = h
	for _, obj := range l.store.List() {
		l.queue = append(l.queue, func() { h.OnAdd(obj, true) })
	}
	passed := make(chan struct{})
	l.queue = append(l.queue, func() { close(passed) })
	return passedChecker(passed), nil
}

func (l *lagging) GetStore() cache.Store               { return l.store }
func (l *lagging) HasSyncedChecker() cache.DoneChecker { return passedChecker(l.synced) }
func (l *lagging) IsStopped() bool                     { return false }

type passedChecker chan struct{}

func (c passedChecker) HasSynced() bool                     { return cache.IsDone(c) }
func (c passedChecker) HasSyncedChecker() cache.DoneChecker { return c }
func (c passedChecker) Name() string                        { return "test" }
func (c passedChecker) Done() <-chan struct{}               { return c }

// set creates a pod or gives it a new version.
func (l *lagging) set(name string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.version++
	obj := pod(name)
	obj.ResourceVersion = strconv.Itoa(l.version)
	old, exists, _ := l.store.GetByKey("default/" + name)
	_ = l.store.Update(obj)
	switch {
	case l.handler == nil:
	case exists:
		l.queue = append(l.queue, func() { l.handler.OnUpdate(old, obj) })
	default:
		l.queue = append(l.queue, func() { l.handler.OnAdd(obj, false) })
	}
}

// unset deletes a pod; a watch reports it with another copy of the object.
func (l *lagging) unset(name string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	_ = l.store.Delete(pod(name))
	if l.handler != nil {
		l.queue = append(l.queue, func() { l.handler.OnDelete(pod(name)) })
	}
}

// pass passes on the oldest changes, all of them if n is negative.
func (l *lagging) pass(n int) {
	for ; n != 0; n-- {
		l.mu.Lock()
		if len(l.queue) == 0 {
			l.mu.Unlock()
			return
		}
		next := l.queue[0]
		l.queue = slices.Delete(l.queue, 0, 1)
		l.mu.Unlock()
		next()
	}
}

// follower knows the objects as it was shown them, and complains about a call that does not fit.
type follower struct {
	t     *testing.T
	mu    sync.Mutex
	known map[string]*corev1.Pod
}

func follow(t *testing.T) *follower {
	t.Helper()
	return &follower{t: t, known: map[string]*corev1.Pod{}}
}

func (f *follower) OnAdd(obj any, _ bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	added := obj.(*corev1.Pod)
	if was := f.known[added.Name]; was != nil {
		f.t.Errorf("%s was added, and is known as version %s", describePod(added), was.ResourceVersion)
	}
	f.known[added.Name] = added
}

func (f *follower) OnUpdate(old, obj any) {
	f.mu.Lock()
	defer f.mu.Unlock()
	was, is := old.(*corev1.Pod), obj.(*corev1.Pod)
	if f.known[is.Name] != was {
		f.t.Errorf("%s was updated from version %s, and is not known so", describePod(is), was.ResourceVersion)
	}
	f.known[is.Name] = is
}

func (f *follower) OnDelete(obj any) {
	f.mu.Lock()
	defer f.mu.Unlock()
	gone := obj.(*corev1.Pod)
	if f.known[gone.Name] == nil {
		f.t.Errorf("%s was deleted, and is not known", gone.Name)
	}
	delete(f.known, gone.Name)
}

func describePod(p *corev1.Pod) string {
	return fmt.Sprintf("version %s of %s", p.ResourceVersion, p.Name)
}

// versions are those of the pods, by name.
func (f *follower) versions() map[string]string {
	f.mu.Lock()
	defer f.mu.Unlock()
	known := map[string]string{}
	for name, p := range f.known {
		known[name] = p.ResourceVersion
	}
	return known
}

func (l *lagging) versions() map[string]string {
	stored := map[string]string{}
	for _, obj := range l.store.List() {
		stored[obj.(*corev1.Pod).Name] = obj.(*corev1.Pod).ResourceVersion
	}
	return stored
}

// TestAHandlerIsSyncedWhenItKnowsWhatTheStoreContained adds handlers while the store is ahead of what was passed on.
func TestAHandlerIsSyncedWhenItKnowsWhatTheStoreContained(t *testing.T) {
	for _, tc := range []struct {
		name   string
		change func(*lagging)
		// passes is how many changes have to be passed on, later how many come after the handler.
		passes, later int
	}{
		{name: "nothing", change: func(*lagging) {}},
		{name: "an object is new", change: func(l *lagging) { l.set("c") }, passes: 1},
		{name: "an object is changed", change: func(l *lagging) { l.set("a") }, passes: 1},
		{name: "an object is changed twice", change: func(l *lagging) { l.set("a"); l.set("a") }, passes: 2},
		{name: "an object is gone", change: func(l *lagging) { l.unset("a") }, passes: 1},
		{name: "an object is another one", change: func(l *lagging) { l.unset("a"); l.set("a") }, passes: 2},
		{name: "an object came and went", change: func(l *lagging) { l.set("c"); l.unset("c") }},
		{name: "two objects", change: func(l *lagging) { l.set("a"); l.set("b"); l.set("a") }, passes: 3},
		{name: "changes that come later", change: func(l *lagging) { l.set("a") }, passes: 1, later: 2},
	} {
		t.Run(tc.name, bubble(func(t *testing.T) {
			source, _, add := newLagging(t, "a", "b")
			first := add(follow(t))
			source.pass(-1)
			eventually(t, "the first handler to sync", first.HasSynced)
			tc.change(source)
			expected := source.versions()
			seen := follow(t)
			second := add(seen)
			for range tc.later {
				source.set("a")
			}
			for n := range tc.passes {
				synctest.Wait()
				if second.HasSynced() {
					t.Fatalf("synced after %d changes of %d", n, tc.passes)
				}
				source.pass(1)
			}
			eventually(t, "the handler to sync", second.HasSynced)
			if got := seen.versions(); tc.later == 0 && !maps.Equal(got, expected) {
				t.Errorf("synced with %v, the store had %v", got, expected)
			}
			source.pass(-1)
			eventually(t, "the rest", func() bool { return maps.Equal(seen.versions(), source.versions()) })
		}))
	}
}

// bubble runs a test in a bubble.
func bubble(test func(*testing.T)) func(*testing.T) {
	return func(t *testing.T) { synctest.Test(t, test) }
}

// TestHandlersThatComeAndGoMissNothing changes a store, passes changes on, and adds and removes handlers, all at the
// same time. Each handler complains about what does not follow from what it was shown before.
func TestHandlersThatComeAndGoMissNothing(t *testing.T) {
	source, _, add := newLagging(t, "p0", "p1", "p2")
	var working, passing sync.WaitGroup
	var over atomic.Bool
	passing.Go(func() {
		for !over.Load() {
			source.pass(1 + rand.IntN(4))
			runtime.Gosched()
		}
	})
	working.Go(func() {
		random := rand.New(rand.NewPCG(1, 2))
		there := map[string]bool{"p0": true, "p1": true, "p2": true}
		for range 5000 {
			name := fmt.Sprintf("p%d", random.IntN(20))
			if there[name] && random.IntN(3) == 0 {
				source.unset(name)
				delete(there, name)
				continue
			}
			source.set(name)
			there[name] = true
			if random.IntN(10) == 0 {
				runtime.Gosched()
			}
		}
	})
	kept := make([]*follower, 4)
	for i := range kept {
		working.Go(func() {
			for range 50 {
				add(follow(t)).remove()
			}
			before := source.versions()
			kept[i] = follow(t)
			h := add(kept[i])
			<-h.Done()
			for name, version := range kept[i].versions() {
				if was, ok := before[name]; ok && newer(was, version) {
					t.Errorf("a handler is synced with version %s of %s, the store had %s before it was added", version, name, was)
				}
			}
		})
	}
	working.Wait()
	over.Store(true)
	passing.Wait()
	source.pass(-1)
	for _, f := range kept {
		eventually(t, "a handler to know all", func() bool { return maps.Equal(f.versions(), source.versions()) })
	}
}

func newer(a, b string) bool {
	x, _ := strconv.Atoi(a)
	y, _ := strconv.Atoi(b)
	return x > y
}

// isAtRest reports whether a handler has passed everything, and nobody reads or keeps anything.
func isAtRest(f *feed, h *handler) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.reading == 0 && f.last.obj == nil && h.at.Load() == f.last
}

// TestAHandlerAtRestHasNoGoroutine also shows that it takes no part of what is passed on.
func TestAHandlerAtRestHasNoGoroutine(t *testing.T) {
	source, f, add := newLagging(t, "a")
	seen := follow(t)
	h := add(seen)
	source.pass(-1)
	<-h.Done()
	atRest := func() bool { return isAtRest(f, h) }
	eventually(t, "the handler to rest", atRest)
	source.set("a")
	source.pass(-1)
	eventually(t, "the handler to rest again", func() bool { return seen.versions()["a"] == "2" && atRest() })
}

// choosy wants all but one object, and updates to even versions only, and panics when it is asked about a deletion.
type choosy struct {
	asked, called, added atomic.Int32
	deleted              atomic.Bool
}

func (c *choosy) WantsAdd(obj any) bool { return obj.(*corev1.Pod).Name != "unwanted" }

func (c *choosy) WantsUpdate(_, obj any) bool {
	c.asked.Add(1)
	version, _ := strconv.Atoi(obj.(*corev1.Pod).ResourceVersion)
	return version%2 == 0
}

func (c *choosy) WantsDelete(any) bool { panic("asked about a deletion") }

func (c *choosy) OnAdd(any, bool)   { c.added.Add(1) }
func (c *choosy) OnUpdate(any, any) { c.called.Add(1) }
func (c *choosy) OnDelete(any)      { c.deleted.Store(true) }

// TestAHandlerIsWokenUpForWhatItWants also shows that it keeps nothing of the rest.
func TestAHandlerIsWokenUpForWhatItWants(t *testing.T) {
	source, f, add := newLagging(t, "a") // version 1
	seen := &choosy{}
	h := add(seen)
	source.pass(-1)
	<-h.Done()
	idle := func() bool { return isAtRest(f, h) }
	eventually(t, "the handler to rest", idle)
	for _, step := range []struct{ version, called int32 }{{2, 1}, {3, 1}, {4, 2}, {5, 2}} {
		source.set("a")
		source.pass(-1)
		eventually(t, "the handler to rest", idle)
		if asked, called := seen.asked.Load(), seen.called.Load(); asked != step.version-1 || called != step.called {
			t.Errorf("version %d: asked %d times, called %d times, want %d", step.version, asked, called, step.called)
		}
	}
	source.unset("a")
	source.pass(-1)
	eventually(t, "the deletion, in spite of a panic", seen.deleted.Load)
}

func TestAHandlerIsNotShownAtFirstWhatItDoesNotWant(t *testing.T) {
	source, _, add := newLagging(t, "a", "unwanted", "b")
	before := add(follow(t))
	source.pass(-1)
	<-before.Done()
	seen := &choosy{}
	<-add(seen).Done()
	if added := seen.added.Load(); added != 2 {
		t.Errorf("it was shown %d objects, want 2", added)
	}
}

// TestARemovedHandlerKeepsNoNotifications: its owner may keep the registration for long.
func TestARemovedHandlerKeepsNoNotifications(t *testing.T) {
	source, _, add := newLagging(t, "a")
	stays, goes := add(follow(t)), add(follow(t))
	source.pass(-1)
	<-stays.Done()
	<-goes.Done()
	goes.remove()
	passed := func() (freed []weak.Pointer[corev1.Pod]) {
		for range 3 {
			source.set("a")
			obj, _, _ := source.store.GetByKey("default/a")
			freed = append(freed, weak.Make(obj.(*corev1.Pod)))
		}
		return freed
	}()
	source.pass(-1)
	eventually(t, "what is out of date to be freed", func() bool {
		runtime.GC()
		return passed[0].Value() == nil && passed[1].Value() == nil
	})
	runtime.KeepAlive(goes)
}

// TestARemovedHandlerIsKeptByNobody: a quiet informer has told it last that it is synced, and outlives it.
func TestARemovedHandlerIsKeptByNobody(t *testing.T) {
	for name, others := range map[string]bool{"with another one": true, "the last one": false} {
		t.Run(name, func(t *testing.T) {
			source, f, add := newLagging(t, "a")
			if others {
				<-passed(source, add(follow(t))).Done()
			}
			gone := func() weak.Pointer[follower] {
				next := follow(t)
				h := add(next)
				<-passed(source, h).Done()
				f.leave(h)
				h.remove()
				return weak.Make(next)
			}()
			eventually(t, "the handler to be freed", func() bool {
				runtime.GC()
				return gone.Value() == nil
			})
			runtime.KeepAlive(f)
		})
	}
}

// passed has a handler told all there is.
func passed(source *lagging, h *handler) *handler {
	source.pass(-1)
	return h
}

func TestAHandlerThatHangsHoldsUpNoOther(t *testing.T) {
	source, _, add := newLagging(t)
	release := make(chan struct{})
	var late atomic.Int32
	add(cache.ResourceEventHandlerFuncs{AddFunc: func(any) {
		<-release
		late.Add(1)
	}})
	seen := follow(t)
	add(seen)
	for i := range 100 {
		source.set(fmt.Sprintf("p%d", i))
	}
	source.pass(-1)
	eventually(t, "the other handler", func() bool { return len(seen.versions()) == 100 })
	close(release)
	eventually(t, "the handler that hung", func() bool { return late.Load() == 100 })
}

// TestAHandlerThatHangsKeepsNothingOnceItIsRemoved: its controller is abandoned, and the process goes on.
func TestAHandlerThatHangsKeepsNothingOnceItIsRemoved(t *testing.T) {
	source, f, add := newLagging(t, "a")
	add(follow(t))
	release, called := make(chan struct{}), make(chan struct{})
	defer close(release)
	h := add(cache.ResourceEventHandlerFuncs{UpdateFunc: func(_, _ any) {
		close(called)
		<-release
	}})
	<-passed(source, h).Done()
	change := func() (freed []weak.Pointer[corev1.Pod]) {
		for range 3 {
			source.set("a")
			obj, _, _ := source.store.GetByKey("default/a")
			freed = append(freed, weak.Make(obj.(*corev1.Pod)))
		}
		source.pass(-1)
		return freed
	}
	before := change()
	<-called
	h.remove()
	after := change()
	// It is called with the first of them, and the last notification is kept, with both states.
	for _, pod := range append(before[1:], after[0]) {
		eventually(t, "what was passed on to be freed", func() bool {
			runtime.GC()
			return pod.Value() == nil
		})
	}
	runtime.KeepAlive(f)
}

// TestAListOfWhatIsKnownKeepsNoHandlerWaiting: a list that follows an expired watch puts other copies of unchanged
// objects into the store, of which client-go tells only those that it takes for resyncing.
func TestAListOfWhatIsKnownKeepsNoHandlerWaiting(t *testing.T) {
	h := newHarness(t, pods(3)...)
	var watches atomic.Int32
	h.client.PrependWatchReactor("pods", func(clienttesting.Action) (bool, watch.Interface, error) {
		if watches.Add(1) > 1 {
			return false, nil, nil
		}
		expires := watch.NewFake()
		go expires.Error(&apierrors.NewResourceExpired("too old").ErrStatus)
		return true, expires, nil
	})
	before := h.open(ScopeOptions{Name: "before"})
	addHandler(t, before.Core().V1().Pods().Informer(), newRecorder())
	startAndSync(t, before)
	eventually(t, "another list", func() bool { return h.requests("list", "pods") == 2 })
	h.awaitWatch()
	seen := newRecorder()
	after := h.open(ScopeOptions{Name: "after"})
	addHandler(t, after.Core().V1().Pods().Informer(), seen)
	startAndSync(t, after)
	if adds, _ := seen.count(); adds != 3 {
		t.Errorf("was shown %d pods of 3", adds)
	}
}

// BenchmarkNotifications is one change of an object that 20 handlers are told of.
func BenchmarkNotifications(b *testing.B) {
	shared, get, _ := warmPods(b, 0)
	var told sync.WaitGroup
	for i := range 20 {
		s := shared.NewScope(ScopeOptions{Name: strconv.Itoa(i)})
		b.Cleanup(s.Close)
		_, err := get(s).AddEventHandler(cache.ResourceEventHandlerFuncs{UpdateFunc: func(_, _ any) { told.Done() }})
		if err != nil || !s.WaitUntilReady(b.Context()) {
			b.Fatal(err)
		}
	}
	f := slices.Collect(maps.Values(shared.bases))[0].feed
	old, obj := pod("p"), pod("p")
	b.ReportAllocs()
	for b.Loop() {
		told.Add(20)
		f.OnUpdate(old, obj)
		told.Wait()
	}
}
