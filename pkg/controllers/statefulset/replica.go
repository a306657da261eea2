package statefulset

import (
	"context"
	"encoding/json"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"kcmd.dev/pkg/controller"
	"kcmd.dev/pkg/controllers/kit/pods"
)

// createReplica builds and creates the pod of a slot to be filled.
func (c *statefulSetController) createReplica(ctx context.Context, o *observation, ordinal int) error {
	pod, err := o.builder.pod(ordinal)
	if err != nil {
		return err
	}
	return c.createPod(ctx, o.set, pod)
}

// createPod creates the pod of a slot, after its claims.
func (c *statefulSetController) createPod(ctx context.Context, set *appsv1.StatefulSet, pod *corev1.Pod) error {
	stale, err := c.claimsAreStale(set, pod)
	if err != nil {
		return err
	}
	if stale {
		return nil // the deletion of the claim, or the removal of the reference, enqueues the set again
	}
	if err := c.createClaims(ctx, set, pod); err != nil {
		c.recordPod(ctx, set, pod, verbCreate, err)
		return err
	}
	created, err := c.Client.CoreV1().Pods(set.Namespace).Create(ctx, pod, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		return err
	}
	if err == nil {
		c.owners.Writes.Wrote(set, pods.Resource, created.ResourceVersion)
		pod = created
	}
	if _, err := c.fixOwners(ctx, set, pod); err != nil {
		return err
	}
	c.recordPod(ctx, set, pod, verbCreate, err)
	return err
}

// fixOwners calls fixClaimOwners and records an event if it fails.
func (c *statefulSetController) fixOwners(
	ctx context.Context, set *appsv1.StatefulSet, pod *corev1.Pod,
) (wrote bool, err error) {
	wrote, err = c.fixClaimOwners(ctx, set, pod)
	if err != nil {
		c.recordPod(ctx, set, pod, verbUpdate, err)
	}
	return wrote, err
}

// fixPending creates missing claims of a pending pod, and sets their owners.
func (c *statefulSetController) fixPending(ctx context.Context, set *appsv1.StatefulSet, pod *corev1.Pod) error {
	if err := c.createClaims(ctx, set, pod); err != nil {
		return err
	}
	_, err := c.fixOwners(ctx, set, pod)
	return err
}

// updatePod restores the identity and volumes of a pod's slot, and the owners of its claims.
// The API server rejects new volumes, which is recorded as an event.
func (c *statefulSetController) updatePod(ctx context.Context, set *appsv1.StatefulSet, pod *corev1.Pod) error {
	if !storageMatches(set, pod) {
		if err := c.createClaims(ctx, set, pod); err != nil {
			c.recordPod(ctx, set, pod, verbUpdate, err)
			return err
		}
	}
	if matches, err := c.claimsMatchPolicy(ctx, set, pod); err == nil && !matches {
		if _, err := c.fixOwners(ctx, set, pod); err != nil {
			return err
		}
	}
	patch, err := podPatch(set, pod)
	if err != nil || patch == nil {
		return err
	}
	updated, err := c.Client.CoreV1().Pods(pod.Namespace).Patch(ctx, pod.Name, types.StrategicMergePatchType, patch,
		metav1.PatchOptions{})
	if err == nil {
		c.owners.Writes.Wrote(set, pods.Resource, updated.ResourceVersion)
	}
	c.recordPod(ctx, set, pod, verbUpdate, err)
	return err
}

// podPatch returns the strategic merge patch that sets the labels and volumes of a pod's slot,
// nil if the pod has them.
func podPatch(set *appsv1.StatefulSet, pod *corev1.Pod) ([]byte, error) {
	body := map[string]any{}
	metadata := map[string]any{"uid": pod.UID}
	if !identityMatches(set, pod) {
		metadata["labels"] = identityLabels(set, ordinalOf(pod))
		body["metadata"] = metadata
	}
	if !storageMatches(set, pod) {
		body["metadata"] = metadata
		body["spec"] = map[string]any{"volumes": volumePatches(set, ordinalOf(pod))}
	}
	if len(body) == 0 {
		return nil, nil
	}
	patch, err := json.Marshal(body)
	if err != nil {
		return nil, fmt.Errorf("encoding the patch of pod %s/%s: %w", pod.Namespace, pod.Name, err)
	}
	return patch, nil
}

// volumePatches returns the patches that replace the volumes of claim templates.
func volumePatches(set *appsv1.StatefulSet, ordinal int) []map[string]any {
	var patches []map[string]any
	for _, volume := range claimVolumes(set, ordinal) {
		patches = append(patches, map[string]any{
			"$retainKeys":           []string{"name", "persistentVolumeClaim"},
			"name":                  volume.Name,
			"persistentVolumeClaim": volume.PersistentVolumeClaim,
		})
	}
	return patches
}

// deletePod deletes a pod by UID. It succeeds if the pod no longer exists. A conflict, usually since
// another pod has the name, is no failure to report: the cache will show the state that the next attempt needs.
func (c *statefulSetController) deletePod(ctx context.Context, set *appsv1.StatefulSet, pod *corev1.Pod) error {
	c.owners.Writes.Deleting(set, pods.Resource, pod)
	options := metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &pod.UID}}
	err := c.Client.CoreV1().Pods(pod.Namespace).Delete(controller.OnlyMetadata(ctx), pod.Name, options)
	if controller.Absent(err) {
		err = nil
	}
	if err != nil {
		c.podControl.DeleteFailed(set, pod, err)
	}
	if apierrors.IsConflict(err) {
		return err
	}
	c.recordPod(ctx, set, pod, verbDelete, err)
	return err
}

// recordPod records the result of a request about a pod.
func (c *statefulSetController) recordPod(
	ctx context.Context, set *appsv1.StatefulSet, pod *corev1.Pod, v verb, err error,
) {
	if err != nil {
		c.RecordFailure(ctx, podFailed(set, pod, v, err))
		return
	}
	c.Record(podSucceeded(set, pod, v))
}
