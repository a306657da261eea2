package runtime

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"

	"kcmd.dev/pkg/config"
	"kcmd.dev/pkg/config/named"
	"kcmd.dev/pkg/config/plan"
	"kcmd.dev/pkg/runtime/pausing"
	"kcmd.dev/pkg/runtime/source"
	"kcmd.dev/pkg/runtime/status"
	"kcmd.dev/pkg/runtime/supervisor"
	"kcmd.dev/pkg/runtime/telemetry"
)

// historyLength is the number of reloads that the status shows.
const historyLength = 20

// Reasons of the events about the configuration and the credentials.
const (
	reasonReloaded            = "ConfigurationReloaded"
	reasonRejected            = "ConfigurationRejected"
	reasonCredentialsRejected = "CredentialsRejected"
	reasonLastGood            = "LastGoodConfiguration"
	reasonPaused              = "Paused"
	reasonResumed             = "Resumed"
)

// maxEventMessage is the length of the longest message that the API server accepts, in bytes.
const maxEventMessage = 1024

// fileChanged handles a change of the configuration or of a file that a controller reads.
func (r *Runtime) fileChanged(ctx context.Context, change source.Change) {
	defer r.watchdog.Begin("a change of the file " + change.Path)()
	if change.Path == r.options.ConfigFile {
		r.configChanged(ctx, change)
		return
	}
	r.namedFileChanged(ctx, change)
	logger := klog.FromContext(ctx).WithValues("file", change.Path)
	was, known := r.files[change.Path]
	switch {
	case !known:
		return
	case change.Err != nil:
		logger.Error(change.Err, "A file that controllers use cannot be read; they continue with its previous content")
		return
	case was == change.Hash:
		delete(r.refused, change.Path)
	}
	// Whatever was refused may have been so because of this file, whose content can be the one in use again.
	if used := r.useRefused(ctx, change); len(used) > 0 {
		logger.Info("Files that controllers had refused are in use with this one", "files", used)
		return
	}
	if was == change.Hash {
		return
	}
	if err := r.useFiles(ctx, change, nil); err != nil {
		r.refused[change.Path] = change.Hash
		logger.Error(err, "A file that controllers use has changed and cannot be used; they continue with its previous content")
		return
	}
	logger.Info("A file that controllers use has changed")
}

// useRefused has controllers use the content of a changed file, and of the others that they have refused: all of them or, if
// that fails, whichever can be used. It returns those that are.
func (r *Runtime) useRefused(ctx context.Context, change source.Change) []string {
	others := r.refusedNow(change.Path)
	paths := slices.Sorted(maps.Keys(others))
	if len(paths) == 0 || r.useFiles(ctx, change, others) == nil {
		return paths
	}
	if len(paths) == 1 {
		return nil
	}
	return slices.DeleteFunc(paths, func(path string) bool {
		return r.useFiles(ctx, change, map[string]string{path: others[path]}) != nil
	})
}

// refusedNow returns the hashes of what is in the files, but for one, that controllers have refused.
func (r *Runtime) refusedNow(except string) map[string]string {
	hashes := map[string]string{}
	for path := range r.refused {
		if _, read := r.files[path]; !read || path == except {
			continue
		}
		if _, hash, err := source.Read(path, named.MaxFileBytes); err == nil {
			hashes[path] = hash
		}
	}
	return hashes
}

// useFiles has controllers use the content of a changed file, and of others, if an edit could newly name each of them.
func (r *Runtime) useFiles(ctx context.Context, change source.Change, others map[string]string) error {
	for _, path := range append(slices.Collect(maps.Keys(others)), change.Path) {
		if err := named.CheckFile(r.document.Config, path); err != nil {
			return err
		}
	}
	tx := r.begin(supervisor.CauseFile)
	tx.next.files = maps.Clone(r.files)
	tx.next.files[change.Path] = change.Hash
	maps.Copy(tx.next.files, others)
	if err := tx.run(ctx); err != nil {
		return err
	}
	delete(r.refused, change.Path)
	for path := range others {
		delete(r.refused, path)
	}
	return nil
}

// configChanged puts the changed file in force, or shows why it cannot.
func (r *Runtime) configChanged(ctx context.Context, change source.Change) {
	if change.Err == nil && change.Hash == r.content {
		r.reverted(ctx)
		return
	}
	r.try(ctx, change, everyFailure)
}

// reported is which failures of a change are shown.
type reported int

const (
	everyFailure       reported = iota
	failuresThatDiffer          // from the last one, by their reason
)

// try makes a change.
func (r *Runtime) try(ctx context.Context, change source.Change, shown reported) {
	began := r.options.Clock.Now()
	outcome, err := r.reload(ctx, change)
	if err != nil && ctx.Err() != nil {
		return // the process ends, which says nothing about the change
	}
	if err != nil && shown == failuresThatDiffer && outcome.Error == r.rejected {
		return
	}
	took := r.options.Clock.Since(began)
	outcome.Time, outcome.Took = r.options.Clock.Now(), took.Seconds()
	was := r.lastGood
	// Before the status shows the change: who has seen it there reads the metrics next.
	r.reloads.Record(outcome.Status, outcome.Time, took)
	r.reloads.Rejected(err != nil)
	r.mu.Lock() // what is in force and the outcome of the change become visible together
	if err == nil {
		r.content, r.hash = change.Hash, outcome.Hash
		r.generation++
		r.lastGood = nil
	}
	outcome.Generation, r.rejected = r.generation, outcome.Error
	r.history = append(r.history, outcome)
	if len(r.history) > historyLength {
		r.history = r.history[1:]
	}
	r.mu.Unlock()
	r.announce(ctx, outcome)
	r.report(ctx, outcome.Deviations)
	r.noteRejected(ctx, change, err)
	if err == nil {
		r.endLastGood(ctx, was)
		r.keep(ctx, change.Content)
		r.retryAccess(ctx)
	}
}

// reverted records that the file contains again what is in force, which is no reload.
func (r *Runtime) reverted(ctx context.Context) {
	r.reloads.Rejected(false)
	r.mu.Lock()
	was, lastGood := r.rejected, r.lastGood
	r.rejected, r.lastGood = "", nil
	r.mu.Unlock()
	if was != "" {
		klog.FromContext(ctx).Info("The file contains the configuration in force again", "file", r.options.ConfigFile)
	}
	r.noteRejected(ctx, source.Change{}, nil)
	r.endLastGood(ctx, lastGood)
}

// announce reports a reload in the log and as an event on the lease.
func (r *Runtime) announce(ctx context.Context, o status.Reload) {
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

// announcePauses reports in the log, and as events on the lease, which pauses begin and end.
func (r *Runtime) announcePauses(ctx context.Context, begun, ended []pausing.Pause) {
	target := eventTarget(r.document.Config.LeaderElection)
	if len(begun) > 0 {
		klog.FromContext(ctx).Info("Paused", "what", pausing.List(begun))
		r.events.Event(target, corev1.EventTypeNormal, reasonPaused, short("Nothing is written by "+pausing.List(begun)+"."))
	}
	if len(ended) > 0 {
		klog.FromContext(ctx).Info("Resumed", "what", pausing.List(ended))
		r.events.Event(target, corev1.EventTypeNormal, reasonResumed, short("Work goes on of "+pausing.List(ended)+"."))
	}
}

// short cuts a message to the length that the API server accepts, between characters.
func short(message string) string {
	const ellipsis = "…"
	if len(message) <= maxEventMessage {
		return message
	}
	return strings.ToValidUTF8(message[:maxEventMessage-len(ellipsis)], "") + ellipsis
}

// reload carries out a change and returns the outcome. It is a transaction: if it fails,
// nothing has changed.
func (r *Runtime) reload(ctx context.Context, change source.Change) (status.Reload, error) {
	rejected := func(err error) (status.Reload, error) {
		return status.Reload{Status: telemetry.Failure, Error: err.Error()}, err
	}
	if change.Err != nil {
		return rejected(change.Err)
	}
	var hash string
	var planned plan.Plan
	tx := r.begin(supervisor.CauseConfig)
	err := contain(ctx, "checking the file", func() error {
		document, bad, err := r.judge(change)
		if err != nil {
			return err
		}
		planned = plan.New(r.document.Config, document.Config, Subjects(r.options.Descriptors))
		tx.next.document = document
		tx.next.files = r.filesFor(inputFiles(document.Config, r.options.Descriptors), bad)
		hash, err = config.Hash(document.Config)
		return err
	})
	if err != nil {
		return rejected(err)
	}
	if err := tx.prepare(ctx); err != nil {
		return rejected(err)
	}
	r.journal.SetGeneration(r.generation + 1) // before what it starts writes anything
	tx.commit(ctx)
	logWarnings(ctx, tx.next.document)
	warnOfPermissions(ctx, r.options.ConfigFile, tx.next.document.Config)
	r.reloads.InForce(hash)
	return status.Reload{Status: telemetry.Success, Hash: hash, Plan: &planned, Deviations: deviations(planned, tx.did)}, nil
}
