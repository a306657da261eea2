package identity

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"kcmd.dev/test/must"
)

// createStorage is for the controllers of volumes and claims: some are deleted that nobody uses.
func (w *workload) createStorage() {
	w.t.Helper()
	ctx, core := w.t.Context(), w.client.CoreV1()
	claim := &corev1.PersistentVolumeClaim{ObjectMeta: meta("unused"), Spec: claimSpec()}
	made(w.t)(core.PersistentVolumeClaims(w.namespace).Create(ctx, claim, metav1.CreateOptions{}))
	must.Succeed(w.t, core.PersistentVolumeClaims(w.namespace).Delete(ctx, claim.Name, metav1.DeleteOptions{}))

	volume := &corev1.PersistentVolume{ObjectMeta: meta("volume-of-" + w.namespace), Spec: corev1.PersistentVolumeSpec{
		AccessModes:            claim.Spec.AccessModes,
		Capacity:               claim.Spec.Resources.Requests,
		StorageClassName:       *claim.Spec.StorageClassName,
		PersistentVolumeSource: corev1.PersistentVolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/volume"}},
	}}
	made(w.t)(core.PersistentVolumes().Create(ctx, volume, metav1.CreateOptions{}))
	must.Succeed(w.t, core.PersistentVolumes().Delete(ctx, volume.Name, metav1.DeleteOptions{}))

	// Of a class of its own, for the binder.
	bound := claim.DeepCopy()
	bound.Name, bound.Spec.StorageClassName = "bound", &w.namespace
	made(w.t)(core.PersistentVolumeClaims(w.namespace).Create(ctx, bound, metav1.CreateOptions{}))
	free := volume.DeepCopy()
	free.Name, free.Spec.StorageClassName = "free-of-"+w.namespace, w.namespace
	made(w.t)(core.PersistentVolumes().Create(ctx, free, metav1.CreateOptions{}))

	classes, class := w.client.StorageV1().VolumeAttributesClasses(), &storagev1.VolumeAttributesClass{ObjectMeta: meta("class-of-" + w.namespace)}
	class.DriverName, class.Parameters = "example.com", map[string]string{"iops": "1"}
	made(w.t)(classes.Create(ctx, class, metav1.CreateOptions{}))
	must.Succeed(w.t, classes.Delete(ctx, class.Name, metav1.DeleteOptions{}))

	pod := &corev1.Pod{ObjectMeta: meta("storing"), Spec: podTemplate().Spec}
	pod.Spec.Volumes = []corev1.Volume{{Name: "scratch", VolumeSource: corev1.VolumeSource{
		Ephemeral: &corev1.EphemeralVolumeSource{VolumeClaimTemplate: &corev1.PersistentVolumeClaimTemplate{Spec: claimSpec()}},
	}}}
	made(w.t)(core.Pods(w.namespace).Create(ctx, pod, metav1.CreateOptions{}))
	w.createExpanding()
	w.createAttachable()
}

// createExpanding is for the controller that has volumes expanded: a claim that requests more than it
// has, of a volume whose type was migrated to CSI.
func (w *workload) createExpanding() {
	w.t.Helper()
	ctx, claims, name := w.t.Context(), w.client.CoreV1().PersistentVolumeClaims(w.namespace), "grows-in-"+w.namespace
	claim := &corev1.PersistentVolumeClaim{ObjectMeta: meta("growing"), Spec: claimSpec()}
	claim.Spec.VolumeName = name
	claim, err := claims.Create(ctx, claim, metav1.CreateOptions{})
	must.Succeed(w.t, err)
	volume := &corev1.PersistentVolume{ObjectMeta: meta(name), Spec: corev1.PersistentVolumeSpec{
		AccessModes:      claim.Spec.AccessModes,
		Capacity:         claim.Spec.Resources.Requests,
		StorageClassName: *claim.Spec.StorageClassName,
		ClaimRef:         &corev1.ObjectReference{Namespace: w.namespace, Name: claim.Name, UID: claim.UID},
		PersistentVolumeSource: corev1.PersistentVolumeSource{
			AWSElasticBlockStore: &corev1.AWSElasticBlockStoreVolumeSource{VolumeID: "vol-1"},
		},
	}}
	made(w.t)(w.client.CoreV1().PersistentVolumes().Create(ctx, volume, metav1.CreateOptions{}))
	w.t.Cleanup(func() {
		_ = w.client.CoreV1().PersistentVolumes().Delete(context.Background(), name, metav1.DeleteOptions{})
	})
	claim.Status = corev1.PersistentVolumeClaimStatus{Phase: corev1.ClaimBound, Capacity: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Mi")}}
	made(w.t)(claims.UpdateStatus(ctx, claim, metav1.UpdateOptions{}))
}

// createAttachable is for the controller that attaches volumes: a pod on a node of its own has one that needs no
// driver, and one of a driver that does not exist.
func (w *workload) createAttachable() {
	ctx, core := w.t.Context(), w.client.CoreV1()
	node := &corev1.Node{ObjectMeta: meta("attaching-" + w.namespace)}
	node.Annotations = map[string]string{"volumes.kubernetes.io/controller-managed-attach-detach": "true"}
	made(w.t)(core.Nodes().Create(ctx, node, metav1.CreateOptions{}))
	w.t.Cleanup(func() { _ = core.Nodes().Delete(context.Background(), node.Name, metav1.DeleteOptions{}) })
	pod := &corev1.Pod{ObjectMeta: meta("attaching"), Spec: podTemplate().Spec}
	pod.Spec.NodeName = node.Name
	pod.Spec.Volumes = []corev1.Volume{
		{Name: "network", VolumeSource: corev1.VolumeSource{ISCSI: &corev1.ISCSIVolumeSource{TargetPortal: "portal:3260", IQN: "iqn.2026-01.com.example:disk"}}},
		{Name: "disk", VolumeSource: corev1.VolumeSource{AWSElasticBlockStore: &corev1.AWSElasticBlockStoreVolumeSource{VolumeID: "vol-" + w.namespace}}},
	}
	made(w.t)(core.Pods(w.namespace).Create(ctx, pod, metav1.CreateOptions{}))
}

// claimSpec is that of a claim which nobody binds.
func claimSpec() corev1.PersistentVolumeClaimSpec {
	return corev1.PersistentVolumeClaimSpec{
		AccessModes:      []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
		Resources:        corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}},
		StorageClassName: ptr.To("none"),
	}
}
