package storage

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"kcmd.dev/test/await"
	"kcmd.dev/test/controlplane"
	"kcmd.dev/test/faultproxy"
	"kcmd.dev/test/manager"
	"kcmd.dev/test/must"
)

const (
	expandAccount     = "system:serviceaccount:kube-system:expand-controller"
	resizerAnnotation = "volume.kubernetes.io/storage-resizer"
	oldSizeAnnotation = "volume.alpha.kubernetes.io/pre-resize-capacity"
	waitsForResizer   = "volume_expand Normal ExternalExpanding: waiting for an external controller to expand this PVC"
)

func expander(c *manager.Config) **bool { return &c.Controllers.PersistentVolumeExpander.Enabled }

// createStorageClass creates a class whose claims may grow or not, until the end of the test.
func createStorageClass(t *testing.T, name string, grows bool) {
	t.Helper()
	classes := admin.StorageV1().StorageClasses()
	must.Get(classes.Create(t.Context(), &storagev1.StorageClass{
		ObjectMeta: metav1.ObjectMeta{Name: name}, Provisioner: "example.com/none", AllowVolumeExpansion: ptr.To(grows),
	}, metav1.CreateOptions{}))(t)
	t.Cleanup(func() { _ = classes.Delete(context.Background(), name, metav1.DeleteOptions{}) })
}

// createBound creates a volume of 1Gi, which has the name of the namespace, and a claim that is bound
// to it. Claims of the class of the same name may grow.
func createBound(t *testing.T, namespace string, edit func(*corev1.PersistentVolume)) *corev1.PersistentVolumeClaim {
	t.Helper()
	claims := admin.CoreV1().PersistentVolumeClaims(namespace)
	claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: "claim"}, Spec: claimSpec()}
	claim.Spec.VolumeName, claim.Spec.StorageClassName = namespace, &namespace
	claim = must.Get(claims.Create(t.Context(), claim, metav1.CreateOptions{}))(t)
	createVolume(t, namespace, corev1.VolumeBound, edit, func(v *corev1.PersistentVolume) {
		v.Spec.ClaimRef = &corev1.ObjectReference{Namespace: namespace, Name: claim.Name, UID: claim.UID}
	})
	claim.Status = corev1.PersistentVolumeClaimStatus{Phase: corev1.ClaimBound, Capacity: claim.Spec.Resources.Requests}
	return must.Get(claims.UpdateStatus(t.Context(), claim, metav1.UpdateOptions{}))(t)
}

func ofCSI(v *corev1.PersistentVolume) {
	v.Spec.PersistentVolumeSource = corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{Driver: "example.com", VolumeHandle: v.Name}}
}

func ofEBS(v *corev1.PersistentVolume) {
	v.Spec.PersistentVolumeSource = corev1.PersistentVolumeSource{AWSElasticBlockStore: &corev1.AWSElasticBlockStoreVolumeSource{VolumeID: "vol-1"}}
}

func ofFlex(v *corev1.PersistentVolume) {
	v.Spec.PersistentVolumeSource = corev1.PersistentVolumeSource{FlexVolume: &corev1.FlexPersistentVolumeSource{Driver: "example.com/flex"}}
}

// request patches the request of a claim.
func request(ctx context.Context, namespace, name, size string) error {
	patch := fmt.Sprintf(`{"spec":{"resources":{"requests":{"storage":%q}}}}`, size)
	_, err := admin.CoreV1().PersistentVolumeClaims(namespace).Patch(ctx, name, types.MergePatchType, []byte(patch), metav1.PatchOptions{})
	return err
}

// grow has a claim request 2Gi, as soon as the API server knows its class.
func grow(t *testing.T, namespace, name string) {
	t.Helper()
	await.That(t, "the claim can grow", func(ctx context.Context) error { return request(ctx, namespace, name, "2Gi") })
}

// expansion is how far the expansion of a claim is.
func expansion(ctx context.Context, namespace string) (string, error) {
	claim, err := admin.CoreV1().PersistentVolumeClaims(namespace).Get(ctx, "claim", metav1.GetOptions{})
	if err != nil {
		return "", err
	}
	volume, err := admin.CoreV1().PersistentVolumes().Get(ctx, namespace, metav1.GetOptions{})
	if err != nil {
		return "", err
	}
	var conditions []string
	for _, c := range claim.Status.Conditions {
		conditions = append(conditions, fmt.Sprintf("%s=%s %s", c.Type, c.Status, c.Message))
	}
	size := func(all corev1.ResourceList) string {
		q := all[corev1.ResourceStorage]
		return q.String()
	}
	return fmt.Sprintf("resizer %q, status %q, allocated %s, has %s, conditions %q, volume of %s, before %q",
		claim.Annotations[resizerAnnotation], claim.Status.AllocatedResourceStatuses[corev1.ResourceStorage], size(claim.Status.AllocatedResources),
		size(claim.Status.Capacity), conditions, size(volume.Spec.Capacity), volume.Annotations[oldSizeAnnotation]), nil
}

func awaitExpansion(t *testing.T, namespace, want string) {
	t.Helper()
	await.That(t, "the expansion is as far as wanted", func(ctx context.Context) error {
		got, err := expansion(ctx, namespace)
		if err == nil && got != want {
			err = fmt.Errorf("got  %s\nwant %s", got, want)
		}
		return err
	})
}

const (
	untouched = `resizer "", status "", allocated 0, has 1Gi, conditions [], volume of 1Gi, before ""`
	// nodeIsNext is what a FlexVolume is like when the node has to expand the file system.
	nodeIsNext = `resizer "example.com/flex", status "NodeResizePending", allocated 2Gi, has 1Gi, conditions ["Resizing=True " ` +
		`"FileSystemResizePending=True Waiting for user to (re-)start a pod to finish file system resize of volume on node."], volume of 2Gi, before "1Gi"`
)

// Pins PVX-9, PVX-12, PVX-20c, PVX-24 and PVX-33.
func TestAClaimOfCSIWaitsForItsResizer(t *testing.T) {
	t.Parallel()
	namespace := cluster.Namespace(t)
	createStorageClass(t, namespace, true)
	claim := createBound(t, namespace, ofCSI)
	from := must.Get(cluster.Audit().Mark())(t)
	grow(t, namespace, "claim")
	cluster.WaitForEvents(t, namespace, claim.UID, waitsForResizer)
	awaitExpansion(t, namespace, untouched)
	requests := must.Get(cluster.Audit().Since(from, controlplane.ByUser(expandAccount)))(t)
	reads := 0
	for _, e := range requests {
		switch {
		case e.ObjectRef.Resource == "persistentvolumes" && e.ObjectRef.Name == namespace && e.Verb == "get":
			reads++
		case e.ObjectRef.Namespace == namespace && e.ObjectRef.Resource != "events":
			t.Errorf("%s %s", e.Verb, e.RequestURI)
		}
	}
	if reads != 1 {
		t.Errorf("the volume was read %d times", reads)
	}
}

// The role of the controller allows it to write the status of claims only. The API server takes the
// annotation together with the status.
//
// Pins PVX-2, PVX-11, PVX-13, PVX-20a and PVX-33.
func TestAMigratedVolumeIsPassedToItsDriver(t *testing.T) {
	t.Parallel()
	namespace := cluster.Namespace(t)
	createStorageClass(t, namespace, true)
	claim := createBound(t, namespace, ofEBS)
	grow(t, namespace, "claim")
	awaitExpansion(t, namespace, `resizer "ebs.csi.aws.com", status "", allocated 0, has 1Gi, conditions [], volume of 1Gi, before ""`)
	cluster.WaitForEvents(t, namespace, claim.UID,
		"volume_expand Normal ExternalExpanding: CSI migration enabled for kubernetes.io/aws-ebs; waiting for external resizer to expand the pvc")
	if got := getClaim(t, namespace, "claim").Annotations; len(got) != 1 {
		t.Errorf("annotations are %v", got)
	}
}

// The API server refuses a larger request, so nothing is said of the claim.
//
// Pins PVX-4.
func TestAClassThatDoesNotAllowExpansion(t *testing.T) {
	t.Parallel()
	fixed, growing := cluster.Namespace(t), cluster.Namespace(t)
	createStorageClass(t, fixed, false)
	createStorageClass(t, growing, true)
	refused, later := createBound(t, fixed, ofEBS), createBound(t, growing, ofEBS)
	await.That(t, "the request is refused", func(ctx context.Context) error {
		if err := request(ctx, fixed, "claim", "2Gi"); !apierrors.IsForbidden(err) {
			return fmt.Errorf("got %w", err)
		}
		return nil
	})
	grow(t, growing, "claim")
	await.That(t, "the other claim was seen", func(ctx context.Context) error {
		events, err := cluster.EventsOf(ctx, growing, later.UID)
		if err == nil && len(events) == 0 {
			err = fmt.Errorf("it has no event")
		}
		return err
	})
	awaitExpansion(t, fixed, untouched)
	if events := must.Get(cluster.EventsOf(t.Context(), fixed, refused.UID))(t); len(events) != 0 {
		t.Errorf("events are %q", events)
	}
}

// nodeExpands does what a kubelet does when it has expanded the file system.
func nodeExpands(t *testing.T, namespace string) {
	t.Helper()
	patch := must.Get(json.Marshal(map[string]any{"status": map[string]any{
		"capacity": map[string]any{"storage": "2Gi"}, "conditions": nil, "allocatedResourceStatuses": nil,
	}}))(t)
	must.Get(admin.CoreV1().PersistentVolumeClaims(namespace).Patch(t.Context(), "claim", types.MergePatchType, patch, metav1.PatchOptions{}, "status"))(t)
}

// Pins PVX-10, PVX-21a, PVX-21e, PVX-21f, PVX-21g and PVX-33.
func TestAFlexVolumeIsExpandedByItsNode(t *testing.T) {
	t.Parallel()
	namespace := cluster.Namespace(t)
	createStorageClass(t, namespace, true)
	claim := createBound(t, namespace, ofFlex)
	grow(t, namespace, "claim")
	awaitExpansion(t, namespace, nodeIsNext)
	nodeExpands(t, namespace)
	awaitExpansion(t, namespace, `resizer "example.com/flex", status "", allocated 2Gi, has 2Gi, conditions [], volume of 2Gi, before ""`)
	if events := must.Get(cluster.EventsOf(t.Context(), namespace, claim.UID))(t); len(events) != 0 {
		t.Errorf("events are %q", events)
	}
}

// Pins PVX-21g and PVX-22.
func TestABlockDeviceOfFlexIsExpanded(t *testing.T) {
	t.Parallel()
	namespace := cluster.Namespace(t)
	createStorageClass(t, namespace, true)
	claim := createBound(t, namespace, func(v *corev1.PersistentVolume) {
		ofFlex(v)
		v.Spec.VolumeMode = ptr.To(corev1.PersistentVolumeBlock)
	})
	grow(t, namespace, "claim")
	awaitExpansion(t, namespace, `resizer "example.com/flex", status "", allocated 2Gi, has 2Gi, conditions [], volume of 2Gi, before ""`)
	cluster.WaitForEvents(t, namespace, claim.UID, "volume_expand Normal VolumeResizeSuccessful: ExpandVolume succeeded for volume "+namespace+"/claim")
}

func patches(r faultproxy.Requests, name string) faultproxy.Requests {
	return faultproxy.Requests{Resource: r.Resource, Verbs: []string{"patch"}, Name: name}
}

// The answer to a write of the controller is lost, its cache does not show the write, and the
// controller is stopped. The next one continues, with the result of an undisturbed expansion.
//
// Pins PVX-14 and PVX-31.
func TestAnExpansionIsContinuedAfterARestart(t *testing.T) {
	for name, lost := range map[string]func(namespace string) faultproxy.Requests{
		"claim":  func(string) faultproxy.Requests { return patches(claimEvents, "claim") },
		"volume": func(namespace string) faultproxy.Requests { return patches(volumeEvents, namespace) },
	} {
		t.Run(name, func(t *testing.T) {
			rest(t)
			namespace := cluster.Namespace(t)
			createStorageClass(t, namespace, true)
			createBound(t, namespace, ofFlex)
			r := cluster.Behind(t, only(expander))
			r.Works(t)
			answers := r.LoseAnswers(lost(namespace))
			grow(t, namespace, "claim")
			r.Asked(t, lost(namespace), 0)
			held := r.HoldEvents(claimEvents)
			r.Restart(t, expander, func() {
				answers.Lift()
				held.Lift()
			})
			awaitExpansion(t, namespace, nodeIsNext)
		})
	}
}

// The manager that expands the volume stops while its write is on its way. Its successor sees the
// claim late.
//
// Pins PVX-14 and PVX-31.
func TestAnExpansionIsContinuedByASuccessor(t *testing.T) {
	rest(t)
	namespace := cluster.Namespace(t)
	createStorageClass(t, namespace, true)
	createBound(t, namespace, ofFlex)
	leader := cluster.Behind(t, only(expander))
	leader.Works(t)
	successor := cluster.Behind(t, only(expander))
	late := successor.HoldEvents(claimEvents)
	writes := leader.HoldRequests(patches(volumeEvents, namespace))
	grow(t, namespace, "claim")
	leader.Asked(t, patches(volumeEvents, namespace), 0)
	stopped := make(chan error, 1)
	go func() { stopped <- leader.Stop() }()
	writes.Lift()
	must.Succeed(t, <-stopped)
	late.Lift()
	successor.Works(t)
	awaitExpansion(t, namespace, nodeIsNext)
	nodeExpands(t, namespace)
	awaitExpansion(t, namespace, `resizer "example.com/flex", status "", allocated 2Gi, has 2Gi, conditions [], volume of 2Gi, before ""`)
}

// The write of the new size is on its way while the volume goes, and another one gets its name.
//
// Pins PVX-18 and PVX-36.
func TestAnotherVolumeOfTheNameIsNotExpanded(t *testing.T) {
	rest(t)
	namespace := cluster.Namespace(t)
	createStorageClass(t, namespace, true)
	createBound(t, namespace, ofFlex)
	r := cluster.Behind(t, only(expander))
	r.Works(t)
	writes := r.HoldRequests(patches(volumeEvents, namespace))
	grow(t, namespace, "claim")
	r.Asked(t, patches(volumeEvents, namespace), 0)
	volumes().delete(t, namespace)
	end(t, volumes().client, namespace)
	volumes().awaitGone(t, namespace)
	createVolume(t, namespace, corev1.VolumeAvailable, ofFlex)
	reads := faultproxy.Requests{Resource: volumeEvents.Resource, Verbs: []string{"get"}, Name: namespace}
	before := r.Seen(reads)
	writes.Lift()
	r.Asked(t, reads, before) // the first answer has had its effect
	volume := must.Get(admin.CoreV1().PersistentVolumes().Get(t.Context(), namespace, metav1.GetOptions{}))(t)
	if size := volume.Spec.Capacity[corev1.ResourceStorage]; size.Cmp(resource.MustParse("1Gi")) != 0 || len(volume.Annotations) != 0 {
		t.Errorf("the volume has %s and annotations %v", size.String(), volume.Annotations)
	}
}
