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
	"kcmd.dev/pkg/controllers/kit/requests"
)

// writeObserver observes the writes of EndpointSlices that the library sends. A slice is as it was sent, or, if it was
// to be deleted, as the cache showed it.
type writeObserver interface {
	// wrote gets the answer to a write: the library records no resource versions.
	wrote(answer *discoveryv1.EndpointSlice)
	// created gets the outcome of a creation: the library does not tell that it created a slice, and takes a refusal
	// because the namespace is being deleted for a success.
	created(slice *discoveryv1.EndpointSlice, err error)
	// updateFailed gets a slice of which an update failed.
	updateFailed(slice *discoveryv1.EndpointSlice)
	// unanswered gets a slice that may have been updated or deleted although the request failed.
	unanswered(slice *discoveryv1.EndpointSlice)
}

// sliceClient is the client of the library.
//
// Its writes of EndpointSlices return only metadata, which is all that the library records of them: a slice can have a
// thousand endpoints.
//
// A slice is deleted, and overwritten, only as the cache shows it, and only if it is ours there. The library does not
// demand that of those that it deletes, or overwrites instead: somebody else may have taken one over.
type sliceClient struct {
	kubernetes.Interface
	cached   discoverylisters.EndpointSliceLister
	observer writeObserver
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
		observer:               c.client.observer,
	}
}

type slicesClient struct {
	discoveryclient.EndpointSliceInterface
	cached   discoverylisters.EndpointSliceNamespaceLister
	observer writeObserver
}

// Create implements discoveryclient.EndpointSliceInterface.
func (c slicesClient) Create(
	ctx context.Context, slice *discoveryv1.EndpointSlice, o metav1.CreateOptions,
) (*discoveryv1.EndpointSlice, error) {
	answer, err := c.EndpointSliceInterface.Create(controller.OnlyMetadata(ctx), slice, o)
	c.observer.created(slice, err)
	if err == nil {
		c.observer.wrote(answer)
	}
	return answer, err
}

// Update implements discoveryclient.EndpointSliceInterface.
func (c slicesClient) Update(
	ctx context.Context, slice *discoveryv1.EndpointSlice, o metav1.UpdateOptions,
) (*discoveryv1.EndpointSlice, error) {
	answer, err := c.update(ctx, slice, o)
	if err != nil {
		c.observer.updateFailed(slice)
		return answer, err
	}
	c.observer.wrote(answer)
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
	if err != nil && !requests.IsRefusal(err) {
		c.observer.unanswered(slice)
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
	if err != nil && !requests.IsRefusal(err) {
		c.observer.unanswered(deleted)
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
