package storage

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"kcmd.dev/test/await"
	"kcmd.dev/test/integration/harness"
	"kcmd.dev/test/must"
)

// attacher is a CSI driver with its external-attacher, for a test.
type attacher struct {
	*harness.Attacher
	t *testing.T
	// heartbeats is the number of reports of nodes, no two of which are equal.
	heartbeats int64
}

// attach runs an attacher until the end of the test, with a driver of its own.
func attach(t *testing.T, namespace string) *attacher {
	t.Helper()
	driver := namespace[strings.LastIndex(namespace, "-")+1:] + ".example.com" // a name has 63 characters at most
	a := &attacher{Attacher: harness.NewAttacher(admin, driver, func(err error) { t.Error(err) }), t: t}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		a.Run(ctx)
	}()
	t.Cleanup(func() {
		a.GoOn()
		cancel()
		<-ended
		for _, va := range a.All() {
			_ = admin.StorageV1().VolumeAttachments().Delete(context.Background(), va.Name, metav1.DeleteOptions{})
			_, _ = admin.StorageV1().VolumeAttachments().Patch(context.Background(), va.Name, types.MergePatchType, []byte(harness.NoFinalizers), metav1.PatchOptions{})
		}
	})
	return a
}

// createVolume creates a volume of the driver with the claim that it is bound to, of the same name.
func (a *attacher) createVolume(namespace, name string, modes ...corev1.PersistentVolumeAccessMode) *corev1.PersistentVolume {
	a.t.Helper()
	t, claims, pvs := a.t, admin.CoreV1().PersistentVolumeClaims(namespace), admin.CoreV1().PersistentVolumes()
	spec := claimSpec()
	spec.AccessModes, spec.VolumeName = modes, namespace+"-"+name
	claim := must.Get(claims.Create(t.Context(), &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: spec}, metav1.CreateOptions{}))(t)
	pv := must.Get(pvs.Create(t.Context(), &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: spec.VolumeName},
		Spec: corev1.PersistentVolumeSpec{
			AccessModes: modes, StorageClassName: *spec.StorageClassName,
			Capacity: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")},
			ClaimRef: &corev1.ObjectReference{Namespace: namespace, Name: name, UID: claim.UID},
			PersistentVolumeSource: corev1.PersistentVolumeSource{
				CSI: &corev1.CSIPersistentVolumeSource{Driver: a.Driver, VolumeHandle: name},
			},
		},
	}, metav1.CreateOptions{}))(t)
	t.Cleanup(func() {
		_ = pvs.Delete(context.Background(), pv.Name, metav1.DeleteOptions{})
		_, _ = pvs.Patch(context.Background(), pv.Name, types.MergePatchType, []byte(harness.NoFinalizers), metav1.PatchOptions{})
	})
	must.Get(claims.Patch(t.Context(), name, types.MergePatchType, []byte(`{"status":{"phase":"Bound"}}`), metav1.PatchOptions{}, "status"))(t)
	return pv
}

// volume is how kubelets call a volume of the driver.
func (a *attacher) volume(name string) corev1.UniqueVolumeName {
	return corev1.UniqueVolumeName("kubernetes.io/csi/" + a.Driver + "^" + name)
}

// createNode creates a node without a kubelet, on which volumes are attached, and that is ready.
func (a *attacher) createNode(name string) string {
	a.t.Helper()
	must.Get(admin.CoreV1().Nodes().Create(a.t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{
		Name: name, Annotations: map[string]string{"volumes.kubernetes.io/controller-managed-attach-detach": "true"},
	}}, metav1.CreateOptions{}))(a.t)
	a.t.Cleanup(func() { _ = admin.CoreV1().Nodes().Delete(context.Background(), name, metav1.DeleteOptions{}) })
	a.reports(name, corev1.ConditionTrue)
	return name
}

// reports has a node report whether it is ready, and the volumes that it uses.
func (a *attacher) reports(node string, ready corev1.ConditionStatus, used ...string) {
	a.t.Helper()
	a.heartbeats++
	inUse := make([]corev1.UniqueVolumeName, len(used))
	for i, name := range used {
		inUse[i] = a.volume(name)
	}
	patch := must.Get(json.Marshal(map[string]any{"status": map[string]any{
		"conditions":   []any{map[string]any{"type": "Ready", "status": ready, "lastHeartbeatTime": metav1.Unix(a.heartbeats, 0)}},
		"volumesInUse": inUse,
	}}))(a.t)
	must.Get(admin.CoreV1().Nodes().Patch(a.t.Context(), node, types.MergePatchType, patch, metav1.PatchOptions{}, "status"))(a.t)
}

// taint gives a node just these taints.
func (a *attacher) taint(node string, taints ...corev1.Taint) {
	a.t.Helper()
	patch := must.Get(json.Marshal(map[string]any{"spec": map[string]any{"taints": taints}}))(a.t)
	must.Get(admin.CoreV1().Nodes().Patch(a.t.Context(), node, types.MergePatchType, patch, metav1.PatchOptions{}))(a.t)
}

// createUser creates a pod on a node that uses claims.
func createUser(t *testing.T, namespace, node, name string, claims ...string) *corev1.Pod {
	t.Helper()
	return cluster.CreatePod(t, namespace, name, "web", func(p *corev1.Pod) {
		p.Spec.NodeName = node
		for _, claim := range claims {
			p.Spec.Volumes = append(p.Spec.Volumes, corev1.Volume{Name: claim, VolumeSource: corev1.VolumeSource{
				PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: claim},
			}})
		}
	})
}

// awaitShown waits until a node is told that just these volumes are attached.
func (a *attacher) awaitShown(node string, names ...string) {
	a.t.Helper()
	await.That(a.t, fmt.Sprintf("node %s shows %q", node, names), func(ctx context.Context) error {
		n, err := admin.CoreV1().Nodes().Get(ctx, node, metav1.GetOptions{})
		if err != nil {
			return err
		}
		var got []string
		for _, v := range n.Status.VolumesAttached {
			got = append(got, strings.TrimPrefix(string(v.Name), string(a.volume(""))))
		}
		if !slices.Equal(got, names) {
			return fmt.Errorf("it shows %q", got)
		}
		return nil
	})
}

// awaitVA waits for the VolumeAttachment of a volume on a node that check accepts, and returns it.
func (a *attacher) awaitVA(node string, check func(*storagev1.VolumeAttachment) error) *storagev1.VolumeAttachment {
	a.t.Helper()
	var found *storagev1.VolumeAttachment
	await.That(a.t, "there is a VolumeAttachment for node "+node, func(context.Context) error {
		for _, va := range a.All() {
			if va.Spec.NodeName != node {
				continue
			}
			found = &va
			return check(found)
		}
		return errors.New("there is none")
	})
	return found
}

// awaitNoVA waits until a node has no VolumeAttachment.
func (a *attacher) awaitNoVA(node string) {
	a.t.Helper()
	await.That(a.t, "there is no VolumeAttachment for node "+node, func(context.Context) error {
		for _, va := range a.All() {
			if va.Spec.NodeName == node {
				return fmt.Errorf("there is %s, deleted at %v", va.Name, va.DeletionTimestamp)
			}
		}
		return nil
	})
}

// The states of a VolumeAttachment that tests wait for.

func exists(*storagev1.VolumeAttachment) error { return nil }

func isAttached(va *storagev1.VolumeAttachment) error {
	if !va.Status.Attached || va.DeletionTimestamp != nil {
		return fmt.Errorf("attached is %v, deleted at %v", va.Status.Attached, va.DeletionTimestamp)
	}
	return nil
}

func isBeingDeleted(va *storagev1.VolumeAttachment) error {
	if va.DeletionTimestamp == nil {
		return errors.New("it is not being deleted")
	}
	return nil
}
