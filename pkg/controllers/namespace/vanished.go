package namespace

import (
	"context"
	"fmt"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"kcmd.dev/pkg/controllers/kit/reconcile"
)

// doubtTime is how long discovery is not believed that does not show a type which is said to be served.
const doubtTime = 5 * time.Minute

var definitions = schema.GroupVersionResource{
	Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions",
}

// shownTypes are the types that discovery has shown, and since when it shows them no more; zero while it does. They are
// handed over.
type shownTypes map[schema.GroupResource]time.Time

// note takes the types of a discovery, and returns an error if one is missing that is served.
func (s shownTypes) note(
	found resourceTypes, now time.Time, isServed func(schema.GroupResource) (bool, error),
) error {
	shown := map[schema.GroupResource]bool{}
	for resource := range found {
		shown[resource.GroupResource()] = true
		s[resource.GroupResource()] = time.Time{}
	}
	for of, since := range s {
		if !shown[of] && since.IsZero() {
			s[of] = now
		}
	}
	for of, since := range s {
		if shown[of] {
			continue
		}
		if now.Sub(since) < doubtTime {
			served, err := isServed(of)
			switch {
			case err != nil:
				return err
			case served:
				return fmt.Errorf("discovery does not show %s, which its CustomResourceDefinition says is served", of)
			}
		}
		delete(s, of)
	}
	return nil
}

// definition is what is read of a CustomResourceDefinition.
type definition struct {
	Spec struct {
		Scope    string              `json:"scope"`
		Versions []definitionVersion `json:"versions"`
	} `json:"spec"`
	Status struct {
		Conditions []metav1.Condition `json:"conditions"`
	} `json:"status"`
}

type definitionVersion struct {
	Served bool `json:"served"`
}

// isServed reports whether the definition of a custom type says that the API server serves it in namespaces. Of any
// other type that discovery does not show nothing more can be known.
func (c *namespaceController) isServed(ctx context.Context, of schema.GroupResource) (bool, error) {
	if of.Group == "" {
		return false, nil
	}
	object, err := c.Dynamic.Resource(definitions).Get(ctx, of.String(), metav1.GetOptions{})
	if reconcile.Absent(err) || apierrors.IsForbidden(err) {
		return false, nil
	}
	var d definition
	if err == nil {
		err = runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, &d)
	}
	if err != nil {
		return false, fmt.Errorf("reading CustomResourceDefinition %s, which discovery does not show: %w", of, err)
	}
	anyServed := slices.ContainsFunc(d.Spec.Versions, func(v definitionVersion) bool { return v.Served })
	return d.Spec.Scope == "Namespaced" && anyServed && meta.IsStatusConditionTrue(d.Status.Conditions, "Established"), nil
}
