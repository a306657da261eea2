package namespace

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/apimachinery/pkg/util/sets"

	"kcmd.dev/pkg/controller"
	"kcmd.dev/pkg/controller/concurrent"
)

// typesAtOnce is how many types of one namespace are swept concurrently.
const typesAtOnce = 5

var pods = corev1.SchemeGroupVersion.WithResource("pods")

// empty sweeps a namespace and reports on its conditions. It returns the namespace as it
// was last written and, without an error, the number of seconds that what remains is
// expected to take; zero means that nothing remains.
func (c *namespaceController) empty(ctx context.Context, ns *corev1.Namespace) (*corev1.Namespace, int64, error) {
	known, ok := c.memory.recall(ns)
	if !ok {
		known.seen = c.Clock.Now()
	}
	found := c.catalogue.since(ctx, known.seen)
	swept := c.sweep(ctx, ns, found.types, known.clean)
	c.memory.note(ns, swept)
	if swept.mayBeLate() {
		c.late.add(ns.UID, c.Clock.Now())
	}
	if swept.leavesPods() {
		c.awaitPods(ns)
	}

	ns = c.report(ctx, ns, findingsOf(found, swept))
	return ns, swept.estimate(), swept.failure(ns.Name, found)
}

// sweep deletes content in the order of rules 3 and 7 of the package comment.
func (c *namespaceController) sweep(
	ctx context.Context, ns *corev1.Namespace, found resourceTypes, clean sets.Set[schema.GroupVersionResource],
) sweep {
	var all sweep
	for _, stage := range stages(found, clean, c.podsFirst) {
		swept := c.sweepTypes(ctx, ns, found, stage)
		all = append(all, swept...)
		if !swept.allowsMore() {
			break
		}
	}
	return all
}

// stages returns the types to sweep in groups; a group is swept only if the previous ones allow
// it. Pods come first if podsFirst is set, then the types that are not known to be clean.
func stages(found resourceTypes, clean sets.Set[schema.GroupVersionResource], podsFirst bool) []stage {
	first, second, third := stage{podsFirst: true}, stage{}, stage{}
	for resource := range found {
		switch {
		case resource == pods && podsFirst:
			first.types = append(first.types, resource)
		case clean.Has(resource):
			third.types = append(third.types, resource)
		default:
			second.types = append(second.types, resource)
		}
	}
	return slices.DeleteFunc([]stage{first, second, third}, func(s stage) bool { return len(s.types) == 0 })
}

// stage is a group of types that are swept together.
type stage struct {
	types []schema.GroupVersionResource
	// podsFirst marks the stage of pods alone.
	podsFirst bool
}

func (c *namespaceController) sweepTypes(
	ctx context.Context, ns *corev1.Namespace, found resourceTypes, s stage,
) sweep {
	slices.SortFunc(s.types, func(a, b schema.GroupVersionResource) int { return cmp.Compare(a.String(), b.String()) })
	swept := make(sweep, len(s.types))
	stillDeleted := c.stillDeleted(ns)
	concurrent.Each(len(s.types), c.typesAtOnce, func(i int) {
		resource := s.types[i]
		// An error of one type does not keep the others from being swept.
		swept[i] = c.sweepType(ctx, ns, content{
			client:            c.Metadata.Resource(resource).Namespace(ns.Name),
			resource:          resource,
			canList:           found.supports(resource, "list"),
			canDeleteTogether: found.supports(resource, "deletecollection"),
			isDefined:         func(ctx context.Context) (bool, error) { return c.isServed(ctx, resource.GroupResource()) },
			stillDeleted:      stillDeleted,
		})
		swept[i].podsFirst = s.podsFirst
	})
	return swept
}

// sweep is the result of a sweep by type.
type sweep []outcome

// outcome is what remains of one type.
type outcome struct {
	resource schema.GroupVersionResource
	// podsFirst marks pods that were swept before everything else.
	podsFirst bool
	// estimate is the number of seconds until what remains is expected to be gone.
	estimate int64
	// remaining counts the items, finalizers those that carry each finalizer.
	remaining  int
	finalizers map[string]int
	// unanswered is set if the deletion of the collection had no answer.
	unanswered bool
	err        error
}

func (o outcome) clean() bool { return o.err == nil && o.remaining == 0 && o.estimate == 0 }

// allowsMore reports whether types of the next stage may be swept. Remaining pods of the first
// stage prevent that. An error about them does not, since it is no evidence of pods, unless the
// breaker has stopped their deletion, or it is not known whether anything may be deleted.
func (s sweep) allowsMore() bool {
	return !slices.ContainsFunc(s, func(o outcome) bool {
		if _, stopped := controller.StoppedIn(o.err); o.podsFirst {
			return o.remaining > 0 || stopped || errors.As(o.err, &unsureError{})
		}
		return !o.clean()
	})
}

func (s sweep) leavesPods() bool {
	return slices.ContainsFunc(s, func(o outcome) bool { return o.resource == pods && o.remaining > 0 })
}

// mayBeLate reports whether the deletion of a collection had no answer.
func (s sweep) mayBeLate() bool {
	return slices.ContainsFunc(s, func(o outcome) bool { return o.unanswered })
}

func (s sweep) estimate() int64 {
	var longest int64
	for _, o := range s {
		longest = max(longest, o.estimate)
	}
	return longest
}

// failure returns all errors, nil if there are none.
func (s sweep) failure(namespace string, found discovered) error {
	failures := []error{found.failed, found.unparsable}
	for _, o := range s {
		if o.err != nil && o.podsFirst {
			o.err = fmt.Errorf("failed to delete pods for namespace: %s, err: %w", namespace, o.err)
		}
		failures = append(failures, o.err)
	}
	return utilerrors.NewAggregate(failures)
}
