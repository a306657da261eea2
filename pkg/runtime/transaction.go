package runtime

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"

	"k8s.io/klog/v2"

	"kcmd.dev/pkg/config"
	"kcmd.dev/pkg/config/plan"
	"kcmd.dev/pkg/config/v1beta1"
	"kcmd.dev/pkg/controller/concurrent"
	"kcmd.dev/pkg/runtime/connection"
	"kcmd.dev/pkg/runtime/leadership"
	"kcmd.dev/pkg/runtime/serving"
	"kcmd.dev/pkg/runtime/supervisor"
	"kcmd.dev/pkg/runtime/telemetry"
)

// basis is everything that what runs is derived from.
type basis struct {
	document   *config.Document
	connection *connection.Connection
	files      map[string]string // hashes of the files that controllers read
	locks      []*leadership.Lock
}

// basis is the one in force.
func (r *Runtime) basis() basis {
	return basis{document: r.document, connection: r.connection, files: r.files, locks: r.leadership.Locks()}
}

// transaction takes the process from one basis to the next, in two phases. Every part of the
// process takes part in both:
//
//  1. Prepare does everything that can fail, without any effect on what is in force, whether
//     or not the change is committed.
//  2. Commit does what cannot fail. If anything could not be prepared, what was prepared is
//     discarded instead. So there is nothing to roll back.
//
// Instances that end by the change begin nothing more once it is committed: what it allows, such as
// writes where they were paused, is not for them.
type transaction struct {
	process *Runtime
	was     basis // what is in force until it is committed
	next    basis
	// cause is CauseClients if the connection is replaced although the configuration stays the same.
	cause supervisor.Cause
	// restored replaces the connection by one to the same API server, since etcd was restored.
	restored bool
	prepared []step
	// did is what was done, once it is committed.
	did done
}

// starts reports whether nothing is in force before.
func (t *transaction) starts() bool { return t.cause == supervisor.CauseStart }

// canWait reports whether the process goes on even if the API server does not respond or controllers cannot be built:
// nothing is proved, and both are tried again. There is nothing yet, or nothing any more, that could go on instead.
func (t *transaction) canWait() bool { return t.starts() || t.restored }

// effective is the next configuration as applied in place: fields without effect have their
// defaults.
func (t *transaction) effective() *v1beta1.KubeControllerManagerConfiguration {
	return plan.Effective(t.next.document.Config)
}

// step is what one part of the process is going to do.
type step struct {
	halt    func()                // called before anything is committed; nil: nothing
	commit  func(context.Context) // nil: nothing
	discard func()                // nil: nothing is held
}

// begin makes a transaction to the basis in force, for the caller to change.
func (r *Runtime) begin(cause supervisor.Cause) *transaction {
	now := r.basis()
	return &transaction{process: r, was: now, next: now, cause: cause}
}

// participants are the parts of the process, in the order of both phases.
func (t *transaction) participants() []func(context.Context) (step, error) {
	if t.restored { // the others have nothing to do with the API server, and may fail because of a file
		return []func(context.Context) (step, error){t.connect, t.locks, t.controllers, t.inPlace}
	}
	return []func(context.Context) (step, error){
		t.log,
		t.endpointFiles,
		t.metrics,
		t.showGates,
		t.endpoint,
		t.connect,
		t.locks,
		t.pause,
		t.limitDeletions,
		t.pace,
		t.controllers,
		t.inPlace,
	}
}

// prepare does the first phase, for all or for none.
func (t *transaction) prepare(ctx context.Context) error {
	for _, participant := range t.participants() {
		err := contain(ctx, "preparing a change", func() error {
			s, err := participant(ctx)
			if err == nil {
				t.prepared = append(t.prepared, s)
			}
			return err
		})
		if err != nil {
			t.discard()
			return err
		}
	}
	return nil
}

// contain makes a panic an error like any other, and logs where it was. It is for what is done with a configuration
// before that is in force: what is in force goes on.
func contain(ctx context.Context, doing string, f func() error) (err error) {
	if caught := concurrent.Catch(func() { err = f() }); caught != nil {
		// Not returned as it is: the stack would become part of an event.
		klog.FromContext(ctx).Error(caught, "Panic", "doing", doing)
		return fmt.Errorf("panic while %s: %v", doing, caught.Value)
	}
	return err
}

func (t *transaction) discard() {
	for _, s := range slices.Backward(t.prepared) {
		if s.discard != nil {
			s.discard()
		}
	}
}

// commit does the second phase.
func (t *transaction) commit(ctx context.Context) {
	r := t.process
	r.mu.Lock()
	r.document, r.connection, r.files = t.next.document, t.next.connection, t.next.files
	r.mu.Unlock()
	if !t.starts() {
		t.tellWatcher()
	}
	for _, s := range t.prepared {
		if s.halt != nil {
			s.halt()
		}
	}
	for _, s := range t.prepared {
		if s.commit != nil {
			s.commit(ctx)
		}
	}
	t.process.leadership.Settle(ctx)
}

// run does both phases.
func (t *transaction) run(ctx context.Context) error {
	if err := t.prepare(ctx); err != nil {
		return err
	}
	t.commit(ctx)
	return nil
}

func (t *transaction) log(context.Context) (step, error) {
	change, err := t.process.logging.Prepare(t.effective())
	if err != nil {
		return step{}, err
	}
	return step{commit: func(context.Context) { change.Commit() }}, nil
}

// endpointFiles notes what the files of the endpoint are before they are read for the first time, so that
// it is noticed if they change until they are watched.
func (t *transaction) endpointFiles(context.Context) (step, error) {
	states := map[string]string{}
	for _, path := range endpointFiles(t.next.document.Config) {
		state, known := t.process.rotation.endpoint[path]
		if !known {
			state = stateNow(path)
		}
		states[path] = state
	}
	return step{commit: func(context.Context) { t.process.rotation.endpoint = states }}, nil
}

// metrics prepares the metrics, unless the edit does not concern them: then no file is read.
func (t *transaction) metrics(context.Context) (step, error) {
	c := t.effective().Metrics
	if !t.starts() && reflect.DeepEqual(c, plan.Effective(t.was.document.Config).Metrics) {
		return step{}, nil
	}
	exposed, err := telemetry.ReadExposition(c)
	if err != nil {
		return step{}, t.blame("metrics.allowListMappingManifest", err)
	}
	return step{commit: func(context.Context) { t.process.hub.Expose(exposed) }}, nil
}

func (t *transaction) endpoint(ctx context.Context) (step, error) {
	change, err := t.process.server.Prepare(ctx, t.effective().Serving)
	if err != nil {
		field := "serving"
		var of *serving.FieldError
		if errors.As(err, &of) {
			field = of.Field
		}
		return step{}, t.blame(field, err)
	}
	if !t.starts() && reflect.DeepEqual(t.effective().Serving, plan.Effective(t.was.document.Config).Serving) {
		return step{commit: change.Commit, discard: change.Discard}, nil
	}
	return step{discard: change.Discard, commit: func(ctx context.Context) {
		t.process.rotation.reviewsFailure = "" // the kubeconfigs have just been read
		change.Commit(ctx)
	}}, nil
}

// connect makes another connection if needed. Everything that runs depends on it, so it is
// proved first.
func (t *transaction) connect(ctx context.Context) (step, error) {
	c := t.next.document.Config
	if !t.starts() && t.cause != supervisor.CauseClients && plan.SourceOf(t.was.document.Config) == plan.SourceOf(c) {
		return step{}, nil
	}
	old, generation := t.was.connection, uint64(1)
	if old != nil {
		generation = old.Generation() + 1
	}
	conn, err := t.newConnection(ctx, generation)
	if err != nil {
		return step{}, t.blame(connectionField(c.ClientConnection), err)
	}
	recorder, err := conn.ProcessEvents()
	if err == nil && !t.canWait() {
		err = t.proveConnection(ctx, conn)
	}
	if err != nil {
		conn.Retire()
		return step{}, err
	}
	t.next.connection = conn
	return step{discard: conn.Retire, commit: func(context.Context) {
		conn.Begin()
		t.process.events.Connect(recorder)
		if old != nil {
			t.did.reconnected = true
			if !t.restored { // the credentials are the same
				t.process.credentials.Forget()
				t.process.rotation.access.end()
			}
			old.Retire()
		}
	}}, nil
}

// newConnection makes the connection that the next configuration leads to. After a restore of etcd it has the
// credentials in use, also if the files have others by now that cannot be used.
func (t *transaction) newConnection(ctx context.Context, generation uint64) (*connection.Connection, error) {
	settings := t.next.document.Config.ClientConnection
	if t.restored {
		return t.was.connection.Anew(ctx, generation, settings, t.process.cachesWhole)
	}
	return connection.New(ctx, generation, settings, t.process.cachesWhole, t.process.options.Clock)
}

func (t *transaction) locks(ctx context.Context) (step, error) {
	// What happened to the locks in force, also while a connection was proved, is no part of
	// the change.
	t.process.leadership.TakeTerms(ctx)
	c, l := t.next.document.Config, t.process.leadership
	namesUnder := func(lock string) []string { return enabledUnder(lock, c, t.process.options.Descriptors) }
	locks, err := l.Prepare(t.next.connection, c, namesUnder)
	if err != nil {
		return step{}, err
	}
	if !t.canWait() {
		err = t.proveLeases(ctx, locks)
	}
	if err != nil {
		l.Discard(locks)
		return step{}, err
	}
	t.next.locks = locks
	return step{discard: func() { l.Discard(locks) }, commit: func(ctx context.Context) {
		t.did.leases = leaseActions(l.Locks(), locks)
		l.Adopt(ctx, locks, c, namesUnder)
		l.SetTimings(c.LeaderElection)
	}}, nil
}

// leaseActions returns what happens to the leases of some locks when others replace them, by
// lock, without those that are kept.
func leaseActions(old, next []*leadership.Lock) map[string]plan.Action {
	actions := map[string]plan.Action{}
	for _, k := range old {
		if k.Contends() && !slices.Contains(next, k) {
			actions[k.Name] = plan.Stop
		}
	}
	for _, k := range next {
		switch {
		case !k.Contends() || slices.Contains(old, k):
		case actions[k.Name] == plan.Stop:
			actions[k.Name] = plan.Restart
		default:
			actions[k.Name] = plan.Start
		}
	}
	return actions
}

// pause takes over where controllers are paused, before any instance starts.
func (t *transaction) pause(context.Context) (step, error) {
	return step{commit: func(ctx context.Context) {
		begun, ended := t.process.pauses.Apply(t.next.document.Config, t.process.options.Descriptors)
		t.process.announcePauses(ctx, begun, ended)
	}}, nil
}

// limitDeletions takes over how much may be deleted, before any instance starts.
func (t *transaction) limitDeletions(context.Context) (step, error) {
	return step{commit: func(ctx context.Context) {
		t.process.announceResumed(ctx, t.process.breaker.Apply(t.next.document.Config))
	}}, nil
}

// pace takes over how fast controllers start and stop, before any does.
func (t *transaction) pace(context.Context) (step, error) {
	c := t.effective()
	return step{commit: func(context.Context) {
		t.process.supervisor.SetDrainTimeout(c.Reload.DrainTimeout.Duration)
		t.process.supervisor.SetStartInterval(c.ControllerStartInterval.Duration)
	}}, nil
}

// inPlace is everything else that changes without a restart, which needs no preparation.
func (t *transaction) inPlace(context.Context) (step, error) {
	return step{commit: func(context.Context) { t.process.applyInPlace() }}, nil
}
