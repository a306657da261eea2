package deployment

import (
	"context"
	"errors"
	"fmt"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"kcmd.dev/pkg/controller"
	"kcmd.dev/pkg/controllers/kit/reconcile"
)

// syncCurrent updates annotations, revision and minReadySeconds of the new ReplicaSet, and
// adopts its revision for the Deployment. It does nothing if there is no new ReplicaSet.
func (r *reconciliation) syncCurrent(ctx context.Context) error {
	if r.sets.current == nil {
		return nil
	}
	if synced := syncedReplicaSet(r.d, r.sets); synced != nil {
		if err := r.updateReplicaSet(ctx, synced); err != nil {
			return err
		}
	}
	r.copyRevision()
	if hasDeadline(r.d) && findCondition(r.d.Status.Conditions, appsv1.DeploymentProgressing) == nil {
		r.setCondition(foundCondition(r.sets.current, r.Clock.Now()))
	}
	return nil
}

// copyRevision sets the revision of the Deployment to that of its new ReplicaSet. It is written
// together with the status, because an update of the annotations alone would increment the
// generation of the Deployment.
func (r *reconciliation) copyRevision() {
	revision := r.sets.current.Annotations[revisionAnnotation]
	if r.d.Annotations[revisionAnnotation] == revision {
		return
	}
	if r.d.Annotations == nil {
		r.d.Annotations = map[string]string{}
	}
	r.d.Annotations[revisionAnnotation] = revision
}

// recognize takes a ReplicaSet of the Deployment for the new one that has the name of the one to create, and another
// template, if the API server makes just that template of the one that it is sent. It may drop a field that it does not
// know, or whose feature is off, and so may an admission webhook. Every ReplicaSet to create would get that template, so
// that none would ever count as the new one.
func (r *reconciliation) recognize(ctx context.Context) error {
	if r.sets.current != nil {
		return nil
	}
	rs := newReplicaSet(r.d, r.sets.old)
	i := slices.IndexFunc(r.sets.old, func(old *appsv1.ReplicaSet) bool { return old.Name == rs.Name })
	if i < 0 {
		return nil
	}
	namesake, asked := r.sets.old[i], rs.DeepCopy()
	asked.Name, asked.GenerateName = "", rs.Name+"-"
	answer, err := r.wouldStore(ctx, asked)
	switch {
	case apierrors.IsForbidden(err), apierrors.IsInvalid(err), apierrors.IsBadRequest(err):
		return nil // a real one is refused as well, which is reported then, if one is needed
	case err != nil:
		return fmt.Errorf("asking what would be stored for ReplicaSet %s/%s: %w", rs.Namespace, rs.Name, err)
	case sameTemplate(&answer.Spec.Template, &namesake.Spec.Template):
		r.sets = replicaSets{current: namesake, old: slices.Concat(r.sets.old[:i], r.sets.old[i+1:])}
	}
	return nil
}

// wouldStore returns what the API server would store of a ReplicaSet.
func (r *reconciliation) wouldStore(ctx context.Context, rs *appsv1.ReplicaSet) (*appsv1.ReplicaSet, error) {
	return r.Client.AppsV1().ReplicaSets(rs.Namespace).Create(ctx, rs, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
}

// ensureCurrent creates the new ReplicaSet if there is none.
func (r *reconciliation) ensureCurrent(ctx context.Context) error {
	if r.sets.current != nil {
		return nil
	}
	rs := newReplicaSet(r.d, r.sets.old)
	created, err := r.Client.AppsV1().ReplicaSets(rs.Namespace).Create(ctx, rs, metav1.CreateOptions{})
	switch {
	case apierrors.IsAlreadyExists(err):
		return r.resolveCollision(ctx, rs, err)
	case apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause):
		return err
	case err != nil:
		return r.createFailed(ctx, rs, err)
	}
	r.written.Wrote(r.stored, created)
	r.sets.current = created
	if size := sizeOf(created); size > 0 {
		r.Record(scaledEvent(r.d, created, 0, size))
	}
	r.copyRevision()
	if hasDeadline(r.d) {
		r.setCondition(createdCondition(created, r.Clock.Now()))
	}
	return nil
}

// resolveCollision uses the existing ReplicaSet that has the name of the one to create, if it equals
// what would have been created. Otherwise the next attempt uses another name.
func (r *reconciliation) resolveCollision(ctx context.Context, rs *appsv1.ReplicaSet, cause error) error {
	namesake, err := r.namesake(ctx, rs)
	switch {
	case apierrors.IsNotFound(err):
		return reconcile.Requeue(fmt.Errorf("getting ReplicaSet %s/%s, which exists: %w", rs.Namespace, rs.Name, err))
	case err != nil:
		return fmt.Errorf("getting ReplicaSet %s/%s, which exists: %w", rs.Namespace, rs.Name, err)
	case r.isAsCreated(namesake):
		r.sets.current = namesake
		r.copyRevision()
		return nil
	case r.isToBeAdopted(namesake):
		return reconcile.AwaitCache(fmt.Errorf("waiting for the cache to show ReplicaSet %s/%s without its former owner: %w",
			rs.Namespace, rs.Name, cause))
	}
	renamed := r.d.DeepCopy()
	renamed.Status.CollisionCount = ptr.To(ptr.Deref(r.d.Status.CollisionCount, 0) + 1)
	if by := metav1.GetControllerOfNoCopy(namesake); by == nil || by.UID == r.d.UID {
		if err := r.judge(ctx, newReplicaSet(renamed, r.sets.old)); err != nil {
			return r.createFailed(ctx, rs, err)
		}
	}
	r.d.Status.CollisionCount = renamed.Status.CollisionCount
	return reconcile.Requeue(fmt.Errorf("creating ReplicaSet %s/%s: %w", rs.Namespace, rs.Name, cause))
}

// judge returns an error if the API server would store another ReplicaSet than the one to create, since an admission
// webhook changes it. It would not be the new one of the Deployment: its name would be the next collision, and so on
// without end. Nothing is concluded from any other answer.
func (r *reconciliation) judge(ctx context.Context, rs *appsv1.ReplicaSet) error {
	stored, err := r.wouldStore(ctx, rs)
	if err != nil || r.isAsCreated(stored) && r.owners.Selects(r.stored, stored) {
		return nil
	}
	return errors.New("it would be stored with another template, other labels or another owner than were sent; " +
		"an admission webhook may change them")
}

// namesake returns the ReplicaSet that has the name of the one to create. Where the cache shows that of somebody else,
// or of another template, it may be one that was there before, so it is read live.
func (r *reconciliation) namesake(ctx context.Context, rs *appsv1.ReplicaSet) (*appsv1.ReplicaSet, error) {
	cached, err := r.replicaSets.ReplicaSets(rs.Namespace).Get(rs.Name)
	if err != nil {
		return nil, err
	}
	if r.isAsCreated(cached) {
		return r.written.Newest(r.stored, cached), nil
	}
	live, err := r.Client.AppsV1().ReplicaSets(rs.Namespace).Get(ctx, rs.Name, metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	if r.isAsCreated(live) {
		r.written.Wrote(r.stored, live)
	}
	return live, nil
}

// isAsCreated reports whether a ReplicaSet has the owner and the template of the one to create.
func (r *reconciliation) isAsCreated(rs *appsv1.ReplicaSet) bool {
	return metav1.IsControlledBy(rs, r.d) && sameTemplate(&rs.Spec.Template, &r.d.Spec.Template)
}

// isToBeAdopted reports whether a ReplicaSet is going to be adopted as the new one.
func (r *reconciliation) isToBeAdopted(rs *appsv1.ReplicaSet) bool {
	return metav1.GetControllerOfNoCopy(rs) == nil && rs.DeletionTimestamp == nil && r.owners.Selects(r.stored, rs) &&
		sameTemplate(&rs.Spec.Template, &r.d.Spec.Template)
}

// createFailed reports that a ReplicaSet could not be created. A request that was cut off because the instance ends
// says nothing about it.
func (r *reconciliation) createFailed(ctx context.Context, rs *appsv1.ReplicaSet, cause error) error {
	message := fmt.Sprintf("Failed to create new replica set %q: %v", rs.Name, cause)
	if hasDeadline(r.d) && ctx.Err() == nil {
		r.setCondition(progressing(corev1.ConditionFalse, reasonCreateError, message, r.Clock.Now()))
	}
	r.RecordFailure(ctx, createFailedEvent(r.d, message))
	return fmt.Errorf("creating ReplicaSet %s/%s: %w", rs.Namespace, rs.Name, cause)
}

// resize scales ReplicaSets, and reports whether a size changed. A failure does not affect the others.
func (r *reconciliation) resize(ctx context.Context, plan []resize) (bool, error) {
	changed := false
	var failures []error
	for _, step := range plan {
		sized := step.apply(r.d)
		if sized == nil {
			continue
		}
		if err := r.updateReplicaSet(ctx, sized); err != nil {
			failures = append(failures, err)
			continue
		}
		if from := sizeOf(step.rs); from != step.size {
			changed = true
			r.Record(scaledEvent(r.d, step.rs, from, step.size))
		}
	}
	return changed, errors.Join(failures...)
}

func (r *reconciliation) updateReplicaSet(ctx context.Context, rs *appsv1.ReplicaSet) error {
	updated, err := r.Client.AppsV1().ReplicaSets(rs.Namespace).Update(ctx, rs, metav1.UpdateOptions{})
	if err != nil {
		return fmt.Errorf("updating ReplicaSet %s/%s: %w", rs.Namespace, rs.Name, err)
	}
	r.written.Wrote(r.stored, updated)
	r.sets.replace(updated)
	return nil
}

// cleanUp deletes old ReplicaSets beyond the history limit. The UID precondition protects a
// namesake created in the meantime. A failure does not affect the others.
func (r *reconciliation) cleanUp(ctx context.Context) error {
	var failures []error
	for _, rs := range outdated(r.d, r.sets.old) {
		err := r.Client.AppsV1().ReplicaSets(rs.Namespace).
			Delete(ctx, rs.Name, metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions(string(rs.UID))})
		if err != nil && !controller.Absent(err) && !apierrors.IsConflict(err) {
			failures = append(failures, fmt.Errorf("deleting ReplicaSet %s/%s: %w", rs.Namespace, rs.Name, err))
			continue
		}
		r.written.Deleted(r.stored, rs)
	}
	return errors.Join(failures...)
}
