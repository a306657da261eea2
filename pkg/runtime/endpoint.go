package runtime

import (
	"context"
	"slices"

	"k8s.io/klog/v2"

	"kcmd.dev/pkg/config/named"
	"kcmd.dev/pkg/config/v1beta1"
	"kcmd.dev/pkg/runtime/clients"
	"kcmd.dev/pkg/runtime/serving"
	"kcmd.dev/pkg/runtime/source"
	"kcmd.dev/pkg/runtime/telemetry"
)

// endpointFiles returns the files that the endpoint is made from and that, unlike its
// certificates, it does not follow by itself.
func endpointFiles(c *v1beta1.KubeControllerManagerConfiguration) []string {
	return append(telemetry.ExpositionFiles(c.Metrics), serving.ReviewFiles(c.Serving)...)
}

// endpointFileChanged applies a change of a file that the endpoint is made from. If it cannot
// be used, the endpoint does not change.
func (r *Runtime) endpointFileChanged(ctx context.Context, change source.Change) {
	c := r.document.Config
	logger := klog.FromContext(ctx).WithValues("file", change.Path)
	if slices.Contains(telemetry.ExpositionFiles(c.Metrics), change.Path) {
		exposed, err := telemetry.ReadExposition(c.Metrics)
		if err != nil {
			logger.Error(err, "The allowed label values have changed and cannot be used; the previous ones stay in use")
		} else {
			r.hub.Expose(exposed)
		}
	}
	if slices.Contains(serving.ReviewFiles(c.Serving), change.Path) {
		r.renewReviews(ctx)
	}
}

// renewReviews has requests reviewed with the kubeconfigs for that as they are now. If they cannot be used, the endpoint
// does not change, and what they name is watched: it may come after them.
func (r *Runtime) renewReviews(ctx context.Context) {
	was, failure := r.rotation.reviewsFailure, ""
	renewed, err := r.server.Renew(ctx)
	if err == nil {
		renewed.Commit(ctx)
	} else if failure = err.Error(); failure != was {
		klog.FromContext(ctx).Error(err, "The kubeconfig for reviews of requests has changed, and the endpoint cannot be renewed with it; the previous one stays in use",
			"files", serving.ReviewFiles(r.document.Config.Serving))
	}
	r.rotation.reviewsFailure = failure
	if failure != "" || was != "" { // they may name other files now
		r.watchFiles()
	}
}

// awaitedByReviews are the files that can be the reason why kubeconfigs for reviews cannot be used, as long as that is
// so: those that they name, and the others of the endpoint, such as its certificate.
func (r *Runtime) awaitedByReviews() []string {
	if r.rotation.reviewsFailure == "" {
		return nil
	}
	paths := named.Files(r.document.Config)
	for _, kubeconfig := range serving.ReviewFiles(r.document.Config.Serving) {
		// Even if loading fails, the files that were found are known.
		access, _ := clients.LoadAccess(clients.Source{Kubeconfig: kubeconfig}, r.options.Clock.Now())
		paths = append(paths, access.Files...)
	}
	return paths
}
