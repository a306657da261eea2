package endpointslice

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	discoveryclient "k8s.io/client-go/kubernetes/typed/discovery/v1"

	"kcmd.dev/pkg/controller"
)

// sliceClient is the client of the library.
//
// Its writes of EndpointSlices return only metadata, which is all that the library records of them: a slice can have a
// thousand endpoints. It calls refused with a slice whose creation was rejected because the namespace is being deleted,
// which the library treats as success.
type sliceClient struct {
	kubernetes.Interface
	refused func(*discoveryv1.EndpointSlice)
}

// DiscoveryV1 implements kubernetes.Interface.
func (c sliceClient) DiscoveryV1() discoveryclient.DiscoveryV1Interface {
	return sliceDiscovery{c.Interface.DiscoveryV1(), c.refused}
}

type sliceDiscovery struct {
	discoveryclient.DiscoveryV1Interface
	refused func(*discoveryv1.EndpointSlice)
}

// EndpointSlices implements discoveryclient.DiscoveryV1Interface.
func (c sliceDiscovery) EndpointSlices(namespace string) discoveryclient.EndpointSliceInterface {
	return slicesClient{c.DiscoveryV1Interface.EndpointSlices(namespace), c.refused}
}

type slicesClient struct {
	discoveryclient.EndpointSliceInterface
	refused func(*discoveryv1.EndpointSlice)
}

// Create implements discoveryclient.EndpointSliceInterface.
func (c slicesClient) Create(
	ctx context.Context, slice *discoveryv1.EndpointSlice, o metav1.CreateOptions,
) (*discoveryv1.EndpointSlice, error) {
	created, err := c.EndpointSliceInterface.Create(controller.OnlyMetadata(ctx), slice, o)
	if apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) {
		c.refused(slice)
	}
	return created, err
}

// Update implements discoveryclient.EndpointSliceInterface.
func (c slicesClient) Update(
	ctx context.Context, slice *discoveryv1.EndpointSlice, o metav1.UpdateOptions,
) (*discoveryv1.EndpointSlice, error) {
	return c.EndpointSliceInterface.Update(controller.OnlyMetadata(ctx), slice, o)
}
