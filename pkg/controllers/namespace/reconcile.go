package namespace

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"

	"kcmd.dev/pkg/controller"
	"kcmd.dev/pkg/controllers/kit/reconcile"
)

func (c *namespaceController) reconcile(ctx context.Context, name string) error {
	_, found, err := reconcile.Found(c.namespaces.Get(name))
	if err != nil {
		return err
	}
	if !found {
		c.memory.forget(name)
		return nil
	}
	ns, err := c.read(ctx, name)
	if err != nil || ns == nil || ns.DeletionTimestamp == nil {
		return err
	}
	ns, err = c.markTerminating(ctx, ns)
	if err != nil || ns == nil || ns.DeletionTimestamp == nil || len(ns.Spec.Finalizers) == 0 {
		return err
	}
	if rest := c.unsettled(ns); rest > 0 {
		c.queue.AddAfter(name, rest)
		return nil
	}
	ns, estimate, err := c.empty(ctx, ns)
	if err != nil {
		return err
	}
	if estimate > 0 {
		c.repeat(ctx, name, estimate)
		return nil
	}
	if rest := c.late.rest(ns.UID, c.Clock.Now()); rest > 0 {
		c.awaitLate(ctx, name, rest)
		return nil
	}
	return c.finalize(ctx, ns)
}

// unsettled returns how long a namespace is still to wait before it is swept. Its key may have been queued for the one
// that had the name before, which the cache may still show.
func (c *namespaceController) unsettled(ns *corev1.Namespace) time.Duration {
	now := c.Clock.Now()
	known, found := c.memory.recall(ns)
	if !found {
		c.memory.observe(ns, now)
		return settleTime
	}
	return min(settleTime, settleTime-now.Sub(known.seen)) // a clock that was set back does not make it longer
}

// read reads a namespace live. It returns nil if there is none.
func (c *namespaceController) read(ctx context.Context, name string) (*corev1.Namespace, error) {
	ns, err := c.Client.CoreV1().Namespaces().Get(ctx, name, metav1.GetOptions{})
	if controller.Absent(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading namespace %s: %w", name, err)
	}
	return ns, nil
}

// repeat enqueues a namespace for when its content is expected to be gone. That is neither a
// failure nor a success: its past failures are kept.
func (c *namespaceController) repeat(ctx context.Context, name string, estimate int64) {
	pause := repeatAfter(estimate)
	klog.FromContext(ctx).V(4).Info("Content remains in the namespace", "namespace", name, "recheckAfter", pause)
	c.backoff.keep(name)
	c.queue.AddAfter(name, pause)
}

// awaitLate has a namespace without content swept again, and finalized, once the deletion of a collection that had no
// answer cannot be executed any more: it would delete what is in the next namespace of that name. Like repeat, that is
// neither a failure nor a success.
func (c *namespaceController) awaitLate(ctx context.Context, name string, rest time.Duration) {
	klog.FromContext(ctx).V(2).Info("The deletion of content had no answer, and may still be executed",
		"namespace", name, "finalizedAfter", rest)
	c.backoff.keep(name)
	c.queue.AddAfter(name, rest)
}

// repeatAfter returns the delay before a namespace is swept again whose content takes an
// estimated number of seconds to disappear, of which there are at most longestEstimate.
func repeatAfter(estimate int64) time.Duration {
	return time.Duration(estimate/2+1) * time.Second
}
