package faults

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	kcmruntime "kcmd.dev/pkg/runtime"
	"kcmd.dev/test/await"
	"kcmd.dev/test/controlplane"
	"kcmd.dev/test/faultproxy"
	"kcmd.dev/test/integration/harness"
	"kcmd.dev/test/manager"
	"kcmd.dev/test/upstream"
)

// actor is a manager that runs the controllers of a scenario.
type actor string

const (
	ours   actor = "kcmd"
	theirs actor = upstream.Name
	// again is another process of theirs.
	again actor = upstream.Name + " started again"
)

const (
	// stillness is how long nothing happens when a manager has done its work: upstream's does not say how long its
	// queues are.
	stillness = 2 * time.Second
	// agreement bounds the wait until two managers have come to the same end.
	agreement = 20 * time.Second
)

// engagement is a manager that runs for some steps.
type engagement struct {
	actor  actor
	proxy  *faultproxy.Proxy
	writes *faultproxy.Journal
	stop   func() error
}

func (e *engagement) end() error { return errors.Join(e.stop(), e.proxy.Close()) }

// ending is what came of a play.
type ending struct {
	history
	final state
	// events are those that managers have sent.
	events []event
	// writes are those of all managers together.
	writes []write
	// unasked are the changes that came when a manager had taken over, and nobody had done anything.
	unasked []string
	// series are those of the manager that ran at the end.
	series series
}

// play is a scenario without faults, with a manager of one or the other for each step.
type play struct {
	scenario *Scenario
	world    *world
	plane    *controlplane.ControlPlane
	// cast says who runs the controllers in a step, counted from 0.
	cast func(step int) actor
	seen *observer
	now  *engagement
	// past are the engagements that have ended.
	past []*engagement
}

// perform plays until nothing happens any more, and until the end is the wanted one, if that is not nil, but not for
// ever.
func (p *play) perform(ctx context.Context, want *ending) (end ending, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if err := p.world.begin(ctx, p.scenario.Kinds); err != nil {
		return ending{}, err
	}
	if p.seen, err = observe(ctx, p.world, p.scenario.Kinds); err != nil {
		return ending{}, err
	}
	defer p.seen.stop()
	began := time.Now()
	beside, besideContext := errgroup.WithContext(ctx)
	for _, do := range append(slices.Clone(p.scenario.Beside), p.kubelets) {
		beside.Go(func() error { return do(besideContext, p.world) })
	}
	defer func() {
		cancel()
		if failed := beside.Wait(); failed != nil && !errors.Is(failed, context.Canceled) {
			err = errors.Join(err, failed)
		}
		if p.now != nil {
			err = errors.Join(err, p.now.end())
		}
	}()
	for _, do := range p.scenario.Before {
		if err := do(ctx, p.world); err != nil {
			return ending{}, err
		}
	}
	if end.unasked, err = p.script(ctx); err != nil {
		return ending{}, err
	}
	if end.final, end.events, err = p.settle(ctx, began, want); err != nil {
		return ending{}, err
	}
	if end.series, err = p.series(ctx); err != nil {
		return ending{}, err
	}
	end.history = p.seen.sofar()
	for _, e := range append(p.past, p.now) {
		end.writes = append(end.writes, writesOf(e.writes.Entries())...)
	}
	return end, nil
}

// stallError is that a step did not lead to what it has to lead to.
type stallError struct {
	// actor is the manager that ran.
	actor actor
	error
}

func (e *stallError) Unwrap() error { return e.error }

// script does what users do, with the manager whose turn it is. It returns what has changed by takeovers alone.
func (p *play) script(ctx context.Context) (unasked []string, err error) {
	for i, step := range p.scenario.Steps {
		changes, err := p.engage(ctx, p.cast(i))
		if err != nil {
			return nil, fmt.Errorf("%s takes over before step %d: %w", p.cast(i), i+1, err)
		}
		for _, change := range changes {
			unasked = append(unasked, fmt.Sprintf("before step %d, by %s: %s", i+1, p.cast(i), change))
		}
		if err := p.step(ctx, &step); err != nil {
			return nil, &stallError{p.now.actor, fmt.Errorf("step %d, %s, with %s: %w", i+1, step.Name, p.now.actor, err)}
		}
	}
	return unasked, nil
}

// settle returns the state and the events when nothing happens any more. It waits for those that are wanted, but not for
// ever.
func (p *play) settle(ctx context.Context, began time.Time, want *ending) (final state, events []event, err error) {
	for deadline := time.Now().Add(agreement); ; {
		p.still(ctx)
		if final, err = p.world.state(ctx, p.scenario); err != nil {
			return nil, nil, err
		}
		if events, err = p.events(ctx, began); err != nil {
			return nil, nil, err
		}
		if want == nil || time.Now().After(deadline) {
			return final, events, nil
		}
		got := &ending{history: p.seen.sofar(), final: final, events: events}
		if len(p.scenario.unexplained(compare(want, got), false)) == 0 {
			return final, events, nil
		}
	}
}

// kubelets does what those of a cluster with nodes do.
func (p *play) kubelets(ctx context.Context, w *world) error {
	if !p.scenario.Bare {
		removePods(ctx, w)
	}
	return nil
}

// step has users do something, and waits for what comes of it.
func (p *play) step(ctx context.Context, step *Step) error {
	for _, do := range step.Do {
		if err := do(ctx, p.world); err != nil {
			return err
		}
	}
	for _, condition := range step.Until {
		if err := await.Nil(ctx, patience, func(ctx context.Context) error { return condition(ctx, p.world) }); err != nil {
			return err
		}
	}
	return nil
}

// engage has a manager run the controllers from now on, and returns what has changed because of that. The one before
// has ended then, as with a lease.
func (p *play) engage(ctx context.Context, who actor) (unasked []string, err error) {
	if p.now != nil && p.now.actor == who {
		return nil, nil
	}
	var before state
	if p.now != nil {
		p.still(ctx)
		if err := p.now.end(); err != nil {
			return nil, err
		}
		p.past = append(p.past, p.now)
		if before, err = p.world.state(ctx, p.scenario); err != nil {
			return nil, err
		}
	}
	first := p.now == nil
	if p.now, err = p.begin(ctx, who); err != nil {
		return nil, err
	}
	p.still(ctx)
	if first {
		return nil, nil
	}
	after, err := p.world.state(ctx, p.scenario)
	if err != nil {
		return nil, err
	}
	return differences(before, after), nil
}

// still returns when nothing has happened for some time.
func (p *play) still(ctx context.Context) {
	happened, since := -1, time.Now()
	_ = await.Nil(ctx, agreement, func(context.Context) error { // who is never still shows it in the end
		if now := p.seen.changes() + len(p.now.writes.Entries()); now != happened {
			happened, since = now, time.Now()
		}
		if time.Since(since) < stillness {
			return errors.New("something has happened")
		}
		return nil
	})
}

// begin starts a manager.
func (p *play) begin(ctx context.Context, who actor) (*engagement, error) {
	proxy, err := faultproxy.New(p.plane)
	if err != nil {
		return nil, err
	}
	e := &engagement{actor: who, proxy: proxy, writes: proxy.Record(selectWrites(p.world))}
	kubeconfig, err := proxy.Kubeconfig("manager", controlplane.ManagerUser)
	if err != nil {
		return nil, errors.Join(err, proxy.Close())
	}
	if who == ours {
		err = p.beginOurs(ctx, e, kubeconfig)
	} else {
		err = p.beginTheirs(ctx, e, kubeconfig)
	}
	if err != nil {
		return nil, errors.Join(err, proxy.Close())
	}
	return e, nil
}

func (p *play) beginOurs(ctx context.Context, e *engagement, kubeconfig string) error {
	m, err := manager.Begin(ctx, p.plane, kcmruntime.Options{}, func(c *manager.Config) {
		c.ClientConnection.Kubeconfig = kubeconfig
		harness.Settle(time.Millisecond)(c)
		c.Serving.TLS.CertDirectory = filepath.Join(p.plane.Dir(), "serving") // made once: to make a key takes long
		harness.WithoutLease(c)
		p.scenario.configure(c)
	})
	if err != nil {
		return err
	}
	e.stop = m.Stop
	p.world.leader = func(context.Context) (leader, error) { return m, nil }
	err = m.WaitRunning(ctx)
	if err == nil {
		err = m.Wait(ctx, "the controllers have begun", harness.LoopsBegan)
	}
	if err != nil {
		return errors.Join(err, m.Stop())
	}
	return nil
}

// configure is what a scenario wants of our manager.
func (s *Scenario) configure(c *manager.Config) {
	harness.Only(s.Controllers)(c)
	harness.All(s.Configure)(c)
}

func (p *play) beginTheirs(ctx context.Context, e *engagement, kubeconfig string) error {
	u, err := startUpstream(ctx, p.plane, p.scenario, kubeconfig)
	if err != nil {
		return err
	}
	e.stop = u.Stop
	p.world.leader = func(context.Context) (leader, error) { return u, nil }
	return nil
}
