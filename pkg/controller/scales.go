package controller

import (
	"fmt"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/scale"
)

// Scales makes a client of the scale subresource of any kind, which acts as the instance
// does. It sends no request.
func (e Env) Scales() (scale.ScalesGetter, error) {
	config := rest.CopyConfig(e.RESTConfig)
	// Scales of custom resources are served as JSON only.
	config.ContentType, config.AcceptContentTypes = runtime.ContentTypeJSON, runtime.ContentTypeJSON
	client, err := scale.NewForConfig(config, e.Mapper, dynamic.LegacyAPIPathResolverFunc,
		scale.NewDiscoveryScaleKindResolver(e.Discovery))
	if err != nil {
		return nil, fmt.Errorf("creating the client of scale subresources: %w", err)
	}
	return client, nil
}
