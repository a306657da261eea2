package runtime

import (
	"context"
	"fmt"
	"maps"
	"slices"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"

	"kcmd.dev/pkg/config/v1beta1"
	"kcmd.dev/pkg/runtime/clients"
	"kcmd.dev/pkg/runtime/connection"
	"kcmd.dev/pkg/runtime/serving"
	"kcmd.dev/pkg/runtime/source"
	"kcmd.dev/pkg/runtime/supervisor"
)

// rotation is what the process knows about the files that it reads or waits for. The rules:
//
//  1. The kubeconfig and every file it names are watched. When one of them changes, all are
//     read again and compared with what is in use.
//  2. Other credentials for the same user of the same API server replace the current ones in
//     place. Another server or another user is another connection, as if the configuration
//     had named another kubeconfig.
//  3. Credentials that cannot be used, such as a certificate without its key, change nothing,
//     and the status shows them. The same holds for credentials that the API server rejects,
//     and for another server that cannot be proved, or for which a controller cannot be built.
//     What was not rejected by an API server is tried again when any file changes that the
//     process reads, and when another configuration comes into force: controllers may be built then.
//  4. A configuration that was rejected is tried again when one of the files it names
//     changes: it may have arrived before them. What was rejected because of the API server
//     is tried again when a proof succeeds. Whatever else may be the reason, such as a port in
//     use, it is tried again every ten minutes.
//  5. Kubeconfigs for reviews of requests that cannot be used change nothing, and are tried again when any
//     file changes that the configuration or they name. An edit of the endpoint reads them itself.
type rotation struct {
	rejected *rejected         // waits for its files
	judged   *rejected         // the newest that was checked
	edit     retry             // of the configuration that was rejected
	access   retry             // of credentials for another server or user
	endpoint map[string]string // states of the files of the endpoint, which the configuration in force names
	// reviewsFailure is why the kubeconfigs for reviews, which have changed, cannot be used; empty if they can.
	reviewsFailure string
}

// watchFiles watches every file that the process was made from or waits for.
func (r *Runtime) watchFiles() {
	paths := append([]string{r.options.ConfigFile}, inputFiles(r.document.Config, r.options.Descriptors)...)
	paths = append(paths, followedFiles(r.document.Config, r.options.Descriptors)...)
	paths = append(paths, r.connection.Files()...)
	paths = append(paths, r.credentials.Found()...)
	paths = append(paths, endpointFiles(r.document.Config)...)
	paths = append(paths, r.awaitedByReviews()...)
	if waiting := r.rotation.rejected; waiting != nil {
		paths = slices.AppendSeq(paths, maps.Keys(waiting.states))
	}
	slices.Sort(paths[1:]) // the order of Set is that of reading: the configuration comes first
	r.watcher.Set(paths...)
}

// namedFileChanged handles a file in whatever does not depend on its content: controllers that
// follow it are told, and what the process reads for itself is read again.
func (r *Runtime) namedFileChanged(ctx context.Context, change source.Change) {
	if waiting := r.rotation.rejected; waiting != nil {
		if was, ok := waiting.states[change.Path]; ok && was != stateOf(change.Hash, change.Err) {
			klog.FromContext(ctx).Info("A file that the rejected configuration names has changed, trying it again", "file", change.Path)
			r.configChanged(ctx, waiting.change)
		}
	}
	r.builder.FileChanged(change.Path)
	if slices.Contains(r.connection.Files(), change.Path) || slices.Contains(r.credentials.Found(), change.Path) {
		r.renewAccess(ctx)
	} else {
		r.retryAccess(ctx)
	}
	if slices.Contains(endpointFiles(r.document.Config), change.Path) && r.rotation.news(change) {
		r.endpointFileChanged(ctx, change)
	}
	if r.rotation.reviewsFailure != "" && !slices.Contains(serving.ReviewFiles(r.document.Config.Serving), change.Path) {
		r.renewReviews(ctx)
	}
}

// news reports whether a file of the endpoint differs from what it was when it was first
// read, or last seen.
func (s *rotation) news(change source.Change) bool {
	was, state := s.endpoint[change.Path], stateOf(change.Hash, change.Err)
	s.endpoint[change.Path] = state
	return was != state
}

// renewAccess brings the credentials in use up to date with the files.
func (r *Runtime) renewAccess(ctx context.Context) {
	next, err := clients.LoadAccess(connection.SourceOf(r.document.Config.ClientConnection), r.options.Clock.Now())
	difference := clients.Same
	if err == nil {
		difference, err = r.connection.Compare(next)
	}
	if err == nil {
		err = r.useAccess(ctx, next, difference)
	}
	r.noteAccess(ctx, next.Files, difference, err)
}

// useAccess has the process use credentials that differ in some way from those in use.
func (r *Runtime) useAccess(ctx context.Context, next *clients.Access, difference clients.Difference) error {
	switch difference {
	case clients.Renewed:
		if err := r.proveRenewed(ctx, next); err != nil {
			return err
		}
		return r.renewInPlace(ctx, next)
	case clients.Elsewhere:
		return r.reconnect(ctx)
	}
	return r.connection.Renew(next) // they are the same, but the files may be others
}

// retryAccess tries credentials again that cannot be used, unless that waits for the API server.
func (r *Runtime) retryAccess(ctx context.Context) {
	if r.credentials.Failing() && !r.rotation.access.waits() {
		r.renewAccess(ctx)
	}
}

// renewInPlace uses other credentials on the same connection.
func (r *Runtime) renewInPlace(ctx context.Context, next *clients.Access) error {
	before := r.connection.ClusterCA()
	if err := r.connection.Renew(next); err != nil {
		return err
	}
	klog.FromContext(ctx).Info("Credentials renewed", "server", next.Config.Host)
	if string(before) != string(next.Config.CAData) {
		r.synchronize(ctx, supervisor.CauseFile)
	}
	return nil
}

// reconnect makes a new connection with the configuration in force.
func (r *Runtime) reconnect(ctx context.Context) error {
	klog.FromContext(ctx).Info("The kubeconfig now names another API server or user, reconnecting")
	if err := r.begin(supervisor.CauseClients).run(ctx); err != nil {
		return fmt.Errorf("reconnecting: %w", err)
	}
	return nil
}

// noteAccess reports the outcome of a change of credentials. An error that stays the same is
// not reported again, and neither is a change without effect.
func (r *Runtime) noteAccess(ctx context.Context, found []string, difference clients.Difference, err error) {
	if ctx.Err() != nil {
		return // the process ends, which says nothing about them
	}
	news := r.credentials.Note(r.options.Clock.Now(), found, difference, err)
	r.watchFiles()
	r.retryLater(ctx, &r.rotation.access, err, "the changed kubeconfig", r.renewAccess)
	switch news {
	case connection.Failed:
		klog.FromContext(ctx).Error(err, "Credentials have changed and cannot be used; the previous ones stay in use")
		r.events.Event(eventTarget(r.document.Config.LeaderElection), corev1.EventTypeWarning, reasonCredentialsRejected,
			short("The previous credentials stay in use. "+err.Error()))
	case connection.Reverted:
		klog.FromContext(ctx).Info("The files contain the credentials in use again")
	case connection.Renewed, connection.Nothing:
	}
}

// eventTarget returns the object that events about the process itself refer to.
func eventTarget(c v1beta1.LeaderElection) *coordinationv1.Lease {
	return &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: c.ResourceNamespace, Name: c.ResourceName}}
}
