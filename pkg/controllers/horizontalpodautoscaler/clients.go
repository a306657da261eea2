package horizontalpodautoscaler

import (
	"context"
	"fmt"
	"io"
	"net/http"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/scale"
	resourceclient "k8s.io/metrics/pkg/client/clientset/versioned/typed/metrics/v1beta1"
	"k8s.io/metrics/pkg/client/custom_metrics"
	"k8s.io/metrics/pkg/client/external_metrics"

	"kcmd.dev/pkg/controller"
	"kcmd.dev/pkg/controller/concurrent"
)

// clients are the clients needed in addition to those of the Env.
type clients struct {
	scales      scale.ScalesGetter
	source      metricSource
	apiVersions custom_metrics.AvailableAPIsGetter
}

// newClients returns clients with the identity of the controller. It sends no request.
func newClients(env controller.Env) (clients, error) {
	var c clients
	scales, err := env.Scales()
	if err != nil {
		return c, err
	}
	resources, err := resourceclient.NewForConfig(env.RESTConfig)
	if err != nil {
		return c, fmt.Errorf("making the client for resource metrics: %w", err)
	}
	// These clients take no context.
	ending := rest.CopyConfig(env.RESTConfig)
	ending.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return endingTransport{next: next, end: env.Fenced}
	})
	external, err := external_metrics.NewForConfig(ending)
	if err != nil {
		return c, fmt.Errorf("making the client for external metrics: %w", err)
	}
	c.scales = scales
	c.apiVersions = custom_metrics.NewAvailableAPIsGetter(env.Discovery)
	c.source = metricSource{
		resource: resources,
		custom:   custom_metrics.NewForConfig(ending, env.Mapper, c.apiVersions),
		external: external,
	}
	return c, nil
}

// endingTransport cancels requests when end is closed, so that a slow metrics server does
// not hold on to an instance that may no longer act.
type endingTransport struct {
	next http.RoundTripper
	end  <-chan struct{}
}

// RoundTrip implements http.RoundTripper.
func (t endingTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	ctx, cancel := context.WithCancel(r.Context())
	watched := concurrent.Start(func() {
		select {
		case <-t.end:
			cancel()
		case <-ctx.Done():
		}
	})
	release := func() {
		cancel()
		watched()
	}
	response, err := t.next.RoundTrip(r.WithContext(ctx))
	if err != nil {
		release()
		return nil, err
	}
	response.Body = &releasingBody{ReadCloser: response.Body, release: release}
	return response, nil
}

// WrappedRoundTripper lets client-go find the transport underneath.
func (t endingTransport) WrappedRoundTripper() http.RoundTripper { return t.next }

// releasingBody releases the goroutine of a request when the body of its response is closed.
type releasingBody struct {
	io.ReadCloser
	release func()
}

// Close implements io.Closer.
func (b *releasingBody) Close() error {
	err := b.ReadCloser.Close()
	b.release()
	return err
}
