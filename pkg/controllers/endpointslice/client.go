package endpointslice

import (
	"context"

	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	discoveryclient "k8s.io/client-go/kubernetes/typed/discovery/v1"

	"kcmd.dev/pkg/controller"
)

// sliceClient is the client of the library.
//
// Its writes of EndpointSlices return only metadata, which is all that the library records of them: a slice can have a
// thousand endpoints. It calls created with the outcome of each creation of a slice: the library does not tell that it
// created one, and takes a refusal because the namespace is being deleted for a success.
type sliceClient struct {
	kubernetes.Interface
	created func(*discoveryv1.EndpointSlice, error)
}

// DiscoveryV1 implements kubernetes.Interface.
func (c sliceClient) DiscoveryV1() discoveryclient.DiscoveryV1Interface {
	return sliceDiscovery{c.Interface.DiscoveryV1(), c.created}
}

type sliceDiscovery struct {
	discoveryclient.DiscoveryV1Interface
	created func(*discoveryv1.EndpointSlice, error)
}

// EndpointSlices implements discoveryclient.DiscoveryV1Interface.
func (c sliceDiscovery) EndpointSlices(namespace string) discoveryclient.EndpointSliceInterface {
	return slicesClient{c.DiscoveryV1Interface.EndpointSlices(namespace), c.created}
}

type slicesClient struct {
	discoveryclient.EndpointSliceInterface
	created func(*discoveryv1.EndpointSlice, error)
}

// Create implements discoveryclient.EndpointSliceInterface.
func (c slicesClient) Create(
	ctx context.Context, slice *discoveryv1.EndpointSlice, o metav1.CreateOptions,
) (*discoveryv1.EndpointSlice, error) {
	answer, err := c.EndpointSliceInterface.Create(controller.OnlyMetadata(ctx), slice, o)
	c.created(slice, err)
	return answer, err
}

// Update implements discoveryclient.EndpointSliceInterface.
func (c slicesClient) Update(
	ctx context.Context, slice *discoveryv1.EndpointSlice, o metav1.UpdateOptions,
) (*discoveryv1.EndpointSlice, error) {
	return c.EndpointSliceInterface.Update(controller.OnlyMetadata(ctx), slice, o)
}
