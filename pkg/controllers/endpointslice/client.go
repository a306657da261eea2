package endpointslice

import (
	"context"
	"errors"

	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	discoveryclient "k8s.io/client-go/kubernetes/typed/discovery/v1"
	discoverylisters "k8s.io/client-go/listers/discovery/v1"

	"kcmd.dev/pkg/controller"
	"kcmd.dev/pkg/controllers/kit/writes"
)

// sliceClient is the client of the library.
//
// Its writes of EndpointSlices return only metadata, which is all that the library records of them: a slice can have a
// thousand endpoints. It calls wrote with each answer: the library records no resource versions.
//
// It calls created with the outcome of each creation of a slice: the library does not tell that it created one, and
// takes a refusal because the namespace is being deleted for a success. It calls doubt with each slice, as the cache
// showed it, that may have been updated or deleted although the request failed.
//
// It calls failed with each slice of which an update failed.
//
// A slice is deleted, and overwritten, only as the cache shows it, and only if it is ours there. The library does not
// demand that of those that it deletes, or overwrites instead: somebody else may have taken one over.
type sliceClient struct {
	kubernetes.Interface
	cached  discoverylisters.EndpointSliceLister
	wrote   func(*discoveryv1.EndpointSlice)
	doubt   func(*discoveryv1.EndpointSlice)
	created func(*discoveryv1.EndpointSlice, error)
	failed  func(*discoveryv1.EndpointSlice)
}

// DiscoveryV1 implements kubernetes.Interface.
func (c sliceClient) DiscoveryV1() discoveryclient.DiscoveryV1Interface {
	return sliceDiscovery{c.Interface.DiscoveryV1(), c}
}

type sliceDiscovery struct {
	discoveryclient.DiscoveryV1Interface
	client sliceClient
}

// EndpointSlices implements discoveryclient.DiscoveryV1Interface.
func (c sliceDiscovery) EndpointSlices(namespace string) discoveryclient.EndpointSliceInterface {
	return slicesClient{
		EndpointSliceInterface: c.DiscoveryV1Interface.EndpointSlices(namespace),
		cached:                 c.client.cached.EndpointSlices(namespace),
		wrote:                  c.client.wrote,
		doubt:                  c.client.doubt,
		created:                c.client.created,
		failed:                 c.client.failed,
	}
}

type slicesClient struct {
	discoveryclient.EndpointSliceInterface
	cached  discoverylisters.EndpointSliceNamespaceLister
	wrote   func(*discoveryv1.EndpointSlice)
	doubt   func(*discoveryv1.EndpointSlice)
	created func(*discoveryv1.EndpointSlice, error)
	failed  func(*discoveryv1.EndpointSlice)
}

// Create implements discoveryclient.EndpointSliceInterface.
func (c slicesClient) Create(
	ctx context.Context, slice *discoveryv1.EndpointSlice, o metav1.CreateOptions,
) (*discoveryv1.EndpointSlice, error) {
	answer, err := c.EndpointSliceInterface.Create(controller.OnlyMetadata(ctx), slice, o)
	c.created(slice, err)
	if err == nil {
		c.wrote(answer)
	}
	return answer, err
}

// Update implements discoveryclient.EndpointSliceInterface.
func (c slicesClient) Update(
	ctx context.Context, slice *discoveryv1.EndpointSlice, o metav1.UpdateOptions,
) (*discoveryv1.EndpointSlice, error) {
	answer, err := c.update(ctx, slice, o)
	if err != nil {
		c.failed(slice)
		return answer, err
	}
	c.wrote(answer)
	return answer, nil
}

func (c slicesClient) update(
	ctx context.Context, slice *discoveryv1.EndpointSlice, o metav1.UpdateOptions,
) (*discoveryv1.EndpointSlice, error) {
	if slice.ResourceVersion == "" { // a new one, in place of one that would be deleted
		overwritten, err := c.ours(slice.Name)
		if err != nil {
			return nil, err
		}
		slice = slice.DeepCopy()
		slice.UID, slice.ResourceVersion = overwritten.UID, overwritten.ResourceVersion
	}
	answer, err := c.EndpointSliceInterface.Update(controller.OnlyMetadata(ctx), slice, o)
	if err != nil && !writes.IsRefusal(err) {
		c.doubt(slice)
	}
	return answer, err
}

// Delete implements discoveryclient.EndpointSliceInterface.
func (c slicesClient) Delete(ctx context.Context, name string, o metav1.DeleteOptions) error {
	deleted, err := c.ours(name)
	if err != nil {
		return err
	}
	o.Preconditions = &metav1.Preconditions{UID: &deleted.UID, ResourceVersion: &deleted.ResourceVersion}
	err = c.EndpointSliceInterface.Delete(ctx, name, o)
	if err != nil && !writes.IsRefusal(err) {
		c.doubt(deleted)
	}
	return err
}

// ours returns a slice from the cache, unless somebody else manages it by now.
func (c slicesClient) ours(name string) (*discoveryv1.EndpointSlice, error) {
	slice, err := c.cached.Get(name)
	if err == nil && slice.Labels[discoveryv1.LabelManagedBy] != managedBy {
		return nil, apierrors.NewConflict(discoveryv1.Resource("endpointslices"), name, errTakenOver)
	}
	return slice, err
}

var errTakenOver = errors.New("somebody else manages it")
