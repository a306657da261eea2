package job

import (
	"cmp"
	"context"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"

	"kcmd.dev/pkg/controllers/kit/pods"
	"kcmd.dev/pkg/controllers/kit/reconcile"
	"kcmd.dev/pkg/controllers/kit/slowstart"
)

// manage removes or creates pods as planned and updates the counts.
func (c *jobController) manage(ctx context.Context, o *observation) (action string, err error) {
	p := o.plan()
	logger := klog.FromContext(ctx)
	switch {
	case p.wait > 0:
		o.wakeUp(p.wait)
		logger.V(2).Info("Backing off before failed pods are replaced", "job", klog.KObj(o.job), "wait", p.wait)
	case len(p.remove) > 0:
		logger.V(2).Info("Removing pods", "job", klog.KObj(o.job), "pods", len(p.remove))
		err = c.remove(ctx, o, p.remove)
	case p.create > 0:
		logger.V(2).Info("Creating pods", "job", klog.KObj(o.job), "pods", p.create)
		err = c.create(ctx, o, p)
	}
	return p.action, err
}

// endPods deletes the active pods of a Job that ends. They keep their finalizer until they are
// accounted for. It reports whether no active pod is left.
func (c *jobController) endPods(ctx context.Context, o *observation) (all bool, err error) {
	errs := inBursts(ctx, len(o.active), func(ctx context.Context, i int) error {
		err := c.podControl.Delete(ctx, o.job, o.active[i])
		if reconcile.Absent(err) {
			return nil
		}
		return err
	})
	o.ready -= countReady(o.active)
	return o.deleted(errs), worst(errs)
}

// remove deletes active pods without counting them, by removing the finalizer first.
func (c *jobController) remove(ctx context.Context, o *observation, victims []*corev1.Pod) error {
	for _, pod := range victims {
		c.owners.Writes.Deleting(o.job, pods.Resource, pod)
	}
	c.removals.add(o.key, victims)
	released := make([]bool, len(victims))
	results := inBursts(ctx, len(victims), func(ctx context.Context, i int) (err error) {
		released[i], err = c.giveUp(ctx, o, victims[i])
		return err
	})
	gone := map[*corev1.Pod]bool{}
	for i, err := range results {
		if released[i] && pods.IsReady(victims[i]) {
			o.ready-- // it is deleted, even if it continues to run for a while
		}
		if err != nil {
			if released[i] {
				c.podControl.DeleteFailed(o.job, victims[i], err)
			} else { // nothing was deleted yet
				c.removals.failed(o.key, victims[i])
				c.owners.Writes.DeleteFailed(o.job, pods.Resource, victims[i])
			}
			continue
		}
		gone[victims[i]] = true
		o.removed.Insert(victims[i].UID)
	}
	o.drop(func(pod *corev1.Pod) bool { return gone[pod] })
	return worst(results)
}

// worst returns the first failure; if there are only conflicts and the like, which are none, the first of them.
func worst(errs []error) error {
	failures := slices.DeleteFunc(slices.Clone(errs), reconcile.IsExpected)
	return cmp.Or(cmp.Or(failures...), cmp.Or(errs...))
}

// giveUp removes the finalizer of a pod and deletes it. It reports whether the finalizer was
// removed.
func (c *jobController) giveUp(ctx context.Context, o *observation, pod *corev1.Pod) (released bool, err error) {
	if isTracked(pod) {
		if err := c.removeFinalizer(ctx, o, pod); err != nil {
			return false, err
		}
	}
	err = c.podControl.Delete(ctx, o.job, pod)
	if reconcile.Absent(err) {
		err = nil
	}
	return true, err
}

// deleted moves the deleted active pods to the terminating ones, and reports whether all were
// deleted.
func (o *observation) deleted(errs []error) bool {
	gone := map[*corev1.Pod]bool{}
	for i, err := range errs {
		gone[o.active[i]] = err == nil
	}
	o.drop(func(pod *corev1.Pod) bool { return gone[pod] })
	return len(o.active) == 0
}

// drop moves active pods to the terminating ones.
func (o *observation) drop(gone func(*corev1.Pod) bool) {
	var left []*corev1.Pod
	for _, pod := range o.active {
		if gone(pod) {
			o.terminating++
		} else {
			left = append(left, pod)
		}
	}
	o.active = left
}

func countReady(all []*corev1.Pod) int32 {
	n := int32(0)
	for _, pod := range all {
		if pods.IsReady(pod) {
			n++
		}
	}
	return n
}

// create creates pods in a slow start.
func (c *jobController) create(ctx context.Context, o *observation, p plan) error {
	base := o.template()
	ref := metav1.NewControllerRef(o.job, jobKind)
	reason := creationReason(o)
	errs := c.podControl.CreateEach(ctx, o.job, p.create, func(ctx context.Context, n int) (*metav1.ObjectMeta, error) {
		template, prefix := base, pods.NamePrefix(o.job.Name)
		if p.indexes != nil {
			template, prefix = o.indexTemplate(base, p.indexes[n]), indexPrefix(o.job.Name, p.indexes[n])
		}
		pod, err := c.podControl.CreateNamed(ctx, o.job, template, ref, prefix)
		c.metrics.podCreated(reason, err)
		if err == nil {
			o.created.Add(1)
		}
		return pod, err
	})
	return cmp.Or(pods.Failures(errs)...)
}

// inBursts calls do concurrently with the numbers below n, in bursts, and returns the errors in
// order. No burst starts after the context has ended.
func inBursts(ctx context.Context, n int, do func(ctx context.Context, i int) error) []error {
	results := make([]error, n)
	for begin := 0; begin < n; begin += burst {
		end := min(begin+burst, n)
		if ctx.Err() != nil {
			for i := begin; i < n; i++ {
				results[i] = context.Cause(ctx)
			}
			break
		}
		slowstart.All(ctx, begin, end, func(ctx context.Context, i int) error {
			results[i] = do(ctx, i)
			return results[i]
		})
	}
	return results
}
