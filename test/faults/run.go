package faults

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"

	kcmruntime "kcmd.dev/pkg/runtime"
	"kcmd.dev/test/await"
	"kcmd.dev/test/controlplane"
	"kcmd.dev/test/faultproxy"
	"kcmd.dev/test/integration/harness"
	"kcmd.dev/test/manager"
)

const (
	// patience bounds the wait for what has to come of a step, and of the script. The machine may be busy, and a write
	// without an answer may have to be waited for, for requests.LateWithin.
	patience = 2 * time.Minute
	// calm is how long nothing happens in the end.
	calm = 500 * time.Millisecond
	// drainTimeout bounds the end of a manager that has lost its connections.
	drainTimeout = 2 * time.Second
)

// unjudged are kinds of which writes do not count: they say what happened or ask for something, and keep nothing.
var unjudged = []schema.GroupResource{
	{Resource: "events"}, {Group: "events.k8s.io", Resource: "events"}, {Group: "coordination.k8s.io", Resource: "leases"},
	{Group: "authorization.k8s.io", Resource: "subjectaccessreviews"},
}

// replica is a manager with a proxy of its own.
type replica struct {
	*manager.Manager
	proxy         *faultproxy.Proxy
	writes, reads *faultproxy.Journal
}

// run is a scenario with at most one fault.
type run struct {
	ctx      context.Context
	scenario *Scenario
	world    *world
	plane    *controlplane.ControlPlane
	standby  bool
	clock    clock.WithTicker // of the managers, nil for the real one

	mu       sync.Mutex
	replicas []*replica
	gone     map[*replica]bool
	failed   []error
	others   sync.WaitGroup // what goes on beside the script
}

// perform runs a scenario with a fault, nil for none, and tells what came of it. Without a reference it ends
// when nothing is written any more.
func perform(ctx context.Context, plane *controlplane.ControlPlane, w *world, s *Scenario, f *fault, reference *outcome) (outcome, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	r := &run{ctx: ctx, scenario: s, world: w, plane: plane, standby: f != nil && f.standby, gone: map[*replica]bool{}}
	if err := w.begin(ctx, s.Kinds); err != nil {
		return outcome{}, err
	}
	seen, err := observe(ctx, w, s.Kinds)
	if err != nil {
		return outcome{}, err
	}
	defer seen.stop()
	r.setClock()
	w.leader = r.leader
	defer r.end()
	for _, do := range s.Before {
		if err := do(ctx, w); err != nil {
			return outcome{}, err
		}
	}
	if err := r.start(); err != nil {
		return outcome{}, err
	}
	for _, play := range s.Beside {
		r.others.Go(func() {
			if err := play(ctx, w); err != nil && ctx.Err() == nil {
				r.fail(err)
			}
		})
	}
	if !s.Bare {
		r.others.Go(func() { removePods(ctx, w) })
	}
	if f != nil && f.begin != nil {
		f.begin(r)
	}
	out := outcome{}
	err = r.script(f)
	if err == nil {
		err = r.settle(seen, reference)
	}
	if err != nil {
		out.unrest = err.Error()
	}
	out.footprint = r.hold()
	cancel()
	r.others.Wait()
	r.end()
	return r.complete(context.WithoutCancel(ctx), seen, out)
}

// setClock makes the clock of the managers.
func (r *run) setClock() {
	switch {
	case r.scenario.Leaps:
		r.world.clock = newLeapingClock()
		r.clock = r.world.clock
	case r.scenario.Clock != nil:
		r.clock = r.scenario.Clock()
	}
}

// complete adds to an outcome what is known when the managers have ended.
func (r *run) complete(ctx context.Context, seen *observer, out outcome) (outcome, error) {
	var err error
	if out.left, err = r.leftBehind(ctx); err != nil {
		return outcome{}, err
	}
	if out.final, err = r.world.state(ctx, r.scenario); err != nil {
		return outcome{}, err
	}
	out.history = seen.sofar()
	out.writes, out.reads = r.writes(), readsOf(r.replicas[0].reads.Entries())
	for _, err := range r.failed {
		if !errors.Is(err, context.Canceled) {
			out.unrest += "\n" + err.Error()
		}
	}
	return out, nil
}

// start runs the manager that leads, and the one that stands by if there is one.
func (r *run) start() error {
	first, err := r.join(r.newProxy())
	if err != nil {
		return err
	}
	// What it does because it begins is no answer to a user, and comes before any fault.
	if err := r.await("the manager has begun", r.idle); err != nil {
		return err
	}
	first.writes = first.proxy.Record(r.selectWrites())
	if !r.standby {
		return nil
	}
	second, err := r.begin(r.newProxy())
	if err != nil {
		return err
	}
	return second.Wait(r.ctx, "the second manager stands by", harness.StandsBy)
}

func (r *run) newProxy() *faultproxy.Proxy {
	p, err := faultproxy.New(r.plane)
	if err != nil {
		panic(err) // there are no ports or files left
	}
	return p
}

// join runs another manager, and returns when its controllers run.
func (r *run) join(proxy *faultproxy.Proxy) (*replica, error) {
	one, err := r.begin(proxy)
	if err != nil {
		return nil, err
	}
	if err := one.WaitRunning(r.ctx); err != nil {
		return nil, err
	}
	return one, one.Wait(r.ctx, "the controllers have begun", harness.LoopsBegan)
}

func (r *run) begin(proxy *faultproxy.Proxy) (*replica, error) {
	one := &replica{
		proxy:  proxy,
		writes: proxy.Record(r.selectWrites()),
		reads:  proxy.Record(faultproxy.Requests{Client: "informers", Verbs: []string{"watch"}}),
	}
	kubeconfig, err := proxy.Kubeconfig("manager", controlplane.ManagerUser)
	if err != nil {
		return nil, err
	}
	one.Manager, err = manager.Begin(r.ctx, r.plane, kcmruntime.Options{Clock: r.clock}, func(c *manager.Config) {
		c.ClientConnection.Kubeconfig = kubeconfig
		harness.Settle(time.Millisecond)(c)
		c.Serving.TLS.CertDirectory = filepath.Join(r.plane.Dir(), "serving") // made once: to make a key takes long
		c.Reload.DrainTimeout = &metav1.Duration{Duration: drainTimeout}
		harness.Only(r.scenario.Controllers)(c)
		for _, workers := range workersOf(c) {
			*workers = ptr.To[int32](2)
		}
		harness.All(r.scenario.Configure)(c)
		if !r.standby {
			harness.WithoutLease(c)
		} else if r.scenario.Clock != nil { // leases last by the clock of the manager
			harness.Lease(2*time.Minute, 80*time.Second, 16*time.Second)(c)
		} else if r.scenario.Leaps {
			harness.Lease(time.Hour, 50*time.Minute, 2*time.Second)(c)
		}
		c.LeaderElection.ResourceName = r.world.namespace
	})
	if err != nil {
		return nil, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.replicas = append(r.replicas, one)
	return one, nil
}

// first is the manager that was started first.
func (r *run) first() *replica { return r.replicas[0] }

// abandon stops a manager that the API server does not hear of any more, and does not wait for it. Its connections are
// broken: it need not find out by itself that nobody answers. Until it has stopped, the clock is not put forward, by
// which it would have no time left to stop.
func (r *run) abandon(one *replica) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.gone[one] = true
	r.world.faults.Add(1)
	r.others.Go(func() {
		defer r.world.faults.Add(-1)
		if err := one.proxy.Close(); err != nil {
			r.fail(err)
		}
		_ = one.Stop() // it may complain about its connections
	})
}

// end stops what runs.
func (r *run) end() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, one := range r.replicas {
		if err := one.Stop(); err != nil && !r.gone[one] {
			r.failed = append(r.failed, err)
		}
		r.gone[one] = true
		if err := one.proxy.Close(); err != nil {
			r.failed = append(r.failed, err)
		}
	}
}

// selectWrites selects the writes that count.
func (r *run) selectWrites() faultproxy.Requests { return selectWrites(r.world) }

// selectWrites selects the writes of a manager that count in a world.
func selectWrites(w *world) faultproxy.Requests {
	requests := faultproxy.Requests{
		Verbs:         []string{"create", "update", "patch", "delete", "deletecollection"},
		Namespace:     w.namespace,
		ClusterScoped: true,
		Except:        unjudged,
		ExceptNames:   w.before,
	}
	if w.namespace == metav1.NamespaceSystem { // the accounts of the controllers are there
		requests.Except = append(slices.Clone(unjudged), schema.GroupResource{Resource: "serviceaccounts"})
	}
	return requests
}

// like selects those of them that are like one.
func (r *run) like(w write) faultproxy.Requests {
	requests := r.selectWrites()
	requests.Verbs, requests.Resource = []string{w.verb}, w.resource
	requests.Subresource, requests.Whole = w.subresource, w.subresource == ""
	return requests
}

// nth selects the n-th of those.
func (r *run) nth(w write, n int) faultproxy.Requests {
	requests := r.like(w)
	requests.Nth = n
	return requests
}

func (r *run) writes() []write {
	r.mu.Lock()
	defer r.mu.Unlock()
	var all []write
	for _, one := range r.replicas {
		all = append(all, writesOf(one.writes.Entries())...)
	}
	return all
}

// meanwhile does something beside the script when something has happened, unless the run ends before.
func meanwhile[T any](r *run, happened <-chan T, do func() error) {
	r.others.Go(func() {
		select {
		case <-happened:
		case <-r.ctx.Done():
			return
		}
		r.world.faults.Add(1)
		defer r.world.faults.Add(-1)
		if err := do(); err != nil {
			r.fail(err)
		}
	})
}

// fail has the run fail in the end.
func (r *run) fail(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.failed = append(r.failed, err)
}

// reaction is closed when a manager writes something, or after some time.
func (r *run) reaction(one *replica) <-chan struct{} {
	reacted := make(chan struct{})
	wrote := one.writes.Arrived(len(one.writes.Entries()) + 1)
	r.others.Go(func() {
		defer close(reacted)
		select {
		case <-wrote:
		case <-time.After(firstWrite):
		case <-r.ctx.Done():
		}
	})
	return reacted
}

func (r *run) await(what string, check func() error) error {
	err := await.Nil(r.ctx, patience, func(context.Context) error { return check() })
	if err != nil {
		return fmt.Errorf("waiting until %s: %w", what, err)
	}
	return nil
}

// script does what users do.
func (r *run) script(f *fault) error {
	for i, step := range r.scenario.Steps {
		if f != nil && f.step != nil {
			f.step(r, i)
		}
		for _, do := range step.Do {
			if err := do(r.ctx, r.world); err != nil {
				return fmt.Errorf("step %d, %s: %w", i+1, step.Name, err)
			}
		}
		for _, condition := range step.Until {
			if err := await.Nil(r.ctx, patience, func(ctx context.Context) error { return condition(ctx, r.world) }); err != nil {
				return fmt.Errorf("step %d, %s: %w", i+1, step.Name, err)
			}
		}
	}
	return nil
}

// settle returns when nothing is left to do, for some time nothing was written and nothing has changed, and the state and
// what the leader holds are those of the reference.
func (r *run) settle(seen *observer, reference *outcome) error {
	var happened int
	var since time.Time
	return r.await("everything is done", func() error {
		if now := len(r.writes()) + seen.changes(); since.IsZero() || now != happened {
			happened, since = now, time.Now()
		}
		if err := r.idle(); err != nil {
			since = time.Time{}
			return err
		}
		if quiet := time.Since(since); quiet < calm {
			return fmt.Errorf("something has happened %s ago", quiet)
		}
		if reference == nil {
			return nil
		}
		is, err := r.world.state(r.ctx, r.scenario)
		if err == nil && len(differences(reference.final, is)) > 0 {
			err = errors.New("the final state differs")
		}
		// A successor may have nothing left to do, and so be done before all of its controllers run.
		if missed := leaks(reference.footprint, r.hold()); err == nil && len(missed) > 0 {
			err = errors.New(strings.Join(missed, "; "))
		}
		if err != nil {
			since = time.Time{}
		}
		return err
	})
}

var errNoLeader = errors.New("no manager leads")

// idle is nil if no manager that leads has anything to do.
func (r *run) idle() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	var leads bool
	for _, one := range r.replicas {
		select {
		case <-one.Done():
			continue
		default:
		}
		if r.gone[one] {
			continue
		}
		s, err := one.Status(r.ctx)
		if err != nil {
			return err
		}
		leads = leads || s.Leadership.Leading
		if err := harness.QueuesAreEmpty(&s); err != nil {
			return err
		}
	}
	if !leads {
		return errNoLeader
	}
	return nil
}

// leader returns the manager that leads.
func (r *run) leader(ctx context.Context) (leader, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, one := range r.replicas {
		if r.gone[one] {
			continue
		}
		if s, err := one.Status(ctx); err == nil && s.Leadership.Leading {
			return one.Manager, nil
		}
	}
	return nil, errNoLeader
}

// workersOf returns the numbers of workers of the controllers that are on.
func workersOf(c *manager.Config) []**int32 {
	var all []**int32
	blocks := reflect.ValueOf(&c.Controllers).Elem()
	for i := range blocks.NumField() {
		block := blocks.Field(i)
		if block.Kind() != reflect.Struct {
			continue
		}
		enabled, workers := block.FieldByName("Enabled"), block.FieldByName("ConcurrentSyncs")
		if !enabled.IsValid() || !workers.IsValid() {
			continue
		}
		if on, ok := enabled.Interface().(*bool); !ok || on == nil || !*on {
			continue
		}
		if number, ok := workers.Addr().Interface().(**int32); ok {
			all = append(all, number)
		}
	}
	return all
}

// switched is an edit that turns the controllers of a scenario on or off.
func (s *Scenario) switched(on bool) func(*manager.Config) {
	return func(c *manager.Config) {
		for _, enabled := range s.Controllers(c) {
			*enabled = ptr.To(on)
		}
	}
}
