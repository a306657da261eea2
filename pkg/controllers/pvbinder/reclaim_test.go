package pvbinder

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	clienttesting "k8s.io/client-go/testing"
	volumeerrors "k8s.io/cloud-provider/volume/errors"
	"k8s.io/component-helpers/storage/volume"

	"kcmd.dev/test/controllertest"
)

// directory makes a directory with something in it, the path of which may be deleted.
func directory(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "tmp", "data")
	if err := os.MkdirAll(path, 0o750); err != nil {
		t.Fatal(err)
	}
	return path
}

// released is a volume to be deleted whose claim is gone.
func released(path string, changes ...func(*pv)) *pv {
	return aVolume("volume", append([]func(*pv){claimedBy(claimUID), onHostPath(path), policy(corev1.PersistentVolumeReclaimDelete), inPhase(corev1.VolumeReleased)}, changes...)...)
}

const deleteVolume = "delete persistentvolumes volume"

func wantDirectory(t *testing.T, path string, want bool) {
	t.Helper()
	if _, err := os.Stat(path); (err == nil) != want {
		t.Errorf("the directory: %v", err)
	}
}

// Pins PVB-84a, PVB-35, PVB-90, PVB-92 and PVB-115.
func TestAReleasedVolumeIsDeleted(t *testing.T) {
	path := directory(t)
	f := begin(t, released(path, provisionedBy(hostPathName), volumeFinalizers(volume.PVDeletionInTreeProtectionFinalizer)))
	f.mustSync(t, f.syncVolume)
	f.WantRequests(t, getVolume, getClaim, getVolume, putVolume, deleteVolume)
	wantDirectory(t, path, false)
	if _, ok := controllertest.Stored[*pv](t, f.Env, "", "volume"); ok {
		t.Error("the volume exists")
	}
	f.Clock.Step(3 * time.Second)
	f.c.volumeGone(released(path))
	wantSeries(t, f, "volume_operation_total_seconds", "operation_name=delete plugin_name=kubernetes.io/host-path 1")
	wantSeries(t, f, "storage_operation_duration_seconds", "migrated=false operation_name=volume_delete status=success volume_plugin=kubernetes.io/host-path 1")
}

// The cache shows a volume that is to be deleted, and something has changed since. Pins PVB-84a, PVB-100,
// PVB-107 and PVB-115.
func TestAVolumeThatIsNoLongerReleasedIsNotDeleted(t *testing.T) {
	for name, tc := range map[string]struct {
		objects []runtime.Object
		refuse  string
		want    []string
	}{
		"PVB-84a: it is gone":                          {want: []string{getVolume}},
		"PVB-84a: it cannot be read":                   {refuse: getVolume, want: []string{getVolume}},
		"PVB-115: another volume has its name":         {objects: []runtime.Object{released("", func(v *pv) { v.UID = "second" })}, want: []string{getVolume}},
		"PVB-84a: it was freed":                        {objects: []runtime.Object{released("", func(v *pv) { v.Spec.ClaimRef = nil })}, want: []string{getVolume}},
		"PVB-84a: it is reserved":                      {objects: []runtime.Object{released("", claimedBy(""))}, want: []string{getVolume}},
		"PVB-115: it is to be retained":                {objects: []runtime.Object{released("", policy(corev1.PersistentVolumeReclaimRetain))}, want: []string{getVolume}},
		"PVB-115: its claim is not in the cache":       {objects: []runtime.Object{released(""), aClaim(naming("volume"))}, want: []string{getVolume, getClaim}},
		"PVB-115: its claim is not in it, and unbound": {objects: []runtime.Object{released(""), aClaim()}, want: []string{getVolume, getClaim}},
		"PVB-115: its claim cannot be read":            {objects: []runtime.Object{released("")}, refuse: getClaim, want: []string{getVolume, getClaim}},
	} {
		t.Run(name, func(t *testing.T) {
			path := directory(t)
			f := begin(t)
			cached := released(path)
			f.c.volumes.seen("volume", cached)
			for _, object := range tc.objects {
				if v, ok := object.(*pv); ok {
					v.Spec.HostPath.Path = path
				}
				f.Store(t, object)
			}
			if tc.refuse != "" {
				f.Refuse(tc.refuse, errors.New("boom"))
			}
			f.mustSync(t, f.syncVolume)
			f.WantRequests(t, tc.want...)
			f.WantEvents(t)
			wantDirectory(t, path, true)
		})
	}
}

// What is deleted has the UID and the version of what was read. Pins PVB-116.
func TestTheDeletionOfAVolumeHasPreconditions(t *testing.T) {
	f := begin(t, released(directory(t)))
	var got *clienttesting.DeleteActionImpl
	f.Intercept(deleteVolume, func(a clienttesting.Action) error {
		if d, ok := a.(clienttesting.DeleteActionImpl); ok {
			got = &d
		}
		return errors.New("boom")
	})
	f.mustSync(t, f.syncVolume) // that this fails is repeated by the next pass
	if p := got.DeleteOptions.Preconditions; *p.UID != "volume-uid" || *p.ResourceVersion != f.volume(t).ResourceVersion {
		t.Errorf("the preconditions are %v %v", *p.UID, *p.ResourceVersion)
	}
	f.WantEvents(t)
	if f.c.operations.isBlocked("delete-volume[volume-uid]") {
		t.Error("it is blocked")
	}
}

// What is gone, or was changed, is not to be deleted. Pins PVB-84a.
func TestThatAVolumeCannotBeDeletedIsLogged(t *testing.T) {
	for name, tc := range map[string]struct {
		refusal error
		want    []string
	}{
		"it is refused":  {apierrors.NewForbidden(corev1.Resource("persistentvolumes"), "volume", errors.New("boom")), []string{`persistentvolumes "volume" is forbidden: boom`}},
		"it has changed": {errConflict, nil},
		"it is gone":     {apierrors.NewNotFound(corev1.Resource("persistentvolumes"), "volume"), nil},
	} {
		t.Run(name, func(t *testing.T) {
			f := begin(t, released(directory(t)))
			logged := f.log()
			f.Refuse(deleteVolume, tc.refusal)
			f.mustSync(t, f.syncVolume)
			wantLogged(t, *logged, "Failed to delete the PersistentVolume, retrying in the next pass", tc.want...)
		})
	}
}

// Neither the phase nor an event shows why the deletion failed if the phase meets a conflict.
func TestADeletionAndThePhaseAfterItFail(t *testing.T) {
	const failed = "host_path deleter only supports /tmp/.+ but received provided /data"
	f := begin(t, released("/data"))
	logged := f.log()
	f.Refuse(putVolumeStatus, errConflict)
	f.mustSync(t, f.syncVolume)
	f.WantEvents(t)
	wantLogged(t, *logged, "Operation failed", failed)
}

// Pins PVB-84a, PVB-84 and PVB-91.
func TestADeletionFails(t *testing.T) {
	const failed = "host_path deleter only supports /tmp/.+ but received provided /data"
	f := begin(t, released("/data"))
	f.mustSync(t, f.syncVolume)
	f.WantRequests(t, getVolume, getClaim, putVolumeStatus)
	f.WantEvents(t, "Warning VolumeFailedDelete "+failed)
	if v := f.volume(t); v.Status.Phase != corev1.VolumeFailed || v.Status.Message != failed {
		t.Errorf("the status is %+v", v.Status)
	}
	f.mustSync(t, f.syncVolume)
	f.WantRequests(t) // it is blocked
	f.Clock.Step(time.Second)
	f.mustSync(t, f.syncVolume)
	f.WantRequests(t, getVolume, getClaim)
	f.WantEvents(t) // the phase did not change
	wantSeries(t, f, "volume_operation_errors_total", "operation_name=delete plugin_name=kubernetes.io/host-path 2")
	wantSeries(t, f, "storage_operation_duration_seconds", "migrated=false operation_name=volume_delete status=fail-unknown volume_plugin=kubernetes.io/host-path 2")
}

// Pins PVB-84a.
func TestRemovingTheFinalizerFails(t *testing.T) {
	f := begin(t, released(directory(t), provisionedBy(hostPathName), volumeFinalizers(volume.PVDeletionInTreeProtectionFinalizer)))
	f.Refuse(putVolume, errors.New("boom"))
	f.mustSync(t, f.syncVolume)
	f.WantRequests(t, getVolume, getClaim, getVolume, putVolume, putVolumeStatus)
	f.WantEvents(t, "Warning VolumeFailedDelete persistent volume controller can't update finalizer: boom")
}

// Pins PVB-84, PVB-101 and PVB-82.
func TestWhatCannotBeDeletedFailsWithoutBackoff(t *testing.T) {
	f := begin(t, released("", provisionedBy("kubernetes.io/rbd"), volumeFinalizers(volume.PVDeletionInTreeProtectionFinalizer)))
	for range 2 {
		f.mustSync(t, f.syncVolume)
	}
	f.WantRequests(t, putVolumeStatus)
	f.WantEvents(t, "Warning VolumeFailedDelete no volume plugin matched name: kubernetes.io/rbd")
	wantSeries(t, f, "volume_operation_errors_total")
	if f.c.operations.isBlocked("delete-volume[volume-uid]") {
		t.Error("it is blocked")
	}
}

// Pins PVB-90.
func TestTheNameOfWhoDeletes(t *testing.T) {
	f := begin(t, aClass("gold", "csi.example.com"), aClass("silver", "kubernetes.io/gce-pd"))
	f.CatchUp(t, &storagev1.StorageClass{})
	for class, want := range map[string]string{"gold": "csi.example.com", "silver": "pd.csi.storage.gke.io", "gone": "N/A"} {
		if got := f.c.deleterName(aVolume("v", volumeClass(class))); got != want {
			t.Errorf("of class %s: %s", class, got)
		}
	}
}

// mock is a plugin for tests, which supports every volume.
type mock struct {
	err, disabled error
	provisioned   int
	deleted       int
}

func (*mock) Name() string        { return "kubernetes.io/mock-provisioner" }
func (*mock) Supports(_ *pv) bool { return true }
func (m *mock) Enabled() error    { return m.disabled }
func (m *mock) RecyclerPod(v *pv) *corev1.Pod {
	return recyclerPods{template: defaultTemplate()}.podFor(v, corev1.VolumeSource{})
}

func (m *mock) Delete(_ context.Context, _ *pv) error { m.deleted++; return m.err }

func (m *mock) Provision(_ context.Context, _ provisionRequest) (*provisionedStorage, error) {
	m.provisioned++
	return &provisionedStorage{Source: corev1.PersistentVolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/tmp/x"}}}, m.err
}

// withMock makes a controller that has no plugin but a mock.
func withMock(t *testing.T, m *mock, objects ...runtime.Object) *fixture {
	t.Helper()
	env := controllertest.New(t, objects...)
	env.CompleteWrites("persistentvolumes", "persistentvolumeclaims", "pods")
	env.CheckWrites("persistentvolumes", "persistentvolumeclaims")
	f := wired(t, env, newWithPlugins(env.Env, defaults(), plugins{m}))
	f.CatchUp(t, &storagev1.StorageClass{}, &corev1.Node{})
	return f
}

// Pins PVB-84a and PVB-108.
func TestStorageInUseIsDeletedLater(t *testing.T) {
	f := withMock(t, &mock{err: volumeerrors.NewDeletedVolumeInUseError("in use")}, released(""))
	f.mustSync(t, f.syncVolume)
	f.WantRequests(t, getVolume, getClaim)
	f.WantEvents(t, "Normal VolumeDelete in use")
	if !f.c.operations.isBlocked("delete-volume[volume-uid]") {
		t.Error("it is not blocked")
	}
}
