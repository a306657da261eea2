// Package scaleclient makes the client of the scale subresource of any kind.
package scaleclient

import (
	"fmt"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/scale"

	"kcmd.dev/pkg/controllers/kit/controller"
)

// New makes a client that acts as the instance does. It sends no request.
func New(env controller.Env) (scale.ScalesGetter, error) {
	config := rest.CopyConfig(env.RESTConfig)
	// Scales of custom resources are served as JSON only.
	config.ContentType, config.AcceptContentTypes = runtime.ContentTypeJSON, runtime.ContentTypeJSON
	client, err := scale.NewForConfig(config, env.Mapper, dynamic.LegacyAPIPathResolverFunc,
		scale.NewDiscoveryScaleKindResolver(env.Discovery))
	if err != nil {
		return nil, fmt.Errorf("making the client of scale subresources: %w", err)
	}
	return client, nil
}
