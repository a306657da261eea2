package job

import (
	"context"
	"slices"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"

	"kcmd.dev/pkg/controller"
	"kcmd.dev/pkg/controllers/kit/pods"
	"kcmd.dev/pkg/controllers/kit/reconcile"
	"kcmd.dev/pkg/controllers/kit/slowstart"
)

// manage removes or creates pods as planned and updates the counts.
func (c *jobController) manage(ctx context.Context, r *reconciliation) (action string, err error) {
	p := r.plan()
	logger := klog.FromContext(ctx)
	switch {
	case p.wait > 0:
		r.wakeUp(p.wait)
		logger.V(2).Info("Backing off before failed pods are replaced", "job", klog.KObj(r.job), "wait", p.wait)
	case len(p.remove) > 0:
		logger.V(2).Info("Removing pods", "job", klog.KObj(r.job), "pods", len(p.remove))
		err = c.remove(ctx, r, p.remove)
	case p.create > 0:
		logger.V(2).Info("Creating pods", "job", klog.KObj(r.job), "pods", p.create)
		err = c.create(ctx, r, p)
	}
	return p.action, err
}

// endPods deletes the active pods of a Job that ends. They keep their finalizer until they are
// accounted for. It reports whether no active pod is left.
func (c *jobController) endPods(ctx context.Context, r *reconciliation) (all bool, err error) {
	errs := inBursts(ctx, len(r.active), func(ctx context.Context, i int) error {
		err := c.podControl.Untracked.Delete(ctx, r.job, r.active[i])
		if controller.Absent(err) {
			return nil
		}
		return err
	})
	r.ready -= countReady(r.active)
	return r.deleted(errs), reconcile.Worst(errs...)
}

// remove deletes active pods without counting them, by removing the finalizer first.
func (c *jobController) remove(ctx context.Context, r *reconciliation, victims []*corev1.Pod) error {
	for _, pod := range victims {
		c.owners.Writes.Deleting(r.job, pods.Resource, pod)
	}
	c.memory.removals.add(r.key, victims)
	released := make([]bool, len(victims))
	results := inBursts(ctx, len(victims), func(ctx context.Context, i int) (err error) {
		released[i], err = c.giveUp(ctx, r, victims[i])
		return err
	})
	gone := map[*corev1.Pod]bool{}
	for i, err := range results {
		if released[i] && pods.IsReady(victims[i]) {
			r.ready-- // it is deleted, even if it continues to run for a while
		}
		if err != nil {
			if released[i] {
				c.podControl.DeleteFailed(r.job, victims[i], err)
			} else { // nothing was deleted yet
				c.memory.removals.failed(r.key, victims[i])
				c.owners.Writes.DeleteFailed(r.job, pods.Resource, victims[i])
			}
			continue
		}
		gone[victims[i]] = true
		r.removed.Insert(victims[i].UID)
	}
	r.drop(func(pod *corev1.Pod) bool { return gone[pod] })
	return reconcile.Worst(results...)
}

// giveUp removes the finalizer of a pod and deletes it. It reports whether the finalizer was
// removed. A pod that has changed keeps it: if it has finished meanwhile, it has to be counted.
func (c *jobController) giveUp(ctx context.Context, r *reconciliation, pod *corev1.Pod) (released bool, err error) {
	if isTracked(pod) {
		if err := c.removeFinalizer(ctx, r, pod, pod.ResourceVersion); err != nil {
			return false, err
		}
	}
	err = c.podControl.Untracked.Delete(ctx, r.job, pod)
	if controller.Absent(err) {
		err = nil
	}
	return true, err
}

// deleted moves the deleted active pods to the terminating ones, and reports whether all were
// deleted.
func (r *reconciliation) deleted(errs []error) bool {
	gone := map[*corev1.Pod]bool{}
	for i, err := range errs {
		gone[r.active[i]] = err == nil
	}
	r.drop(func(pod *corev1.Pod) bool { return gone[pod] })
	return len(r.active) == 0
}

// drop moves active pods to the terminating ones.
func (r *reconciliation) drop(gone func(*corev1.Pod) bool) {
	var left []*corev1.Pod
	for _, pod := range r.active {
		if gone(pod) {
			r.terminating++
		} else {
			left = append(left, pod)
		}
	}
	r.active = left
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
func (c *jobController) create(ctx context.Context, r *reconciliation, p plan) error {
	base := r.template()
	ref := metav1.NewControllerRef(r.job, jobKind)
	reason := creationReason(r)
	errs := c.podControl.CreateEach(ctx, r.job, p.create, func(ctx context.Context, n int) (*metav1.ObjectMeta, error) {
		template, prefix := base, pods.NamePrefix(r.job.Name)
		if p.indexes != nil {
			template, prefix = r.indexTemplate(base, p.indexes[n]), indexPrefix(r.job.Name, p.indexes[n])
		}
		pod, err := c.podControl.CreateNamed(ctx, r.job, template, ref, prefix)
		c.metrics.podCreated(reason, err)
		if err == nil {
			r.created.Add(1)
		}
		return pod, err
	})
	return reconcile.Worst(errs...)
}

// counts reports whether a pod that was created will be counted: by the finalizer and, of an Indexed Job, by its index.
func (c *jobController) counts(owner, pod metav1.Object) bool {
	job, ok := owner.(*batchv1.Job)
	hasIndex := pod.GetAnnotations()[batchv1.JobCompletionIndexAnnotation] != ""
	return slices.Contains(pod.GetFinalizers(), batchv1.JobTrackingFinalizer) && c.owners.Selects(owner, pod) &&
		(!ok || !isIndexed(job) || hasIndex)
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
