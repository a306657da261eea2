package job

import (
	"maps"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/ptr"

	"kcmd.dev/pkg/controllers/kit/ownership"
	"kcmd.dev/pkg/controllers/kit/reconcile"
	"kcmd.dev/pkg/controllers/kit/watch"
)

func (c *jobController) watch(jobs, podInformer cache.SharedIndexInformer) error {
	if err := watch.Objects(jobs, watch.Funcs[*batchv1.Job]{
		Add:    c.jobAdded,
		Update: c.jobUpdated,
		Delete: c.jobDeleted,
	}); err != nil {
		return err
	}
	return watch.Objects(podInformer, watch.Funcs[*corev1.Pod]{
		Add:    c.podAdded,
		Update: c.podUpdated,
		Delete: c.podDeleted,
	})
}

func (c *jobController) jobAdded(lane reconcile.Lane, job *batchv1.Job) {
	c.queue.Enqueue(lane, keyOf(job))
	if c.managedElsewhere(job) {
		c.metrics.externallyManaged(*job.Spec.ManagedBy)
	}
}

func (c *jobController) jobUpdated(lane reconcile.Lane, old, job *batchv1.Job) {
	if old.UID != job.UID {
		c.jobDeleted(old)
	}
	key := keyOf(job)
	if isFinished(job) {
		c.sweep(job)
		if c.remembers(key) {
			c.queue.AddAfter(key, batchPeriod)
		}
		return
	}
	if old.Generation == job.Generation {
		c.batch(lane, job)
	} else {
		c.queue.Enqueue(lane, key)
	}
	if !ptr.Equal(old.Spec.ActiveDeadlineSeconds, job.Spec.ActiveDeadlineSeconds) {
		if remaining, ok := untilDeadline(job, c.clock.Now()); ok {
			c.queue.AddAfter(key, max(0, remaining))
		}
	}
}

func (c *jobController) jobDeleted(job *batchv1.Job) {
	c.sweep(job)
	key := keyOf(job)
	c.tracker.Forget(key, job.UID)
	c.finished.drop(key, job.UID)
	c.backoffs.drop(key, job.UID)
	c.queue.Enqueue(reconcile.Fresh, key)
}

// batch queues a Job for when further events of the same moment have arrived. A replay has
// no further ones.
func (c *jobController) batch(lane reconcile.Lane, job *batchv1.Job) {
	if lane == reconcile.Backlog {
		c.queue.Enqueue(lane, keyOf(job))
		return
	}
	c.queue.AddAfter(keyOf(job), batchPeriod)
}

func (c *jobController) podAdded(lane reconcile.Lane, pod *corev1.Pod) {
	c.metrics.trackingChanged(nil, pod)
	if pod.DeletionTimestamp != nil {
		// After a restart of the watch a pod may first be seen while it is being deleted.
		c.podGone(lane, pod)
		return
	}
	if metav1.GetControllerOfNoCopy(pod) == nil {
		c.orphanSeen(lane, pod)
		c.batchMatching(lane, pod)
		return
	}
	if job, ok := c.jobOf(pod); ok {
		c.batch(lane, job)
	}
}

func (c *jobController) podUpdated(lane reconcile.Lane, old, pod *corev1.Pod) {
	c.metrics.trackingChanged(old, pod)
	if old.ResourceVersion == pod.ResourceVersion {
		return
	}
	if pod.DeletionTimestamp != nil {
		c.podGone(lane, pod)
		return
	}
	sameController := ownership.SameController(old, pod)
	if !sameController {
		if job, ok := c.jobOf(old); ok {
			c.batch(lane, job)
		}
	}
	if metav1.GetControllerOfNoCopy(pod) == nil {
		c.orphanSeen(lane, pod)
		if !sameController || !maps.Equal(old.Labels, pod.Labels) {
			c.batchMatching(lane, pod)
		}
		return
	}
	if job, ok := c.jobOf(pod); ok {
		c.batch(lane, job)
	}
}

func (c *jobController) podDeleted(pod *corev1.Pod) {
	c.metrics.trackingChanged(pod, nil)
	c.podGone(reconcile.Fresh, pod)
}

// podGone is for pods that are deleted or on their way.
func (c *jobController) podGone(lane reconcile.Lane, pod *corev1.Pod) {
	job, ok := c.jobOf(pod)
	if !ok || isFinished(job) {
		c.orphanSeen(lane, pod)
		return
	}
	c.batch(lane, job)
}

// orphanSeen queues a pod that nobody but the controller will free of the finalizer.
func (c *jobController) orphanSeen(lane reconcile.Lane, pod *corev1.Pod) {
	if isTracked(pod) {
		c.orphanQueue.Enqueue(lane, orphan{kind: orphanPod, namespace: pod.Namespace, value: pod.Name})
	}
}

// sweep queues the search for pods that kept the finalizer of a Job, if there may be any.
func (c *jobController) sweep(job *batchv1.Job) {
	selector, err := c.selectors.Of(job)
	if err != nil {
		return // it never had pods
	}
	left, err := c.trackedPods(job.Namespace, selector)
	if err == nil && len(left) == 0 {
		return
	}
	c.orphanQueue.Enqueue(reconcile.Fresh, orphan{kind: orphanSelector, namespace: job.Namespace, value: selector.String()})
}

func (c *jobController) jobOf(pod *corev1.Pod) (*batchv1.Job, bool) {
	return ownership.Resolve(metav1.GetControllerOfNoCopy(pod), jobKind.Kind, func(name string) (*batchv1.Job, error) {
		return c.jobs.Jobs(pod.Namespace).Get(name)
	})
}

// batchMatching queues every Job that might adopt an orphan.
func (c *jobController) batchMatching(lane reconcile.Lane, pod *corev1.Pod) {
	if len(pod.Labels) == 0 {
		return
	}
	jobs, err := c.jobs.Jobs(pod.Namespace).List(labels.Everything())
	if err != nil {
		return // the cache of a synced informer has every namespace
	}
	for _, job := range ownership.Matching(pod, jobs, c.selectors) {
		c.batch(lane, job)
	}
}
