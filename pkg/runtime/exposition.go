package runtime

import (
	"context"
	"fmt"
	"slices"

	"k8s.io/klog/v2"

	"kcmd.dev/pkg/config/v1beta1"
	"kcmd.dev/pkg/runtime/source"
	"kcmd.dev/pkg/runtime/telemetry"
)

// endpointFiles are the files that the endpoint is made from and does not follow by itself,
// as it does its certificates.
func endpointFiles(c *v1beta1.KubeControllerManagerConfiguration) []string {
	return append(expositionFiles(c.Metrics), reviewFiles(c.Serving)...)
}

// expositionFiles say which metrics are exposed.
func expositionFiles(c v1beta1.Metrics) []string {
	if c.AllowListMappingManifest == "" {
		return nil
	}
	return []string{c.AllowListMappingManifest}
}

// reviewFiles say who is asked about requests.
func reviewFiles(c v1beta1.Serving) []string {
	if *c.Port == 0 {
		return nil
	}
	return slices.DeleteFunc([]string{c.Authentication.Kubeconfig, c.Authorization.Kubeconfig},
		func(name string) bool { return name == "" })
}

// endpointFileChanged takes over a file that the endpoint is made from. If it cannot be
// used, the endpoint stays as it is.
func (r *Runtime) endpointFileChanged(ctx context.Context, change source.Change) {
	c := r.document.Config
	logger := klog.FromContext(ctx).WithValues("file", change.Path)
	if slices.Contains(expositionFiles(c.Metrics), change.Path) {
		exposed, err := exposition(c.Metrics)
		if err != nil {
			logger.Error(err, "The allowed label values have changed and cannot be used")
		} else {
			r.hub.Expose(exposed)
		}
	}
	if slices.Contains(reviewFiles(c.Serving), change.Path) {
		renewed, err := r.server.Renew(ctx)
		if err != nil {
			logger.Error(err, "The kubeconfig for reviews of requests has changed and cannot be used")
		} else {
			renewed.Commit(ctx)
		}
	}
}

// exposition reads the options of metrics.
func exposition(c v1beta1.Metrics) (telemetry.Exposition, error) {
	var manifest []byte
	for _, name := range expositionFiles(c) {
		content, _, err := source.Read(name, source.DefaultMaxSize)
		if err != nil {
			return telemetry.Exposition{}, fmt.Errorf("reading the allowed label values: %w", err)
		}
		manifest = content
	}
	return telemetry.NewExposition(c, manifest)
}
