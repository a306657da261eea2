package supervisor

import (
	"context"
	"net/http"
	"slices"
	"sync"
	"time"

	"kcmd.dev/pkg/controller"
)

// fakeBuilder makes fake instances and remembers them.
type fakeBuilder struct {
	mu       sync.Mutex
	built    []*fakeInstance
	warm     int
	refuse   map[string]error
	onBuild  map[string]func() // called first
	onWarm   map[string]func()
	running  map[string]int // by controller, to see two at once
	overlaps int
}

func (b *fakeBuilder) Build(d controller.Descriptor, spec Spec, failed func(error)) (Instance, error) {
	if b.onBuild[d.Name] != nil {
		b.onBuild[d.Name]()
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if err := b.refuse[d.Name]; err != nil {
		return nil, err
	}
	if spec.Planned.Value == "idle" {
		return nil, nil
	}
	i := &fakeInstance{builder: b, name: d.Name, spec: spec, failed: failed, ended: make(chan error, 1)}
	b.built = append(b.built, i)
	return i, nil
}

func (b *fakeBuilder) Warm(d controller.Descriptor, _ Spec) (func(), error) {
	if b.onWarm[d.Name] != nil {
		b.onWarm[d.Name]()
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if err := b.refuse[d.Name]; err != nil {
		return nil, err
	}
	b.warm++
	return func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.warm--
	}, nil
}

func (b *fakeBuilder) count(name string, by int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.running[name] += by
	if b.running[name] > 1 {
		b.overlaps++
	}
}

// fakeInstance is an instance whose end the test decides.
type fakeInstance struct {
	builder *fakeBuilder
	name    string
	spec    Spec
	failed  func(error)
	ended   chan error // what Run returns without being asked
	hangs   chan struct{}
	onRun   func()
	handler chan struct{} // Close waits for it, as for an event handler

	// What the controller does when it is called, instead of answering.
	onHandOver, onLoops, onClose, onDebug func()

	mu          sync.Mutex
	leaves      any  // what it hands over, if not its value
	waits       bool // it has not taken over
	ran, closed int
	fenced      error
	predecessor any
	resync      time.Duration
	loops       []controller.LoopStatus
	keys        []controller.LoopKey
}

func (i *fakeInstance) Run(ctx context.Context, predecessor any) error {
	i.mu.Lock()
	i.ran++
	i.predecessor = predecessor
	i.mu.Unlock()
	i.builder.count(i.name, 1)
	defer i.builder.count(i.name, -1)
	if i.onRun != nil {
		i.onRun()
	}
	select {
	case err := <-i.ended:
		return err
	case <-ctx.Done():
	}
	i.mu.Lock()
	hangs := i.hangs
	i.mu.Unlock()
	if hangs != nil {
		<-hangs
	}
	return nil
}

// hang makes Run go on after its context ended, until the channel is closed.
func (i *fakeInstance) hang() chan struct{} {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.hangs = make(chan struct{})
	return i.hangs
}

func (i *fakeInstance) counts() (ran, closed int) {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.ran, i.closed
}

func (i *fakeInstance) HandOver() (left any, passedOn bool) {
	if i.onHandOver != nil {
		i.onHandOver()
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.waits {
		return i.predecessor, true
	}
	if i.leaves != nil {
		return i.leaves, false
	}
	return "from " + i.spec.Planned.Value.(string), false
}

func (i *fakeInstance) Fence(cause error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.fenced == nil {
		i.fenced = cause
	}
}

func (i *fakeInstance) DebuggingHandler() http.Handler {
	if i.onDebug != nil {
		i.onDebug()
	}
	return http.NotFoundHandler()
}

func (i *fakeInstance) Close() {
	i.mu.Lock()
	i.closed++
	handler := i.handler
	i.mu.Unlock()
	if handler != nil {
		<-handler
	}
	if i.onClose != nil {
		i.onClose()
	}
}

func (i *fakeInstance) SetResync(d time.Duration) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.resync = d
}

func (i *fakeInstance) Keys(wanted func(string) bool) []controller.LoopKey {
	i.mu.Lock()
	defer i.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(i.keys), func(k controller.LoopKey) bool { return !wanted(k.Key) })
}

func (i *fakeInstance) Loops() []controller.LoopStatus {
	i.mu.Lock()
	loops, onLoops := i.loops, i.onLoops
	i.mu.Unlock()
	if onLoops != nil {
		onLoops()
	}
	return loops
}
