package runtime

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"kcmd.dev/pkg/config"
	"kcmd.dev/pkg/config/plan"
	"kcmd.dev/pkg/config/v1beta1"
	"kcmd.dev/pkg/controller"
	"kcmd.dev/pkg/runtime/breaker"
	"kcmd.dev/pkg/runtime/connection"
	"kcmd.dev/pkg/runtime/election"
	"kcmd.dev/pkg/runtime/events"
	"kcmd.dev/pkg/runtime/instance"
	"kcmd.dev/pkg/runtime/journal"
	"kcmd.dev/pkg/runtime/leadership"
	"kcmd.dev/pkg/runtime/logging"
	"kcmd.dev/pkg/runtime/loop"
	"kcmd.dev/pkg/runtime/pausing"
	"kcmd.dev/pkg/runtime/serving"
	"kcmd.dev/pkg/runtime/source"
	"kcmd.dev/pkg/runtime/status"
	"kcmd.dev/pkg/runtime/supervisor"
	"kcmd.dev/pkg/runtime/telemetry"
)

// Options configure a Runtime.
type Options struct {
	// ConfigFile is the path of the configuration file. Required.
	ConfigFile string
	// LastGood is a directory. If it is set, the configuration that comes into force is kept
	// there, and a process that cannot start with ConfigFile starts with what is kept. Default:
	// nothing is kept.
	LastGood string
	// Descriptors are the controllers that exist. Required.
	Descriptors []controller.Descriptor
	// Clock is the source of time. Default: the real one.
	Clock clock.WithTicker
	// Supervision overrides delays of the supervisor, for tests. Builder, Metrics and
	// Clock are set by the runtime.
	Supervision supervisor.Options
}

// Runtime is one kube-controller-manager process. Once it runs, only its loop, which is one
// goroutine, changes it.
type Runtime struct {
	// Set when the process starts. Each is safe for use by several goroutines, or belongs to
	// the loop, as documented.
	options     Options
	started     time.Time
	spread      float64 // see inputs
	hub         *telemetry.Hub
	registry    *telemetry.Registry
	reloads     *telemetry.Reload
	logging     *logging.Output
	events      *events.Recorder // of the process itself
	watchdog    *loop.Watchdog
	tasks       *loop.Tasks
	leadership  *leadership.Leadership
	pauses      *pausing.Pauses
	breaker     *breaker.Breaker
	builder     *instance.Builder
	journal     *journal.Journal
	server      *serving.Server
	watcher     *source.Watcher
	credentials *connection.Rotation
	past        status.Past
	unwatched   atomic.Bool // the configuration file is no longer watched

	loopState

	mu sync.Mutex // guards shared
	shared
}

// loopState belongs to the loop alone.
type loopState struct {
	stopping bool              // nothing is to be started any more
	refused  map[string]string // hashes of files that controllers could not use
	rotation rotation
	keeping  keeping
	restores restores
}

// shared is what other goroutines read under the lock. Only the loop changes it, and so reads
// it without.
type shared struct {
	supervisor *supervisor.Supervisor // nil before the process starts
	document   *config.Document
	content    string // hash of the bytes of the file in force
	hash       string // hash of the configuration in force
	generation uint64
	connection *connection.Connection
	files      map[string]string // hashes of the files that controllers read
	whole      wholeResources    // computed on the first call
	rejected   string            // why the current content of the file is not in force
	lastGood   *status.LastGood  // what is in force instead of the file since the start
	notKept    string            // why what is in force is not kept
	history    []status.Reload
}

// New makes a runtime that does nothing before Run.
func New(o Options) (*Runtime, error) {
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}
	identity, err := leadership.NewIdentity()
	if err != nil {
		return nil, err
	}
	r := &Runtime{
		options:  o,
		spread:   rand.Float64(),
		started:  o.Clock.Now(),
		hub:      telemetry.NewHub(),
		registry: telemetry.NewRegistry(),
		events:   &events.Recorder{},
		logging:  logging.Standard(),
		watchdog: loop.NewWatchdog(o.Clock),
		tasks:    loop.NewTasks(),
		journal:  journal.New(),
	}
	r.files, r.refused = map[string]string{}, map[string]string{}
	if r.keeping.store, err = openLastGood(o); err != nil {
		return nil, err
	}
	r.hub.Attach(r.registry)
	r.reloads = telemetry.NewReload(r.registry)
	r.journal.Register(r.registry)
	r.registry.CustomMustRegister(newCacheCounts(r.informers))
	r.restores.counter = newRestoreCounter(r.registry)
	r.pauses = pausing.New(r.registry, o.Clock)
	r.breaker = breaker.New(breaker.Options{
		Caches: r.cachesOfBreaker, Announce: r.announceStop, Metrics: breaker.NewMetrics(r.registry), Clock: o.Clock,
	})
	r.credentials = connection.NewRotation(telemetry.NewOutcomes(r.registry, "credentials",
		"changes of the credentials of the process", "change of the credentials of the process"))
	r.builder = instance.NewBuilder(r.hub, r.pauses, r.breaker, r.journal, o.Clock)
	r.leadership = leadership.New(leadership.Options{
		Identity: identity,
		Runner:   runner{r},
		Events:   r.events,
		Metrics:  election.NewMetrics(r.registry),
		Tasks:    r.tasks,
		Clock:    o.Clock,
	})
	r.server = serving.New(r.pages().Handler, serving.NewMetrics(r.registry))
	return r, nil
}

// Run works until ctx ends, then stops what runs and releases the lease. It fails if the
// process cannot start with the configuration file as it is.
func (r *Runtime) Run(ctx context.Context) error {
	if err := r.start(ctx); err != nil {
		return errors.Join(err, r.stop(ctx))
	}
	watching, stopWatching := context.WithCancel(context.WithoutCancel(ctx))
	var background sync.WaitGroup
	background.Go(func() {
		if err := r.watcher.Run(watching); err != nil {
			klog.FromContext(ctx).Error(err, "Watching files ended with an error")
		}
		r.unwatched.Store(watching.Err() == nil)
	})
	r.loop(ctx)
	stopWatching()
	background.Wait()
	return r.stop(ctx)
}

// loop is where every change of an input arrives. It is the only goroutine that changes
// what is in force.
func (r *Runtime) loop(ctx context.Context) {
	for ctx.Err() == nil {
		select {
		case <-ctx.Done():
		case change := <-r.watcher.Changes():
			r.fileChanged(ctx, change)
		case <-r.leadership.Changes():
			r.synchronize(ctx, supervisor.CauseLease)
		case <-r.leadership.Receded():
			r.startOver(ctx)
		case then := <-r.tasks.Done():
			end := r.watchdog.Begin("a change of a lease")
			then()
			end()
		case <-r.leadership.Due():
			end := r.watchdog.Begin("spreading the leases")
			r.leadership.Settle(ctx)
			end()
		case <-r.connection.Catalog().Changed():
			r.synchronize(ctx, supervisor.CauseAPI)
		case <-r.keeping.due():
			end := r.watchdog.Begin("the last good configuration")
			r.repeat(ctx)
			end()
		}
	}
}

// synchronize hands what should run now to the supervisor. Controllers that cannot be
// built are retried by it.
func (r *Runtime) synchronize(ctx context.Context, cause supervisor.Cause) {
	defer r.watchdog.Begin("a change of the desired controllers (" + string(cause) + ")")()
	r.leadership.TakeTerms(ctx)
	if r.stopping {
		r.leadership.Settle(ctx)
		return
	}
	r.builder.Use(r.connection, r.leadership.Terms(r.leadership.Locks()))
	wants := desiredState(r.inputs(r.basis()), r.options.Descriptors)
	if _, err := r.supervisor.Synchronize(wants, cause); err != nil {
		klog.FromContext(ctx).Error(err, "Some controllers could not be built", "cause", cause)
	}
	r.leadership.Started(termsOf(wants))
	r.leadership.Settle(ctx)
}

// runner lets leadership start and stop controllers.
type runner struct{ r *Runtime }

// Synchronize implements leadership.Runner.
func (o runner) Synchronize(ctx context.Context) { o.r.synchronize(ctx, supervisor.CauseLease) }

// Pending implements leadership.Runner.
func (o runner) Pending() map[string]bool { return o.r.supervisor.Pending() }

// termsOf returns the terms in which controllers are to run, by the names of the controllers.
func termsOf(wants map[string]supervisor.Want) map[string]uint64 {
	terms := make(map[string]uint64, len(wants))
	for name, w := range wants {
		if w.State == supervisor.Running {
			terms[name] = w.Spec.Term
		}
	}
	return terms
}

func (r *Runtime) inputs(b basis) inputs {
	return inputs{
		config:  b.document.Config,
		locks:   leadership.Rights(b.locks),
		clients: b.connection.Generation(),
		missing: b.connection.Catalog().Missing,
		served:  b.connection.Catalog().Generation(),
		files:   b.files,
		spread:  r.spread,

		clusterCA: source.Hash(b.connection.ClusterCA()),
	}
}

// cachesWhole reports whether a controller of the configuration in force caches the whole
// objects of a resource. Controllers ask while they run.
func (r *Runtime) cachesWhole(resource schema.GroupVersionResource) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if config := r.document.Config; r.whole.config != config {
		r.whole = wholeResources{config, cachedWhole(config, r.options.Descriptors)}
	}
	return r.whole.resources[resource]
}

// wholeWith is cachesWhole for instances that are built for a configuration which is not in
// force before it is committed.
func (r *Runtime) wholeWith(c *v1beta1.KubeControllerManagerConfiguration, committed *atomic.Bool) func(schema.GroupVersionResource) bool {
	resources := cachedWhole(c, r.options.Descriptors)
	return func(resource schema.GroupVersionResource) bool {
		if committed.Load() {
			return r.cachesWhole(resource)
		}
		return resources[resource]
	}
}

// wholeResources are the resources that controllers of a configuration cache whole.
type wholeResources struct {
	config    *v1beta1.KubeControllerManagerConfiguration
	resources map[schema.GroupVersionResource]bool
}

// applyInPlace updates everything that changes without a restart and cannot fail.
func (r *Runtime) applyInPlace() {
	c := plan.Effective(r.document.Config)
	r.watcher.SetTiming(max(c.Reload.SettleTime.Duration, time.Nanosecond), c.Reload.PollInterval.Duration)
	r.watchFiles()
	r.connection.Clients().SetLimits(*c.ClientConnection.QPS, c.ClientConnection.EffectiveBurst())
	r.connection.Informers().SetGracePeriod(connection.CacheGrace(c.LeaderElection))
}

// stop ends everything, in the order of rule 6 of the package comment.
func (r *Runtime) stop(ctx context.Context) error {
	logger := klog.FromContext(ctx)
	var failures []error
	started := r.document != nil
	if started { // else nothing runs
		logger.Info("Stopping controllers")
		r.resignAll(context.WithoutCancel(ctx))
	}
	if r.supervisor != nil {
		r.supervisor.Shutdown()
	}
	failures = append(failures, r.leadership.End())
	r.tasks.End()
	r.keepRest(ctx)
	if r.connection != nil {
		failures = append(failures, r.connection.Shutdown())
	}
	r.server.Shutdown()
	r.hub.Detach(r.registry)
	if started {
		logger.Info("Stopped")
	}
	return errors.Join(failures...)
}

// resignAll stops all controllers and gives each lock back as soon as nothing runs under
// it.
func (r *Runtime) resignAll(ctx context.Context) {
	r.stopping = true
	r.rotation.edit.end()
	r.rotation.access.end()
	r.leadership.Retire()
	if _, err := r.supervisor.Synchronize(nil, supervisor.CauseShutdown); err != nil {
		klog.FromContext(ctx).Error(err, "Stopping controllers") // nothing is built, so it cannot fail
	}
	r.leadership.Started(nil)
	r.leadership.Settle(ctx)
	r.leadership.AwaitRetired(ctx)
}
