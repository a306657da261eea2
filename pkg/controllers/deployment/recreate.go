package deployment

import (
	"context"
	"fmt"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"

	"kcmd.dev/pkg/controllers/kit/pods"
	"kcmd.dev/pkg/controllers/kit/reconcile"
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
	confirmed, err := r.confirmShutdown(ctx)
	if err != nil {
		return err
	}
	if !confirmed {
		r.owners.EnqueueAfter(r.stored, reconcile.RecheckAfter)
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
// terminating pods, which the status of a ReplicaSet does not.
func (r *reconciliation) oldPodsRun() (bool, error) {
	if slices.ContainsFunc(r.sets.old, mayHavePods) {
		return true, nil
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

// mayHavePods reports whether a ReplicaSet without replicas has pods. One whose controller has not seen its present
// size may be given pods right now.
func mayHavePods(rs *appsv1.ReplicaSet) bool {
	return rs.Status.Replicas > 0 || rs.Generation > rs.Status.ObservedGeneration
}

// anyRunning reports whether any pod has not finished. A pod of unknown phase counts as
// running.
func anyRunning(all []*corev1.Pod) bool {
	return slices.ContainsFunc(all, func(pod *corev1.Pod) bool { return !pods.IsTerminal(pod) })
}

// confirmShutdown reports whether the API server, too, has no old ReplicaSet that has or may be given pods, and no pod
// of one that may be running. The cache may lack such ReplicaSets and pods. Both are listed whenever the new ReplicaSet
// is about to go from no replicas to some.
func (r *reconciliation) confirmShutdown(ctx context.Context) (bool, error) {
	if !startsPods(r.d, r.sets) {
		return true, nil
	}
	selector, err := r.owners.Selectors.Of(r.stored)
	if err != nil {
		return false, fmt.Errorf("parsing the selector of Deployment %s: %w", klog.KObj(r.stored), err)
	}
	options := metav1.ListOptions{LabelSelector: selector.String()}
	liveSets, err := r.Client.AppsV1().ReplicaSets(r.d.Namespace).List(ctx, options)
	if err != nil {
		return false, fmt.Errorf("listing the ReplicaSets of Deployment %s: %w", klog.KObj(r.stored), err)
	}
	livePods, err := r.Client.CoreV1().Pods(r.d.Namespace).List(ctx, options)
	if err != nil {
		return false, fmt.Errorf("listing the pods of Deployment %s: %w", klog.KObj(r.stored), err)
	}
	still := running(r.d, r.sets, liveSets.Items, livePods.Items)
	if still == nil {
		return true, nil
	}
	klog.FromContext(ctx).Info("Not recreating the pods of a Deployment yet: the cache does not show what still runs of it",
		"deployment", klog.KObj(r.stored), "running", klog.KObj(still))
	if rs, ok := still.(*appsv1.ReplicaSet); ok && isUnseen(r.d, rs) {
		_, err = r.resize(ctx, scaleToZero([]*appsv1.ReplicaSet{rs})) // nobody else would, and the event shows it
	}
	return false, err
}

// isUnseen reports whether a ReplicaSet that the cache does not show as it is is an old one, which the Deployment has to
// scale down. One without a controller is adopted first.
func isUnseen(d *appsv1.Deployment, rs *appsv1.ReplicaSet) bool {
	return metav1.IsControlledBy(rs, d) && rs.DeletionTimestamp == nil && !sameTemplate(&rs.Spec.Template, &d.Spec.Template)
}

// startsPods reports whether the new ReplicaSet is to go from no replicas to some beside other ReplicaSets that may
// exist. A Deployment in its first generation has had no other template; it can only adopt ReplicaSets.
func startsPods(d *appsv1.Deployment, sets replicaSets) bool {
	isNew := d.Generation == 1 && len(sets.all()) == 0
	return !isNew && replicasOf(d) > 0 && (sets.current == nil || sizeOf(sets.current) == 0)
}

// running returns an old ReplicaSet that has or may be given pods, or a pod of one that may be running, as the API
// server has them; nil if there is none. Old is also one that the Deployment has not adopted yet.
func running(d *appsv1.Deployment, sets replicaSets, liveSets []appsv1.ReplicaSet, livePods []corev1.Pod) klog.KMetadata {
	old := map[types.UID]bool{}
	for _, rs := range sets.old {
		old[rs.UID] = true
	}
	for i := range liveSets {
		rs := &liveSets[i]
		owner := metav1.GetControllerOfNoCopy(rs)
		isOwn := owner != nil && owner.UID == d.UID || owner == nil && rs.DeletionTimestamp == nil
		if !isOwn || sets.current != nil && sets.current.UID == rs.UID {
			continue
		}
		if sizeOf(rs) > 0 || mayHavePods(rs) {
			return rs
		}
		old[rs.UID] = true
	}
	for i := range livePods {
		pod := &livePods[i]
		if owner := metav1.GetControllerOfNoCopy(pod); owner != nil && old[owner.UID] && !pods.IsTerminal(pod) {
			return pod
		}
	}
	return nil
}
