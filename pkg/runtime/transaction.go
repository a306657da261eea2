package runtime

import (
	"context"
	"reflect"
	"slices"
	"sync/atomic"

	"k8s.io/klog/v2"

	"kcmd.dev/pkg/config"
	"kcmd.dev/pkg/runtime/source"
	"kcmd.dev/pkg/runtime/supervisor"
)

// basis is what everything that runs is derived from.
type basis struct {
	document   *config.Document
	connection *connection
	files      map[string]string // hashes of the files that controllers read
	locks      []*lock
}

// basis is the one in force.
func (r *Runtime) basis() basis {
	return basis{document: r.document, connection: r.connection, files: r.files, locks: r.leadership.locks}
}

// transaction takes the process from one basis to the next, in two phases. Every part of the
// process takes part in both:
//
//  1. To prepare is to do everything that can fail, with no effect on what is in force: not
//     even for a moment, and whether or not the change is made in the end.
//  2. To commit is to do what cannot fail. If anything could not be prepared, what was is
//     discarded instead. So there is nothing to roll back.
type transaction struct {
	*Runtime // what is in force
	next     basis
	cause    supervisor.Cause
	// first has nothing in force before. The process starts also if the API server does not
	// answer and if controllers cannot be built: they are tried again.
	first bool
	// reconnect replaces the connection although the configuration stays the same.
	reconnect bool
	prepared  []step
}

// step is what one part of the process is going to do.
type step struct {
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
		t.metrics,
		t.endpoint,
		t.connect,
		t.locks,
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
	t.mu.Lock()
	t.document, t.connection, t.files = t.next.document, t.next.connection, t.next.files
	t.mu.Unlock()
	for _, s := range t.prepared {
		if s.commit != nil {
			s.commit(ctx)
		}
	}
	t.settle(ctx)
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
	change, err := t.logging.Prepare(t.next.document.Config)
	if err != nil {
		return step{}, err
	}
	return step{commit: func(context.Context) { change.Commit() }}, nil
}

// metrics are left alone by an edit that does not concern them, which so reads no file.
func (t *transaction) metrics(context.Context) (step, error) {
	c := t.next.document.Config.Metrics
	if !t.first && reflect.DeepEqual(c, t.document.Config.Metrics) {
		return step{}, nil
	}
	exposed, err := exposition(c)
	if err != nil {
		return step{}, err
	}
	return step{commit: func(context.Context) { t.hub.Expose(exposed) }}, nil
}

func (t *transaction) endpoint(ctx context.Context) (step, error) {
	change, err := t.server.Prepare(ctx, t.next.document.Config.Serving)
	if err != nil {
		return step{}, err
	}
	return step{commit: change.Commit, discard: change.Discard}, nil
}

// connect makes another connection if that is needed. Everything that runs depends on it, so
// it has to be proved before it is relied on.
func (t *transaction) connect(ctx context.Context) (step, error) {
	c := t.next.document.Config.ClientConnection
	if !t.first && !t.reconnect && !reconnects(t.document.Config.ClientConnection, c) {
		return step{}, nil
	}
	old, generation := t.connection, uint64(1)
	if old != nil {
		generation = old.generation + 1
	}
	conn, err := connect(ctx, generation, c, t.cachesWhole, t.options.Clock)
	if err != nil {
		return step{}, err
	}
	recorder, err := conn.processEvents()
	if err == nil && !t.first {
		err = t.proveConnection(ctx, conn)
	}
	if err != nil {
		conn.retire()
		return step{}, err
	}
	t.next.connection = conn
	return step{discard: conn.retire, commit: func(context.Context) {
		conn.begin()
		t.events.connect(recorder)
		if old != nil {
			old.retire()
		}
	}}, nil
}

func (t *transaction) locks(ctx context.Context) (step, error) {
	// What happened to the locks in force, also while a connection was proved, is no part of
	// the change.
	t.leadership.takeTerms(ctx)
	c, l := t.next.document.Config, t.leadership
	wanted := func(lock string) []string { return wanted(c, t.options.Descriptors, lock) }
	locks, err := l.prepare(t.next.connection, c, wanted)
	if err != nil {
		return step{}, err
	}
	if !t.first {
		err = t.proveLeases(ctx, locks)
	}
	if err != nil {
		l.discard(locks)
		return step{}, err
	}
	t.next.locks = locks
	return step{discard: func() { l.discard(locks) }, commit: func(ctx context.Context) {
		l.adopt(ctx, locks, c, wanted)
		l.setTimings(c.LeaderElection)
	}}, nil
}

// controllers builds what is to run. What runs under a new lock is built as on a standby
// first. It runs once that is held.
func (t *transaction) controllers(ctx context.Context) (step, error) {
	t.builder.use(t.connection, t.leadership.termsOf(t.leadership.locks))
	committed := &atomic.Bool{}
	t.builder.offer(&offer{connection: t.next.connection, whole: t.wholeWith(t.next.document.Config, committed)})
	wants := desired(t.inputs(t.next), t.options.Descriptors)
	prepared, err := t.supervisor.Prepare(wants, t.cause)
	discard := func() {
		prepared.Discard()
		t.builder.offer(nil)
	}
	if err != nil && !t.first {
		discard()
		return step{}, err
	}
	if err != nil {
		klog.FromContext(ctx).Error(err, "Some controllers could not be built", "cause", t.cause)
	}
	return step{discard: discard, commit: func(context.Context) {
		committed.Store(true)
		t.builder.use(t.next.connection, t.leadership.termsOf(t.next.locks))
		prepared.Commit()
		t.noteStarted(wants)
	}}, nil
}

// inPlace is everything else that changes without a restart, which needs no preparation.
func (t *transaction) inPlace(context.Context) (step, error) {
	return step{commit: func(context.Context) { t.applyInPlace() }}, nil
}

// filesFor takes the hashes of the files that the controllers of a configuration read. A file
// that is read already keeps its hash if it cannot be read now, if it has turned bad, and if
// controllers have refused what it holds: they go on with what they read.
func (r *Runtime) filesFor(paths, bad []string) map[string]string {
	hashes := map[string]string{}
	for _, p := range paths {
		was, known := r.files[p]
		_, hash, err := source.Read(p, source.DefaultMaxSize)
		if err != nil || known && (slices.Contains(bad, p) || hash == r.refused[p]) {
			hash = was
		}
		hashes[p] = hash
	}
	return hashes
}
