package csi

import (
	"context"
	"errors"
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kcmd.dev/test/await"
	"kcmd.dev/test/controlplane"
	"kcmd.dev/test/integration/harness"
	"kcmd.dev/test/must"
)

const (
	gi = 1 << 30

	waitsForConsumer    = "persistentvolume-controller Normal WaitForFirstConsumer: waiting for first consumer to be created before binding"
	waitsForProvisioner = "persistentvolume-controller Normal ExternalProvisioning: Waiting for a volume to be created either by the external " +
		"provisioner 'csi.kcmd.dev' or manually by the system administrator. If volume creation is delayed, please verify that the " +
		"provisioner is running and correctly registered."
	waitsForResizer = "volume_expand Normal ExternalExpanding: waiting for an external controller to expand this PVC"
)

func TestAVolumeIsProvisionedAtOnceAndDeletedWithItsClaim(t *testing.T) {
	t.Parallel()
	namespace := cluster.Namespace(t)
	createClass(t, namespace, corev1.PersistentVolumeReclaimDelete)
	claim := createClaim(t, namespace, namespace)
	volume := awaitBound(t, namespace)
	if source := volume.Spec.CSI; source == nil || source.Driver != controlplane.CSIDriver || source.VolumeHandle != volume.Name {
		t.Errorf("the volume is %v", volume.Spec.PersistentVolumeSource)
	}
	cluster.WaitForEvent(t, namespace, claim.UID, waitsForProvisioner)
	if has := must.Get(cluster.CSIVolumes())(t)[volume.Name]; has.CapacityBytes != gi {
		t.Errorf("the driver has %v", has)
	}
	deleteClaim(t, namespace)
	awaitVolumeGone(t, volume.Name)
}

// The scheduler chooses a node, and the volume is provisioned and attached for it.
func TestAVolumeIsProvisionedForItsFirstConsumer(t *testing.T) {
	t.Parallel()
	namespace := cluster.Namespace(t)
	claim := createClaim(t, namespace, controlplane.CSIClass)
	cluster.WaitForEvent(t, namespace, claim.UID, waitsForConsumer)
	if now := must.Get(getClaim(t.Context(), namespace))(t); now.Spec.VolumeName != "" || now.Annotations["volume.kubernetes.io/storage-provisioner"] != "" {
		t.Fatalf("the claim did not wait: %v", now)
	}
	createPod(t, namespace, "pod")
	volume := awaitBound(t, namespace)
	pod := cluster.WaitForReadyPods(t, namespace, nil, 1)[0]
	if now := must.Get(getClaim(t.Context(), namespace))(t); now.Annotations["volume.kubernetes.io/selected-node"] != pod.Spec.NodeName {
		t.Errorf("the pod is on %s, the claim has the annotations %v", pod.Spec.NodeName, now.Annotations)
	}
	awaitAttached(t, volume.Name, pod.Spec.NodeName)
	cluster.DeletePodNow(t, namespace, "pod")
	awaitAttached(t, volume.Name)
	deleteClaim(t, namespace)
	awaitVolumeGone(t, volume.Name)
}

// A volume of one node is detached from there before it is attached elsewhere.
func TestAVolumeFollowsItsPods(t *testing.T) {
	t.Parallel()
	namespace := cluster.Namespace(t)
	createClass(t, namespace, corev1.PersistentVolumeReclaimDelete)
	createClaim(t, namespace, namespace)
	volume := awaitBound(t, namespace)
	createPod(t, namespace, "first", harness.OnNode(0))
	awaitAttached(t, volume.Name, controlplane.NodeName(0))
	createPod(t, namespace, "second", harness.OnNode(1))
	await.That(t, "it is said why the second pod waits", func(ctx context.Context) error {
		events, err := admin.CoreV1().Events(namespace).List(ctx, metav1.ListOptions{FieldSelector: "involvedObject.name=second,reason=FailedAttachVolume"})
		if err == nil && len(events.Items) == 0 {
			err = errors.New("there is no event")
		}
		return err
	})
	awaitAttached(t, volume.Name, controlplane.NodeName(0))
	cluster.DeletePodNow(t, namespace, "first")
	awaitAttached(t, volume.Name, controlplane.NodeName(1))
	cluster.DeletePodNow(t, namespace, "second")
	awaitAttached(t, volume.Name)
	deleteClaim(t, namespace)
	awaitVolumeGone(t, volume.Name)
}

func TestAVolumeThatIsRetainedOutlivesItsClaim(t *testing.T) {
	t.Parallel()
	namespace := cluster.Namespace(t)
	createClass(t, namespace, corev1.PersistentVolumeReclaimRetain)
	createClaim(t, namespace, namespace)
	volume := awaitBound(t, namespace)
	deleteClaim(t, namespace)
	volumes := admin.CoreV1().PersistentVolumes()
	await.That(t, "the volume is released", func(ctx context.Context) error {
		now, err := volumes.Get(ctx, volume.Name, metav1.GetOptions{})
		if err == nil && now.Status.Phase != corev1.VolumeReleased {
			err = fmt.Errorf("it is %s", now.Status.Phase)
		}
		return err
	})
	must.Succeed(t, volumes.Delete(t.Context(), volume.Name, metav1.DeleteOptions{}))
	await.That(t, "the object is gone", func(ctx context.Context) error {
		_, err := volumes.Get(ctx, volume.Name, metav1.GetOptions{})
		return await.Gone(err)
	})
	if has, there := must.Get(cluster.CSIVolumes())(t)[volume.Name]; !there || has.CapacityBytes != gi {
		t.Errorf("the driver has %v", has)
	}
}

// The resizer has the driver expand the volume, and leaves the file system to the node.
func TestAVolumeIsExpandedUntilItIsTheTurnOfTheNode(t *testing.T) {
	t.Parallel()
	namespace := cluster.Namespace(t)
	createClass(t, namespace, corev1.PersistentVolumeReclaimDelete)
	claim := createClaim(t, namespace, namespace)
	volume := awaitBound(t, namespace)
	createPod(t, namespace, "pod", harness.OnNode(0))
	awaitAttached(t, volume.Name, controlplane.NodeName(0))
	grow(t, namespace)
	cluster.WaitForEvent(t, namespace, claim.UID, waitsForResizer)
	awaitState(t, namespace, expanded.state)
}
