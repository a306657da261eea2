package deployment

import (
	"context"
	"errors"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"

	"kcmd.dev/pkg/controllers/kit/owners"
	"kcmd.dev/pkg/controllers/kit/reconcile"
)

// reconciliation is one reconcile of one Deployment.
type reconciliation struct {
	*deploymentController
	// stored is the Deployment as last read or written. It is never modified.
	stored *appsv1.Deployment
	// d is a copy of stored with the status and revision to be written.
	d *appsv1.Deployment
	// sets are the ReplicaSets as last read or written.
	sets replicaSets
	// reported is set once the status of d is that of the observed state.
	reported bool
	// awaitsProgress is set if the rollout could time out without further events.
	awaitsProgress bool
}

// reconcile performs the next step of the rollout of a Deployment.
func (c *deploymentController) reconcile(ctx context.Context, stored *appsv1.Deployment) error {
	r := &reconciliation{deploymentController: c, stored: stored, d: stored.DeepCopy()}
	err := r.run(ctx)
	c.owners.Writes.Answered(stored, err)
	if reconcile.IsExpected(err) && apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) {
		// As a rule the Deployment goes with its namespace. But the API server may still know only the namespace
		// of that name which was there before, and no event follows.
		c.owners.EnqueueAfter(stored, reconcile.RecheckAfter)
		return nil
	}
	return err
}

// run performs the next step and writes the status.
func (r *reconciliation) run(ctx context.Context) error {
	if selectsEverything(r.stored) {
		return r.refuse(ctx)
	}
	if err := r.claim(ctx); err != nil {
		return err
	}
	err := r.act(ctx)
	if err != nil && !r.reported && !reconcile.IsExpected(err) && ctx.Err() == nil {
		r.reportCounts()
	}
	return errors.Join(err, r.writeStatus(ctx))
}

func selectsEverything(d *appsv1.Deployment) bool {
	return equality.Semantic.DeepEqual(d.Spec.Selector, &metav1.LabelSelector{})
}

// refuse only records an event and the observed generation of a Deployment that selects
// everything.
func (r *reconciliation) refuse(ctx context.Context) error {
	r.Record(selectingAllEvent(r.d))
	if r.stored.Status.ObservedGeneration < r.stored.Generation {
		r.d.Status.ObservedGeneration = r.stored.Generation
	}
	return r.writeStatus(ctx)
}

// act performs the next step.
func (r *reconciliation) act(ctx context.Context) error {
	if r.d.DeletionTimestamp == nil {
		r.notePause()
		if err := r.recognize(ctx); err != nil {
			return err
		}
	}
	if err := r.syncCurrent(ctx); err != nil {
		return err
	}
	if r.d.DeletionTimestamp != nil {
		r.report()
		return nil
	}
	target, rollsBack := rollbackTarget(r.d)
	switch {
	case r.d.Spec.Paused:
		return r.followReplicas(ctx)
	case rollsBack:
		return r.rollBack(ctx, target)
	case isScalingEvent(r.d, r.sets):
		return r.followReplicas(ctx)
	case isRecreate(r.d):
		return r.recreate(ctx)
	case isRollingUpdate(r.d):
		return r.roll(ctx)
	}
	return fmt.Errorf("unexpected deployment strategy type: %s", r.d.Spec.Strategy.Type)
}

// claim lists the ReplicaSets of the Deployment, and adopts and releases some if needed.
func (r *reconciliation) claim(ctx context.Context) error {
	selector, err := r.owners.Selectors.Of(r.stored)
	if err != nil {
		return fmt.Errorf("parsing the selector of Deployment %s: %w", klog.KObj(r.stored), err)
	}
	candidates, err := r.written.List(r.stored, func() ([]*appsv1.ReplicaSet, error) {
		return r.replicaSetsBy.OwnedByOrOrphans(r.stored)
	})
	if err != nil {
		return fmt.Errorf("finding the ReplicaSets of Deployment %s: %w", klog.KObj(r.stored), err)
	}
	claimed, err := owners.ClaimerFor(r.owners, r.stored, replicaSetKind.Kind, selector, r.patchReplicaSet).Claim(ctx, candidates)
	if err != nil {
		return fmt.Errorf("claiming ReplicaSets for Deployment %s: %w", klog.KObj(r.stored), err)
	}
	for i, rs := range claimed {
		if !metav1.IsControlledBy(rs, r.stored) { // adopted just now; the others are as List has them
			claimed[i] = r.written.Newest(r.stored, rs)
		}
	}
	r.sets = split(r.stored, claimed)
	return nil
}

func (r *reconciliation) patchReplicaSet(ctx context.Context, rs *appsv1.ReplicaSet, patch []byte) error {
	patched, err := r.Client.AppsV1().ReplicaSets(rs.Namespace).
		Patch(ctx, rs.Name, types.StrategicMergePatchType, patch, metav1.PatchOptions{})
	if err != nil {
		return err
	}
	r.written.Wrote(r.stored, patched)
	return nil
}

// notePause reports in the status that the Deployment was paused or resumed.
func (r *reconciliation) notePause() {
	if condition, ok := pauseCondition(r.d, r.Clock.Now()); ok {
		r.d.Status.Conditions = withCondition(r.d.Status.Conditions, condition)
	}
}

// followReplicas scales the ReplicaSets after a change of replicas, or after any change while
// the Deployment is paused.
func (r *reconciliation) followReplicas(ctx context.Context) error {
	if _, err := r.resize(ctx, scaling(r.d, r.sets)); err != nil {
		return err
	}
	if _, rollsBack := rollbackTarget(r.d); r.d.Spec.Paused && !rollsBack {
		if err := r.cleanUp(ctx); err != nil {
			return err
		}
	}
	r.report()
	return nil
}

// roll adds pods of the new template and removes old ones, within the limits on how many
// pods there may be and how many must be available.
func (r *reconciliation) roll(ctx context.Context) error {
	if err := r.ensureCurrent(ctx); err != nil {
		return err
	}
	grown, err := r.resize(ctx, []resize{scaleUpNew(r.d, r.sets)})
	if err != nil {
		return err
	}
	if grown {
		r.reportRollout()
		return nil
	}
	shrunk, err := r.resize(ctx, scaleDownOld(r.d, r.sets))
	if shrunk || err != nil {
		// The status is reported even if the old ReplicaSets could not be scaled.
		r.reportRollout()
		return err
	}
	return r.finishStep(ctx)
}

// finishStep deletes old ReplicaSets if the rollout is complete, and reports the status.
func (r *reconciliation) finishStep(ctx context.Context) error {
	if isComplete(r.d, &r.stored.Status) {
		if err := r.cleanUp(ctx); err != nil {
			return err
		}
	}
	r.reportRollout()
	return nil
}
