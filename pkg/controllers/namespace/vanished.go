package namespace

import (
	"context"
	"fmt"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"kcmd.dev/pkg/controllers/kit/customresources"
)

// doubtTime is how long discovery is not believed that does not show a type which is said to be served.
const doubtTime = 5 * time.Minute

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

// isServed reports whether the definition of a custom type says that the API server serves it in namespaces. Of any
// other type that discovery does not show nothing more can be known.
func (c *namespaceController) isServed(ctx context.Context, of schema.GroupResource) (bool, error) {
	d, err := customresources.Read(ctx, c.Dynamic, of)
	if apierrors.IsForbidden(err) {
		return false, nil
	}
	if err != nil || d == nil {
		return false, err
	}
	return d.IsEstablished(true) && slices.ContainsFunc(d.Spec.Versions, func(v customresources.Version) bool { return v.Served }), nil
}
