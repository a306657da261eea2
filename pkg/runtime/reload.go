package runtime

import (
	"context"
	"fmt"
	"maps"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"

	"kcmd.dev/pkg/config"
	"kcmd.dev/pkg/config/v1beta1"
	"kcmd.dev/pkg/controllers/kit/controller"
	"kcmd.dev/pkg/runtime/source"
	"kcmd.dev/pkg/runtime/supervisor"
	"kcmd.dev/pkg/runtime/telemetry"
)

// Reload is what became of one change of the configuration file.
type Reload struct {
	Time time.Time `json:"time"`
	// Status is success or failure.
	Status string `json:"status"`
	// Hash identifies the configuration that came into force.
	Hash string `json:"hash,omitempty"`
	// Generation is that of the configuration in force afterwards.
	Generation uint64 `json:"generation"`
	// Plan is what the change did, Error why it did nothing.
	Plan  *config.Plan `json:"plan,omitempty"`
	Error string       `json:"error,omitempty"`
	// Took is the time from reading the file until every new instance was built and
	// handed to its controller, in seconds.
	Took float64 `json:"tookSeconds"`
}

// historyLength is the number of reloads that the status shows.
const historyLength = 20

// Reasons of the events about the configuration and the credentials.
const (
	reasonReloaded            = "ConfigurationReloaded"
	reasonRejected            = "ConfigurationRejected"
	reasonCredentialsRejected = "CredentialsRejected"
)

// maxEventMessage is what the API server accepts, in bytes.
const maxEventMessage = 1024

// Subjects are the controllers as a Plan sees them.
func Subjects(descriptors []controller.Descriptor) []config.Subject {
	subjects := make([]config.Subject, 0, len(descriptors))
	for _, d := range descriptors {
		subjects = append(subjects, config.Subject{
			Name:    d.Name,
			Enabled: func(c *v1beta1.KubeControllerManagerConfiguration) bool { ok, _ := enabled(c, d); return ok },
			Value:   func(c *v1beta1.KubeControllerManagerConfiguration) any { return governedValue(c, d) },
		})
	}
	return subjects
}

// governed is what a controller depends on: its value, and the lock it runs under.
type governed struct {
	value       any
	lock        string
	coordinated bool
	namespace   string
	lease       string
}

func governedValue(cfg *v1beta1.KubeControllerManagerConfiguration, d controller.Descriptor) any {
	g := governed{value: d.Value(cfg)}
	if d.RunsWithoutLease {
		return g
	}
	g.lock, _ = config.LockOf(cfg, d.Name)
	g.coordinated = coordinated(cfg, g.lock)
	g.namespace, g.lease = config.LeaseOf(cfg, g.lock)
	return g
}

// fileChanged handles a change of the configuration or of a file that a controller reads.
func (r *Runtime) fileChanged(ctx context.Context, change source.Change) {
	defer r.pulse.begin("a change of the file " + change.Path)()
	if change.Path == r.options.ConfigFile {
		r.configChanged(ctx, change)
		return
	}
	r.namedFileChanged(ctx, change)
	logger := klog.FromContext(ctx).WithValues("file", change.Path)
	was, known := r.files[change.Path]
	switch {
	case !known || was == change.Hash:
		return
	case change.Err != nil:
		logger.Error(change.Err, "A file that controllers read cannot be read; they go on with what they read before")
		return
	}
	tx := r.begin(supervisor.CauseFile)
	tx.next.files = maps.Clone(r.files)
	tx.next.files[change.Path] = change.Hash
	if err := tx.run(ctx); err != nil {
		r.refused[change.Path] = change.Hash
		logger.Error(err, "A file that controllers read has changed and cannot be used; they go on with what they read before")
		return
	}
	delete(r.refused, change.Path)
	logger.Info("A file that controllers read has changed")
}

// configChanged makes the changed file the configuration in force, or shows why not.
func (r *Runtime) configChanged(ctx context.Context, change source.Change) {
	if change.Err == nil && change.Hash == r.content {
		r.reverted(ctx)
		return
	}
	began := r.options.Clock.Now()
	plan, hash, err := r.reload(ctx, change)
	took := r.options.Clock.Since(began)
	outcome := Reload{Time: r.options.Clock.Now(), Status: telemetry.Success, Hash: hash, Plan: plan, Took: took.Seconds()}
	if err != nil {
		outcome.Status, outcome.Hash, outcome.Error = telemetry.Failure, "", err.Error()
	}
	r.mu.Lock() // what is in force and what became of the change are seen together
	if err == nil {
		r.content, r.hash = change.Hash, hash
		r.generation++
	}
	outcome.Generation, r.rejected = r.generation, outcome.Error
	r.history = append(r.history, outcome)
	if len(r.history) > historyLength {
		r.history = r.history[1:]
	}
	r.mu.Unlock()
	r.reloads.Record(outcome.Status, outcome.Time, took)
	r.reloads.Rejected(err != nil)
	r.announce(ctx, outcome)
	r.noteRejected(ctx, change, err)
}

// reverted notes that the file holds again what is in force, which is no reload.
func (r *Runtime) reverted(ctx context.Context) {
	r.mu.Lock()
	was := r.rejected
	r.rejected = ""
	r.mu.Unlock()
	r.reloads.Rejected(false)
	if was != "" {
		klog.FromContext(ctx).Info("The file holds again the configuration in force", "file", r.options.ConfigFile)
	}
	r.noteRejected(ctx, source.Change{}, nil)
}

// announce tells of a reload in the log and as an event on the lease.
func (r *Runtime) announce(ctx context.Context, o Reload) {
	logger := klog.FromContext(ctx)
	if o.Status == telemetry.Failure {
		logger.Error(nil, "Configuration rejected, the old one stays in force", "file", r.options.ConfigFile, "generation", o.Generation, "problems", o.Error)
		r.events.Event(eventTarget(r.document.Config.LeaderElection), corev1.EventTypeWarning, reasonRejected,
			short(fmt.Sprintf("Generation %d stays in force. %s", o.Generation, o.Error)))
		return
	}
	logger.Info("Configuration reloaded", "generation", o.Generation, "hash", o.Hash, "took", o.Took, "plan", o.Plan.String())
	r.events.Event(eventTarget(r.document.Config.LeaderElection), corev1.EventTypeNormal, reasonReloaded,
		short(fmt.Sprintf("Generation %d is in force. %s", o.Generation, o.Plan.String())))
}

// short cuts a message to what the API server accepts, between characters.
func short(message string) string {
	const ellipsis = "…"
	if len(message) <= maxEventMessage {
		return message
	}
	return strings.ToValidUTF8(message[:maxEventMessage-len(ellipsis)], "") + ellipsis
}

// reload is a transaction: if it fails, nothing has changed.
func (r *Runtime) reload(ctx context.Context, change source.Change) (plan *config.Plan, hash string, err error) {
	if change.Err != nil {
		return nil, "", change.Err
	}
	document, bad, err := r.judge(change)
	if err != nil {
		return nil, "", err
	}
	hash, err = config.Hash(document.Config)
	if err != nil {
		return nil, "", err
	}
	difference := config.NewPlan(r.document.Config, document.Config, Subjects(r.options.Descriptors))
	tx := r.begin(supervisor.CauseConfig)
	tx.next.document = document
	tx.next.files = r.filesFor(files(document.Config, r.options.Descriptors), bad)
	if err := tx.run(ctx); err != nil {
		return nil, "", err
	}
	logWarnings(ctx, document)
	warnOfPermissions(ctx, r.options.ConfigFile, document.Config)
	r.reloads.InForce(hash)
	return &difference, hash, nil
}
