// Package volumes finds out what the volumes of pods are.
//
// The model, in rules:
//
//  1. A volume of a pod is defined in the pod itself, or by the PersistentVolume that its claim is
//     bound to. A claim of a generic ephemeral volume counts only if the pod controls it, a
//     PersistentVolume only if it is bound to the UID of the claim.
//  2. A volume of a type that has moved from Kubernetes to a CSI driver is translated: whoever gets
//     a Spec sees the CSI volume. All seven types have moved, unconditionally.
//  3. PersistentVolumes come from the cache and are shared: a Spec must not be modified.
package volumes

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/component-helpers/storage/ephemeral"
	csitranslation "k8s.io/csi-translation-lib"
	"k8s.io/klog/v2"

	"kcmd.dev/pkg/controllers/kit/index"
)

// Spec is what a volume is: either a PersistentVolume or a volume that is defined in a pod.
type Spec struct {
	PV     *corev1.PersistentVolume
	Volume *corev1.Volume
	// ReadOnly is what the pod asks for.
	ReadOnly bool
	// Migrated reports whether the volume was translated to CSI.
	Migrated bool
	// Inline reports whether it was defined in a pod. If it was translated, PV is set, and there is no
	// such object.
	Inline bool
}

// Name is the name of the PersistentVolume, or else that of the volume in the pod.
func (s Spec) Name() string {
	switch {
	case s.PV != nil:
		return s.PV.Name
	case s.Volume != nil:
		return s.Volume.Name
	}
	return ""
}

// IsZero reports whether it is not known what the volume is.
func (s Spec) IsZero() bool { return s.PV == nil && s.Volume == nil }

// CSI is the source of a PersistentVolume of a CSI driver, nil for other volumes.
func (s Spec) CSI() *corev1.CSIPersistentVolumeSource {
	if s.PV == nil {
		return nil
	}
	return s.PV.Spec.CSI
}

// Resolver finds out what volumes are from caches.
type Resolver struct {
	Claims  corelisters.PersistentVolumeClaimLister
	Volumes corelisters.PersistentVolumeLister
}

// Resolve returns what a volume of a pod is.
func (r Resolver) Resolve(logger klog.Logger, pod *corev1.Pod, volume *corev1.Volume) (Spec, error) {
	name := index.ClaimOf(pod, volume)
	if name == "" {
		return Translate(logger, Spec{Volume: volume, Inline: true}, pod.Namespace)
	}
	claim, err := r.Claims.PersistentVolumeClaims(pod.Namespace).Get(name)
	if err != nil {
		return Spec{}, fmt.Errorf("reading claim %s/%s: %w", pod.Namespace, name, err)
	}
	if volume.Ephemeral != nil {
		if err := ephemeral.VolumeIsForPod(pod, claim); err != nil {
			return Spec{}, err
		}
	}
	if claim.Status.Phase != corev1.ClaimBound || claim.Spec.VolumeName == "" {
		return Spec{}, fmt.Errorf("claim %s/%s is not bound", claim.Namespace, claim.Name)
	}
	pv, err := r.Volumes.Get(claim.Spec.VolumeName)
	if err != nil {
		return Spec{}, fmt.Errorf("reading volume %s: %w", claim.Spec.VolumeName, err)
	}
	if pv.Spec.ClaimRef == nil || pv.Spec.ClaimRef.UID != claim.UID {
		return Spec{}, fmt.Errorf("volume %s is not bound to claim %s/%s of UID %s",
			pv.Name, claim.Namespace, claim.Name, claim.UID)
	}
	readOnly := volume.PersistentVolumeClaim != nil && volume.PersistentVolumeClaim.ReadOnly
	return Translate(logger, Spec{PV: pv, ReadOnly: readOnly}, pod.Namespace)
}

var translator = csitranslation.New()

// Translate translates a volume to CSI if its type has moved there. The namespace is that of the pod;
// it matters if the volume is defined in the pod.
func Translate(logger klog.Logger, spec Spec, namespace string) (Spec, error) {
	if spec.PV != nil && spec.PV.Spec.CSI != nil {
		return spec, nil // most volumes
	}
	translated, err := spec, error(nil)
	switch {
	case spec.PV != nil && translator.IsPVMigratable(spec.PV):
		translated.PV, err = translator.TranslateInTreePVToCSI(logger, spec.PV)
	case spec.Volume != nil && translator.IsInlineMigratable(spec.Volume):
		translated.PV, err = translateInline(logger, spec.Volume, namespace)
	default:
		return spec, nil
	}
	if err != nil {
		return Spec{}, fmt.Errorf("translating volume %s to CSI: %w", spec.Name(), err)
	}
	translated.Volume, translated.Migrated = nil, true
	return translated, nil
}

// storagePolicy is the attribute that names the storage policy of a vSphere volume.
const storagePolicy = "storagepolicyname"

// translateInline translates a volume that is defined in a pod. The library panics on a vSphere volume with a storage
// policy, which it therefore does not see.
func translateInline(logger klog.Logger, volume *corev1.Volume, namespace string) (*corev1.PersistentVolume, error) {
	vsphere := volume.VsphereVolume
	if vsphere == nil || vsphere.StoragePolicyName == "" {
		return translator.TranslateInTreeInlineVolumeToCSI(logger, volume, namespace)
	}
	volume = volume.DeepCopy() // the pod is cached
	volume.VsphereVolume.StoragePolicyName = ""
	pv, err := translator.TranslateInTreeInlineVolumeToCSI(logger, volume, namespace)
	if err == nil {
		pv.Spec.CSI.VolumeAttributes[storagePolicy] = vsphere.StoragePolicyName
	}
	return pv, err
}

// InlineDriver is the CSI driver of a volume that is defined in a pod and whose type has moved to CSI,
// empty for other volumes.
func InlineDriver(volume *corev1.Volume) string {
	if !translator.IsInlineMigratable(volume) {
		return ""
	}
	return driverOf(nil, volume)
}

// Driver is the CSI driver of a PersistentVolume, also if its type has moved to CSI; empty for others.
func Driver(pv *corev1.PersistentVolume) string {
	switch {
	case pv.Spec.CSI != nil:
		return pv.Spec.CSI.Driver
	case translator.IsPVMigratable(pv):
		return driverOf(pv, nil)
	}
	return ""
}

func driverOf(pv *corev1.PersistentVolume, volume *corev1.Volume) string {
	name, err := translator.GetInTreePluginNameFromSpec(pv, volume)
	if err != nil {
		return ""
	}
	driver, err := translator.GetCSINameFromInTreeName(name)
	if err != nil {
		return ""
	}
	return driver
}
