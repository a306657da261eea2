package job

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"kcmd.dev/pkg/controllers/kit/pods"
)

// burst is the largest number of pods created or scaled down in one reconcile.
const burst = 500

// Actions of a reconcile on pods, as named in metrics.
const (
	actionReconciling = "reconciling"
	actionTracking    = "tracking"
	actionCreated     = "pods_created"
	actionDeleted     = "pods_deleted"
)

// plan is the change to the pods of a Job. It either removes or creates pods.
type plan struct {
	action string
	// remove are active pods to be deleted without being counted.
	remove []*corev1.Pod
	// create is the number of pods to create; indexes are theirs, if the Job is Indexed.
	create  int
	indexes []int
	// wait is the backoff before pods are created.
	wait time.Duration
}

func (r *reconciliation) plan() plan {
	if isSuspended(r.job) {
		return plan{action: actionDeleted, remove: r.active}
	}
	want := r.wantActive()
	if victims := r.victims(max(0, len(r.active)-want)); len(victims) > 0 {
		return plan{action: actionDeleted, remove: victims[:min(burst, len(victims))]}
	}
	missing := want - len(r.active)
	if r.replacesWhenTerminated {
		missing -= int(r.terminating)
	}
	if missing <= 0 {
		return plan{action: actionTracking}
	}
	return r.planCreation(min(missing, burst))
}

// wantActive returns the number of pods that should run. Without a number of completions the
// pods themselves decide when the work is done: once one has succeeded, no more are started.
func (r *reconciliation) wantActive() int {
	parallelism := int(ptr.Deref(r.job.Spec.Parallelism, 1))
	if r.job.Spec.Completions == nil {
		if r.succeeded > 0 {
			return len(r.active)
		}
		return parallelism
	}
	return min(max(0, int(*r.job.Spec.Completions)-int(r.succeeded)), parallelism)
}

func (r *reconciliation) planCreation(missing int) plan {
	p := plan{action: actionCreated, create: missing}
	perIndex := hasBackoffPerIndex(r.job)
	if !perIndex {
		if wait := r.backoff.wait(r.now); wait > 0 {
			return plan{action: actionCreated, wait: max(wait, minBackoffWait)}
		}
	}
	if !isIndexed(r.job) {
		return p
	}
	p.indexes = r.pendingIndexes(missing)
	if perIndex {
		var wait time.Duration
		if p.indexes, wait = r.readyIndexes(p.indexes); wait > 0 {
			return plan{action: actionCreated, wait: max(wait, minBackoffWait)}
		}
	}
	p.create = len(p.indexes)
	return p
}

// victims chooses at least n active pods to remove, fewer if there are not as many. Of an
// Indexed Job pods without a proper index, and all but one of the pods of an index, are always
// chosen.
func (r *reconciliation) victims(n int) []*corev1.Pod {
	var victims []*corev1.Pod
	remaining := r.active
	if isIndexed(r.job) {
		victims, remaining = r.surplusPods()
	}
	if n <= len(victims) {
		return victims
	}
	n -= len(victims)
	if n < len(remaining) {
		remaining = inDeletionOrder(remaining)[:n]
	}
	return append(victims, remaining...)
}

// surplusPods splits the active pods into those that no index needs and the others.
func (r *reconciliation) surplusPods() (surplus, needed []*corev1.Pod) {
	byIndex := map[int][]*corev1.Pod{}
	for _, pod := range r.active {
		i := indexOf(pod)
		if !r.validIndex(i) {
			surplus = append(surplus, pod)
			continue
		}
		byIndex[i] = append(byIndex[i], pod)
	}
	for _, same := range byIndex {
		last := len(same) - 1
		if last > 0 {
			same = inDeletionOrder(same)
			surplus = append(surplus, same[:last]...)
		}
		needed = append(needed, same[last])
	}
	return surplus, needed
}

// inDeletionOrder sorts the pods whose loss costs least to the front. The zero Preference
// compares exact ages and ignores cost annotations and nodes.
func inDeletionOrder(all []*corev1.Pod) []*corev1.Pod {
	sorted := append([]*corev1.Pod(nil), all...)
	pods.Preference{}.Sort(sorted)
	return sorted
}
