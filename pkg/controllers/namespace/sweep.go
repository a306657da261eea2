package namespace

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/apimachinery/pkg/util/sets"

	"kcmd.dev/pkg/controllers/kit/concurrent"
)

// typesAtOnce is the number of types of one namespace swept at the same time.
const typesAtOnce = 5

var pods = corev1.SchemeGroupVersion.WithResource("pods")

// empty sweeps a namespace and reports on its conditions. It returns the namespace as it
// was last written and, without an error, the number of seconds that what remains is
// expected to take; zero means that nothing remains.
func (c *namespaceController) empty(ctx context.Context, ns *corev1.Namespace) (*corev1.Namespace, int64, error) {
	known, ok := c.memory.recall(ns)
	if !ok {
		known.seen = c.clock.Now()
	}
	found := c.catalogue.since(known.seen)
	swept := c.sweep(ctx, ns, found.types, known.unclean)
	c.memory.note(ns, swept.unclean())

	ns = c.report(ctx, ns, findingsOf(found, swept))
	return ns, swept.estimate(), swept.failure(ns.Name, found)
}

// sweep deletes content in the order of rules 3 and 6 of the package comment.
func (c *namespaceController) sweep(ctx context.Context, ns *corev1.Namespace, found resourceTypes, unclean sets.Set[schema.GroupVersionResource]) sweep {
	var all sweep
	for _, stage := range stages(found, unclean) {
		swept := c.sweepTypes(ctx, ns, found, stage)
		all = append(all, swept...)
		if !swept.clean() {
			break
		}
	}
	return all
}

// stages are the types to sweep, in groups: each group is reached only if those before it
// are clean. Pods come first, then what the last sweep left unclean.
func stages(found resourceTypes, unclean sets.Set[schema.GroupVersionResource]) [][]schema.GroupVersionResource {
	var first, second, third []schema.GroupVersionResource
	for resource := range found {
		switch {
		case resource == pods:
			first = append(first, resource)
		case unclean.Has(resource):
			second = append(second, resource)
		default:
			third = append(third, resource)
		}
	}
	return slices.DeleteFunc([][]schema.GroupVersionResource{first, second, third}, func(s []schema.GroupVersionResource) bool {
		return len(s) == 0
	})
}

func (c *namespaceController) sweepTypes(ctx context.Context, ns *corev1.Namespace, found resourceTypes, stage []schema.GroupVersionResource) sweep {
	slices.SortFunc(stage, func(a, b schema.GroupVersionResource) int { return cmp.Compare(a.String(), b.String()) })
	swept := make(sweep, len(stage))
	concurrent.Each(len(stage), typesAtOnce, func(i int) {
		resource := stage[i]
		// An error of one type does not keep the others from being swept.
		swept[i] = c.sweepType(ctx, ns, content{
			client:            c.metadata.Resource(resource).Namespace(ns.Name),
			resource:          resource,
			canList:           found.supports(resource, "list"),
			canDeleteTogether: found.supports(resource, "deletecollection"),
		})
	})
	return swept
}

// sweep is what was found and done, type by type.
type sweep []outcome

// outcome is what was left of one type.
type outcome struct {
	resource schema.GroupVersionResource
	// estimate is the number of seconds until what remains is expected to be gone.
	estimate int64
	// remaining counts the items, finalizers those that carry each finalizer.
	remaining  int
	finalizers map[string]int
	err        error
}

func (o outcome) clean() bool { return o.err == nil && o.remaining == 0 && o.estimate == 0 }

func (s sweep) clean() bool {
	return !slices.ContainsFunc(s, func(o outcome) bool { return !o.clean() })
}

func (s sweep) unclean() sets.Set[schema.GroupVersionResource] {
	unclean := sets.New[schema.GroupVersionResource]()
	for _, o := range s {
		if !o.clean() {
			unclean.Insert(o.resource)
		}
	}
	return unclean
}

func (s sweep) estimate() int64 {
	var longest int64
	for _, o := range s {
		longest = max(longest, o.estimate)
	}
	return longest
}

// failure is every error met, nil if there was none.
func (s sweep) failure(namespace string, found discovered) error {
	failures := []error{found.failed, found.unparsable}
	for _, o := range s {
		if o.err != nil && o.resource == pods {
			o.err = fmt.Errorf("failed to delete pods for namespace: %s, err: %w", namespace, o.err)
		}
		failures = append(failures, o.err)
	}
	return utilerrors.NewAggregate(failures)
}
