// Package customresources reads the definitions of custom resources.
package customresources

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"kcmd.dev/pkg/controller"
)

// Definitions are the CustomResourceDefinitions. That of a resource has the name "resource.group".
var Definitions = schema.GroupVersionResource{
	Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions",
}

// Definition is what controllers read of a CustomResourceDefinition.
type Definition struct {
	Metadata metav1.ObjectMeta `json:"metadata"`
	Spec     struct {
		Scope    string    `json:"scope"`
		Versions []Version `json:"versions"`
	} `json:"spec"`
	Status struct {
		Conditions     []metav1.Condition `json:"conditions"`
		StoredVersions []string           `json:"storedVersions"`
	} `json:"status"`
}

// IsEstablished reports whether the kind is established, in namespaces or for the cluster.
func (d *Definition) IsEstablished(namespaced bool) bool {
	return (d.Spec.Scope == "Namespaced") == namespaced && meta.IsStatusConditionTrue(d.Status.Conditions, "Established")
}

// Version is a version of a custom resource.
type Version struct {
	Name    string `json:"name"`
	Served  bool   `json:"served"`
	Storage bool   `json:"storage"`
}

// Read returns the definition of a resource, from the API server, and nil if there is none: the resource is no custom
// one, or its definition is gone.
func Read(ctx context.Context, client dynamic.Interface, of schema.GroupResource) (*Definition, error) {
	if of.Group == "" {
		return nil, nil
	}
	object, err := client.Resource(Definitions).Get(ctx, of.String(), metav1.GetOptions{})
	if controller.Absent(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading CustomResourceDefinition %s: %w", of, err)
	}
	d := &Definition{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, d); err != nil {
		return nil, fmt.Errorf("decoding CustomResourceDefinition %s: %w", of, err)
	}
	return d, nil
}
