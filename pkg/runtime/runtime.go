package runtime

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"kcmd.dev/pkg/config"
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
	options  Options
	identity string  // of this process in leases
	spread   float64 // see inputs
	started  time.Time

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

	// mu guards what follows. Only the loop changes it.
	mu         sync.Mutex
	document   *config.Document
	content    string // hash of the bytes of the file in force
	hash       string // hash of the configuration in force
	generation uint64
	connection *connection
	leadership *leadership
	term       *election.Term
	termNumber uint64
	files      map[string]string
	rejected   string // why the file as it is now is not in force
	history    []Reload
}

// New makes a runtime that does nothing yet.
func New(o Options) (*Runtime, error) {
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}
	identity, err := newIdentity()
	if err != nil {
		return nil, err
	}
	r := &Runtime{
		options:  o,
		identity: identity,
		spread:   rand.Float64(),
		started:  o.Clock.Now(),
		hub:      telemetry.NewHub(),
		registry: telemetry.NewRegistry(),
		events:   &lateRecorder{},
		files:    map[string]string{},
		logging:  logging.Standard(),
	}
	r.hub.Attach(r.registry)
	r.reloads = telemetry.NewReload(r.registry)
	if r.electionMetrics, err = election.NewMetrics(r.registry); err != nil {
		return nil, err
	}
	r.builder = &builder{hub: r.hub, clock: o.Clock}
	r.server = serving.New(r.pages().Handler)
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
		case <-termDone(r.term):
			r.synchronize(ctx, supervisor.CauseLease)
		case <-r.connection.catalog.Changed():
			r.synchronize(ctx, supervisor.CauseAPI)
		}
	}
}

// termDone is closed when the term ends; nil without one.
func termDone(t *election.Term) <-chan struct{} {
	if t == nil {
		return nil
	}
	return t.Done()
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
	if err := r.server.Apply(ctx, c.Serving); err != nil {
		return err
	}
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

// contend begins to contend for the lock of the configuration in force.
func (r *Runtime) contend(ctx context.Context) error {
	l, err := lead(ctx, r.connection, r.document.Config.LeaderElection, r.identity, r.events, r.electionMetrics, r.options.Clock)
	if err != nil {
		return err
	}
	r.mu.Lock()
	r.leadership = l
	r.mu.Unlock()
	return nil
}

// synchronize hands what should run now to the supervisor. Controllers that cannot be
// built are retried by it.
func (r *Runtime) synchronize(ctx context.Context, cause supervisor.Cause) {
	r.takeTerm(ctx)
	r.builder.use(r.connection, r.term, r.termNumber)
	if err := r.supervisor.Synchronize(desired(r.inputs(), r.options.Descriptors), cause, false); err != nil {
		klog.FromContext(ctx).Error(err, "Some controllers could not be built", "cause", cause)
	}
}

// takeTerm takes note of a term that began or ended.
func (r *Runtime) takeTerm(ctx context.Context) {
	t := r.leadership.term()
	if t == r.term {
		return
	}
	r.mu.Lock()
	r.term = t
	if t != nil {
		r.termNumber++
	}
	number := r.termNumber
	r.mu.Unlock()
	if t == nil {
		klog.FromContext(ctx).Info("Not leading, standing by", "term", number)
		return
	}
	klog.FromContext(ctx).Info("Leading", "term", number)
}

func (r *Runtime) inputs() inputs {
	in := inputs{
		config:  r.document.Config,
		clients: r.connection.generation,
		missing: r.connection.catalog.Missing,
		files:   r.files,
		spread:  r.spread,
	}
	if r.term != nil {
		in.term = r.termNumber
	}
	return in
}

// cachesWhole reports that a controller of the configuration in force caches the whole
// objects of a resource. Controllers ask while they run.
func (r *Runtime) cachesWhole(resource schema.GroupVersionResource) bool {
	r.mu.Lock()
	config := r.document.Config
	r.mu.Unlock()
	return whole(config, r.options.Descriptors)[resource]
}

// applyInPlace brings everything up to date that changes without a restart.
func (r *Runtime) applyInPlace(ctx context.Context) {
	c := r.document.Config
	r.watcher.SetTiming(max(c.Reload.SettleTime.Duration, time.Nanosecond), c.Reload.PollInterval.Duration)
	r.watcher.Set(append([]string{r.options.ConfigFile}, files(c, r.options.Descriptors)...)...)
	r.supervisor.SetDrainTimeout(c.Reload.DrainTimeout.Duration)
	r.connection.clients.SetLimits(*c.ClientConnection.QPS, c.ClientConnection.EffectiveBurst())
	if r.leadership != nil && r.leadership.elector != nil {
		r.leadership.elector.SetTimings(timingsOf(c.LeaderElection))
	}
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

// stop ends everything, in the order that rule 5 of the package comment gives.
func (r *Runtime) stop(ctx context.Context) error {
	logger := klog.FromContext(ctx)
	var failures []error
	if r.supervisor != nil {
		logger.Info("Stopping controllers")
		r.supervisor.Shutdown()
	}
	if r.leadership != nil {
		if err := r.leadership.resign(ctx); err != nil {
			failures = append(failures, err)
		}
	}
	if r.connection != nil {
		failures = append(failures, r.connection.shutdown(r.options.Clock))
	}
	r.server.Shutdown()
	r.hub.Detach(r.registry)
	logger.Info("Stopped")
	return errors.Join(failures...)
}
