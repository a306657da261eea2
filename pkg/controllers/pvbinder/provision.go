package pvbinder

import (
	"context"
	"fmt"
	"maps"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/component-helpers/storage/volume"
	"k8s.io/utils/ptr"
)

// provision starts the operation that provisions a volume for a claim. The claim is bound once the volume
// exists.
func (c *binderController) provision(claim *corev1.PersistentVolumeClaim) error {
	if !c.provisions {
		return nil
	}
	class, err := c.classes.Get(volume.GetPersistentVolumeClaimClass(claim))
	if err != nil {
		c.recordAll(provisioningFailed(claim, err.Error()))
		return nil
	}
	internal, external, err := c.plugins.provisionerFor(class)
	if err != nil {
		c.recordAll(provisioningFailed(claim, err.Error()))
		return nil
	}
	plugin := external
	if internal != nil {
		plugin = internal.Name()
	}
	key, uid := keyOf(claim), claim.UID
	c.operations.start(fmt.Sprintf("provision-%s[%s]", key, uid), func(stopping, working context.Context) error {
		c.timings.begin(operationProvision, uid, plugin) // first, so that claimGone drops it if the claim goes after this
		claim := c.claims.get(key)
		if claim == nil || claim.UID != uid {
			c.timings.drop(operationProvision, uid)
			return nil // it is gone
		}
		var err error
		if internal != nil {
			err = c.provisionInTree(stopping, working, claim, internal, class)
		} else {
			err = c.requestFromProvisioner(stopping, working, claim, external)
		}
		if err != nil {
			c.timings.fail(operationProvision, uid)
		}
		return err
	})
	return nil
}

// requestFromProvisioner asks an external provisioner for a volume.
func (c *binderController) requestFromProvisioner(
	stopping, working context.Context, claim *corev1.PersistentVolumeClaim, provisioner string,
) error {
	select {
	case c.asking <- struct{}{}:
		defer func() { <-c.asking }()
	case <-stopping.Done():
		return nil // the next instance asks
	}
	if claim = c.waiting(claim); claim == nil {
		return nil
	}
	if asking := withProvisioner(claim, provisioner); asking != nil {
		written, err := c.updateClaim(working, asking)
		if err != nil {
			if working.Err() == nil { // else the request was cut off, which says nothing about the claim
				c.recordAll(provisioningFailed(claim, fmt.Sprintf("Error saving claim: %v", err)))
			}
			return fmt.Errorf("asking %s for a volume for claim %s: %w", provisioner, keyOf(claim), err)
		}
		claim = written
	}
	c.recordAll(waitsForProvisioner(claim, provisioner))
	return nil
}

// waiting returns the newest known state of a claim that has waited, nil if it does not wait for a volume any more.
func (c *binderController) waiting(claim *corev1.PersistentVolumeClaim) *corev1.PersistentVolumeClaim {
	known := c.claims.get(keyOf(claim))
	if known == nil || known.UID != claim.UID || known.Spec.VolumeName != "" {
		return nil
	}
	return known
}

// volumeFor returns the volume that a plugin made for a claim.
func volumeFor(
	claim *corev1.PersistentVolumeClaim, ref *corev1.ObjectReference, class *storagev1.StorageClass, plugin string,
	made *provisionedStorage,
) *corev1.PersistentVolume {
	v := &corev1.PersistentVolume{}
	v.Name = volumeNameFor(claim)
	v.Annotations = map[string]string{volume.AnnBoundByController: "yes", volume.AnnDynamicallyProvisioned: plugin}
	maps.Copy(v.Annotations, made.Annotations)
	requested := claim.Spec.Resources.Requests[corev1.ResourceStorage]
	v.Spec = corev1.PersistentVolumeSpec{
		PersistentVolumeSource:        made.Source,
		PersistentVolumeReclaimPolicy: ptr.Deref(class.ReclaimPolicy, corev1.PersistentVolumeReclaimDelete),
		AccessModes:                   claim.Spec.AccessModes,
		Capacity:                      corev1.ResourceList{corev1.ResourceStorage: requested},
		ClaimRef:                      ref,
		StorageClassName:              class.Name,
	}
	if len(v.Spec.AccessModes) == 0 {
		v.Spec.AccessModes = []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}
	}
	if v.Spec.PersistentVolumeReclaimPolicy == corev1.PersistentVolumeReclaimDelete {
		v.Finalizers = []string{volume.PVDeletionInTreeProtectionFinalizer}
	}
	return v
}

func volumeNameFor(claim *corev1.PersistentVolumeClaim) string { return "pvc-" + string(claim.UID) }
