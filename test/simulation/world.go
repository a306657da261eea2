package simulation

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/record"

	"kcmd.dev/pkg/controller"
	"kcmd.dev/test/controllertest"
)

// World is a cluster.
type World struct {
	*controllertest.Env
	Rand *rand.Rand
	// Start makes an instance of the controller. left is what the one before handed over, nil if that was killed.
	Start func(env controller.Env, left any) Instance
	// Admit completes an object that is created.
	Admit func(runtime.Object)
	// Refuse returns the error with which the API server refuses to create an object for the controller, nil if it
	// creates it.
	Refuse func(runtime.Object) error
	// Deleted is called after the controller has deleted an object, with its last state before that.
	Deleted func(runtime.Object)
	// Answered is called after a request was carried out, or refused by the storage.
	Answered func(clienttesting.Action)
	// Validate checks what the controller changes an object to. An error is the answer, and fails the test.
	Validate func(old, new runtime.Object) error
	// Encoding returns in which way the API server stores the objects of a resource that are written now. One that was
	// stored in another way is stored again by a write that does not change it. Default: there is one way.
	Encoding func(schema.GroupVersionResource) string
	// During Play, other things happen while a request is under way, for one request of so many, on average; 0 for
	// none.
	Hasty int
	// Faulty makes requests fail.
	Faulty bool
	// While the world is Faulty, writes for which MayComeLate returns true may be carried out up to a minute after their
	// sender got a timeout for an answer: once it has tried again, or has decided otherwise, or was replaced. AnyWrite is
	// for all. Default: none.
	MayComeLate func(clienttesting.Action) bool
	// Until Settle, lists that fill caches may lack the objects for which Lossy returns true. Default: none.
	Lossy func(runtime.Object) bool
	// Late has the caches of typed objects list late: half of them are not filled when they are requested.
	Late bool
	// Rest waits until the goroutines of a controller that has its own have done what they can. It is called after
	// whatever may give them something to do. Default: there are none.
	Rest func()

	t         testing.TB
	server    *server
	informers map[cached]*informer
	instance  Instance
	working   Runner // whose key is being reconciled, nil for none
	happens   func() // has one thing happen; nil if nothing may
	trace     []string
	// The controller is restarted in one step of so many, on average; 0 for never. Begin chooses it.
	restarts int
}

// Instance is a running controller.
type Instance struct {
	Runners []Runner
	// HandOver returns what a successor in the same process takes over.
	HandOver func() any
}

// Runner is a queue with its work.
type Runner interface {
	ready() bool
	next() (time.Time, bool)
	run(ctx context.Context)
}

// New makes a world that a seed determines.
func New(t testing.TB, seed uint64) *World {
	w := &World{
		Env: controllertest.New(t), Rand: rand.New(rand.NewPCG(seed, 1)),
		t: t, informers: map[cached]*informer{},
	}
	w.server = &server{w: w, version: 1000, resources: map[schema.GroupVersionResource]*storage{}}
	w.Fake.PrependReactor("*", "*", w.server.react)
	w.Env.Informers = &scope{Scope: w.Env.Informers, w: w}
	w.Env.Events = &record.FakeRecorder{} // drops events: one with a channel blocks when that is full
	w.Env.Env.Events = w.Env.Events
	return w
}

// OneIn reports, on average, true once in n times.
func (w *World) OneIn(n int) bool { return w.Rand.IntN(n) == 0 }

func (w *World) log(format string, args ...any) {
	w.trace = append(w.trace, w.Clock.Now().Format("15:04:05.000 ")+fmt.Sprintf(format, args...))
}

// Note adds a line to the log of what happened.
func (w *World) Note(format string, args ...any) { w.log(format, args...) }

// Begin starts the controller, in a world that may have faults and restarts.
func (w *World) Begin() {
	w.Faulty = w.OneIn(2)
	w.restarts = []int{0, 0, 50, 300}[w.Rand.IntN(4)]
	w.instance = w.Start(w.Env.Env, nil)
}

// Play takes some hundred steps. Now and then other components do something, and less often users.
func (w *World) Play(others, users func()) {
	w.happens = func() {
		switch n := w.Rand.IntN(100); {
		case n < 18:
			others()
		case n < 20:
			users()
		default:
			w.Step()
		}
	}
	for range 100 + w.Rand.IntN(800) {
		w.happens()
	}
	w.happens = nil
	w.log("no more trouble")
}

// Step has one thing happen.
func (w *World) Step() {
	defer w.rest()
	if len(w.server.late) > 0 && w.OneIn(20) && w.server.comeLate() {
		return
	}
	all := w.sorted()
	if len(all) == 0 { // it has asked for none yet
		w.work()
		w.Clock.Step(time.Second)
		return
	}
	i := all[w.Rand.IntN(len(all))]
	if w.restarts > 0 && w.OneIn(w.restarts) && w.working == nil {
		w.restart()
		return
	}
	switch n := w.Rand.IntN(100); {
	case n < 30:
		i.deliver()
	case n < 60:
		i.notify()
	case n < 62:
		w.log("relist %s", i.resource.Resource)
		i.relist()
	case n < 90:
		w.work()
	case n < 97:
		w.Clock.Step(time.Duration(w.Rand.IntN(1500)) * time.Millisecond)
	default:
		w.Clock.Step(time.Duration(w.Rand.IntN(30)) * time.Second)
	}
}

// work reconciles a key, and returns false if none is ready.
func (w *World) work() bool {
	var ready []Runner
	for _, r := range w.instance.Runners {
		if r != w.working && r.ready() {
			ready = append(ready, r)
		}
	}
	if len(ready) == 0 {
		return false
	}
	before := w.working
	w.working = ready[w.Rand.IntN(len(ready))]
	w.working.run(w.Context())
	w.working = before
	return true
}

// restart replaces the instance: by one that takes over, or after it was killed.
func (w *World) restart() {
	var left any
	kind := w.Rand.IntN(3)
	if kind > 0 && w.instance.HandOver != nil {
		left = w.instance.HandOver()
	}
	w.log("RESTART %d", kind)
	w.Env.Succeed(left)
	for _, i := range w.informers {
		i.handlers, i.pending, i.registrations = nil, nil, nil
	}
	if kind != 1 { // with caches of its own
		w.informers = map[cached]*informer{}
	}
	w.instance = w.Start(w.Env.Env, left)
}

// rest lets the goroutines of the controller do what they can.
func (w *World) rest() {
	if w.Rest != nil {
		w.Rest()
	}
}

// Drain delivers everything and works until nothing is ready.
func (w *World) Drain() {
	for range 100000 {
		busy := false
		for _, i := range w.sorted() {
			if i.isBehind() {
				i.deliver()
				w.rest()
				busy = true
			}
			if len(i.pending) > 0 {
				i.notify()
				w.rest()
				busy = true
			}
		}
		if w.work() {
			busy = true
		}
		if !busy {
			return
		}
	}
	w.t.Fatal("it never rests")
}

// Settle goes on without faults until nothing is due within the horizon. each is called whenever everything rests, for
// the other components, and reports whether they did anything.
func (w *World) Settle(horizon time.Duration, each func() bool) {
	w.Faulty = false
	w.find()
	end := w.Clock.Now().Add(horizon)
	for range 20000 {
		w.Drain()
		if w.server.comeLate() {
			w.rest()
			continue
		}
		if each != nil && each() {
			continue
		}
		var next time.Time
		for _, r := range w.instance.Runners {
			if at, ok := r.next(); ok && (next.IsZero() || at.Before(next)) {
				next = at
			}
		}
		if next.IsZero() || next.After(end) {
			return
		}
		w.Clock.SetTime(next)
	}
	w.t.Fatal("it does not settle")
}
