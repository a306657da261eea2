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
	refused         map[string]string // hashes of files that controllers could not use; for the loop only
	unwatched       atomic.Bool       // the configuration file is not watched any more

	// mu guards what follows. Only the loop changes it.
	mu         sync.Mutex
	document   *config.Document
	content    string // hash of the bytes of the file in force
	hash       string // hash of the configuration in force
	generation uint64
	connection *connection
	leases     []shownLock
	files      map[string]string // hashes of the files that controllers read
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
		refused:  map[string]string{},
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
	output, err := r.logging.Prepare(c)
	if err != nil {
		return fmt.Errorf("applying the logging configuration: %w", err)
	}
	output.Commit() // first, so that the rest is logged as it should
	logWarnings(ctx, document)
	r.supervise(ctx)
	r.watcher = source.New(source.Options{
		MaxSize: config.MaxFileBytes + 1,
		Clock:   r.options.Clock,
		Logger:  klog.FromContext(ctx),
	})
	tx := r.begin(supervisor.CauseStart)
	tx.first = true
	tx.next.document = document
	tx.next.files = r.filesFor(files(c, r.options.Descriptors), nil)
	if err := tx.prepare(ctx); err != nil {
		return err
	}
	warnOfPermissions(ctx, r.options.ConfigFile, c)
	r.mu.Lock()
	r.content, r.hash, r.generation = content, hash, 1
	r.mu.Unlock()
	tx.commit(ctx)
	r.reloads.InForce(hash)
	klog.FromContext(ctx).Info("Configuration in force", "file", r.options.ConfigFile, "hash", hash, "generation", r.generation)
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
	problems := document.CheckFiles()
	if err := problems.AsError(); err != nil {
		return nil, err
	}
	document.Warnings = append(document.Warnings, problems...)
	return document, nil
}

func logWarnings(ctx context.Context, d *config.Document) {
	for _, w := range d.Warnings {
		klog.FromContext(ctx).Info("Configuration warning", "warning", w.Error())
	}
}

// wanted are the enabled controllers of a lock.
func (r *Runtime) wanted(lock string) []string {
	return wanted(r.document.Config, r.options.Descriptors, lock)
}

// synchronize hands what should run now to the supervisor. Controllers that cannot be
// built are retried by it.
func (r *Runtime) synchronize(ctx context.Context, cause supervisor.Cause) {
	defer r.pulse.begin("a change of what is to run (" + string(cause) + ")")()
	r.leadership.takeTerms(ctx)
	if r.stopping {
		r.settle(ctx)
		return
	}
	r.builder.use(r.connection, r.leadership.termsOf(r.leadership.locks))
	wants := desired(r.inputs(r.basis()), r.options.Descriptors)
	if err := r.supervisor.Synchronize(wants, cause); err != nil {
		klog.FromContext(ctx).Error(err, "Some controllers could not be built", "cause", cause)
	}
	r.noteStarted(wants)
	r.settle(ctx)
}

func (r *Runtime) inputs(b basis) inputs {
	return inputs{
		config:  b.document.Config,
		locks:   rights(b.locks),
		clients: b.connection.generation,
		missing: b.connection.catalog.Missing,
		served:  b.connection.catalog.Generation(),
		files:   b.files,
		spread:  r.spread,

		clusterCA: fingerprintOfCA(b.connection.clusterCA()),
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

// wholeWith is cachesWhole for instances that are built for a configuration which is not in
// force before it is committed.
func (r *Runtime) wholeWith(c *v1beta1.KubeControllerManagerConfiguration, committed *atomic.Bool) func(schema.GroupVersionResource) bool {
	resources := whole(c, r.options.Descriptors)
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

// applyInPlace brings everything up to date that changes without a restart and cannot fail.
func (r *Runtime) applyInPlace() {
	c := r.document.Config
	r.watcher.SetTiming(max(c.Reload.SettleTime.Duration, time.Nanosecond), c.Reload.PollInterval.Duration)
	r.watchFiles()
	r.supervisor.SetDrainTimeout(c.Reload.DrainTimeout.Duration)
	r.supervisor.SetStartInterval(c.ControllerStartInterval.Duration)
	r.connection.clients.SetLimits(*c.ClientConnection.QPS, c.ClientConnection.EffectiveBurst())
	r.connection.informers.SetGracePeriod(cacheGrace(c.LeaderElection))
}

// stop ends everything, in the order that rule 6 of the package comment gives.
func (r *Runtime) stop(ctx context.Context) error {
	logger := klog.FromContext(ctx)
	var failures []error
	if r.document != nil { // else nothing runs
		logger.Info("Stopping controllers")
		r.resignAll(context.WithoutCancel(ctx))
	}
	if r.supervisor != nil {
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
	r.rotation.edit.end()
	r.rotation.access.end()
	l.adopt(ctx, nil, r.document.Config, r.wanted)
	stopped := map[string]supervisor.Want{}
	if err := r.supervisor.Synchronize(stopped, supervisor.CauseShutdown); err != nil {
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
