package deployment

import (
	"context"
	"fmt"
	"maps"
	"strconv"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"

	"kcmd.dev/pkg/controller"
)

// rollbackTarget returns the revision that a Deployment is to be rolled back to, 0 for the one
// before the last, and false if there is no valid request.
func rollbackTarget(d *appsv1.Deployment) (int64, bool) {
	text, ok := d.Annotations[appsv1.DeprecatedRollbackTo]
	if !ok {
		return 0, false
	}
	revision, err := strconv.ParseInt(text, 10, 64)
	return revision, err == nil
}

// rollBack restores an earlier template, or removes a request that cannot be carried out.
func (r *reconciliation) rollBack(ctx context.Context, target int64) error {
	if err := r.ensureCurrent(ctx); err != nil {
		return err
	}
	// The status is written first, so that both writes are based on the latest state.
	if err := r.writeStatus(ctx); err != nil {
		return err
	}
	after, event, done := rolledBack(r.d, r.sets, target)
	if !done {
		r.Record(event)
	}
	updated, err := r.Client.AppsV1().Deployments(after.Namespace).Update(ctx, after, metav1.UpdateOptions{})
	if err != nil {
		return fmt.Errorf("updating Deployment %s: %w", klog.KObj(r.stored), err)
	}
	r.owners.WroteOwner(r.stored, updated)
	r.rebaseOn(updated)
	if done {
		event.About = r.d // as the write returned it
		r.Record(event)
	}
	return nil
}

// rolledBack returns the Deployment after a rollback, or after giving it up: in both cases
// without the request. If done is true, the event must be recorded only after the write.
func rolledBack(d *appsv1.Deployment, sets replicaSets, target int64) (after *appsv1.Deployment, event controller.Event, done bool) {
	after = d.DeepCopy()
	delete(after.Annotations, appsv1.DeprecatedRollbackTo)
	if target == 0 {
		if target = lastRevision(sets.all()); target == 0 {
			return after, noLastRevisionEvent(d), false
		}
	}
	rs := withRevision(sets.all(), target)
	switch {
	case rs == nil:
		return after, revisionNotFoundEvent(d), false
	case sameTemplate(&rs.Spec.Template, &d.Spec.Template):
		return after, sameTemplateEvent(d), false
	}
	rs.Spec.Template.DeepCopyInto(&after.Spec.Template)
	delete(after.Spec.Template.Labels, appsv1.DefaultDeploymentUniqueLabelKey)
	// A rollback restores the annotations that were current with the template.
	maps.DeleteFunc(after.Annotations, func(key, _ string) bool { return !staysBehind(key) })
	maps.Copy(after.Annotations, copiedAnnotations(rs.Annotations))
	return after, rolledBackEvent(d, target), true
}

// lastRevision returns the second highest revision, 0 if there is none.
func lastRevision(sets []*appsv1.ReplicaSet) int64 {
	var highest, second int64
	for _, rs := range sets {
		revision, ok := revisionOf(rs)
		switch {
		case !ok:
		case revision > highest:
			highest, second = revision, highest
		case revision > second:
			second = revision
		}
	}
	return second
}

func withRevision(sets []*appsv1.ReplicaSet, revision int64) *appsv1.ReplicaSet {
	for _, rs := range sets {
		if found, ok := revisionOf(rs); ok && found == revision {
			return rs
		}
	}
	return nil
}
