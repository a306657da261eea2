package runtime

import (
	"context"

	"kcmd.dev/pkg/config"
	"kcmd.dev/pkg/config/named"
	"kcmd.dev/pkg/config/v1beta1"
	"kcmd.dev/pkg/runtime/clients"
	"kcmd.dev/pkg/runtime/connection"
	"kcmd.dev/pkg/runtime/serving"
	"kcmd.dev/pkg/runtime/source"
)

// rejected is a configuration that waits for its files.
type rejected struct {
	change source.Change
	states map[string]string // of the files it names, by path, when it was rejected
}

// judge checks a changed configuration. It first records the states of the files that it
// names, so that a change during the check is noticed. bad are the files that have become
// invalid since they came into force, which are no reason to reject anything.
func (r *Runtime) judge(change source.Change) (d *config.Document, bad []string, err error) {
	r.rotation.judged = nil
	document, err := config.Load(r.options.ConfigFile, change.Content)
	if err != nil {
		return nil, nil, err // no change of a file can fix it
	}
	r.rotation.judged = &rejected{change: change, states: r.statesOf(document.Config)}
	problems, bad := document.CheckEdit(r.document.Config)
	if err := problems.AsError(); err != nil {
		return nil, nil, err
	}
	document.Warnings = append(document.Warnings, problems...)
	return document, bad, nil
}

// noteRejected keeps a configuration that was rejected together with the states of its files.
// A nil err means that it is in force, or not in the file any more.
func (r *Runtime) noteRejected(ctx context.Context, change source.Change, err error) {
	var waiting *rejected
	if err != nil && change.Err == nil {
		waiting = r.rotation.judged
	}
	had := r.rotation.rejected != nil
	r.rotation.rejected = waiting
	if had || waiting != nil {
		r.watchFiles()
		r.setReminder()
	}
	r.retryLater(ctx, &r.rotation.edit, err, "the rejected configuration", func(ctx context.Context) { r.configChanged(ctx, change) })
}

// statesOf returns the states of the files that a configuration names, by path.
func (r *Runtime) statesOf(c *v1beta1.KubeControllerManagerConfiguration) map[string]string {
	paths := append(named.Files(c), inputFiles(c, r.options.Descriptors)...)
	paths = append(paths, followedFiles(c, r.options.Descriptors)...)
	for _, source := range accessesOf(c) {
		// Even if loading fails, the files that were found are known.
		access, _ := clients.LoadAccess(source, r.options.Clock.Now())
		paths = append(paths, access.Files...)
	}
	states := make(map[string]string, len(paths))
	for _, path := range paths {
		states[path] = stateNow(path)
	}
	return states
}

// accessesOf returns how a configuration has the process reach API servers, also for reviews of requests.
func accessesOf(c *v1beta1.KubeControllerManagerConfiguration) []clients.Source {
	all := []clients.Source{connection.SourceOf(c.ClientConnection)}
	for _, kubeconfig := range serving.ReviewFiles(c.Serving) {
		all = append(all, clients.Source{Kubeconfig: kubeconfig})
	}
	return all
}

func stateNow(path string) string {
	_, hash, err := source.Read(path, named.MaxFileBytes)
	return stateOf(hash, err)
}

func stateOf(hash string, err error) string {
	if err != nil {
		return "error: " + err.Error()
	}
	return hash
}
