package job

import (
	"context"
	"fmt"
	"maps"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"kcmd.dev/pkg/controllers/kit/pods"
	"kcmd.dev/pkg/controllers/kit/reconcile"
)

// missedPods remembers the pods of Jobs that a list after a break of the watch lacked. They may exist: the watch cache
// of an API server that loses events, or is behind after a restore, lacks objects that are there. A pod is remembered
// until the cache shows it again, or a live list lacks it too.
type missedPods struct {
	clock             clock.PassiveClock
	perPod[time.Time] // when they were missed
}

func newMissedPods(c clock.PassiveClock) *missedPods {
	return &missedPods{clock: c, perPod: newPerPod[time.Time]()}
}

func (m *missedPods) add(job types.NamespacedName, pod types.UID) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.jobs[job] == nil {
		m.jobs[job] = map[types.UID]time.Time{}
	}
	m.jobs[job][pod] = m.clock.Now()
}

// of returns the pods of a Job.
func (m *missedPods) of(job types.NamespacedName) map[types.UID]time.Time {
	m.mu.Lock()
	defer m.mu.Unlock()
	return maps.Clone(m.jobs[job])
}

// found drops the pods of a Job whose fate is known, given as of returned them, unless they were missed again since.
func (m *missedPods) found(job types.NamespacedName, known map[types.UID]time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	maps.DeleteFunc(m.jobs[job], func(pod types.UID, at time.Time) bool {
		was, ok := known[pod]
		return ok && was.Equal(at)
	})
	if len(m.jobs[job]) == 0 {
		delete(m.jobs, job)
	}
}

// takeOver adds the pods that the predecessor remembered.
func (m *missedPods) takeOver(jobs map[types.NamespacedName]map[types.UID]time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for job, missed := range jobs {
		if m.jobs[job] == nil {
			m.jobs[job] = map[types.UID]time.Time{}
		}
		maps.Copy(m.jobs[job], missed)
	}
}

// podMissed handles a pod that a list after a break of the watch lacked.
func (c *jobController) podMissed(pod *corev1.Pod) {
	if job, ok := c.countedBy(pod); ok && isUnaccounted(pod) {
		c.memory.missed.add(job, pod.UID)
	}
	c.podDeleted(pod)
}

// countedBy returns the Job that controls a pod, and whether it may still have to count it. Of one that is missed, too,
// no more is known.
func (c *jobController) countedBy(pod *corev1.Pod) (types.NamespacedName, bool) {
	if job, ok := c.owners.Of(pod); ok {
		return reconcile.KeyOf(job), !isFinished(job) && !c.managedElsewhere(job)
	}
	ref := metav1.GetControllerOfNoCopy(pod)
	if ref == nil || !isJobRef(ref) {
		return types.NamespacedName{}, false
	}
	job := types.NamespacedName{Namespace: pod.Namespace, Name: ref.Name}
	return job, c.owners.IsMissed(job)
}

// isUnaccounted reports whether it still matters to its Job what becomes of a pod: it has not finished, or was not
// accounted for.
func isUnaccounted(pod *corev1.Pod) bool { return isTracked(pod) || !pods.IsTerminal(pod) }

// mayControl reports whether a Job controls a pod, or may adopt it.
func mayControl(job *batchv1.Job, pod *corev1.Pod) bool {
	return metav1.GetControllerOfNoCopy(pod) == nil || metav1.IsControlledBy(pod, job)
}

// candidates returns the pods of which a Job may control some, as cached. If the cache may lack pods of the Job, those
// that only a live list has are added.
func (c *jobController) candidates(
	ctx context.Context, job *batchv1.Job, selector labels.Selector, settled bool,
) ([]*corev1.Pod, error) {
	key := reconcile.KeyOf(job)
	missed := c.memory.missed.of(key) // first: pods that are missed after the cache was read stay missed
	all, err := c.byOwner.OwnedByOrOrphans(jobKind.Kind, job)
	if err != nil || len(missed) == 0 && !lacksKnown(job, all, settled) {
		return all, err
	}
	list, err := c.Client.CoreV1().Pods(job.Namespace).List(ctx, metav1.ListOptions{LabelSelector: selector.String()})
	if err != nil {
		return nil, fmt.Errorf("listing the pods of job %s: %w", key, err)
	}
	cached := uidsOf(all)
	for i := range list.Items {
		pod := &list.Items[i]
		if cached.Has(pod.UID) || !isUnaccounted(pod) || !mayControl(job, pod) {
			continue
		}
		delete(missed, pod.UID)
		c.memory.missed.add(key, pod.UID) // until the cache shows it
		all = append(all, pod)
	}
	c.memory.missed.found(key, missed)
	if lacking := len(all) - len(cached); lacking > 0 {
		klog.FromContext(ctx).Info("The cache lacks pods of a Job that exist", "job", klog.KObj(job), "pods", lacking)
		c.owners.EnqueueAfter(job, reconcile.RecheckAfter)
	}
	return all, nil
}

// lacksKnown reports whether the cache does not show all pods that the status of a Job knows of: those that it is about
// to count, and, unless the cache is behind, the active ones. Both exist until another status was written, except for
// those of a Job that is being deleted, which needs none.
func lacksKnown(job *batchv1.Job, cached []*corev1.Pod, settled bool) bool {
	if job.DeletionTimestamp != nil {
		return false
	}
	uncounted := job.Status.UncountedTerminatedPods
	if uncounted != nil && len(uncounted.Succeeded)+len(uncounted.Failed) > 0 {
		if shown := uidsOf(cached); !shown.HasAll(uncounted.Succeeded...) || !shown.HasAll(uncounted.Failed...) {
			return true
		}
	}
	shown := int32(0)
	for _, pod := range cached {
		if metav1.IsControlledBy(pod, job) && (isTracked(pod) || pods.IsActive(pod)) {
			shown++
		}
	}
	return settled && shown < job.Status.Active
}

func uidsOf(all []*corev1.Pod) sets.Set[types.UID] {
	uids := sets.New[types.UID]()
	for _, pod := range all {
		uids.Insert(pod.UID)
	}
	return uids
}
