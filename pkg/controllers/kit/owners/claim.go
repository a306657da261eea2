package owners

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"

	"kcmd.dev/pkg/controller"
)

// Claimer claims objects for one owner.
type Claimer[T metav1.Object] struct {
	// Owner is the owner as cached.
	Owner metav1.Object
	// OwnerKind is the kind of the owner, as written to owner references.
	OwnerKind schema.GroupVersionKind
	// Kind is the kind of the candidates, as named in errors.
	Kind string
	// Selector selects the objects that the owner wants.
	Selector labels.Selector
	// Filters must all hold for an object that the selector matches. Default: none.
	Filters []func(T) bool
	// Finalizers are added by adoption and removed by release. Default: none.
	Finalizers []string
	// CanAdopt is called once before the first adoption of a pass; see Owners.CanAdopt.
	CanAdopt func(ctx context.Context) error
	// Patch sends a strategic merge patch for an object. Errors are those of the API.
	Patch func(ctx context.Context, obj T, patch []byte) error
}

// Claim adopts and releases candidates as needed and returns those that the owner controls.
// Adopted objects are returned as they were passed in. If the error is not nil, the result is
// incomplete. If there were only conflicts, which are no failures, it is a reason to requeue the
// owner.
func (c Claimer[T]) Claim(ctx context.Context, candidates []T) ([]T, error) {
	claimed := make([]T, 0, len(candidates))
	canAdopt := once(c.CanAdopt)
	var errs []error
	for _, candidate := range candidates {
		switch decide(c.Owner, candidate, func() bool { return c.matches(candidate) }) {
		case keep:
			claimed = append(claimed, candidate)
		case adopt:
			ok, err := c.adopt(ctx, candidate, canAdopt)
			if err != nil {
				errs = append(errs, err)
			}
			if ok {
				claimed = append(claimed, candidate)
			}
		case release:
			if err := c.release(ctx, candidate); err != nil {
				errs = append(errs, err)
			}
		}
	}
	return claimed, utilerrors.NewAggregate(errs)
}

func (c Claimer[T]) matches(obj T) bool {
	if !c.Selector.Matches(labels.Set(obj.GetLabels())) {
		return false
	}
	for _, pass := range c.Filters {
		if !pass(obj) {
			return false
		}
	}
	return true
}

func (c Claimer[T]) adopt(ctx context.Context, obj T, canAdopt func(context.Context) error) (bool, error) {
	if err := canAdopt(ctx); err != nil {
		return false, fmt.Errorf("can't adopt %s %s/%s (%s): %w",
			c.Kind, obj.GetNamespace(), obj.GetName(), obj.GetUID(), err)
	}
	patch, err := AdoptPatch(obj.GetUID(), *metav1.NewControllerRef(c.Owner, c.OwnerKind), c.Finalizers...)
	if err != nil {
		return false, err
	}
	if err := c.Patch(ctx, obj, patch); err != nil {
		if controller.Absent(err) {
			return false, nil
		}
		return false, err
	}
	return true, nil
}

func (c Claimer[T]) release(ctx context.Context, obj T) error {
	patch, err := releasePatch(obj.GetUID(), c.Owner.GetUID(), c.Finalizers...)
	if err != nil {
		return err
	}
	err = c.Patch(ctx, obj, patch)
	// Invalid means that the object has no owner references, or that it was recreated with
	// another UID. In both cases the owner does not control it.
	if controller.Absent(err) || apierrors.IsInvalid(err) {
		return nil
	}
	return err
}

// once returns a function that calls check the first time and then returns the same result.
func once(check func(context.Context) error) func(context.Context) error {
	var checked bool
	var result error
	return func(ctx context.Context) error {
		if !checked {
			checked, result = true, check(ctx)
		}
		return result
	}
}

// recheck returns the guard for Claimer.CanAdopt: it reads the owner live and fails
// unless it is the same object and not being deleted.
func recheck[T metav1.Object](
	owner metav1.Object, kind string, get func(ctx context.Context) (T, error),
) func(context.Context) error {
	return func(ctx context.Context) error {
		fresh, err := get(ctx)
		if err != nil {
			return fmt.Errorf("can't recheck DeletionTimestamp: %w", err)
		}
		if fresh.GetUID() != owner.GetUID() {
			return fmt.Errorf("original %s %s/%s is gone: got uid %s, wanted %s",
				kind, owner.GetNamespace(), owner.GetName(), fresh.GetUID(), owner.GetUID())
		}
		if deleted := fresh.GetDeletionTimestamp(); deleted != nil {
			return fmt.Errorf("%s/%s has just been deleted at %v", owner.GetNamespace(), owner.GetName(), deleted)
		}
		return nil
	}
}
