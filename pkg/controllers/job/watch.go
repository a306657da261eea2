package job

import (
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/ptr"

	"kcmd.dev/pkg/controllers/kit/owners"
	"kcmd.dev/pkg/controllers/kit/reconcile"
	"kcmd.dev/pkg/controllers/kit/watch"
)

func (c *jobController) watch(jobs, podInformer cache.SharedIndexInformer) {
	watch.Objects(jobs, watch.Funcs[*batchv1.Job]{
		Add: c.jobAdded, Update: c.jobUpdated, Delete: c.jobDeleted, Missed: c.jobMissed,
	})
	watch.Objects(podInformer, watch.Funcs[*corev1.Pod]{
		Only:   func(pod *corev1.Pod) bool { return c.owners.MayOwn(pod) || isTracked(pod) },
		Add:    c.podAdded,
		Update: c.podUpdated,
		Delete: c.podDeleted,
		Missed: c.podMissed,
	})
}

// podsOfOwners declares which events of pods enqueue which Jobs, except for pods that are being
// deleted or were deleted (see podGone).
func (c *jobController) podsOfOwners() owners.Dependents[*batchv1.Job, *corev1.Pod] {
	return owners.Dependents[*batchv1.Job, *corev1.Pod]{Owners: c.owners, Enqueue: c.batch}
}

func (c *jobController) jobAdded(lane reconcile.Lane, job *batchv1.Job) {
	c.owners.Enqueue(lane, job)
	if c.managedElsewhere(job) {
		c.metrics.externallyManaged(*job.Spec.ManagedBy)
	}
}

func (c *jobController) jobUpdated(lane reconcile.Lane, old, job *batchv1.Job) {
	if old.UID != job.UID {
		c.jobDeleted(old)
	}
	if isFinished(job) {
		c.sweep(job)
		if c.memory.knows(reconcile.KeyOf(job)) {
			c.owners.EnqueueAfter(job, batchPeriod)
		}
		return
	}
	if old.Generation == job.Generation {
		c.batch(lane, job)
	} else {
		c.owners.Enqueue(lane, job)
	}
	if !ptr.Equal(old.Spec.ActiveDeadlineSeconds, job.Spec.ActiveDeadlineSeconds) {
		if remaining, ok := untilDeadline(job, c.Clock.Now()); ok {
			c.owners.EnqueueAfter(job, min(max(0, remaining), reconcile.LongestWait))
		}
	}
}

func (c *jobController) jobDeleted(job *batchv1.Job) {
	c.sweep(job)
	c.memory.drop(reconcile.KeyOf(job), job.UID)
	c.owners.Deleted(job)
}

// jobMissed handles a Job that a list after a break of the watch lacked. What is known of it and its pods is kept, as
// long as its writes are: it may exist, and a pod whose finalizer was removed would be counted again.
func (c *jobController) jobMissed(job *batchv1.Job) {
	c.sweep(job)
	c.owners.Missed(job)
}

// batch enqueues a Job after batchPeriod, so that one reconcile handles several events. A
// replay is not followed by others.
func (c *jobController) batch(lane reconcile.Lane, job *batchv1.Job) {
	if lane.IsBacklog() {
		c.owners.Enqueue(lane, job)
		return
	}
	c.owners.EnqueueAfter(job, batchPeriod)
}

func (c *jobController) podAdded(lane reconcile.Lane, pod *corev1.Pod) {
	c.metrics.trackingChanged(nil, pod)
	if pod.DeletionTimestamp != nil {
		// After a restart of the watch, a pod may already be being deleted when it is first
		// seen.
		c.podGone(lane, pod)
		return
	}
	if metav1.GetControllerOfNoCopy(pod) == nil {
		c.orphanSeen(lane, pod)
	}
	c.podsOfOwners().Added(lane, pod)
}

func (c *jobController) podUpdated(lane reconcile.Lane, old, pod *corev1.Pod) {
	c.metrics.trackingChanged(old, pod)
	if old.ResourceVersion == pod.ResourceVersion {
		return
	}
	if pod.DeletionTimestamp != nil {
		// After a restart of the watch, it may be another pod of the name.
		if old.UID != pod.UID || !owners.SameController(old, pod) {
			c.podGone(lane, old)
		}
		c.podGone(lane, pod)
		return
	}
	if metav1.GetControllerOfNoCopy(pod) == nil {
		c.orphanSeen(lane, pod)
	}
	c.podsOfOwners().Updated(lane, old, pod)
}

func (c *jobController) podDeleted(pod *corev1.Pod) {
	c.metrics.trackingChanged(pod, nil)
	c.podGone(reconcile.Gone(pod), pod)
}

// podGone handles pods that were deleted or are being deleted.
func (c *jobController) podGone(lane reconcile.Lane, pod *corev1.Pod) {
	job, ok := c.owners.Of(pod)
	if !ok || isFinished(job) {
		c.orphanSeen(lane, pod)
		return
	}
	c.batch(lane, job)
}

// orphanSeen enqueues a pod if it has the finalizer, which only this controller removes.
func (c *jobController) orphanSeen(lane reconcile.Lane, pod *corev1.Pod) {
	if isTracked(pod) {
		c.orphanQueue.Enqueue(lane, orphan{kind: orphanPod, namespace: pod.Namespace, value: pod.Name})
	}
}

// sweep enqueues the search for pods that still have the finalizer of a Job, if there may be
// any.
func (c *jobController) sweep(job *batchv1.Job) {
	selector, err := c.owners.Selectors.Of(job)
	if err != nil {
		return // an invalid selector never had pods
	}
	left, err := c.trackedPods(job.Namespace, selector)
	if err == nil && len(left) == 0 {
		return
	}
	c.orphanQueue.Enqueue(reconcile.Gone(job), orphan{kind: orphanSelector, namespace: job.Namespace, value: selector.String()})
}
