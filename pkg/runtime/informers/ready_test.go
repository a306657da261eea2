package informers

import (
	"context"
	"slices"
	"sync"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"
	clienttesting "k8s.io/client-go/testing"

	"kcmd.dev/pkg/runtime/takeover"
)

// hold keeps lists of a resource from being answered until the function is called. The fake
// API server answers nothing else meanwhile, so what else is to be cached has to be before.
func (h *harness) hold(resource string) (let func()) {
	held := make(chan struct{})
	h.client.PrependReactor("list", resource, func(clienttesting.Action) (bool, runtime.Object, error) {
		<-held
		return false, nil, nil
	})
	let = sync.OnceFunc(func() { close(held) })
	h.t.Cleanup(let)
	return let
}

// waiting waits for a scope in the background, and reports the outcome.
func waiting(t *testing.T, s *Scope) <-chan bool {
	t.Helper()
	outcome := make(chan bool, 1)
	go func() { outcome <- s.WaitUntilReady(t.Context()) }()
	eventually(t, "somebody to wait", func() bool { return len(s.Waiting()) > 0 })
	return outcome
}

func TestAScopeIsReadyWhenEveryCacheIsComplete(t *testing.T) {
	h := newHarness(t, pods(2)...)
	let := h.hold("nodes")
	s := h.open(ScopeOptions{Name: "a"})
	addHandler(t, s.Core().V1().Pods().Informer(), newRecorder())
	startAndSync(t, s)
	s.Core().V1().Nodes().Lister() // read without a handler
	s.StartWithContext(t.Context())
	outcome := waiting(t, s)
	if got := s.Waiting(); !slices.Equal(got, []string{"the cache of nodes is not complete"}) {
		t.Errorf("waits for %q", got)
	}
	if s.Ready() {
		t.Error("ready without nodes")
	}
	let()
	if !<-outcome || !s.Ready() {
		t.Error("not ready")
	}
	if got := s.Waiting(); got != nil {
		t.Errorf("waits for %q", got)
	}
}

func TestAReleasedInformerIsNotWaitedFor(t *testing.T) {
	h := newHarness(t, pods(1)...)
	h.hold("nodes")
	s := h.open(ScopeOptions{Name: "a"})
	s.Core().V1().Pods().Informer()
	startAndSync(t, s)
	nodes := s.Core().V1().Nodes().Informer()
	s.StartWithContext(t.Context())
	outcome := waiting(t, s)
	s.Release(nodes)
	if !<-outcome {
		t.Error("not ready")
	}
}

// So it is if others hold it, and if it is complete and behind.
func TestAnInformerThatOthersHoldIsNotWaitedForOnceItIsReleased(t *testing.T) {
	for name, behind := range map[string]bool{"incomplete": false, "behind": true} {
		t.Run(name, func(t *testing.T) {
			h := newHarness(t, pods(1)...)
			options := ScopeOptions{Name: "a"}
			if behind {
				options.Barrier = newWall()
			} else {
				h.hold("nodes")
			}
			s, other := h.open(options), h.open(ScopeOptions{Name: "b"})
			other.Core().V1().Nodes().Informer()
			other.StartWithContext(t.Context())
			nodes := s.Core().V1().Nodes().Informer()
			s.StartWithContext(t.Context())
			if behind {
				startAndSync(t, other)
			}
			outcome := waiting(t, s)
			s.Release(nodes)
			if !<-outcome {
				t.Error("not ready")
			}
		})
	}
}

func TestNobodyWaitsForCachesThatWereStopped(t *testing.T) {
	for name, behind := range map[string]bool{"incomplete": false, "behind": true} {
		t.Run(name, func(t *testing.T) {
			h := newHarness(t)
			options, let := ScopeOptions{Name: "a"}, func() {}
			if behind {
				options.Barrier = newWall()
			} else {
				let = h.hold("nodes")
			}
			s := h.open(options)
			s.Core().V1().Nodes().Informer()
			s.StartWithContext(t.Context())
			if behind && !h.waitForCacheSync(t.Context()) {
				t.Fatal("not synced")
			}
			outcome := waiting(t, s)
			go let() // Shutdown waits for the list
			h.Shutdown()
			if <-outcome && !s.Ready() {
				t.Error("ready without a cache")
			}
			if s.WaitUntilReady(t.Context()) != s.Ready() {
				t.Error("a stopped informer counts as ready")
			}
		})
	}
}

// wall is a barrier that a test opens for one cache after the other.
type wall struct {
	mu     sync.Mutex
	passed map[string]chan struct{}
	asked  []takeover.Cache
}

func newWall() *wall { return &wall{passed: map[string]chan struct{}{}} }

func (w *wall) of(resource string) chan struct{} {
	if w.passed[resource] == nil {
		w.passed[resource] = make(chan struct{})
	}
	return w.passed[resource]
}

func (w *wall) Passed(c takeover.Cache) <-chan struct{} {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.asked = append(w.asked, c)
	return w.of(c.String())
}

func (w *wall) Lacking(takeover.Cache) string { return "what was written before" }

func (w *wall) open(resource string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	close(w.of(resource))
}

func TestAScopeIsReadyWhenEveryCacheHasPassedTheBarrier(t *testing.T) {
	h := newHarness(t, pods(2)...)
	w := newWall()
	s := h.open(ScopeOptions{Name: "a", Barrier: w})
	s.Core().V1().Pods().Lister()
	s.Core().V1().Nodes().Lister()
	s.StartWithContext(t.Context())
	if got := s.Waiting(); got != nil || len(w.asked) > 0 {
		t.Errorf("waits for %q before anybody does, asked for %v", got, w.asked)
	}
	outcome := waiting(t, s)
	w.open("pods")
	eventually(t, "the pods to have passed", func() bool {
		return slices.Equal(s.Waiting(), []string{"the cache of nodes is behind: what was written before"})
	})
	w.open("nodes")
	if !<-outcome {
		t.Error("not ready")
	}
	for _, c := range w.asked {
		if len(c.Store.ListKeys()) != map[string]int{"pods": 2}[c.String()] || c.Started.IsZero() {
			t.Errorf("asked for %s with %d objects, started %v", c, len(c.Store.ListKeys()), c.Started)
		}
	}
	// Another scope waits for a barrier of its own, or for nothing.
	late := newWall()
	behind := h.open(ScopeOptions{Name: "c", Barrier: w})
	behind.AddBarrier(late)
	behind.Core().V1().Pods().Lister()
	behind.StartWithContext(t.Context())
	second := waiting(t, behind)
	late.open("pods")
	if !<-second {
		t.Error("not ready behind two barriers")
	}
	other := h.open(ScopeOptions{Name: "b"})
	other.Core().V1().Pods().Lister()
	other.StartWithContext(t.Context())
	if !other.WaitUntilReady(t.Context()) {
		t.Error("not ready without a barrier")
	}
}

func TestAWaitForTheBarrierEnds(t *testing.T) {
	h := newHarness(t)
	s := h.open(ScopeOptions{Name: "a", Barrier: newWall()})
	s.Core().V1().Pods().Lister()
	s.StartWithContext(t.Context())
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan bool, 1)
	go func() { ended <- s.WaitUntilReady(ctx) }()
	closed := waiting(t, s)
	cancel()
	if <-ended {
		t.Error("ready when the context ended")
	}
	s.Close()
	if <-closed {
		t.Error("ready when the scope was closed")
	}
}

func TestCachesOfControllers(t *testing.T) {
	h := newHarness(t, pods(2)...)
	for name, get := range map[string]func(*Scope){
		"a": func(s *Scope) { s.Core().V1().Pods().Lister() },
		"b": func(s *Scope) { s.Core().V1().Nodes().Lister() },
	} {
		s := h.open(ScopeOptions{Name: name, Dry: true})
		get(s)
		if got := h.CachesOf([]string{name}); len(got) > 0 {
			t.Errorf("%s holds %v, which are not complete", name, got)
		}
		s.StartWithContext(t.Context())
	}
	if !h.waitForCacheSync(t.Context()) {
		t.Fatal("not synced")
	}
	for _, test := range []struct{ controllers, want []string }{
		{[]string{"a"}, []string{"pods"}},
		{[]string{"b", "c"}, []string{"nodes"}},
		{[]string{"a", "b"}, []string{"nodes", "pods"}},
		{nil, nil},
	} {
		var got []string
		for _, c := range h.CachesOf(test.controllers) {
			got = append(got, c.String())
		}
		slices.Sort(got)
		if !slices.Equal(got, test.want) {
			t.Errorf("%v hold %v, want %v", test.controllers, got, test.want)
		}
	}
}
