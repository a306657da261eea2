package daemonset

import (
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"kcmd.dev/pkg/controllers/kit/workloads/history"
)

// defaultHistoryLimit is the API server's default of spec.revisionHistoryLimit.
const defaultHistoryLimit = 10

// revisions is the history of a set.
type revisions struct {
	// current is the revision of the current template.
	current *appsv1.ControllerRevision
	// old are the revisions of other templates, sorted.
	old []*appsv1.ControllerRevision
}

// hash is the value of the label controller-revision-hash of updated pods. It may differ from
// the hash of the template now, which depends on the version of the Go types.
func (r revisions) hash() string { return r.current.Labels[appsv1.DefaultDaemonSetUniqueLabelKey] }

// split separates revisions that hold the payload from the others. Both are sorted. They are
// compared byte by byte: if the encoding of a template changes, as in 1.34, it becomes another
// revision, and pods are kept as long as their template generation is the same.
func split(all []*appsv1.ControllerRevision, payload []byte) (matching, old []*appsv1.ControllerRevision) {
	for _, r := range all {
		if history.Holds(r, payload) {
			matching = append(matching, r)
		} else {
			old = append(old, r)
		}
	}
	history.Sort(matching)
	history.Sort(old)
	return matching, old
}

// surplus returns the old revisions beyond the limit, oldest first. Revisions of existing pods
// are kept, even if the pods have finished or are being deleted.
func (r revisions) surplus(ds *appsv1.DaemonSet, claimed []*corev1.Pod) []*appsv1.ControllerRevision {
	excess := len(r.old) - int(ptr.Deref(ds.Spec.RevisionHistoryLimit, defaultHistoryLimit))
	if excess <= 0 {
		return nil
	}
	live := map[string]bool{}
	for _, pod := range claimed {
		if hash := pod.Labels[appsv1.DefaultDaemonSetUniqueLabelKey]; hash != "" {
			live[hash] = true
		}
	}
	var unused []*appsv1.ControllerRevision
	for _, old := range r.old {
		if !live[old.Labels[appsv1.DefaultDaemonSetUniqueLabelKey]] {
			unused = append(unused, old)
		}
	}
	return take(unused, excess)
}
