package attachdetach

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"kcmd.dev/pkg/controllers/kit/volumes"
	"kcmd.dev/test/controllertest"
)

const driver = "csi.example.com"

// promptly is long enough for what somebody waits for, soon for everything that is not delayed on purpose. The status
// of a node is written at most every reportPeriod.
const (
	promptly = 2 * reportPeriod
	soon     = gatherPeriod + promptly
)

var once = corev1.ReadWriteOnce

// volumeName is the name of the volume of a handle.
func volumeName(handle string) corev1.UniqueVolumeName {
	return corev1.UniqueVolumeName(csiPlugin + "/" + driver + "^" + handle)
}

// aNode is a node whose volumes the controller attaches, and that is healthy.
func aNode(name string, changes ...func(*corev1.Node)) *corev1.Node {
	n := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name), Annotations: map[string]string{managedAnnotation: "true"}},
		Status: corev1.NodeStatus{Conditions: []corev1.NodeCondition{
			{Type: corev1.NodeReady, Status: corev1.ConditionTrue},
		}},
	}
	return controllertest.Changed(n, changes...)
}

func notReady(n *corev1.Node)  { n.Status.Conditions[0].Status = corev1.ConditionUnknown }
func isReady(n *corev1.Node)   { n.Status.Conditions[0].Status = corev1.ConditionTrue }
func unmanaged(n *corev1.Node) { n.Annotations = nil }
func another(n *corev1.Node)   { n.UID += "-2"; n.Status.VolumesAttached = nil }

func outOfService(n *corev1.Node) {
	n.Spec.Taints = []corev1.Taint{{Key: corev1.TaintNodeOutOfService, Effect: corev1.TaintEffectNoExecute}}
}

// uses makes a node one that has mounted volumes.
func uses(handles ...string) func(*corev1.Node) {
	return func(n *corev1.Node) {
		n.Status.VolumesInUse = nil
		for _, handle := range handles {
			n.Status.VolumesInUse = append(n.Status.VolumesInUse, volumeName(handle))
		}
	}
}

// showing makes a node one that is told that volumes are attached.
func showing(handles ...string) func(*corev1.Node) {
	return func(n *corev1.Node) {
		n.Status.VolumesAttached = nil
		for _, handle := range handles {
			n.Status.VolumesAttached = append(n.Status.VolumesAttached, corev1.AttachedVolume{Name: volumeName(handle)})
		}
	}
}

// aVolume is a PersistentVolume of the driver, bound to the claim of its name in the namespace ns.
func aVolume(name string, modes ...corev1.PersistentVolumeAccessMode) *corev1.PersistentVolume {
	return &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID("pv-" + name)},
		Spec: corev1.PersistentVolumeSpec{
			AccessModes: modes,
			ClaimRef:    &corev1.ObjectReference{Namespace: "ns", Name: name, UID: types.UID("claim-" + name)},
			PersistentVolumeSource: corev1.PersistentVolumeSource{
				CSI: &corev1.CSIPersistentVolumeSource{Driver: driver, VolumeHandle: name},
			},
		},
	}
}

func aClaim(name string) *corev1.PersistentVolumeClaim {
	return &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: types.UID("claim-" + name)},
		Spec:       corev1.PersistentVolumeClaimSpec{VolumeName: name},
		Status:     corev1.PersistentVolumeClaimStatus{Phase: corev1.ClaimBound},
	}
}

// aPod is a pod in the namespace ns that runs on a node and uses claims.
func aPod(name, node string, claims ...string) *corev1.Pod {
	return controllertest.Pod("ns", name, func(p *corev1.Pod) {
		p.Spec.NodeName = node
		p.Spec.Volumes = nil
		for _, claim := range claims {
			p.Spec.Volumes = append(p.Spec.Volumes, corev1.Volume{Name: claim, VolumeSource: corev1.VolumeSource{
				PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: claim},
			}})
		}
		p.Status.ContainerStatuses = []corev1.ContainerStatus{{State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}}
	})
}

// anAttachment is the VolumeAttachment of a volume on a node.
func anAttachment(handle, node string, changes ...func(*storagev1.VolumeAttachment)) *storagev1.VolumeAttachment {
	name := vaNameOf(place{volumeName(handle), node})
	return controllertest.Changed(&storagev1.VolumeAttachment{
		ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID("va-" + handle + "-" + node)},
		Spec: storagev1.VolumeAttachmentSpec{
			Attacher: driver, NodeName: node,
			Source: storagev1.VolumeAttachmentSource{PersistentVolumeName: ptr.To(handle)},
		},
	}, changes...)
}

func isAttached(va *storagev1.VolumeAttachment) { va.Status.Attached = true }

func beingDeleted(va *storagev1.VolumeAttachment) {
	va.DeletionTimestamp = &metav1.Time{Time: controllertest.Epoch}
}

func attachError(text string) func(*storagev1.VolumeAttachment) {
	return func(va *storagev1.VolumeAttachment) { va.Status.AttachError = &storagev1.VolumeError{Message: text} }
}

func detachError(text string) func(*storagev1.VolumeAttachment) {
	return func(va *storagev1.VolumeAttachment) { va.Status.DetachError = &storagev1.VolumeError{Message: text} }
}

// aDriver is a CSIDriver.
func aDriver(attachRequired bool) *storagev1.CSIDriver {
	return &storagev1.CSIDriver{
		ObjectMeta: metav1.ObjectMeta{Name: driver},
		Spec:       storagev1.CSIDriverSpec{AttachRequired: &attachRequired},
	}
}

// vaOf is the name of the VolumeAttachment of a volume on a node.
func vaOf(handle, node string) string { return vaNameOf(place{volumeName(handle), node}) }

var errRefused = errors.New("refused")

func specOf(pv *corev1.PersistentVolume) volumes.Spec { return volumes.Spec{PV: pv} }

func sumOf(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}
