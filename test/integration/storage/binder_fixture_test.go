package storage

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"kcmd.dev/test/await"
	"kcmd.dev/test/integration/harness"
	"kcmd.dev/test/manager"
	"kcmd.dev/test/must"
)

const (
	provisionedBy = "pv.kubernetes.io/provisioned-by"
	provisioner   = "volume.kubernetes.io/storage-provisioner"
	selectedNode  = "volume.kubernetes.io/selected-node"
	defaultClass  = "storageclass.kubernetes.io/is-default-class"
	driver        = "csi.example.com"
)

func binder(c *manager.Config) **bool { return &c.Controllers.PersistentVolumeBinder.Enabled }

// onlyBinder enables the volume binder, which looks at everything each second. Its tests do not run beside
// those that set the phases of volumes themselves.
func onlyBinder(c *manager.Config) {
	only(binder)(c)
	c.Controllers.PersistentVolumeBinder.SyncPeriod = &metav1.Duration{Duration: time.Second}
}

// binding is a namespace with a class of its own, so that no test is given the volumes of another.
type binding struct {
	*testing.T
	namespace string
}

func newBinding(t *testing.T) binding {
	t.Helper()
	return binding{t, cluster.Namespace(t)}
}

// volume creates a volume of the class of the test, until its end. Its name begins with the namespace.
func (b binding) volume(name string, edits ...func(*corev1.PersistentVolume)) *corev1.PersistentVolume {
	b.Helper()
	spec := claimSpec()
	v := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: b.of(name)}, Spec: corev1.PersistentVolumeSpec{
		AccessModes:            spec.AccessModes,
		Capacity:               spec.Resources.Requests,
		StorageClassName:       b.namespace,
		PersistentVolumeSource: corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{Driver: driver, VolumeHandle: b.of(name)}},
	}}
	for _, edit := range edits {
		edit(v)
	}
	return volumes().create(b.T, v)
}

// of is the name of a volume.
func (b binding) of(name string) string { return b.namespace + "-" + name }

// claim creates a claim of the class of the test.
func (b binding) claim(name string, edits ...func(*corev1.PersistentVolumeClaim)) *corev1.PersistentVolumeClaim {
	b.Helper()
	claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: claimSpec()}
	claim.Spec.StorageClassName = &b.namespace
	for _, edit := range edits {
		edit(claim)
	}
	return must.Get(admin.CoreV1().PersistentVolumeClaims(b.namespace).Create(b.Context(), claim, metav1.CreateOptions{}))(b)
}

// class creates the class of the test, until its end.
func (b binding) class(provisioner string, edits ...func(*storagev1.StorageClass)) {
	b.Helper()
	class := &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: b.namespace}, Provisioner: provisioner}
	for _, edit := range edits {
		edit(class)
	}
	must.Get(admin.StorageV1().StorageClasses().Create(b.Context(), class, metav1.CreateOptions{}))(b)
	b.Cleanup(func() {
		_ = admin.StorageV1().StorageClasses().Delete(context.Background(), class.Name, metav1.DeleteOptions{})
	})
}

// bound waits until a claim is bound to a volume, and both say so.
func (b binding) bound(claim, volume string) {
	b.Helper()
	await.That(b, "claim "+claim+" is bound to volume "+volume, func(ctx context.Context) error {
		c, err := admin.CoreV1().PersistentVolumeClaims(b.namespace).Get(ctx, claim, metav1.GetOptions{})
		if err != nil {
			return err
		}
		v, err := admin.CoreV1().PersistentVolumes().Get(ctx, b.of(volume), metav1.GetOptions{})
		if err != nil {
			return err
		}
		ref := ptr.Deref(v.Spec.ClaimRef, corev1.ObjectReference{})
		if c.Spec.VolumeName != v.Name || ref.UID != c.UID || c.Status.Phase != corev1.ClaimBound || v.Status.Phase != corev1.VolumeBound {
			return fmt.Errorf("the claim is %s, naming %q, the volume is %s of %s", c.Status.Phase, c.Spec.VolumeName, v.Status.Phase, ref.Name)
		}
		if !slices.Equal(c.Status.AccessModes, v.Spec.AccessModes) || c.Status.Capacity.Storage().Cmp(*v.Spec.Capacity.Storage()) != 0 {
			return fmt.Errorf("the status of the claim is %+v", c.Status)
		}
		return nil
	})
}

// volumeIs waits until a volume has a phase, and returns it.
func (b binding) volumeIs(name string, phase corev1.PersistentVolumePhase) *corev1.PersistentVolume {
	b.Helper()
	var v *corev1.PersistentVolume
	await.That(b, fmt.Sprintf("volume %s is %s", name, phase), func(ctx context.Context) (err error) {
		v, err = admin.CoreV1().PersistentVolumes().Get(ctx, b.of(name), metav1.GetOptions{})
		if err == nil && v.Status.Phase != phase {
			err = fmt.Errorf("it is %s: %s", v.Status.Phase, v.Status.Message)
		}
		return err
	})
	return v
}

// claimIs waits until a claim has a phase.
func (b binding) claimIs(name string, phase corev1.PersistentVolumeClaimPhase) {
	b.Helper()
	await.That(b, fmt.Sprintf("claim %s is %s", name, phase), func(ctx context.Context) error {
		claim, err := admin.CoreV1().PersistentVolumeClaims(b.namespace).Get(ctx, name, metav1.GetOptions{})
		if err == nil && claim.Status.Phase != phase {
			err = fmt.Errorf("it is %s", claim.Status.Phase)
		}
		return err
	})
}

// examined waits until the binder has done whatever it does for what exists: another claim, which is created
// later, has been bound.
func (b binding) examined(name string) {
	b.Helper()
	b.volume(name, func(v *corev1.PersistentVolume) { v.Spec.StorageClassName = b.of(name) })
	b.claim(name, func(c *corev1.PersistentVolumeClaim) { c.Spec.StorageClassName = ptr.To(b.of(name)) })
	b.bound(name, name)
}

// drop deletes a claim without waiting for whoever protects it.
func (b binding) drop(name string) {
	b.Helper()
	deleteClaim(b.T, b.namespace, name)
	_, err := admin.CoreV1().PersistentVolumeClaims(b.namespace).Patch(b.Context(), name, types.MergePatchType, []byte(harness.NoFinalizers), metav1.PatchOptions{})
	if err != nil {
		must.Succeed(b, await.Gone(err))
	}
	awaitClaimGone(b.T, b.namespace, name)
}

// patchVolume applies a merge patch to a volume.
func (b binding) patchVolume(name string, patch any) {
	b.Helper()
	must.Get(admin.CoreV1().PersistentVolumes().Patch(b.Context(), b.of(name), types.MergePatchType, must.Get(json.Marshal(patch))(b), metav1.PatchOptions{}))(b)
}

func reservedFor(namespace, claim string, uid types.UID) func(*corev1.PersistentVolume) {
	return func(v *corev1.PersistentVolume) {
		v.Spec.ClaimRef = &corev1.ObjectReference{APIVersion: "v1", Kind: "PersistentVolumeClaim", Namespace: namespace, Name: claim, UID: uid}
	}
}

func reclaimedBy(policy corev1.PersistentVolumeReclaimPolicy) func(*corev1.PersistentVolume) {
	return func(v *corev1.PersistentVolume) { v.Spec.PersistentVolumeReclaimPolicy = policy }
}

func inDirectory(path string) func(*corev1.PersistentVolume) {
	return func(v *corev1.PersistentVolume) {
		v.Spec.PersistentVolumeSource = corev1.PersistentVolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: path}}
	}
}

func onShare(v *corev1.PersistentVolume) {
	v.Spec.PersistentVolumeSource = corev1.PersistentVolumeSource{NFS: &corev1.NFSVolumeSource{Server: "server", Path: "/share"}}
}

// recyclerPod waits until there is a pod that empties a volume, other than a former one, and returns it.
func (b binding) recyclerPod(volume string, former types.UID) *corev1.Pod {
	b.Helper()
	var pod *corev1.Pod
	await.That(b, "a pod empties volume "+volume, func(ctx context.Context) (err error) {
		pod, err = admin.CoreV1().Pods(metav1.NamespaceDefault).Get(ctx, "recycler-for-"+b.of(volume), metav1.GetOptions{})
		if err == nil && pod.UID == former {
			err = fmt.Errorf("it is the former one")
		}
		return err
	})
	return pod
}

// succeed has a recycler pod succeed.
func (b binding) succeed(pod *corev1.Pod) {
	b.Helper()
	cluster.PatchPodStatus(b, pod.Namespace, pod.Name, map[string]any{"phase": corev1.PodSucceeded})
}

// succeedIfThere has a recycler pod succeed, and returns false if the controller has deleted it: it does when it finds
// that the volume is not to be emptied any more.
func (b binding) succeedIfThere(pod *corev1.Pod) bool {
	b.Helper()
	patch := fmt.Appendf(nil, `{"status":{"phase":%q}}`, corev1.PodSucceeded)
	_, err := admin.CoreV1().Pods(pod.Namespace).Patch(b.Context(), pod.Name, types.MergePatchType, patch, metav1.PatchOptions{}, "status")
	if err != nil && !apierrors.IsNotFound(err) {
		b.Fatal(err)
	}
	return err == nil
}

// awaitRecyclerGone waits until a recycler pod is gone. Nobody runs it.
func (b binding) awaitRecyclerGone(pod *corev1.Pod) {
	b.Helper()
	await.That(b, "the recycler pod is gone", func(ctx context.Context) error {
		live, err := admin.CoreV1().Pods(pod.Namespace).Get(ctx, pod.Name, metav1.GetOptions{})
		if err == nil && live.UID != pod.UID {
			return nil
		}
		return await.Gone(err)
	})
}

// event waits until an object has an event of the binder: "Type Reason Message".
func (b binding) event(namespace string, uid types.UID, want string) {
	b.Helper()
	parts := strings.SplitN(want, " ", 3)
	cluster.WaitForEvent(b, namespace, uid, fmt.Sprintf("persistentvolume-controller %s %s: %s", parts[0], parts[1], parts[2]))
}
