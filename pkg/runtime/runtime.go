package runtime

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"kcmd.dev/pkg/config"
	"kcmd.dev/pkg/config/v1beta1"
	"kcmd.dev/pkg/controllers/kit/controller"
	"kcmd.dev/pkg/runtime/election"
	"kcmd.dev/pkg/runtime/logging"
	"kcmd.dev/pkg/runtime/serving"
	"kcmd.dev/pkg/runtime/source"
	"kcmd.dev/pkg/runtime/supervisor"
	"kcmd.dev/pkg/runtime/telemetry"
)

// component is the name of the process towards the API server.
const component = "kube-controller-manager"

// Options configure a Runtime.
type Options struct {
	// ConfigFile is the path of the configuration file. Required.
	ConfigFile string
	// Descriptors are the controllers that exist. Required.
	Descriptors []controller.Descriptor
	// Clock is the source of time. Default: the real one.
	Clock clock.WithTicker
	// Supervision overrides delays of the supervisor, for tests. Builder, Metrics and
	// Clock are set by the runtime.
	Supervision supervisor.Options
}

// Runtime is one kube-controller-manager process.
type Runtime struct {
	options Options
	spread  float64 // see inputs
	started time.Time

	leadership *leadership
	wants      map[string]supervisor.Want // what the supervisor was last told; for the loop only
	stopping   bool                       // nothing is to be started any more; for the loop only

	hub             *telemetry.Hub
	registry        *telemetry.Registry
	reloads         *telemetry.Reload
	electionMetrics election.Metrics
	builder         *builder
	supervisor      *supervisor.Supervisor
	server          *serving.Server
	watcher         *source.Watcher
	events          *lateRecorder // of the process itself
	logging         *logging.Output
	rotation        rotation
	pulse           *pulse
	ailments        ailments
	unwatched       atomic.Bool // the configuration file is not watched any more

	// mu guards what follows. Only the loop changes it.
	mu         sync.Mutex
	document   *config.Document
	content    string // hash of the bytes of the file in force
	hash       string // hash of the configuration in force
	generation uint64
	connection *connection
	leases     []shownLock
	files      map[string]string
	whole      wholeResources
	rejected   string // why the file as it is now is not in force
	history    []Reload
}

// New makes a runtime that does nothing yet.
func New(o Options) (*Runtime, error) {
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}
	name, err := newSelf()
	if err != nil {
		return nil, err
	}
	r := &Runtime{
		options:  o,
		spread:   rand.Float64(),
		started:  o.Clock.Now(),
		hub:      telemetry.NewHub(),
		registry: telemetry.NewRegistry(),
		events:   &lateRecorder{},
		files:    map[string]string{},
		logging:  logging.Standard(),
		pulse:    &pulse{clock: o.Clock},
	}
	r.hub.Attach(r.registry)
	r.reloads = telemetry.NewReload(r.registry)
	r.rotation.metrics = telemetry.NewOutcomes(r.registry, "credentials",
		"changes of the credentials of the process", "change of the credentials of the process")
	if r.electionMetrics, err = election.NewMetrics(r.registry); err != nil {
		return nil, err
	}
	r.builder = &builder{hub: r.hub, clock: o.Clock}
	r.leadership = newLeadership(name, r.events, r.electionMetrics, o.Clock)
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
		case <-r.leadership.changes:
			r.synchronize(ctx, supervisor.CauseLease)
		case then := <-r.leadership.inbox:
			end := r.pulse.begin("a change of a lease")
			then()
			end()
		case <-r.leadership.due():
			end := r.pulse.begin("spreading the leases")
			r.settle(ctx)
			end()
		case <-r.connection.catalog.Changed():
			r.synchronize(ctx, supervisor.CauseAPI)
		}
	}
}

// start brings the process up with the configuration file as it is now.
func (r *Runtime) start(ctx context.Context) error {
	document, content, err := r.load()
	if err != nil {
		return err
	}
	c := document.Config
	hash, err := config.Hash(c)
	if err != nil {
		return err
	}
	if err := r.logging.Apply(c); err != nil {
		return fmt.Errorf("applying the logging configuration: %w", err)
	}
	logWarnings(ctx, document)
	conn, err := connect(ctx, 1, c.ClientConnection, r.cachesWhole, r.options.Clock)
	if err != nil {
		return err
	}
	r.mu.Lock()
	r.document, r.content, r.hash, r.generation = document, content, hash, 1
	r.connection = conn
	r.mu.Unlock()
	r.rereadFiles(files(c, r.options.Descriptors))
	if err := r.connectEvents(conn); err != nil {
		return err
	}
	r.supervise(ctx)
	r.watcher = source.New(source.Options{
		MaxSize: config.MaxFileBytes + 1,
		Clock:   r.options.Clock,
		Logger:  klog.FromContext(ctx),
	})
	if err := r.expose(c.Metrics); err != nil {
		return err
	}
	if err := r.server.Apply(ctx, c.Serving); err != nil {
		return err
	}
	warnOfPermissions(ctx, r.options.ConfigFile, c)
	r.applyInPlace(ctx)
	if err := r.contend(ctx); err != nil {
		return err
	}
	r.reloads.InForce(hash)
	klog.FromContext(ctx).Info("Configuration in force", "file", r.options.ConfigFile, "hash", hash, "generation", r.generation)
	r.synchronize(ctx, supervisor.CauseStart)
	return nil
}

func (r *Runtime) supervise(ctx context.Context) {
	o := r.options.Supervision
	o.Builder, o.Clock = r.builder, r.options.Clock
	o.Metrics = supervisor.NewMetrics(r.registry)
	s := supervisor.New(ctx, o, r.options.Descriptors)
	r.mu.Lock()
	r.supervisor = s
	r.mu.Unlock()
}

// load reads the configuration file and everything that can be known to be wrong with it.
func (r *Runtime) load() (*config.Document, string, error) {
	data, hash, err := source.Read(r.options.ConfigFile, config.MaxFileBytes+1)
	if err != nil {
		return nil, "", fmt.Errorf("reading the configuration: %w", err)
	}
	document, err := check(r.options.ConfigFile, data)
	return document, hash, err
}

// check parses and validates a configuration, and the files it names.
func check(name string, data []byte) (*config.Document, error) {
	document, err := config.Load(name, data)
	if err != nil {
		return nil, err
	}
	if err := document.CheckFiles().AsError(); err != nil {
		return nil, err
	}
	return document, nil
}

func logWarnings(ctx context.Context, d *config.Document) {
	for _, w := range d.Warnings {
		klog.FromContext(ctx).Info("Configuration warning", "warning", w.Error())
	}
}

// contend begins to contend for the locks of the configuration in force.
func (r *Runtime) contend(ctx context.Context) error {
	locks, err := r.leadership.prepare(r.connection, r.document.Config, r.wanted)
	if err != nil {
		return err
	}
	r.leadership.adopt(ctx, locks, r.document.Config, r.wanted)
	r.leadership.setTimings(r.document.Config.LeaderElection)
	return nil
}

// wanted are the enabled controllers of a lock.
func (r *Runtime) wanted(lock string) []string {
	return wanted(r.document.Config, r.options.Descriptors, lock)
}

// synchronize hands what should run now to the supervisor. Controllers that cannot be
// built are retried by it.
func (r *Runtime) synchronize(ctx context.Context, cause supervisor.Cause) {
	defer r.pulse.begin("a change of what is to run (" + string(cause) + ")")()
	if err := r.trySynchronize(ctx, cause, false); err != nil {
		klog.FromContext(ctx).Error(err, "Some controllers could not be built", "cause", cause)
	}
}

// trySynchronize is synchronize, as a transaction if asked to be one.
func (r *Runtime) trySynchronize(ctx context.Context, cause supervisor.Cause, transactional bool) error {
	r.leadership.takeTerms(ctx)
	if r.stopping {
		r.settle(ctx)
		return nil
	}
	r.builder.use(r.connection, r.leadership.termsOf(r.leadership.locks))
	wants := desired(r.inputs(r.leadership.locks), r.options.Descriptors)
	err := r.supervisor.Synchronize(wants, cause, transactional)
	if err == nil || !transactional {
		r.noteStarted(wants)
	}
	r.settle(ctx)
	return err
}

func (r *Runtime) inputs(locks []*lock) inputs {
	return inputs{
		config:  r.document.Config,
		locks:   rights(locks),
		clients: r.connection.generation,
		missing: r.connection.catalog.Missing,
		served:  r.connection.catalog.Generation(),
		files:   r.files,
		spread:  r.spread,

		clusterCA: fingerprintOfCA(r.connection.clusterCA()),
	}
}

// cachesWhole reports that a controller of the configuration in force caches the whole
// objects of a resource. Controllers ask while they run.
func (r *Runtime) cachesWhole(resource schema.GroupVersionResource) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if config := r.document.Config; r.whole.config != config {
		r.whole = wholeResources{config, whole(config, r.options.Descriptors)}
	}
	return r.whole.resources[resource]
}

// wholeResources are the resources that controllers of a configuration cache whole.
type wholeResources struct {
	config    *v1beta1.KubeControllerManagerConfiguration
	resources map[schema.GroupVersionResource]bool
}

// applyInPlace brings everything up to date that changes without a restart.
func (r *Runtime) applyInPlace(ctx context.Context) {
	c := r.document.Config
	r.watcher.SetTiming(max(c.Reload.SettleTime.Duration, time.Nanosecond), c.Reload.PollInterval.Duration)
	r.watchFiles()
	r.supervisor.SetDrainTimeout(c.Reload.DrainTimeout.Duration)
	r.supervisor.SetStartInterval(c.ControllerStartInterval.Duration)
	r.connection.clients.SetLimits(*c.ClientConnection.QPS, c.ClientConnection.EffectiveBurst())
	r.leadership.setTimings(c.LeaderElection)
	r.connection.informers.SetGracePeriod(cacheGrace(c.LeaderElection))
	if err := r.logging.Apply(c); err != nil {
		klog.FromContext(ctx).Error(err, "The logging configuration is only partly in force")
	}
}

// rereadFiles takes the hashes of the files that controllers read. A file that cannot be
// read keeps the hash it had.
func (r *Runtime) rereadFiles(paths []string) {
	hashes := map[string]string{}
	for _, p := range paths {
		hashes[p] = r.files[p]
		if _, hash, err := source.Read(p, source.DefaultMaxSize); err == nil {
			hashes[p] = hash
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.files = hashes
}

// stop ends everything, in the order that rule 6 of the package comment gives.
func (r *Runtime) stop(ctx context.Context) error {
	logger := klog.FromContext(ctx)
	var failures []error
	if r.supervisor != nil {
		logger.Info("Stopping controllers")
		r.resignAll(context.WithoutCancel(ctx))
		r.supervisor.Shutdown()
	}
	failures = append(failures, r.leadership.end())
	if r.connection != nil {
		failures = append(failures, r.connection.shutdown(r.options.Clock))
	}
	r.server.Shutdown()
	r.hub.Detach(r.registry)
	logger.Info("Stopped")
	return errors.Join(failures...)
}

// resignAll stops all controllers and gives each lock back as soon as nothing runs under
// it.
func (r *Runtime) resignAll(ctx context.Context) {
	l := r.leadership
	r.stopping = true
	l.adopt(ctx, nil, r.document.Config, r.wanted)
	stopped := map[string]supervisor.Want{}
	if err := r.supervisor.Synchronize(stopped, supervisor.CauseShutdown, false); err != nil {
		klog.FromContext(ctx).Error(err, "Stopping controllers") // nothing is built, so nothing can fail
	}
	r.noteStarted(stopped)
	r.settle(ctx)
	for len(l.retiring) > 0 {
		select {
		case then := <-l.inbox:
			then()
		case <-l.due():
			r.settle(ctx)
		}
	}
}
