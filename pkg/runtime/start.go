package runtime

import (
	"context"
	"fmt"
	"slices"
	"time"

	"k8s.io/component-base/version"
	"k8s.io/klog/v2"

	"kcmd.dev/pkg/config"
	"kcmd.dev/pkg/config/named"
	"kcmd.dev/pkg/config/plan"
	"kcmd.dev/pkg/config/v1beta1"
	"kcmd.dev/pkg/runtime/clients"
	"kcmd.dev/pkg/runtime/source"
	"kcmd.dev/pkg/runtime/status"
	"kcmd.dev/pkg/runtime/supervisor"
)

// start brings the process up with the configuration file as it is now or, if that is not
// possible, with the last good configuration.
func (r *Runtime) start(ctx context.Context) error {
	file, err := r.load()
	if err == nil {
		err = r.startWith(ctx, file)
	}
	if err != nil {
		return r.startWithLastGood(ctx, file.content, err)
	}
	r.keep(ctx, file.text)
	return nil
}

// candidate is a configuration that the process may start with.
type candidate struct {
	text     []byte
	content  string // hash of text
	document *config.Document
	// instead is why the configuration file cannot be used, empty if this is it; kept is what
	// the status then shows.
	instead string
	kept    *status.LastGood
}

// startWith brings the process up with a configuration. If it fails, it may be tried again with
// another one.
func (r *Runtime) startWith(ctx context.Context, start candidate) error {
	c := start.document.Config
	hash, err := config.Hash(c)
	if err != nil {
		return err
	}
	output, err := r.logging.Prepare(plan.Effective(c))
	if err != nil {
		return fmt.Errorf("applying the logging configuration: %w", err)
	}
	// First, so that the rest is logged as it should.
	output.Commit()
	if r.supervisor == nil { // only once: the last good configuration may be tried after another one
		klog.FromContext(ctx).Info("Starting", "version", version.Get().GitVersion)
	}
	logWarnings(ctx, start.document)
	r.supervise(ctx)
	r.watcher = source.New(source.Options{
		MaxSize:  named.MaxFileBytes,
		MaxSizes: map[string]int64{r.options.ConfigFile: config.MaxFileBytes + 1},
		Clock:    r.options.Clock,
		Logger:   klog.FromContext(ctx),
	})
	if start.kept != nil {
		r.leadership.SetLastGood("sha256:" + hash)
	}
	tx := r.begin(supervisor.CauseStart)
	tx.next.document = start.document
	tx.next.files = r.filesFor(inputFiles(c, r.options.Descriptors), nil)
	if err := tx.prepare(ctx); err != nil {
		return err
	}
	warnOfPermissions(ctx, start.document.Name, c)
	r.mu.Lock()
	r.content, r.hash, r.generation = start.content, hash, 1
	r.rejected, r.lastGood = start.instead, start.kept
	r.mu.Unlock()
	r.journal.SetGeneration(1)
	tx.commit(ctx)
	r.reloads.InForce(hash)
	klog.FromContext(ctx).Info("Configuration in force", "file", start.document.Name, "hash", hash, "generation", r.generation)
	return nil
}

// supervise makes the supervisor, once.
func (r *Runtime) supervise(ctx context.Context) {
	if r.supervisor != nil {
		return
	}
	o := r.options.Supervision
	o.Builder, o.Clock = r.builder, r.options.Clock
	o.Metrics = supervisor.NewMetrics(r.registry)
	s := supervisor.New(ctx, o, r.options.Descriptors)
	r.mu.Lock()
	r.supervisor = s
	r.mu.Unlock()
}

// load reads and checks the configuration file. If it is not valid, its content is known.
func (r *Runtime) load() (candidate, error) {
	data, hash, err := source.Read(r.options.ConfigFile, config.MaxFileBytes+1)
	if err != nil {
		return candidate{}, fmt.Errorf("reading the configuration: %w", err)
	}
	document, err := check(r.options.ConfigFile, data)
	return candidate{text: data, content: hash, document: document}, err
}

// check parses and validates a configuration, and the files it names.
func check(name string, data []byte) (*config.Document, error) {
	document, err := config.Load(name, data)
	if err != nil {
		return nil, err
	}
	problems := document.CheckStart()
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

// warnOfPermissions logs which of the files that the process depends on are accessible to
// everybody. They are used all the same: a mode does not tell who can reach a file, for
// instance in the volumes of a pod.
func warnOfPermissions(ctx context.Context, file string, c *v1beta1.KubeControllerManagerConfiguration) {
	for _, name := range dependsOn(file, c) {
		if problem := source.PermissionProblem(name); problem != "" {
			klog.FromContext(ctx).Info("The permissions of a file are too wide", "file", name, "problem", problem)
		}
	}
}

// dependsOn are the file of a configuration, the files that it names, and those that its kubeconfigs name, sorted.
func dependsOn(file string, c *v1beta1.KubeControllerManagerConfiguration) []string {
	names := append([]string{file}, named.Files(c)...)
	for _, from := range accessesOf(c) {
		if from.Kubeconfig == "" { // it has only the files of a pod
			continue
		}
		// Even if loading fails, the files that were found are known. The time decides only whether it does.
		access, _ := clients.LoadAccess(from, time.Time{})
		names = append(names, access.Files...)
	}
	slices.Sort(names)
	return slices.Compact(names)
}
