package deployment

import (
	"context"
	"errors"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"

	"kcmd.dev/pkg/controllers/kit/ownership"
)

// rollout is one reconcile of one Deployment.
type rollout struct {
	*deploymentController
	key cache.ObjectName
	// stored is the Deployment as last read or written. It is never changed.
	stored *appsv1.Deployment
	// d is a copy of stored that carries the status and revision still to be written.
	d *appsv1.Deployment
	// sets are the ReplicaSets as last read or written.
	sets replicaSets
	// written remembers what writes return.
	written *written
	// awaitsProgress is set if the rollout may be stuck, should nothing more happen.
	awaitsProgress bool
}

// step reads a Deployment and its ReplicaSets, does what is to be done next, and writes
// the status.
func (c *deploymentController) step(ctx context.Context, key cache.ObjectName) error {
	cached, err := c.deployments.Deployments(key.Namespace).Get(key.Name)
	if apierrors.IsNotFound(err) {
		c.writes.forget(key)
		c.selectors.Forget(types.NamespacedName(key))
		return nil
	}
	if err != nil {
		return fmt.Errorf("getting Deployment %s: %w", key, err)
	}
	known := c.writes.take(key)
	defer c.writes.put(key, known)

	stored := known.newestDeployment(cached)
	r := &rollout{deploymentController: c, key: key, stored: stored, d: stored.DeepCopy(), written: known}
	err = r.run(ctx)
	known.answered(err)
	return err
}

func (r *rollout) run(ctx context.Context) error {
	if selectsEverything(r.stored) {
		return r.refuse(ctx)
	}
	if err := r.claim(ctx); err != nil {
		return err
	}
	return errors.Join(r.act(ctx), r.writeStatus(ctx))
}

func selectsEverything(d *appsv1.Deployment) bool {
	return equality.Semantic.DeepEqual(d.Spec.Selector, &metav1.LabelSelector{})
}

// refuse does nothing for a Deployment that would take over every ReplicaSet.
func (r *rollout) refuse(ctx context.Context) error {
	r.record(selectingAllEvent())
	if r.stored.Status.ObservedGeneration < r.stored.Generation {
		r.d.Status.ObservedGeneration = r.stored.Generation
	}
	return r.writeStatus(ctx)
}

// act does the next step.
func (r *rollout) act(ctx context.Context) error {
	if r.d.DeletionTimestamp == nil {
		r.notePause()
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

// claim finds the ReplicaSets of the Deployment, adopting and releasing some if needed.
func (r *rollout) claim(ctx context.Context) error {
	selector, err := r.selectors.Of(r.stored)
	if err != nil {
		return fmt.Errorf("parsing the selector of Deployment %s: %w", r.key, err)
	}
	// The version is read first: the ReplicaSets are at least as new as it says.
	shown := r.replicaSetView.LastStoreSyncResourceVersion()
	cached, err := r.replicaSetsBy.OwnedByOrOrphans(r.stored)
	if err != nil {
		return fmt.Errorf("finding the ReplicaSets of Deployment %s: %w", r.key, err)
	}
	claimed, err := ownership.Claimer[*appsv1.ReplicaSet]{
		Owner:     r.stored,
		OwnerKind: deploymentKind,
		Kind:      replicaSetKind.Kind,
		Selector:  selector,
		CanAdopt: ownership.Recheck(r.stored, deploymentKind.Kind, func(ctx context.Context) (*appsv1.Deployment, error) {
			return r.client.AppsV1().Deployments(r.key.Namespace).Get(ctx, r.key.Name, metav1.GetOptions{})
		}),
		Patch: r.patchReplicaSet,
	}.Claim(ctx, r.written.newestReplicaSets(cached, shown))
	if err != nil {
		return fmt.Errorf("claiming ReplicaSets for Deployment %s: %w", r.key, err)
	}
	for i, rs := range claimed {
		claimed[i] = r.written.newestReplicaSet(rs)
	}
	r.sets = split(r.stored, claimed)
	return nil
}

func (r *rollout) patchReplicaSet(ctx context.Context, rs *appsv1.ReplicaSet, patch []byte) error {
	patched, err := r.client.AppsV1().ReplicaSets(rs.Namespace).
		Patch(ctx, rs.Name, types.StrategicMergePatchType, patch, metav1.PatchOptions{})
	if err != nil {
		return err
	}
	r.written.wroteReplicaSet(patched)
	return nil
}

// notePause notes in the status that the Deployment was paused or resumed.
func (r *rollout) notePause() {
	if condition, ok := pauseCondition(r.d, r.clock.Now()); ok {
		r.d.Status.Conditions = withCondition(r.d.Status.Conditions, condition)
	}
}

// followReplicas scales the ReplicaSets after a change of replicas, or of anything else
// while the Deployment is paused.
func (r *rollout) followReplicas(ctx context.Context) error {
	if _, err := r.resize(ctx, scaling(r.d, r.sets)); err != nil {
		return err
	}
	if _, rollsBack := r.d.Annotations[appsv1.DeprecatedRollbackTo]; r.d.Spec.Paused && !rollsBack {
		if err := r.cleanUp(ctx); err != nil {
			return err
		}
	}
	r.report()
	return nil
}

// roll adds pods of the new template and removes old ones, within the limits on how many
// pods there may be and how many must be available.
func (r *rollout) roll(ctx context.Context) error {
	if err := r.ensureCurrent(ctx); err != nil {
		return err
	}
	grown, err := r.resize(ctx, []resize{rollForward(r.d, r.sets)})
	if err != nil {
		return err
	}
	if grown {
		r.reportRollout()
		return nil
	}
	shrunk, err := r.resize(ctx, rollOff(r.d, r.sets))
	if shrunk || err != nil {
		// What was observed is reported even if the old ReplicaSets could not be scaled.
		r.reportRollout()
		return err
	}
	return r.finishStep(ctx)
}

// finishStep tidies up after a rollout that is over, and reports.
func (r *rollout) finishStep(ctx context.Context) error {
	if isComplete(r.d, &r.stored.Status) {
		if err := r.cleanUp(ctx); err != nil {
			return err
		}
	}
	r.reportRollout()
	return nil
}
