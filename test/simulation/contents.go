package simulation

import (
	"context"
	"net/http"
	"strconv"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/metadata"
	clienttesting "k8s.io/client-go/testing"
)

// Contents is a metadata client for a controller that lists, patches and deletes objects of any kind, one at a time. In
// contrast to that of ServeMetadata, its lists are not empty, and other things may happen while a request is under way.
type Contents struct {
	*World
	// Kinds are those that there can be.
	Kinds map[schema.GroupVersionResource]schema.GroupVersionKind
	// Refuses returns the error with which the API server refuses a request for a kind, nil if it answers it.
	Refuses func(verb string, resource schema.GroupVersionResource) error
}

// Resource implements metadata.Interface.
func (c *Contents) Resource(resource schema.GroupVersionResource) metadata.Getter {
	return content{contents: c, resource: resource}
}

type content struct {
	metadata.ResourceInterface
	contents  *Contents
	resource  schema.GroupVersionResource
	namespace string
}

func (c content) Namespace(namespace string) metadata.ResourceInterface {
	c.namespace = namespace
	return c
}

// send has the API server answer a request.
func (c content) send(verb string, action clienttesting.Action) (runtime.Object, error) {
	if c.contents.Refuses != nil {
		if err := c.contents.Refuses(verb, c.resource); err != nil {
			return nil, err
		}
	}
	if c.contents.server.unserved[c.resource] {
		return nil, apierrors.NewGenericServerResponse(http.StatusNotFound, verb, c.resource.GroupResource(), "",
			"404 page not found", 0, true)
	}
	return c.contents.Fake.Invokes(action, nil)
}

func (c content) List(_ context.Context, options metav1.ListOptions) (*metav1.PartialObjectMetadataList, error) {
	action := clienttesting.NewListAction(c.resource, c.contents.Kinds[c.resource], c.namespace, options)
	answer, err := c.send("list", action)
	if err != nil {
		return nil, err
	}
	list := &metav1.PartialObjectMetadataList{}
	list.ResourceVersion = strconv.Itoa(c.contents.server.version)
	err = meta.EachListItem(answer, func(item runtime.Object) error {
		list.Items = append(list.Items, *meta.AsPartialObjectMetadata(accessor(item)))
		return nil
	})
	return list, err
}

func (c content) Patch(
	_ context.Context, name string, kind types.PatchType, patch []byte, _ metav1.PatchOptions, _ ...string,
) (*metav1.PartialObjectMetadata, error) {
	answer, err := c.send("patch", clienttesting.NewPatchAction(c.resource, c.namespace, name, kind, patch))
	if err != nil {
		return nil, err
	}
	return meta.AsPartialObjectMetadata(accessor(answer)), nil
}

func (c content) DeleteCollection(_ context.Context, delete metav1.DeleteOptions, list metav1.ListOptions) error {
	action := clienttesting.NewDeleteCollectionActionWithOptions(c.resource, c.namespace, delete, list)
	_, err := c.send("deletecollection", action)
	return err
}

func (c content) Delete(_ context.Context, name string, options metav1.DeleteOptions, _ ...string) error {
	_, err := c.send("delete", clienttesting.NewDeleteActionWithOptions(c.resource, c.namespace, name, options))
	return err
}
