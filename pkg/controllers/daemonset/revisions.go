package daemonset

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	"k8s.io/utils/ptr"

	"kcmd.dev/pkg/controller"
	"kcmd.dev/pkg/controllers/kit/owners"
	"kcmd.dev/pkg/controllers/kit/reconcile"
	"kcmd.dev/pkg/controllers/kit/workloads/history"
	"kcmd.dev/pkg/controllers/kit/workloads/podtemplate"
)

// construct returns the history of a set, with one revision of the current template that has
// the highest number. It may relabel pods, so it returns them too.
func (c *daemonSetController) construct(
	ctx context.Context, ds *appsv1.DaemonSet, b *blueprint, claimed []*corev1.Pod,
) (revisions, []*corev1.Pod, error) {
	all, err := c.claimRevisions(ctx, ds)
	if err != nil {
		return revisions{}, nil, err
	}
	matching, old := split(all, b.payload)
	number := history.NextNumber(old)
	if len(matching) == 0 {
		current, err := c.snapshot(ctx, ds, b.payload, number)
		if err == nil {
			c.wroteRevision(ds, current)
		}
		return revisions{current: current, old: old}, claimed, err
	}
	current := matching[len(matching)-1]
	if claimed, err = c.mergeInto(ctx, ds, current, matching[:len(matching)-1], claimed); err != nil {
		return revisions{}, nil, err
	}
	if current.Revision < number {
		if current, err = c.history.Renumber(ctx, current, number); err != nil {
			return revisions{}, nil, err
		}
		c.wroteRevision(ds, current)
	}
	return revisions{current: current, old: old}, claimed, nil
}

// wroteRevision makes the next reconcile wait until the cache shows a revision: the next revision
// would get the same number.
func (c *daemonSetController) wroteRevision(ds *appsv1.DaemonSet, revision *appsv1.ControllerRevision) {
	if c.config.requireFresh {
		c.owners.Writes.Wrote(ds, revisionResource, revision.ResourceVersion)
	}
}

// claimRevisions returns the revisions of a set. All have the label with their hash.
func (c *daemonSetController) claimRevisions(
	ctx context.Context, ds *appsv1.DaemonSet,
) ([]*appsv1.ControllerRevision, error) {
	selector, err := c.owners.Selectors.Of(ds)
	if err != nil {
		return nil, err
	}
	candidates, err := c.history.Candidates(daemonSetKind.Kind, ds)
	if err != nil {
		return nil, err
	}
	patch := func(ctx context.Context, r *appsv1.ControllerRevision, patch []byte) error {
		_, err := c.history.Patch(ctx, r, types.StrategicMergePatchType, patch)
		return err
	}
	claimed, err := owners.ClaimerFor(c.owners, ds, "ControllerRevision", selector, patch).Claim(ctx, candidates)
	if err != nil {
		return nil, err
	}
	for i, r := range claimed {
		if claimed[i], err = c.labelled(ctx, r); err != nil {
			return nil, err
		}
	}
	return claimed, nil
}

// labelled ensures that a revision has the label with its hash. The hash of one without is its
// name.
func (c *daemonSetController) labelled(
	ctx context.Context, r *appsv1.ControllerRevision,
) (*appsv1.ControllerRevision, error) {
	if _, ok := r.Labels[appsv1.DefaultDaemonSetUniqueLabelKey]; ok {
		return r, nil
	}
	changed := r.DeepCopy()
	if changed.Labels == nil {
		changed.Labels = map[string]string{}
	}
	changed.Labels[appsv1.DefaultDaemonSetUniqueLabelKey] = r.Name
	return c.Client.AppsV1().ControllerRevisions(r.Namespace).Update(ctx, changed, metav1.UpdateOptions{})
}

// snapshot creates the revision of the template of a set. If its name is taken by another
// template, the set counts a collision, and the next attempt gets another name.
func (c *daemonSetController) snapshot(
	ctx context.Context, ds *appsv1.DaemonSet, payload []byte, number int64,
) (*appsv1.ControllerRevision, error) {
	hash := podtemplate.Hash(&ds.Spec.Template, ds.Status.CollisionCount)
	made := &appsv1.ControllerRevision{
		ObjectMeta: metav1.ObjectMeta{
			Name:            podtemplate.Name(ds.Name, hash),
			Namespace:       ds.Namespace,
			Labels:          labels.Merge(ds.Spec.Template.Labels, labels.Set{appsv1.DefaultDaemonSetUniqueLabelKey: hash}),
			Annotations:     maps.Clone(ds.Annotations),
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(ds, daemonSetKind)},
		},
		Data:     runtime.RawExtension{Raw: payload},
		Revision: number,
	}
	client := c.Client.AppsV1().ControllerRevisions(ds.Namespace)
	created, err := client.Create(ctx, made, metav1.CreateOptions{})
	if !apierrors.IsAlreadyExists(err) {
		return created, err
	}
	existing, getErr := client.Get(ctx, made.Name, metav1.GetOptions{})
	if getErr != nil {
		return nil, getErr
	}
	if history.Holds(existing, payload) {
		if ref := metav1.GetControllerOfNoCopy(existing); ref != nil && ref.UID != ds.UID {
			c.owners.EnqueueAfter(ds, reconcile.RecheckAfter) // it goes with the set that it belongs to
		}
		return c.labelled(ctx, existing)
	}
	if countErr := c.countCollision(ctx, ds); countErr != nil {
		return nil, countErr
	}
	return nil, err
}

// countCollision increments status.collisionCount, unless it was incremented since the set was
// read.
func (c *daemonSetController) countCollision(ctx context.Context, ds *appsv1.DaemonSet) error {
	client := c.Client.AppsV1().DaemonSets(ds.Namespace)
	live, err := client.Get(ctx, ds.Name, metav1.GetOptions{})
	if err != nil {
		return err
	}
	if live.UID != ds.UID || !ptr.Equal(live.Status.CollisionCount, ds.Status.CollisionCount) {
		return reconcile.Requeue(fmt.Errorf("the collision count of DaemonSet %s is stale", klog.KObj(ds)))
	}
	changed := live.DeepCopy()
	changed.Status.CollisionCount = ptr.To(ptr.Deref(live.Status.CollisionCount, 0) + 1)
	updated, err := client.UpdateStatus(ctx, changed, metav1.UpdateOptions{})
	if err != nil {
		return err
	}
	klog.FromContext(ctx).V(2).Info("Name of the new revision is taken",
		"daemonSet", klog.KObj(ds), "collisionCount", *changed.Status.CollisionCount)
	c.owners.WroteOwner(ds, updated)
	return nil
}

// mergeInto replaces duplicates of a revision by it: their pods get its label, and the duplicates are
// deleted.
func (c *daemonSetController) mergeInto(
	ctx context.Context, ds *appsv1.DaemonSet, kept *appsv1.ControllerRevision, duplicates []*appsv1.ControllerRevision,
	claimed []*corev1.Pod,
) ([]*corev1.Pod, error) {
	if len(duplicates) == 0 {
		return claimed, nil
	}
	merged := map[string]bool{}
	for _, r := range duplicates {
		merged[r.Labels[appsv1.DefaultDaemonSetUniqueLabelKey]] = true
	}
	claimed, err := c.relabel(ctx, ds, merged, kept.Labels[appsv1.DefaultDaemonSetUniqueLabelKey], claimed)
	if err != nil {
		return nil, err
	}
	for _, r := range duplicates {
		if err := c.history.Delete(ctx, r); err != nil {
			return nil, err
		}
	}
	return claimed, nil
}

// relabel sets the hash label of the pods that have one of the merged hashes. It returns all pods, these as patched.
// Pods of other templates are still to be updated.
func (c *daemonSetController) relabel(
	ctx context.Context, ds *appsv1.DaemonSet, merged map[string]bool, hash string, claimed []*corev1.Pod,
) ([]*corev1.Pod, error) {
	relabelled := make([]*corev1.Pod, 0, len(claimed))
	for _, pod := range claimed {
		if label := pod.Labels[appsv1.DefaultDaemonSetUniqueLabelKey]; label == hash || !merged[label] {
			relabelled = append(relabelled, pod)
			continue
		}
		patch, err := labelPatch(pod.UID, hash)
		if err != nil {
			return nil, err
		}
		patched, err := c.Client.CoreV1().Pods(pod.Namespace).Patch(ctx, pod.Name, types.MergePatchType, patch,
			metav1.PatchOptions{})
		switch {
		case controller.Absent(err):
			continue
		case refusesUID(err):
			return nil, reconcile.Requeue(fmt.Errorf("labelling pod %s, which is another one by now: %w", klog.KObj(pod), err))
		case err != nil:
			return nil, fmt.Errorf("labelling pod %s/%s: %w", pod.Namespace, pod.Name, err)
		}
		c.podControl.Patched(ds, patched)
		relabelled = append(relabelled, patched)
	}
	return relabelled, nil
}

// labelPatch returns the merge patch that sets the hash label of a pod. The UID in it protects a successor of the same
// name, which a stale cache does not show.
func labelPatch(uid types.UID, hash string) ([]byte, error) {
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"uid":    uid,
		"labels": map[string]string{appsv1.DefaultDaemonSetUniqueLabelKey: hash},
	}})
	if err != nil {
		return nil, fmt.Errorf("encoding the label of a pod: %w", err)
	}
	return patch, nil
}

// refusesUID reports whether a patch with a UID was refused because the object has another UID.
func refusesUID(err error) bool {
	var status apierrors.APIStatus
	if !apierrors.IsInvalid(err) || !errors.As(err, &status) || status.Status().Details == nil {
		return false
	}
	isUID := func(cause metav1.StatusCause) bool { return cause.Field == "metadata.uid" }
	return slices.ContainsFunc(status.Status().Details.Causes, isUID)
}

// prune deletes the revisions that exceed the limit of the set.
func (c *daemonSetController) prune(ctx context.Context, o *observation, r revisions) error {
	return c.history.DeleteAll(ctx, r.surplus(o.ds, o.claimed))
}
