package deployment

import (
	"context"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"kcmd.dev/pkg/controllers/kit/pods"
)

// recreate removes all old pods before the first new one is created.
func (r *reconciliation) recreate(ctx context.Context) error {
	removed, err := r.resize(ctx, scaleToZero(r.sets.old))
	if err != nil {
		return err
	}
	waiting, err := r.oldPodsRun()
	if err != nil {
		return err
	}
	if removed || waiting {
		r.reportRollout()
		return nil
	}
	if err := r.ensureCurrent(ctx); err != nil {
		return err
	}
	if _, err := r.resize(ctx, []resize{{rs: r.sets.current, size: replicasOf(r.d)}}); err != nil {
		return err
	}
	return r.finishStep(ctx)
}

// oldPodsRun reports whether an old ReplicaSet still has a pod that may be running. It counts
// terminating pods, which the status of a ReplicaSet does not. One whose controller has not seen
// its present size may be given pods right now.
func (r *reconciliation) oldPodsRun() (bool, error) {
	for _, rs := range r.sets.old {
		if rs.Status.Replicas > 0 || rs.Generation > rs.Status.ObservedGeneration {
			return true, nil
		}
	}
	for _, rs := range r.sets.old {
		owned, err := r.pods.OwnedBy(replicaSetKind.Kind, rs)
		if err != nil {
			return false, err
		}
		if anyRunning(owned) {
			return true, nil
		}
	}
	return false, nil
}

// anyRunning reports whether any pod has not finished. A pod of unknown phase counts as
// running.
func anyRunning(all []*corev1.Pod) bool {
	return slices.ContainsFunc(all, func(pod *corev1.Pod) bool { return !pods.IsTerminal(pod) })
}
