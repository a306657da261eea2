package runtime

import (
	"context"
	"errors"
	"maps"
	"reflect"
	"slices"
	"sync/atomic"

	"k8s.io/klog/v2"

	"kcmd.dev/pkg/config"
	"kcmd.dev/pkg/config/named"
	"kcmd.dev/pkg/config/plan"
	"kcmd.dev/pkg/config/problem"
	"kcmd.dev/pkg/config/v1beta1"
	"kcmd.dev/pkg/runtime/connection"
	"kcmd.dev/pkg/runtime/instance"
	"kcmd.dev/pkg/runtime/leadership"
	"kcmd.dev/pkg/runtime/serving"
	"kcmd.dev/pkg/runtime/source"
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
	*Runtime // what is in force
	next     basis
	cause    supervisor.Cause
	// first is set if nothing is in force before. The process starts even if the API server
	// does not respond or controllers cannot be built: both are tried again.
	first bool
	// reconnect replaces the connection although the configuration stays the same.
	reconnect bool
	prepared  []step
	// did is what was done, once it is committed.
	did done
}

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
	return &transaction{Runtime: r, next: r.basis(), cause: cause}
}

// participants are the parts of the process, in the order of both phases.
func (t *transaction) participants() []func(context.Context) (step, error) {
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
		s, err := participant(ctx)
		if err != nil {
			t.discard()
			return err
		}
		t.prepared = append(t.prepared, s)
	}
	return nil
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
	was := t.files
	t.mu.Lock()
	t.document, t.connection, t.files = t.next.document, t.next.connection, t.next.files
	t.mu.Unlock()
	if !t.first {
		t.tellWatcher(was)
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
	t.leadership.Settle(ctx)
}

// run does both phases.
func (t *transaction) run(ctx context.Context) error {
	if err := t.prepare(ctx); err != nil {
		return err
	}
	t.commit(ctx)
	return nil
}

// blamed is a problem of a configuration that is found out when it is prepared, with its cause.
type blamed struct {
	problem problem.Error
	cause   error
}

// Error implements error.
func (b *blamed) Error() string { return b.problem.Error() }

// Unwrap returns the cause.
func (b *blamed) Unwrap() error { return b.cause }

// blame attributes what cannot be prepared to a field of the next configuration.
func (t *transaction) blame(field string, err error) error {
	return &blamed{t.problemOf(field, err), err}
}

// problemOf is what is wrong with a field of the next configuration.
func (t *transaction) problemOf(field string, err error) problem.Error {
	d := t.next.document
	return problem.Error{File: d.Name, Position: d.Position(field), Path: field, Severity: problem.SeverityError, Message: err.Error()}
}

func (t *transaction) log(context.Context) (step, error) {
	change, err := t.logging.Prepare(t.effective())
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
		state, known := t.rotation.endpoint[path]
		if !known {
			state = stateNow(path)
		}
		states[path] = state
	}
	return step{commit: func(context.Context) { t.rotation.endpoint = states }}, nil
}

// metrics prepares the metrics, unless the edit does not concern them: then no file is read.
func (t *transaction) metrics(context.Context) (step, error) {
	c := t.effective().Metrics
	if !t.first && reflect.DeepEqual(c, plan.Effective(t.document.Config).Metrics) {
		return step{}, nil
	}
	exposed, err := telemetry.ReadExposition(c)
	if err != nil {
		return step{}, t.blame("metrics.allowListMappingManifest", err)
	}
	return step{commit: func(context.Context) { t.hub.Expose(exposed) }}, nil
}

func (t *transaction) endpoint(ctx context.Context) (step, error) {
	change, err := t.server.Prepare(ctx, t.effective().Serving)
	if err != nil {
		field := "serving"
		var of *serving.FieldError
		if errors.As(err, &of) {
			field = of.Field
		}
		return step{}, t.blame(field, err)
	}
	return step{commit: change.Commit, discard: change.Discard}, nil
}

// connect makes another connection if needed. Everything that runs depends on it, so it is
// proved first.
func (t *transaction) connect(ctx context.Context) (step, error) {
	c := t.next.document.Config
	if !t.first && !t.reconnect && plan.SourceOf(t.document.Config) == plan.SourceOf(c) {
		return step{}, nil
	}
	old, generation := t.connection, uint64(1)
	if old != nil {
		generation = old.Generation() + 1
	}
	conn, err := connection.New(ctx, generation, c.ClientConnection, t.cachesWhole, t.options.Clock)
	if err != nil {
		return step{}, t.blame(connectionField(c.ClientConnection), err)
	}
	recorder, err := conn.ProcessEvents()
	if err == nil && !t.first {
		err = t.proveConnection(ctx, conn)
	}
	if err != nil {
		conn.Retire()
		return step{}, err
	}
	t.next.connection = conn
	return step{discard: conn.Retire, commit: func(context.Context) {
		conn.Begin()
		t.events.Connect(recorder)
		if old != nil {
			t.did.reconnected = true
			t.credentials.Forget()
			old.Retire()
		}
	}}, nil
}

func (t *transaction) locks(ctx context.Context) (step, error) {
	// What happened to the locks in force, also while a connection was proved, is no part of
	// the change.
	t.leadership.TakeTerms(ctx)
	c, l := t.next.document.Config, t.leadership
	wanted := func(lock string) []string { return wanted(c, t.options.Descriptors, lock) }
	locks, err := l.Prepare(t.next.connection, c, wanted)
	if err != nil {
		return step{}, err
	}
	if !t.first {
		err = t.proveLeases(ctx, locks)
	}
	if err != nil {
		l.Discard(locks)
		return step{}, err
	}
	t.next.locks = locks
	return step{discard: func() { l.Discard(locks) }, commit: func(ctx context.Context) {
		t.did.leases = leaseActions(l.Locks(), locks)
		l.Adopt(ctx, locks, c, wanted)
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
		begun, ended := t.pauses.Apply(t.next.document.Config, t.options.Descriptors)
		t.announcePauses(ctx, begun, ended)
	}}, nil
}

// limitDeletions takes over how much may be deleted, before any instance starts.
func (t *transaction) limitDeletions(context.Context) (step, error) {
	return step{commit: func(ctx context.Context) {
		t.announceResumed(ctx, t.breaker.Apply(t.next.document.Config))
	}}, nil
}

// pace takes over how fast controllers start and stop, before any does.
func (t *transaction) pace(context.Context) (step, error) {
	c := t.effective()
	return step{commit: func(context.Context) {
		t.supervisor.SetDrainTimeout(c.Reload.DrainTimeout.Duration)
		t.supervisor.SetStartInterval(c.ControllerStartInterval.Duration)
	}}, nil
}

// controllers builds what is to run. What runs under a new lock is built as on a standby
// first. It runs once that is held.
func (t *transaction) controllers(ctx context.Context) (step, error) {
	t.builder.Use(t.connection, t.leadership.Terms(t.leadership.Locks()))
	committed := &atomic.Bool{}
	offer := instance.Offer{Connection: t.next.connection, Whole: t.wholeWith(t.next.document.Config, committed)}
	again := t.readAgain()
	wants, prepared, err := t.build(offer)
	discard := func() {
		prepared.Discard()
		t.builder.Offer(nil)
	}
	if err != nil && !t.first {
		discard()
		return step{}, err
	}
	if err != nil {
		klog.FromContext(ctx).Error(err, "Some controllers could not be built", "cause", t.cause)
	}
	return step{discard: discard, halt: prepared.Halt, commit: func(context.Context) {
		committed.Store(true)
		for _, path := range again {
			delete(t.refused, path)
		}
		t.builder.Use(t.next.connection, t.leadership.Terms(t.next.locks))
		t.did.controllers = prepared.Commit()
		t.leadership.Started(termsOf(wants))
	}}, nil
}

// buildAttempts is how often controllers are built when the files that they read change meanwhile.
const buildAttempts = 3

// build builds what is to run, and builds it again if a file that controllers read has changed in the meantime.
func (t *transaction) build(offer instance.Offer) (wants map[string]supervisor.Want, prepared *supervisor.Prepared, err error) {
	for attempt := range buildAttempts {
		wants = desired(t.inputs(t.next), t.options.Descriptors)
		offer.Specs = t.specsOfNew(wants)
		t.builder.Offer(&offer)
		prepared, err = t.supervisor.Prepare(wants, t.cause)
		if err != nil || attempt == buildAttempts-1 || !t.filesMoved(wants) {
			break
		}
		prepared.Discard()
	}
	return wants, prepared, err
}

// specsOfNew returns the specs that instances have only if the change is made.
func (t *transaction) specsOfNew(wants map[string]supervisor.Want) map[string]supervisor.Spec {
	var old map[string]supervisor.Want
	if !t.first {
		old = desired(t.inputs(t.basis()), t.options.Descriptors)
	}
	specs := map[string]supervisor.Spec{}
	for name, w := range wants {
		if t.first || old[name].Spec != w.Spec {
			specs[name] = w.Spec
		}
	}
	return specs
}

// filesMoved reports whether the files of the controllers that were built differ from those of the next basis, and updates
// the basis. A controller may have read the old content or the new one. Without a second build, it could keep using a
// content that the file had only for a moment.
func (t *transaction) filesMoved(wants map[string]supervisor.Want) bool {
	var old map[string]supervisor.Want
	if !t.first {
		old = desired(t.inputs(t.basis()), t.options.Descriptors)
	}
	moved := map[string]string{}
	for _, d := range t.options.Descriptors {
		spec := specOf(t.next.document.Config, d)
		if !spec.Runs() || old[d.Name].Spec == wants[d.Name].Spec {
			continue
		}
		for _, path := range d.Files(spec.Value) {
			if _, hash, err := source.Read(path, named.MaxFileBytes); err == nil && hash != t.next.files[path] {
				moved[path] = hash
			}
		}
	}
	if len(moved) == 0 {
		return false
	}
	t.next.files = maps.Clone(t.next.files)
	maps.Copy(t.next.files, moved)
	return true
}

// tellWatcher tells the watcher which files are used with new content. Some of them were read by a controller, or again,
// before the watcher noticed the change.
func (t *transaction) tellWatcher(was map[string]string) {
	for path, hash := range t.files {
		if was[path] != hash {
			t.watcher.ReadElsewhere(path, hash)
		}
	}
}

// readAgain finds the files that controllers have refused and will read again: those whose readers are
// all built again, for whatever reason. The next basis has what these contain now.
func (t *transaction) readAgain() (paths []string) {
	if t.first || len(t.refused) == 0 {
		return nil
	}
	old, next := desired(t.inputs(t.basis()), t.options.Descriptors), desired(t.inputs(t.next), t.options.Descriptors)
	kept := map[string]bool{}
	for _, d := range t.options.Descriptors {
		if spec := specOf(t.next.document.Config, d); spec.Runs() && old[d.Name].Spec == next[d.Name].Spec {
			for _, path := range d.Files(spec.Value) {
				kept[path] = true
			}
		}
	}
	t.next.files = maps.Clone(t.next.files)
	for path := range t.refused {
		if _, read := t.next.files[path]; !read || kept[path] {
			continue
		}
		if _, hash, err := source.Read(path, named.MaxFileBytes); err == nil {
			t.next.files[path] = hash
			paths = append(paths, path)
		}
	}
	return paths
}

// inPlace is everything else that changes without a restart, which needs no preparation.
func (t *transaction) inPlace(context.Context) (step, error) {
	return step{commit: func(context.Context) { t.applyInPlace() }}, nil
}

// filesFor returns the hashes of the files that the controllers of a configuration read. A
// file in use keeps its hash if it cannot be read now, has become invalid, or was refused by
// controllers: they continue with its earlier content.
func (r *Runtime) filesFor(paths, bad []string) map[string]string {
	hashes := map[string]string{}
	for _, p := range paths {
		was, known := r.files[p]
		_, hash, err := source.Read(p, named.MaxFileBytes)
		if err != nil || known && (slices.Contains(bad, p) || hash == r.refused[p]) {
			hash = was
		}
		hashes[p] = hash
	}
	return hashes
}
