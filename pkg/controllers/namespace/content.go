package namespace

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/tools/pager"

	"kcmd.dev/pkg/controller"
	kitpods "kcmd.dev/pkg/controllers/kit/pods"
	"kcmd.dev/pkg/controllers/kit/requests"
)

const (
	// finalizerEstimate is the estimated number of seconds that finalizers take.
	finalizerEstimate = 15

	// longestEstimate is the largest number of seconds that a duration holds. The API limits no grace period.
	longestEstimate = int64(math.MaxInt64 / time.Second)
)

// content is the items of one type in one namespace.
type content struct {
	client   metadata.ResourceInterface
	resource schema.GroupVersionResource
	// canList and canDeleteTogether are what the type supports according to discovery. The
	// server may still answer that it does not.
	canList, canDeleteTogether bool
	// served is set once a list, or the deletion of the collection, has shown that the type is served.
	served bool
	// unanswered is set once the deletion of the collection had no answer.
	unanswered bool
	// isDefined reports whether the definition of a custom type says that it is served.
	isDefined func(context.Context) (bool, error)
	// stillDeleted fails unless the namespace is still the one to sweep, and still being deleted.
	stillDeleted func(context.Context) error
}

// sweepType deletes the content of one type and evaluates what is left. Errors are returned
// unwrapped, because their text is written to a condition.
func (c *namespaceController) sweepType(ctx context.Context, ns *corev1.Namespace, of content) outcome {
	result := outcome{resource: of.resource}
	empty, estimate, err := c.inspect(ctx, ns, &of)
	if err != nil {
		result.err = err
		return result
	}
	if empty {
		return result
	}
	result.estimate = estimate
	result.err = of.deleteAll(ctx)
	if result.unanswered = of.unanswered; result.err != nil {
		return result
	}
	items, listed, err := of.list(ctx)
	if err != nil || !listed {
		result.err = err
		return result
	}
	return judge(ns.Name, of.resource, items, estimate)
}

// inspect reports, before anything is deleted, whether a type has content, and how many seconds
// pods may take to end.
func (c *namespaceController) inspect(
	ctx context.Context, ns *corev1.Namespace, of *content,
) (empty bool, estimate int64, err error) {
	if of.resource != pods {
		return of.isEmpty(ctx), 0, nil
	}
	running, err := c.listPods(ctx, ns.Name)
	if err != nil {
		return false, 0, err
	}
	of.served = true
	return len(running) == 0, graceOf(running, c.Clock.Since(ns.DeletionTimestamp.Time)), nil
}

func (c *namespaceController) listPods(ctx context.Context, namespace string) ([]*corev1.Pod, error) {
	list, _, err := pager.New(func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
		return c.Client.CoreV1().Pods(namespace).List(ctx, options)
	}).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	var all []*corev1.Pod
	err = meta.EachListItem(list, func(item runtime.Object) error {
		pod, ok := item.(*corev1.Pod)
		if !ok {
			return fmt.Errorf("listing pods: got a %T", item)
		}
		all = append(all, pod)
		return nil
	})
	return all, err
}

// graceOf is the number of seconds that the pods of a namespace may take to end: the
// longest grace period among those that have not, or zero once that much time has passed
// since the namespace was deleted. It is at most longestEstimate.
func graceOf(running []*corev1.Pod, sinceDeletion time.Duration) int64 {
	var longest int64
	for _, pod := range running {
		if kitpods.IsTerminal(pod) {
			continue
		}
		if grace := pod.Spec.TerminationGracePeriodSeconds; grace != nil {
			longest = max(longest, *grace)
		}
	}
	longest = min(longest, longestEstimate)
	if sinceDeletion >= time.Duration(longest)*time.Second {
		return 0
	}
	return longest
}

// judge evaluates the items that are left of a type. Items that neither a grace period nor a
// finalizer explains are an error.
func judge(namespace string, resource schema.GroupVersionResource, items []metav1.Object, estimate int64) outcome {
	result := outcome{resource: resource}
	if len(items) == 0 {
		return result
	}
	result.remaining, result.finalizers = len(items), map[string]int{}
	for _, item := range items {
		for _, finalizer := range item.GetFinalizers() {
			result.finalizers[finalizer]++
		}
	}
	switch {
	case estimate != 0:
		result.estimate = estimate
	case len(result.finalizers) > 0:
		result.estimate = finalizerEstimate
	default:
		result.err = fmt.Errorf("unexpected items still remain in namespace: %s for gvr: %v", namespace, resource)
	}
	return result
}

// isEmpty reports whether the type certainly has no content, which is true of most types and
// saves the rest of their sweep. An empty page that is not the last, as an aggregated server
// may return, is no proof. If the list fails, the sweep will fail with the relevant error.
func (c *content) isEmpty(ctx context.Context) bool {
	if !c.canList {
		return false
	}
	list, err := c.client.List(ctx, metav1.ListOptions{Limit: 1})
	if err != nil {
		return false
	}
	c.served = true
	return len(list.Items) == 0 && list.Continue == ""
}

// list returns every item; listed is false if the type cannot be listed. That is an error once the type was seen to be
// served: one server of several may not serve it, and the items are still there.
func (c *content) list(ctx context.Context) (items []metav1.Object, listed bool, err error) {
	if !c.canList {
		return nil, false, nil
	}
	list, _, err := pager.New(func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
		page, err := c.client.List(ctx, options)
		c.served = c.served || err == nil
		return page, err
	}).List(ctx, metav1.ListOptions{})
	if unsupported(err) && !c.served {
		return nil, false, c.doubted(ctx, err)
	}
	if err != nil {
		return nil, false, err
	}
	err = meta.EachListItem(list, func(item runtime.Object) error {
		object, err := meta.Accessor(item)
		if err != nil {
			return err
		}
		items = append(items, object)
		return nil
	})
	return items, err == nil, err
}

// doubted returns the error of a list if it is a page that says that there is no such type, and the definition of the
// type says that there is: the API server, or one of several, does not know it yet.
func (c *content) doubted(ctx context.Context, answer error) error {
	if !apierrors.IsNotFound(answer) || controller.Absent(answer) {
		return nil // the type is known, and has no list
	}
	defined, err := c.isDefined(ctx)
	if err == nil && defined {
		return answer
	}
	return err
}

// errRestored is the error of the deletion of content of a namespace that is not being deleted any more, as after
// the API server's data was restored from a backup.
var errRestored = errors.New("namespace is no longer being deleted")

// unsureError is why it is not known that content may be deleted.
type unsureError struct{ error }

func (e unsureError) Unwrap() error { return e.error }

// stillDeleted returns a function that reads the namespace live and fails unless its content may be deleted. Another
// client may finalize the namespace during a sweep and create it again: one that is gone may be recreated at any time.
func (c *namespaceController) stillDeleted(ns *corev1.Namespace) func(context.Context) error {
	return func(ctx context.Context) error {
		latest, err := c.read(ctx, ns.Name)
		switch {
		case err != nil:
			return unsureError{err}
		case latest == nil:
			return unsureError{fmt.Errorf("namespace %s is gone", ns.Name)}
		case latest.UID != ns.UID:
			return unsureError{errRecreated}
		case latest.DeletionTimestamp == nil:
			return unsureError{errRestored}
		}
		return nil
	}
}

// inBackground is set on every delete: a type may orphan dependents by default, which would add
// a finalizer to each item.
func inBackground() metav1.DeleteOptions {
	background := metav1.DeletePropagationBackground
	return metav1.DeleteOptions{PropagationPolicy: &background}
}

// deleteAll deletes every item, as a collection if that is supported, otherwise one by one. A
// type that supports neither is skipped.
//
// The request for a collection says nothing about the namespace, so the last thing before it is to look whether that
// is still the one to sweep. Single items are listed before, and deleted by UID: they are those of this namespace,
// even if it is recreated meanwhile.
func (c *content) deleteAll(ctx context.Context) error {
	if c.canDeleteTogether {
		if err := c.stillDeleted(ctx); err != nil {
			return err
		}
		err := c.client.DeleteCollection(ctx, inBackground(), metav1.ListOptions{})
		if !unsupported(err) {
			c.served = c.served || err == nil
			c.unanswered = err != nil && requests.MayHaveCreated(err)
			return err
		}
	}
	items, listed, err := c.list(ctx)
	if err != nil || !listed || len(items) == 0 {
		return err
	}
	if err := c.stillDeleted(ctx); err != nil {
		return err
	}
	for _, item := range items {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		options := inBackground()
		options.Preconditions = metav1.NewUIDPreconditions(string(item.GetUID()))
		if err := c.client.Delete(ctx, item.GetName(), options); err != nil && !unsupported(err) {
			return err
		}
	}
	return nil
}

// unsupported reports whether a server rejected a request because it does not support it. Some
// servers answer NotFound for a collection.
func unsupported(err error) bool {
	return apierrors.IsMethodNotSupported(err) || apierrors.IsNotFound(err)
}
