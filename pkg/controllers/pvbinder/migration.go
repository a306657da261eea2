package pvbinder

import (
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/component-helpers/storage/volume"
	csitranslation "k8s.io/csi-translation-lib"
)

// inTreePrefix begins the names of plugins that are, or were, part of Kubernetes.
const inTreePrefix = "kubernetes.io/"

// migratedTo returns the CSI driver that has taken over from an in-tree plugin, empty if none has.
func migratedTo(plugin string) string {
	if !strings.HasPrefix(plugin, inTreePrefix) {
		return ""
	}
	driver, err := csitranslation.New().GetCSINameFromInTreeName(plugin)
	if err != nil {
		return "" // it has no driver
	}
	return driver
}

// withMigrationAnnotation returns a claim whose annotation migrated-to fits its provisioner, or nil if nothing has to
// change.
func withMigrationAnnotation(claim *corev1.PersistentVolumeClaim) *corev1.PersistentVolumeClaim {
	provisioner, ok := claim.Annotations[volume.AnnStorageProvisioner]
	if !ok {
		provisioner, ok = claim.Annotations[volume.AnnBetaStorageProvisioner]
	}
	annotations, changed := withMigration(claim.Annotations, provisioner, ok)
	if !changed {
		return nil
	}
	claim = claim.DeepCopy()
	claim.Annotations = annotations
	return claim
}

// withMigration returns annotations in which migrated-to fits a plugin, if there is one.
func withMigration(annotations map[string]string, plugin string, known bool) (fixed map[string]string, changed bool) {
	if !known {
		return annotations, false
	}
	driver, shown := migratedTo(plugin), annotations[volume.AnnMigratedTo]
	if driver == shown {
		return annotations, false
	}
	fixed = maps.Clone(annotations)
	if driver == "" {
		delete(fixed, volume.AnnMigratedTo)
	} else {
		fixed[volume.AnnMigratedTo] = driver
	}
	return fixed, true
}

// withMigrationAndFinalizers returns a volume whose annotation migrated-to and whose finalizers fit its provisioner, or
// nil if nothing has to change.
func withMigrationAndFinalizers(v *corev1.PersistentVolume) *corev1.PersistentVolume {
	plugin, known := v.Annotations[volume.AnnDynamicallyProvisioned]
	annotations, migrated := withMigration(v.Annotations, plugin, known)
	finalizers, protected := v.Finalizers, false
	if known {
		finalizers, protected = withProtection(v, plugin)
	}
	if !migrated && !protected {
		return nil
	}
	v = v.DeepCopy()
	v.Annotations, v.Finalizers = annotations, finalizers
	return v
}

// withProtection returns the finalizers of a volume that a plugin provisioned. The finalizer of this
// controller is on volumes that it deletes itself, and that of the external provisioner is not. A volume that is
// being deleted is given none: the API server would refuse the whole update, and the volume not be released.
func withProtection(v *corev1.PersistentVolume, plugin string) (finalizers []string, changed bool) {
	switch {
	case migratedTo(plugin) != "":
		return without(v.Finalizers, volume.PVDeletionInTreeProtectionFinalizer)
	case !strings.HasPrefix(plugin, inTreePrefix):
		return v.Finalizers, false
	}
	finalizers, external := without(v.Finalizers, volume.PVDeletionProtectionFinalizer)
	switch v.Spec.PersistentVolumeReclaimPolicy {
	case corev1.PersistentVolumeReclaimDelete:
		if v.DeletionTimestamp == nil && !slices.Contains(finalizers, volume.PVDeletionInTreeProtectionFinalizer) {
			return append(slices.Clone(finalizers), volume.PVDeletionInTreeProtectionFinalizer), true
		}
	case corev1.PersistentVolumeReclaimRetain, corev1.PersistentVolumeReclaimRecycle:
		finalizers, changed = without(finalizers, volume.PVDeletionInTreeProtectionFinalizer)
	}
	return finalizers, changed || external
}

// without returns finalizers without one of them, in the same order.
func without(finalizers []string, finalizer string) (rest []string, changed bool) {
	if !slices.Contains(finalizers, finalizer) {
		return finalizers, false
	}
	return slices.DeleteFunc(slices.Clone(finalizers), func(f string) bool { return f == finalizer }), true
}

// withProvisioner returns a claim that asks a provisioner for a volume, or nil if nothing has to change. That a beta
// annotation is missing or differs does not count.
func withProvisioner(claim *corev1.PersistentVolumeClaim, provisioner string) *corev1.PersistentVolumeClaim {
	if claim.Annotations[volume.AnnStorageProvisioner] == provisioner {
		return nil
	}
	claim = claim.DeepCopy()
	metav1.SetMetaDataAnnotation(&claim.ObjectMeta, volume.AnnBetaStorageProvisioner, provisioner)
	metav1.SetMetaDataAnnotation(&claim.ObjectMeta, volume.AnnStorageProvisioner, provisioner)
	if fixed := withMigrationAnnotation(claim); fixed != nil {
		return fixed
	}
	return claim
}
