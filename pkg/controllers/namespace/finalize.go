package namespace

import (
	"context"
	"errors"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kcmd.dev/pkg/controllers/kit/reconcile"
)

var errRecreated = errors.New("namespace uid has changed across retries")

// markTerminating sets the phase. It returns the updated namespace, nil if it no longer exists.
func (c *namespaceController) markTerminating(ctx context.Context, ns *corev1.Namespace) (*corev1.Namespace, error) {
	return c.update(ctx, ns, func(ns *corev1.Namespace) (*corev1.Namespace, error) {
		if ns.DeletionTimestamp == nil || ns.Status.Phase == corev1.NamespaceTerminating {
			return ns, nil
		}
		ns = ns.DeepCopy()
		ns.Status.Phase = corev1.NamespaceTerminating
		return c.Client.CoreV1().Namespaces().UpdateStatus(ctx, ns, metav1.UpdateOptions{})
	})
}

// finalize removes our finalizer from a namespace, which is deleted when it has no other one. A namespace that is not
// being deleted any more keeps it: without it, a later deletion would leave the content behind.
func (c *namespaceController) finalize(ctx context.Context, ns *corev1.Namespace) error {
	_, err := c.update(ctx, ns, func(ns *corev1.Namespace) (*corev1.Namespace, error) {
		rest := withoutOurs(ns.Spec.Finalizers)
		if ns.DeletionTimestamp == nil || slices.Equal(rest, ns.Spec.Finalizers) {
			return ns, nil
		}
		finalized := &corev1.Namespace{ObjectMeta: ns.ObjectMeta, Spec: ns.Spec}
		finalized.Spec.Finalizers = rest
		return c.Client.CoreV1().Namespaces().Finalize(ctx, finalized, metav1.UpdateOptions{})
	})
	return err
}

// withoutOurs returns the finalizers without ours, sorted, without duplicates and never nil.
func withoutOurs(finalizers []corev1.FinalizerName) []corev1.FinalizerName {
	rest := []corev1.FinalizerName{}
	for _, finalizer := range finalizers {
		if finalizer != corev1.FinalizerKubernetes {
			rest = append(rest, finalizer)
		}
	}
	slices.Sort(rest)
	return slices.Compact(rest)
}

// maxConflicts is how often in a row a write is repeated on the live namespace after a conflict.
const maxConflicts = 10

// update applies a write to a namespace, and on a conflict to the live one until it succeeds. It returns nil if the
// namespace no longer exists, and an error if it was recreated. Too many conflicts in a row are an error as well: an
// admission webhook may answer so, whatever is sent.
func (c *namespaceController) update(
	ctx context.Context, ns *corev1.Namespace, write func(*corev1.Namespace) (*corev1.Namespace, error),
) (*corev1.Namespace, error) {
	for conflicts := 0; ctx.Err() == nil; conflicts++ {
		written, err := write(ns)
		if err == nil {
			return written, nil
		}
		if apierrors.IsNotFound(err) {
			// An admission webhook may give this answer although the namespace exists.
			c.queue.AddAfter(ns.Name, reconcile.RecheckAfter)
			return nil, nil
		}
		if !apierrors.IsConflict(err) || conflicts == maxConflicts {
			return nil, fmt.Errorf("updating namespace %s: %w", ns.Name, err)
		}
		latest, err := c.read(ctx, ns.Name)
		if err != nil || latest == nil {
			return nil, err
		}
		if latest.UID != ns.UID {
			return nil, errRecreated
		}
		ns = latest
	}
	return nil, context.Cause(ctx)
}
