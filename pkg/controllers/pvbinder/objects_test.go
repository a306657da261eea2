package pvbinder

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/component-helpers/storage/volume"
	"k8s.io/utils/ptr"

	"kcmd.dev/test/controllertest"
)

type (
	pv  = corev1.PersistentVolume
	pvc = corev1.PersistentVolumeClaim
)

const (
	namespace = "ns"
	claimUID  = "claim-uid"
)

// aVolume is Available, of the class "gold", with 5Gi for one writer.
func aVolume(name string, changes ...func(*pv)) *pv {
	return controllertest.Changed(&pv{
		ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name + "-uid"), ResourceVersion: "7"},
		Spec: corev1.PersistentVolumeSpec{
			AccessModes:                   []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			Capacity:                      corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("5Gi")},
			StorageClassName:              "gold",
			PersistentVolumeReclaimPolicy: corev1.PersistentVolumeReclaimRetain,
			PersistentVolumeSource:        corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{Driver: "csi.example.com", VolumeHandle: name}},
		},
		Status: corev1.PersistentVolumeStatus{Phase: corev1.VolumeAvailable},
	}, changes...)
}

// aClaim is Pending and requests 1Gi of the class "gold" for one writer.
func aClaim(changes ...func(*pvc)) *pvc {
	return controllertest.Changed(&pvc{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "claim", UID: claimUID, ResourceVersion: "8"},
		Spec: corev1.PersistentVolumeClaimSpec{
			AccessModes:      []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			Resources:        corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}},
			StorageClassName: ptr.To("gold"),
		},
		Status: corev1.PersistentVolumeClaimStatus{Phase: corev1.ClaimPending},
	}, changes...)
}

func aClass(name, provisioner string, changes ...func(*storagev1.StorageClass)) *storagev1.StorageClass {
	return controllertest.Changed(&storagev1.StorageClass{
		ObjectMeta:        metav1.ObjectMeta{Name: name, CreationTimestamp: metav1.NewTime(controllertest.Epoch)},
		Provisioner:       provisioner,
		ReclaimPolicy:     ptr.To(corev1.PersistentVolumeReclaimDelete),
		VolumeBindingMode: ptr.To(storagev1.VolumeBindingImmediate),
	}, changes...)
}

func delayedBinding(c *storagev1.StorageClass) {
	c.VolumeBindingMode = ptr.To(storagev1.VolumeBindingWaitForFirstConsumer)
}

func markedDefault(c *storagev1.StorageClass) {
	c.Annotations = map[string]string{annDefaultClass: "true"}
}

func createdLater(c *storagev1.StorageClass) {
	c.CreationTimestamp = metav1.NewTime(controllertest.Epoch.Add(time.Hour))
}

// Changes of volumes.

func inPhase(phase corev1.PersistentVolumePhase) func(*pv) {
	return func(v *pv) { v.Status.Phase = phase }
}

// claimedBy gives a volume a claimRef to the claim of this UID; it may be empty.
func claimedBy(uid types.UID) func(*pv) {
	return func(v *pv) {
		v.Spec.ClaimRef = &corev1.ObjectReference{APIVersion: "v1", Kind: "PersistentVolumeClaim", Namespace: namespace, Name: "claim", UID: uid, ResourceVersion: "8"}
	}
}

func claimedByAnother(v *pv) {
	v.Spec.ClaimRef = &corev1.ObjectReference{Namespace: "ns2", Name: "name2", UID: "uid2"}
}

func policy(p corev1.PersistentVolumeReclaimPolicy) func(*pv) {
	return func(v *pv) { v.Spec.PersistentVolumeReclaimPolicy = p }
}

func noted(key, value string) func(*pv) {
	return func(v *pv) { metav1.SetMetaDataAnnotation(&v.ObjectMeta, key, value) }
}

func provisionedBy(plugin string) func(*pv) { return noted(volume.AnnDynamicallyProvisioned, plugin) }

func byController(v *pv) { noted(volume.AnnBoundByController, "yes")(v) }

func volumeDeleted(v *pv) {
	v.DeletionTimestamp, v.Finalizers = &metav1.Time{Time: controllertest.Epoch}, append(v.Finalizers, "example.com/hold")
}

func volumeClass(class string) func(*pv) { return func(v *pv) { v.Spec.StorageClassName = class } }

func volumeAttributes(class string) func(*pv) {
	return func(v *pv) { v.Spec.VolumeAttributesClassName = &class }
}

func ofSize(size string) func(*pv) {
	return func(v *pv) { v.Spec.Capacity[corev1.ResourceStorage] = resource.MustParse(size) }
}

func volumeBlock(v *pv) { v.Spec.VolumeMode = ptr.To(corev1.PersistentVolumeBlock) }

func withModes(modes ...corev1.PersistentVolumeAccessMode) func(*pv) {
	return func(v *pv) { v.Spec.AccessModes = modes }
}

func volumeFinalizers(finalizers ...string) func(*pv) {
	return func(v *pv) { v.Finalizers = finalizers }
}

func onHostPath(path string) func(*pv) {
	return func(v *pv) {
		v.Spec.PersistentVolumeSource = corev1.PersistentVolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: path, Type: ptr.To(corev1.HostPathDirectory)}}
	}
}

func onNFS(v *pv) {
	v.Spec.PersistentVolumeSource = corev1.PersistentVolumeSource{NFS: &corev1.NFSVolumeSource{Server: "server", Path: "/share", ReadOnly: true}}
}

func onLocal(v *pv) {
	v.Spec.PersistentVolumeSource = corev1.PersistentVolumeSource{Local: &corev1.LocalVolumeSource{Path: "/disk"}}
}

// Changes of claims.

func requesting(size string) func(*pvc) {
	return func(c *pvc) { c.Spec.Resources.Requests[corev1.ResourceStorage] = resource.MustParse(size) }
}

func naming(name string) func(*pvc) { return func(c *pvc) { c.Spec.VolumeName = name } }

func claimNoted(key, value string) func(*pvc) {
	return func(c *pvc) { metav1.SetMetaDataAnnotation(&c.ObjectMeta, key, value) }
}

func completed(c *pvc) { claimNoted(volume.AnnBindCompleted, "yes")(c) }

func claimByController(c *pvc) { claimNoted(volume.AnnBoundByController, "yes")(c) }

func claimIn(phase corev1.PersistentVolumeClaimPhase) func(*pvc) {
	return func(c *pvc) { c.Status.Phase = phase }
}

func claimClass(class *string) func(*pvc) { return func(c *pvc) { c.Spec.StorageClassName = class } }

func claimAttributes(class string) func(*pvc) {
	return func(c *pvc) { c.Spec.VolumeAttributesClassName = &class }
}

func claimBlock(c *pvc) { c.Spec.VolumeMode = ptr.To(corev1.PersistentVolumeBlock) }

func claimModes(modes ...corev1.PersistentVolumeAccessMode) func(*pvc) {
	return func(c *pvc) { c.Spec.AccessModes = modes }
}

func selecting(key, value string) func(*pvc) {
	return func(c *pvc) { c.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{key: value}} }
}

func recreatedClaim(c *pvc) { c.UID = "second-uid" }

// showing gives a claim the status of one that is bound to a volume.
func showing(v *pv) func(*pvc) {
	return func(c *pvc) {
		c.Status = corev1.PersistentVolumeClaimStatus{Phase: corev1.ClaimBound, AccessModes: v.Spec.AccessModes, Capacity: v.Spec.Capacity}
	}
}

// boundPair is a claim and a volume that are bound to each other.
func boundPair(changes ...func(*pv)) (*pv, *pvc) {
	v := aVolume("volume", append([]func(*pv){claimedBy(claimUID), byController, inPhase(corev1.VolumeBound)}, changes...)...)
	return v, aClaim(naming("volume"), completed, claimByController, showing(v))
}
