package endpointslice

import (
	"context"

	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	discoveryclient "k8s.io/client-go/kubernetes/typed/discovery/v1"

	"kcmd.dev/pkg/controller"
)

// briefClient has the metadata alone returned by writes of EndpointSlices, which is all that the library notes of
// them. A slice can have a thousand endpoints.
type briefClient struct{ kubernetes.Interface }

// DiscoveryV1 implements kubernetes.Interface.
func (c briefClient) DiscoveryV1() discoveryclient.DiscoveryV1Interface {
	return briefDiscovery{c.Interface.DiscoveryV1()}
}

type briefDiscovery struct {
	discoveryclient.DiscoveryV1Interface
}

// EndpointSlices implements discoveryclient.DiscoveryV1Interface.
func (c briefDiscovery) EndpointSlices(namespace string) discoveryclient.EndpointSliceInterface {
	return briefSlices{c.DiscoveryV1Interface.EndpointSlices(namespace)}
}

type briefSlices struct {
	discoveryclient.EndpointSliceInterface
}

// Create implements discoveryclient.EndpointSliceInterface.
func (c briefSlices) Create(ctx context.Context, slice *discoveryv1.EndpointSlice, o metav1.CreateOptions) (*discoveryv1.EndpointSlice, error) {
	return c.EndpointSliceInterface.Create(controller.OnlyMetadata(ctx), slice, o)
}

// Update implements discoveryclient.EndpointSliceInterface.
func (c briefSlices) Update(ctx context.Context, slice *discoveryv1.EndpointSlice, o metav1.UpdateOptions) (*discoveryv1.EndpointSlice, error) {
	return c.EndpointSliceInterface.Update(controller.OnlyMetadata(ctx), slice, o)
}
