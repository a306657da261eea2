package ephemeralvolume

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/component-helpers/storage/ephemeral"

	"kcmd.dev/pkg/controllers/kit/reconcile"
)

func (c *volumeController) reconcile(ctx context.Context, key types.NamespacedName) error {
	pod, found, err := reconcile.Found(c.pods.Pods(key.Namespace).Get(key.Name))
	if !found || pod.DeletionTimestamp != nil {
		return err
	}
	for i := range pod.Spec.Volumes {
		volume := &pod.Spec.Volumes[i]
		if !isEphemeral(*volume) {
			continue
		}
		if err := c.provide(ctx, pod, volume); err != nil {
			c.RecordFailure(ctx, bindingFailed(pod, volume, err))
			return fmt.Errorf("pod %s, ephemeral volume %s: %w", key, volume.Name, err)
		}
	}
	return nil
}

// provide ensures that the claim for a volume exists and that the pod controls it. While the cache does not show the
// claim, the pod is reconciled again: if the claim is deleted before, no event reports that.
func (c *volumeController) provide(ctx context.Context, pod *corev1.Pod, volume *corev1.Volume) error {
	claim, found, err := reconcile.Found(c.claims.PersistentVolumeClaims(pod.Namespace).Get(ephemeral.VolumeClaimName(pod, volume)))
	if err != nil {
		return err
	}
	if found {
		return ephemeral.VolumeIsForPod(pod, claim)
	}
	if err := c.create(ctx, pod, claimFor(pod, volume)); err != nil {
		return err
	}
	c.queue.AddAfter(reconcile.KeyOf(pod), reconcile.RecheckAfter)
	return nil
}

// create creates a claim for a pod. It succeeds if the claim already exists and the pod controls it.
func (c *volumeController) create(ctx context.Context, pod *corev1.Pod, claim *corev1.PersistentVolumeClaim) error {
	claims := c.Client.CoreV1().PersistentVolumeClaims(pod.Namespace)
	c.metrics.creations.Inc()
	_, err := claims.Create(ctx, claim, metav1.CreateOptions{})
	if err == nil {
		return nil
	}
	c.metrics.failures.Inc()
	if apierrors.IsAlreadyExists(err) {
		if existing, readErr := claims.Get(ctx, claim.Name, metav1.GetOptions{}); readErr == nil {
			return ephemeral.VolumeIsForPod(pod, existing)
		}
	}
	return fmt.Errorf("create PVC %s: %w", claim.Name, err)
}

// claimFor builds the claim for a volume from its template.
func claimFor(pod *corev1.Pod, volume *corev1.Volume) *corev1.PersistentVolumeClaim {
	template := volume.Ephemeral.VolumeClaimTemplate.DeepCopy() // the pod is cached
	return &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{
			Name:            ephemeral.VolumeClaimName(pod, volume),
			Labels:          template.Labels,
			Annotations:     template.Annotations,
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(pod, corev1.SchemeGroupVersion.WithKind("Pod"))},
		},
		Spec: template.Spec,
	}
}
