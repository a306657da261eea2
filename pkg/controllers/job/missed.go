package job

import (
	"context"
	"fmt"
	"maps"
	"sync"
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
	clock clock.PassiveClock

	mu sync.Mutex
	// jobs holds the UIDs of the pods of each Job, and when they were missed.
	jobs map[types.NamespacedName]map[types.UID]time.Time
}

func newMissedPods(c clock.PassiveClock) *missedPods {
	return &missedPods{clock: c, jobs: map[types.NamespacedName]map[types.UID]time.Time{}}
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

// found drops pods of a Job whose fate is known, as of returned them, unless they were missed again since.
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

func (m *missedPods) hasAny(job types.NamespacedName) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.jobs[job]) > 0
}

func (m *missedPods) drop(job types.NamespacedName) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.jobs, job)
}

func (m *missedPods) copy() map[types.NamespacedName]map[types.UID]time.Time {
	m.mu.Lock()
	defer m.mu.Unlock()
	all := make(map[types.NamespacedName]map[types.UID]time.Time, len(m.jobs))
	for job, missed := range m.jobs {
		all[job] = maps.Clone(missed)
	}
	return all
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

// podMissed handles a pod that a list after a break of the watch lacked. One that has finished and was accounted for
// does not matter any more.
func (c *jobController) podMissed(pod *corev1.Pod) {
	job, ok := c.owners.Of(pod)
	if ok && !isFinished(job) && (isTracked(pod) || !pods.IsTerminal(pod)) {
		c.missed.add(reconcile.KeyOf(job), pod.UID)
	}
	c.podDeleted(pod)
}

// candidates returns the pods of which a Job may control some, as cached. If the cache may lack pods of the Job, those
// that a live list has besides are among them.
func (c *jobController) candidates(
	ctx context.Context, job *batchv1.Job, selector labels.Selector, settled bool,
) ([]*corev1.Pod, error) {
	key := reconcile.KeyOf(job)
	missed := c.missed.of(key) // first: what is missed after the cache was read stays missed
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
		if pod := &list.Items[i]; !cached.Has(pod.UID) {
			delete(missed, pod.UID)
			all = append(all, pod)
		}
	}
	c.missed.found(key, missed)
	if lacking := len(all) - len(cached); lacking > 0 {
		klog.FromContext(ctx).Info("The cache lacks pods of a Job that exist", "job", klog.KObj(job), "pods", lacking)
		c.owners.EnqueueAfter(job, reconcile.RecheckAfter)
	}
	return all, nil
}

// lacksKnown reports whether the cache does not show all pods that the status of a Job knows of: those that it is about
// to count, and the active ones. These keep the finalizer, and so exist, until another status was written. While the
// cache is not settled it may be behind, and nothing follows from what it lacks.
func lacksKnown(job *batchv1.Job, cached []*corev1.Pod, settled bool) bool {
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
