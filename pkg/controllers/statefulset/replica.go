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

	"kcmd.dev/pkg/controllers/kit/pods"
)

// createPod creates the pod of a slot, after its claims.
func (c *statefulSetController) createPod(ctx context.Context, set *appsv1.StatefulSet, pod *corev1.Pod) error {
	stale, err := c.claimsAreStale(set, pod)
	if err != nil {
		return err
	}
	if stale {
		return nil // the deletion of the claim brings the set back here
	}
	if err := c.createClaims(ctx, set, pod); err != nil {
		c.podEvent(ctx, set, pod, verbCreate, err)
		return err
	}
	created, err := c.client.CoreV1().Pods(set.Namespace).Create(ctx, pod, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		return err
	}
	if err == nil {
		c.tracker.Wrote(keyOf(set), set.UID, pods.Resource, created.ResourceVersion)
		pod = created
	}
	if err := c.fixOwners(ctx, set, pod); err != nil {
		return err
	}
	c.podEvent(ctx, set, pod, verbCreate, err)
	return err
}

// fixOwners is fixClaimOwners with an event if it fails.
func (c *statefulSetController) fixOwners(ctx context.Context, set *appsv1.StatefulSet, pod *corev1.Pod) error {
	err := c.fixClaimOwners(ctx, set, pod)
	if err != nil {
		c.podEvent(ctx, set, pod, verbUpdate, err)
	}
	return err
}

// fixPending creates missing claims of a pod that waits for them, and sets their owners.
func (c *statefulSetController) fixPending(ctx context.Context, set *appsv1.StatefulSet, pod *corev1.Pod) error {
	if err := c.createClaims(ctx, set, pod); err != nil {
		return err
	}
	return c.fixOwners(ctx, set, pod)
}

// updatePod gives a pod the identity and volumes of its slot, and its claims their owners.
// The API server refuses new volumes; the event says so.
func (c *statefulSetController) updatePod(ctx context.Context, set *appsv1.StatefulSet, pod *corev1.Pod) error {
	if !storageMatches(set, pod) {
		if err := c.createClaims(ctx, set, pod); err != nil {
			c.podEvent(ctx, set, pod, verbUpdate, err)
			return err
		}
	}
	if matches, err := c.claimsMatchPolicy(ctx, set, pod); err == nil && !matches {
		if err := c.fixOwners(ctx, set, pod); err != nil {
			return err
		}
	}
	patch, err := podPatch(set, pod)
	if err != nil || patch == nil {
		return err
	}
	updated, err := c.client.CoreV1().Pods(pod.Namespace).Patch(ctx, pod.Name, types.StrategicMergePatchType, patch, metav1.PatchOptions{})
	if err == nil {
		c.tracker.Wrote(keyOf(set), set.UID, pods.Resource, updated.ResourceVersion)
	}
	c.podEvent(ctx, set, pod, verbUpdate, err)
	return err
}

// podPatch returns the strategic merge patch that gives a pod the labels and volumes of
// its slot, nil if it has them.
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

// volumePatches replaces what the volumes of the claim templates are.
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

// deletePod deletes a pod as it was observed. That it is gone, or that its name belongs to
// another pod by now, is as good as having deleted it.
func (c *statefulSetController) deletePod(ctx context.Context, set *appsv1.StatefulSet, pod *corev1.Pod) error {
	c.tracker.Deleting(keyOf(set), set.UID, pods.Resource, pod)
	options := metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &pod.UID}}
	err := c.client.CoreV1().Pods(pod.Namespace).Delete(ctx, pod.Name, options)
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		err = nil
	}
	if err != nil {
		c.tracker.DeleteFailed(keyOf(set), pods.Resource, pod)
	}
	c.podEvent(ctx, set, pod, verbDelete, err)
	return err
}
