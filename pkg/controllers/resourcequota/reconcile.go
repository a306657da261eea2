package resourcequota

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"kcmd.dev/pkg/controllers/kit/index"
	"kcmd.dev/pkg/controllers/kit/reconcile"
	"kcmd.dev/pkg/controllers/kit/writes"
)

// errInProgress is why a key has to wait: a worker of the other queue is processing it.
var errInProgress = errors.New("the quota is being reconciled already")

// reconcile brings the status of a quota up to date.
func (c *quotaController) reconcile(ctx context.Context, key types.NamespacedName) error {
	if _, busy := c.inProgress.LoadOrStore(key, true); busy {
		return reconcile.Requeue(errInProgress)
	}
	defer c.inProgress.Delete(key)
	cached, found, err := reconcile.Found(c.quotas.ResourceQuotas(key.Namespace).Get(key.Name))
	if !found {
		if err == nil {
			c.forget(key)
		}
		return err
	}
	quota := c.written.Newest(cached, cached)
	delay := c.memory.StatusDelayIn(quota, windowOf(quota))
	if delay > 0 && !lacksUsage(quota, c.evaluators.know) {
		c.primary.AddAfter(key, delay)
		return nil
	}
	c.recountLater(key)
	status, failed := c.statusOf(quota)
	switch {
	case same(status.Hard, quota.Status.Hard) && same(status.Used, quota.Status.Used):
		return failed
	case delay > 0 && !completes(quota.Status, status):
		c.primary.AddAfter(key, delay)
		return failed
	}
	c.scheduleRecount(key) // whatever the answer: a write that fails may have been executed
	err = c.write(ctx, quota, status)
	if !apierrors.IsConflict(err) {
		return errors.Join(err, failed)
	}
	return errors.Join(c.catchUp(ctx, quota, err), failed) // the API server has admitted something
}

// completes reports whether a status has other limits than before, or usage that was missing.
func completes(was, is corev1.ResourceQuotaStatus) bool {
	if !same(was.Hard, is.Hard) {
		return true
	}
	for name := range is.Used {
		if _, ok := was.Used[name]; !ok {
			return true
		}
	}
	return false
}

// catchUp makes the next attempt start from a live read if this was the second conflict at one version: the cache is
// behind, and may stay so. It returns the conflict.
func (c *quotaController) catchUp(ctx context.Context, quota *corev1.ResourceQuota, conflict error) error {
	key := reconcile.KeyOf(quota)
	if was, _ := c.conflicts.Swap(key, quota.ResourceVersion); was != quota.ResourceVersion {
		return conflict
	}
	c.conflicts.Delete(key)
	// The controller may list quotas, but not get one.
	live, err := c.Client.CoreV1().ResourceQuotas(quota.Namespace).List(ctx, metav1.ListOptions{
		FieldSelector: fields.OneTermEqualSelector(metav1.ObjectNameField, quota.Name).String(),
	})
	if err != nil {
		return errors.Join(conflict, fmt.Errorf("reading resourcequota %s: %w", key, err))
	}
	for i := range live.Items {
		if live.Items[i].UID == quota.UID {
			c.written.Wrote(quota, &live.Items[i])
		}
	}
	return conflict
}

// recountAfter is when usage that was written is computed again. An object that the API server had admitted, and
// charged, may not have been cached when the usage was computed, so that the write took the charge back; and the API
// server may not have known new limits yet. No event corrects that: the creation of the object queues nothing, nor does
// a charge that is cached after its object has gone.
const recountAfter = 5 * time.Second

// scheduleRecount schedules another computation of the usage of a quota.
func (c *quotaController) scheduleRecount(key types.NamespacedName) {
	c.recounts.Store(key, c.Clock.Now().Add(recountAfter))
	c.recountLater(key)
}

// recountLater queues a quota for the time of its recount, unless that has passed. Each reconcile calls it: a queue
// keeps only the shortest delay of a key.
func (c *quotaController) recountLater(key types.NamespacedName) {
	at, ok := c.recounts.Load(key)
	if !ok {
		return
	}
	if delay := at.(time.Time).Sub(c.Clock.Now()); delay > 0 {
		c.primary.AddAfter(key, delay)
		return
	}
	c.recounts.CompareAndDelete(key, at) // something may have been released meanwhile
}

// roomyWindow is the time between two writes of a quota that has room: deletions only make more of it, and nobody
// waits for that.
const roomyWindow = 500 * time.Millisecond

// windowOf returns the time between two writes of a quota. One that is more than half used may have refused
// an object that has room after the next deletion.
func windowOf(quota *corev1.ResourceQuota) time.Duration {
	for name, hard := range quota.Status.Hard {
		used := quota.Status.Used[name].DeepCopy() // a large quantity is a pointer into the cache
		used.Add(used)
		if used.Cmp(hard) > 0 {
			return writes.Window
		}
	}
	return roomyWindow
}

// statusOf returns the status that a quota is to have. If the usage of something cannot be
// computed, the status still has what is known.
func (c *quotaController) statusOf(quota *corev1.ResourceQuota) (corev1.ResourceQuotaStatus, error) {
	hard := quota.Spec.Hard.DeepCopy()
	names := slices.Sorted(maps.Keys(hard))
	computed, err := c.evaluators.usage(quota.Namespace, names, selectedBy(quota.Spec))
	if err != nil {
		err = fmt.Errorf("computing the usage of resourcequota %s/%s: %w", quota.Namespace, quota.Name, err)
	}
	return corev1.ResourceQuotaStatus{Hard: hard, Used: merge(hard, quota.Status.Used, computed)}, err
}

// merge returns the usage of what is limited: as computed, as it was if it could not be computed,
// and nothing if it never was.
func merge(hard, was, computed corev1.ResourceList) corev1.ResourceList {
	used := corev1.ResourceList{}
	for name := range hard {
		quantity, ok := computed[name]
		if !ok {
			quantity, ok = was[name]
		}
		if ok {
			used[name] = quantity.DeepCopy()
		}
	}
	return used
}

// write replaces the status of a quota, on condition that the quota has not changed.
func (c *quotaController) write(
	ctx context.Context, quota *corev1.ResourceQuota, status corev1.ResourceQuotaStatus,
) error {
	updated := quota.DeepCopy()
	updated.Status = status
	written, err := c.Client.CoreV1().ResourceQuotas(quota.Namespace).UpdateStatus(ctx, updated, metav1.UpdateOptions{})
	if err != nil {
		c.memory.Answered(quota, err)
		return fmt.Errorf("updating the status of resourcequota %s/%s: %w", quota.Namespace, quota.Name, err)
	}
	c.conflicts.Delete(reconcile.KeyOf(quota))
	c.written.Wrote(quota, written)
	c.memory.WroteStatus(quota, written.ResourceVersion)
	return nil
}

// forget drops what was remembered of a deleted quota, and of its namespace if that was the last.
func (c *quotaController) forget(key types.NamespacedName) {
	c.memory.ForgetAll(key)
	c.recounts.Delete(key)
	c.conflicts.Delete(key)
	if len(c.quotasOf(key.Namespace)) > 0 {
		return
	}
	c.evaluators.forget(key.Namespace)
	// A quota that was created meanwhile may have been reconciled. Without accounts no change
	// would queue it.
	for _, quota := range c.quotasOf(key.Namespace) {
		c.primary.Add(reconcile.KeyOf(quota))
	}
}

// replenish queues the quotas that limit what has changed.
func (c *quotaController) replenish(_ context.Context, changed change) error {
	evaluator := c.evaluators.of(changed.resource)
	if evaluator == nil {
		return nil
	}
	for _, quota := range c.quotasOf(changed.namespace) {
		if limitsAny(evaluator, c.written.Newest(quota, quota).Status.Hard) {
			key := reconcile.KeyOf(quota)
			c.recounts.Store(key, c.Clock.Now().Add(recountAfter))
			c.primary.Add(key)
		}
	}
	return nil
}

func limitsAny(e evaluator, hard corev1.ResourceList) bool {
	for name := range hard {
		if e.limitedBy(name) {
			return true
		}
	}
	return false
}

// reconcileLimiting queues the quotas that limit a resource whose monitor is new.
func (c *quotaController) reconcileLimiting(added []*monitor) {
	for _, quota := range c.allQuotas() {
		for _, m := range added {
			if e := c.evaluators.of(m.resource.GroupResource()); e != nil && limitsAny(e, quota.Spec.Hard) {
				c.classify(reconcile.Fresh, quota)
				break
			}
		}
	}
}

// recalculate queues all quotas.
func (c *quotaController) recalculate(context.Context, context.Context) {
	for _, quota := range c.allQuotas() {
		c.primary.Enqueue(reconcile.Backlog, reconcile.KeyOf(quota))
	}
}

func (c *quotaController) allQuotas() []*corev1.ResourceQuota {
	all, err := c.quotas.List(labels.Everything())
	if err != nil {
		klog.Background().Error(err, "Listing cached quotas failed")
	}
	return all
}

// quotasOf returns the cached quotas of a namespace.
func (c *quotaController) quotasOf(namespace string) []*corev1.ResourceQuota {
	all, err := index.Append[*corev1.ResourceQuota](nil, c.indexer, cache.NamespaceIndex, namespace)
	if err != nil {
		klog.Background().Error(err, "Looking up cached quotas failed", "namespace", namespace)
	}
	return all
}
