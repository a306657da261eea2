package statefulset

import (
	"cmp"
	"context"
	"errors"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"

	"kcmd.dev/pkg/controllers/kit/reconcile"
	"kcmd.dev/pkg/controllers/kit/slowstart"
)

// maxBatch is the largest number of pods of a parallel set that are processed at once, and that
// are created in one reconcile. Their events cause the reconciles that create the rest.
const maxBatch = 500

// task is the next action for one pod.
type task struct {
	// run performs it; nil if there is none.
	run func(ctx context.Context) error
	// last ends the reconcile of an ordered set after this task.
	last bool
}

// atOnce runs everything, no more than maxBatch at once, and returns the errors.
func atOnce(ctx context.Context, runs []func(context.Context) error) []error {
	run := func(ctx context.Context, i int) error { return runs[i](ctx) }
	var errs []error
	for first := 0; first < len(runs); first += maxBatch {
		errs = append(errs, slowstart.All(ctx, first, min(first+maxBatch, len(runs)), run)...)
	}
	return errs
}

// createAll creates missing pods in a slow start, and returns the errors. A pod whose claim is being deleted, or whose
// name another one has, does not end it: that says nothing about the others.
func createAll(ctx context.Context, missing []func(context.Context) error) []error {
	waiting := make([]error, len(missing))
	_, errs := slowstart.Do(ctx, len(missing), maxBatch, func(ctx context.Context, i int) error {
		err := missing[i](ctx)
		var going claimIsGoing
		if errors.As(err, &going) || apierrors.IsAlreadyExists(err) {
			waiting[i], err = err, nil
		}
		return err
	})
	return append(errs, present(waiting...)...)
}

// forEach runs the tasks of pods: those of an ordered set one by one, until one fails or is the
// last; those of a parallel set all, in a slow start. It returns true if none failed and, in an
// ordered set, none was the last.
func forEach(
	ctx context.Context, set *appsv1.StatefulSet, all []*corev1.Pod, next func(*corev1.Pod) task,
) (done bool, err error) {
	if isOrdered(set) {
		return inOrder(ctx, all, next)
	}
	var runs []func(context.Context) error
	for _, pod := range all {
		if t := next(pod); t.run != nil {
			runs = append(runs, t.run)
		}
	}
	_, errs := slowstart.Do(ctx, len(runs), maxBatch, func(ctx context.Context, i int) error { return runs[i](ctx) })
	return len(errs) == 0, joinFailures(errs)
}

// inOrder runs the tasks of pods one by one, until one fails or is the last. It returns true if none failed and none
// was the last.
func inOrder(ctx context.Context, all []*corev1.Pod, next func(*corev1.Pod) task) (done bool, err error) {
	for _, pod := range all {
		if ctx.Err() != nil {
			return false, context.Cause(ctx)
		}
		t := next(pod)
		if t.run != nil {
			if err := t.run(ctx); err != nil {
				return false, err
			}
		}
		if t.last {
			return false, nil
		}
	}
	return true, nil
}

// present returns the errors that are not nil.
func present(errs ...error) []error {
	return slices.DeleteFunc(errs, func(err error) bool { return err == nil })
}

// joinFailures returns an error that joins all failures; if all errors are expected, the first of them.
func joinFailures(errs []error) error {
	failures := slices.DeleteFunc(slices.Clone(errs), reconcile.IsExpected)
	switch len(failures) {
	case 0:
		return cmp.Or(errs...)
	case 1:
		return failures[0]
	}
	return utilerrors.NewAggregate(failures)
}
