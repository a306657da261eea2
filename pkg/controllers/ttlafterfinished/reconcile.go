package ttlafterfinished

import (
	"context"
	"fmt"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	"k8s.io/utils/ptr"

	"kcmd.dev/pkg/controller"
	"kcmd.dev/pkg/controllers/kit/reconcile"
)

func (c *ttlController) reconcile(ctx context.Context, key types.NamespacedName) error {
	job, found, err := reconcile.Found(c.jobs.Jobs(key.Namespace).Get(key.Name))
	if !found || !isCandidate(job) {
		return err
	}
	now := c.Clock.Now()
	expiry, err := expiryOf(job)
	if err != nil {
		return err
	}
	if finished := expiry.Add(-ttlOf(job)); finished.After(now) {
		klog.FromContext(ctx).Info("Job finished in the future, clocks may differ", "job", key, "finished", finished, "now", now)
	}
	if remaining := expiry.Sub(now); remaining > 0 {
		c.queue.AddAfter(key, min(remaining, reconcile.LongestWait))
		return nil
	}
	return c.delete(ctx, job, expiry)
}

func (c *ttlController) delete(ctx context.Context, job *batchv1.Job, expiry time.Time) error {
	err := c.Client.BatchV1().Jobs(job.Namespace).Delete(controller.OnlyMetadata(ctx), job.Name, metav1.DeleteOptions{
		PropagationPolicy: ptr.To(metav1.DeletePropagationForeground),
		Preconditions:     &metav1.Preconditions{UID: &job.UID, ResourceVersion: &job.ResourceVersion},
	})
	switch {
	case apierrors.IsNotFound(err): // or the Job exists, and an admission webhook gave this answer
		c.queue.AddAfter(reconcile.KeyOf(job), reconcile.RecheckAfter)
		return nil
	case err != nil:
		return fmt.Errorf("deleting job %s/%s: %w", job.Namespace, job.Name, err)
	}
	c.metrics.deletionDelay.Observe(c.Clock.Now().Sub(expiry).Seconds())
	klog.FromContext(ctx).V(2).Info("Deleted finished job", "job", klog.KObj(job), "expired", expiry)
	return nil
}
