// Package csi tests the controllers of volumes together with the programs that serve a CSI driver:
// the external provisioner, attacher and resizer. The driver's volumes are files.
//
// Nodes are simulated: a pod runs on one whether its volumes are attached or not, nothing is
// mounted, and no node reports a volume in use. The expansion of a volume ends where its node would
// go on.
package csi

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/ptr"

	"kcmd.dev/test/await"
	"kcmd.dev/test/controlplane"
	"kcmd.dev/test/integration/harness"
	"kcmd.dev/test/manager"
	"kcmd.dev/test/must"
)

// claimName is the name of the only claim of a namespace.
const claimName = "claim"

var (
	cluster *harness.Cluster
	admin   kubernetes.Interface
)

func TestMain(m *testing.M) {
	shared := harness.Package{
		ControlPlane: controlplane.Options{Nodes: 2, Scheduler: true, CSI: true, NoServiceAccountAdmission: true},
		Configure:    harness.All(harness.Only(enabled), harness.WithoutLease),
	}
	os.Exit(shared.Run(m, func(c *harness.Cluster) { cluster, admin = c, c.Admin }))
}

func enabled(c *manager.Config) []**bool {
	return []**bool{
		&c.Controllers.PersistentVolumeAttachDetach.Enabled,
		&c.Controllers.PersistentVolumeBinder.Enabled,
		&c.Controllers.PersistentVolumeClaimProtection.Enabled,
		&c.Controllers.PersistentVolumeExpander.Enabled,
		&c.Controllers.PersistentVolumeProtection.Enabled,
	}
}

// createClass creates a class of the driver that provisions volumes at once, until the end of the
// test. It has the name of the namespace.
func createClass(t *testing.T, namespace string, policy corev1.PersistentVolumeReclaimPolicy) {
	t.Helper()
	classes := admin.StorageV1().StorageClasses()
	must.Get(classes.Create(t.Context(), &storagev1.StorageClass{
		ObjectMeta:           metav1.ObjectMeta{Name: namespace},
		Provisioner:          controlplane.CSIDriver,
		ReclaimPolicy:        &policy,
		VolumeBindingMode:    ptr.To(storagev1.VolumeBindingImmediate),
		AllowVolumeExpansion: ptr.To(true),
	}, metav1.CreateOptions{}))(t)
	t.Cleanup(func() { _ = classes.Delete(context.Background(), namespace, metav1.DeleteOptions{}) })
}

// createClaim creates a claim for 1Gi.
func createClaim(t *testing.T, namespace, class string) *corev1.PersistentVolumeClaim {
	t.Helper()
	size := corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}
	return must.Get(admin.CoreV1().PersistentVolumeClaims(namespace).Create(t.Context(), &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Name: claimName},
		Spec: corev1.PersistentVolumeClaimSpec{
			AccessModes:      []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			Resources:        corev1.VolumeResourceRequirements{Requests: size},
			StorageClassName: &class,
		},
	}, metav1.CreateOptions{}))(t)
}

func getClaim(ctx context.Context, namespace string) (*corev1.PersistentVolumeClaim, error) {
	return admin.CoreV1().PersistentVolumeClaims(namespace).Get(ctx, claimName, metav1.GetOptions{})
}

// grow has the claim request 2Gi, as soon as the API server knows that its class permits it.
func grow(t *testing.T, namespace string) {
	t.Helper()
	await.That(t, "the claim can grow", func(ctx context.Context) error {
		patch := []byte(`{"spec":{"resources":{"requests":{"storage":"2Gi"}}}}`)
		_, err := admin.CoreV1().PersistentVolumeClaims(namespace).Patch(ctx, claimName, types.MergePatchType, patch, metav1.PatchOptions{})
		return err
	})
}

func deleteClaim(t *testing.T, namespace string) {
	t.Helper()
	must.Succeed(t, admin.CoreV1().PersistentVolumeClaims(namespace).Delete(t.Context(), claimName, metav1.DeleteOptions{}))
}

// createPod creates a pod that uses the claim.
func createPod(t *testing.T, namespace, name string, edits ...func(*corev1.Pod)) {
	t.Helper()
	cluster.CreatePod(t, namespace, name, "web", func(p *corev1.Pod) {
		p.Spec.Volumes = []corev1.Volume{{Name: "data", VolumeSource: corev1.VolumeSource{
			PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: claimName},
		}}}
		for _, edit := range edits {
			edit(p)
		}
	})
}

// awaitBound waits until the claim and its volume are bound to each other, and returns the volume.
func awaitBound(t *testing.T, namespace string) *corev1.PersistentVolume {
	t.Helper()
	var volume *corev1.PersistentVolume
	await.That(t, "claim and volume are bound", func(ctx context.Context) error {
		claim, err := getClaim(ctx, namespace)
		if err != nil {
			return err
		}
		if claim.Status.Phase != corev1.ClaimBound {
			return fmt.Errorf("the claim is %s", claim.Status.Phase)
		}
		if volume, err = admin.CoreV1().PersistentVolumes().Get(ctx, claim.Spec.VolumeName, metav1.GetOptions{}); err != nil {
			return err
		}
		if volume.Status.Phase != corev1.VolumeBound || volume.Spec.ClaimRef.UID != claim.UID {
			return fmt.Errorf("the volume is %s to %v", volume.Status.Phase, volume.Spec.ClaimRef)
		}
		return nil
	})
	return volume
}

// awaitVolumeGone waits until neither the API server nor the driver has a volume any more.
func awaitVolumeGone(t *testing.T, volume string) {
	t.Helper()
	await.That(t, "the volume is gone", func(ctx context.Context) error {
		_, err := admin.CoreV1().PersistentVolumes().Get(ctx, volume, metav1.GetOptions{})
		if err := await.Gone(err); err != nil {
			return err
		}
		volumes, err := cluster.CSIVolumes()
		if _, there := volumes[volume]; there {
			return errors.New("the driver has it")
		}
		return err
	})
}

// attachments lists the VolumeAttachments of a volume: node, and what is true of it.
func attachments(ctx context.Context, volume string) ([]string, error) {
	all, err := admin.StorageV1().VolumeAttachments().List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	var found []string
	for _, a := range all.Items {
		if ptr.Deref(a.Spec.Source.PersistentVolumeName, "") != volume {
			continue
		}
		text := a.Spec.NodeName
		if a.Status.Attached {
			text += " attached"
		}
		if a.DeletionTimestamp != nil {
			text += " deleted"
		}
		found = append(found, text)
	}
	return found, nil
}

// reporting lists the nodes whose status says that a volume is attached.
func reporting(ctx context.Context, volume string) ([]string, error) {
	nodes, err := admin.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	name := corev1.UniqueVolumeName("kubernetes.io/csi/" + controlplane.CSIDriver + "^" + volume)
	var found []string
	for _, node := range nodes.Items {
		if slices.ContainsFunc(node.Status.VolumesAttached, func(a corev1.AttachedVolume) bool { return a.Name == name }) {
			found = append(found, node.Name)
		}
	}
	return found, nil
}

// awaitAttached waits until a volume is attached to just these nodes: for the driver, by
// VolumeAttachments, and in the status of the nodes.
func awaitAttached(t *testing.T, volume string, nodes ...string) {
	t.Helper()
	var attached []string
	for _, node := range nodes {
		attached = append(attached, node+" attached")
	}
	await.That(t, fmt.Sprintf("the volume is attached to %q", nodes), func(ctx context.Context) error {
		objects, err := attachments(ctx, volume)
		if err != nil {
			return err
		}
		reported, err := reporting(ctx, volume)
		if err != nil {
			return err
		}
		volumes, err := cluster.CSIVolumes()
		if err != nil {
			return err
		}
		if !slices.Equal(objects, attached) || !slices.Equal(reported, nodes) || !slices.Equal(volumes[volume].Nodes, nodes) {
			return fmt.Errorf("VolumeAttachments %q, reported by %q, for the driver on %q", objects, reported, volumes[volume].Nodes)
		}
		return nil
	})
}
