package wire

import (
	"context"
	"fmt"
	"path"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
)

// MetadataClient returns a client of the same configuration as an ordinary one whose watches return objects without
// managedFields.
func MetadataClient(ordinary metadata.Interface, config *rest.Config) (metadata.Interface, error) {
	config = metadata.ConfigFor(config)
	config.GroupVersion = &schema.GroupVersion{}
	config.APIPath = "/" // of which none is used: paths are absolute
	config.NegotiatedSerializer = serializer(config.NegotiatedSerializer, objects{kind: partialType, decode: decodePartial})
	watches, err := rest.RESTClientFor(config)
	if err != nil {
		return nil, fmt.Errorf("creating the client that watches metadata: %w", err)
	}
	return metadataClient{ordinary, watches}, nil
}

type metadataClient struct {
	metadata.Interface
	watches rest.Interface
}

func (c metadataClient) Resource(r schema.GroupVersionResource) metadata.Getter {
	return getter{c.Interface.Resource(r), resourceClient{c.Interface.Resource(r), c.watches, r, ""}}
}

// getter is a resource in all namespaces.
type getter struct {
	metadata.Getter
	all resourceClient
}

func (g getter) Namespace(namespace string) metadata.ResourceInterface {
	in := g.all
	in.ResourceInterface, in.namespace = g.Getter.Namespace(namespace), namespace
	return in
}

func (g getter) Watch(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
	return g.all.Watch(ctx, o)
}

// resourceClient is a resource in one namespace, or in all if that is empty.
type resourceClient struct {
	metadata.ResourceInterface
	watches   rest.Interface
	of        schema.GroupVersionResource
	namespace string
}

// accepted is what the metadata client of client-go accepts.
const accepted = "application/vnd.kubernetes.protobuf;as=PartialObjectMetadata;g=meta.k8s.io;v=v1," +
	"application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json"

func (r resourceClient) Watch(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
	o.Watch = true
	var timeout time.Duration
	if o.TimeoutSeconds != nil {
		timeout = time.Duration(*o.TimeoutSeconds) * time.Second
	}
	return r.watches.Get().AbsPath(r.path()).SetHeader("Accept", accepted).
		SpecificallyVersionedParams(&o, scheme.ParameterCodec, corev1.SchemeGroupVersion).
		Timeout(timeout).Watch(ctx)
}

func (r resourceClient) path() string {
	root := path.Join("/apis", r.of.Group)
	if r.of.Group == "" {
		root = "/api"
	}
	if r.namespace != "" {
		return path.Join(root, r.of.Version, "namespaces", r.namespace, r.of.Resource)
	}
	return path.Join(root, r.of.Version, r.of.Resource)
}
