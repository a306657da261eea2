package runtime

import (
	"context"
	"slices"

	"k8s.io/klog/v2"

	"kcmd.dev/pkg/config/v1beta1"
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
			logger.Error(err, "The allowed label values have changed and cannot be used")
		} else {
			r.hub.Expose(exposed)
		}
	}
	if slices.Contains(serving.ReviewFiles(c.Serving), change.Path) {
		renewed, err := r.server.Renew(ctx)
		if err != nil {
			logger.Error(err, "The kubeconfig for reviews of requests has changed and cannot be used")
		} else {
			renewed.Commit(ctx)
		}
	}
}
