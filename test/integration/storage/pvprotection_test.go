package storage

import (
	"encoding/json"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"kcmd.dev/test/faultproxy"
	"kcmd.dev/test/manager"
	"kcmd.dev/test/must"
)

var volumeEvents = faultproxy.Requests{Resource: corev1.Resource("persistentvolumes"), Verbs: []string{"watch"}}

func volumes() protection[*corev1.PersistentVolume] {
	return protection[*corev1.PersistentVolume]{
		client:       admin.CoreV1().PersistentVolumes(),
		resource:     volumeEvents.Resource,
		finalizer:    "kubernetes.io/pv-protection",
		enabled:      func(c *manager.Config) **bool { return &c.Controllers.PersistentVolumeProtection.Enabled },
		createUnused: func(t *testing.T, name string) { t.Helper(); createVolume(t, name, corev1.VolumeAvailable) },
	}
}

// createVolume creates a volume in a phase, until the end of the test.
func createVolume(t *testing.T, name string, phase corev1.PersistentVolumePhase, edits ...func(*corev1.PersistentVolume)) *corev1.PersistentVolume {
	t.Helper()
	claim := claimSpec()
	volume := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.PersistentVolumeSpec{
		AccessModes:            claim.AccessModes,
		Capacity:               claim.Resources.Requests,
		StorageClassName:       *claim.StorageClassName,
		PersistentVolumeSource: corev1.PersistentVolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/volume"}},
	}}
	for _, edit := range edits {
		edit(volume)
	}
	created := volumes().create(t, volume)
	setPhase(t, name, phase)
	return created
}

// setPhase does what the binder does.
func setPhase(t *testing.T, name string, phase corev1.PersistentVolumePhase) {
	t.Helper()
	patch := must.Get(json.Marshal(map[string]any{"status": map[string]any{"phase": phase}}))(t)
	must.Get(admin.CoreV1().PersistentVolumes().Patch(t.Context(), name, types.MergePatchType, patch, metav1.PatchOptions{}, "status"))(t)
}

// Pins PVP-2, PVP-3, PVP-6, PVP-9 and PVP-12.
func TestAVolumeStaysWhileItIsBound(t *testing.T) {
	t.Parallel()
	name := cluster.Namespace(t)
	created := createVolume(t, name, corev1.VolumeBound)
	if !slices.Contains(created.Finalizers, volumes().finalizer) {
		t.Fatalf("the API server did not protect the volume: %q", created.Finalizers)
	}
	volumes().delete(t, name)
	volumes().stays(t, name)
	setPhase(t, name, corev1.VolumeReleased)
	volumes().awaitGone(t, name)
}

// Pins PVP-10.
func TestAVolumeIsProtectedAgain(t *testing.T) {
	t.Parallel()
	name := cluster.Namespace(t)
	createVolume(t, name, corev1.VolumeAvailable)
	isProtectedAgain(t, volumes().client, name, volumes().finalizer)
}

// A volume is bound while the write that releases it is on its way; the cache shows that late. It does
// not help to start the controller again, neither while the cache is behind nor later, or another one.
//
// Pins PVP-16 and PVP-17.
func TestAVolumeThatIsBoundMeanwhileIsNotReleased(t *testing.T) {
	name, leader, letGo := volumes().releasing(t)
	events := leader.HoldEvents(volumeEvents)
	setPhase(t, name, corev1.VolumeBound)
	letGo()
	volumes().isRefused(t, leader)
	volumes().isHeld(t, name)
	events.Lift()
	volumes().staysUnderOthers(t, leader, name)
	setPhase(t, name, corev1.VolumeReleased)
	volumes().awaitGone(t, name)
}

// The write that releases a volume is on its way while the volume goes and another one of its name is
// created, bound and deleted. The cache shows that late, also after a restart.
//
// Pins PVP-17.
func TestAnotherVolumeOfTheNameIsNotReleased(t *testing.T) {
	name, leader, letGo := volumes().releasing(t)
	events := leader.HoldEvents(volumeEvents)
	end(t, volumes().client, name)
	volumes().awaitGone(t, name)
	createVolume(t, name, corev1.VolumeBound)
	volumes().delete(t, name)
	letGo()
	volumes().isRefused(t, leader)
	volumes().isHeld(t, name)
	events.Lift()
	volumes().staysUnderOthers(t, leader, name)
	setPhase(t, name, corev1.VolumeReleased)
	volumes().awaitGone(t, name)
}
