package attachdetach

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"kcmd.dev/test/controllertest"
)

// A VolumeAttachment that nobody wants is not shown when the instance begins, or its volume is not. Without a link,
// nobody would ever detach it, and the volume could not get to another node.
//
// Pins ATT-100.
func TestALostAttachmentIsDetached(t *testing.T) {
	foreign := anAttachment("v", "a", isAttached)
	foreign.Name = "foreign"
	inline := anAttachment("v", "a", isAttached, func(va *storagev1.VolumeAttachment) {
		va.Spec.Source = storagev1.VolumeAttachmentSource{InlineVolumeSpec: &corev1.PersistentVolumeSpec{}}
	})
	for name, tc := range map[string]struct {
		later []runtime.Object // what the caches do not show at first
		want  []string         // requests
		left  int
	}{
		"ATT-100: the list lacks it":         {later: []runtime.Object{anAttachment("v", "a", isAttached)}, want: []string{inquired, look + "a", remove}},
		"ATT-100: the list lacks its volume": {later: []runtime.Object{aVolume("v", once)}, want: []string{inquired, look + "a", remove}},
		"ATT-100: it is somebody else's":     {later: []runtime.Object{foreign}, left: 1},
		"ATT-100: it is not of a PersistentVolume": {
			later: []runtime.Object{inline}, left: 1,
		},
	} {
		t.Run(name, func(t *testing.T) {
			objects := []runtime.Object{aNode("a", showing())}
			if _, isVolume := tc.later[0].(*corev1.PersistentVolume); isVolume {
				objects = append(objects, anAttachment("v", "a", isAttached))
			} else {
				objects = append(objects, aVolume("v", once))
			}
			s := newStage(t, objects...)
			s.is()
			s.Store(t, tc.later...)
			s.pass(soon)
			s.sent()
			s.c.retry(s.Context(), s.Context())
			s.pass(time.Minute)
			s.sent(tc.want...)
			s.is()
			if all := controllertest.AllStored[*storagev1.VolumeAttachment](t, s.Env, ""); len(all) != tc.left {
				t.Errorf("%d VolumeAttachments are left, want %d", len(all), tc.left)
			}
			s.c.retry(s.Context(), s.Context())
			if len(s.c.world.unlinked) > 0 {
				t.Errorf("remembers %v", s.c.world.unlinked)
			}
		})
	}
}

// The answer to a create is lost, the pod goes, and the detach finds nothing. Then the create is carried out.
//
// Pins ATT-100.
func TestAnAttachThatArrivesAfterItsDetachIsDetached(t *testing.T) {
	s := newStage(t, aNode("a", showing()), aVolume("v", once))
	s.idle = true
	at := place{volumeName("v"), "a"}
	s.c.world.markDetached(s.c.world.markUncertain(at, identified{}))
	s.Store(t, anAttachment("v", "a"))
	s.pass(soon)
	s.is()
	s.c.retry(s.Context(), s.Context())
	s.pass(soon)
	if va := s.va("v", "a"); va.DeletionTimestamp == nil {
		t.Error("it is not detached")
	}
	s.idle = false
	s.pass(soon)
	s.is()
}

// A pod wants the volume by the time its VolumeAttachment is found: it is taken for that pod, and not detached.
//
// Pins ATT-100.
func TestALostAttachmentIsLeftToAPodThatWantsIt(t *testing.T) {
	s := newStage(t, aNode("a", showing()), aVolume("v", once), aClaim("v"))
	s.Store(t, anAttachment("v", "a", isAttached))
	s.pass(soon)
	s.Store(t, aPod("pod", "a", "v"))
	s.pass(soon)
	s.sent(reported + "a")
	s.c.retry(s.Context(), s.Context())
	s.pass(time.Minute)
	s.sent()
	s.is("v@a wanted attached listed")
}

// A VolumeAttachment is left out when the instance begins, since the driver attaches nothing. Later it does, and a pod
// on another node could not get the volume.
//
// Pins ATT-102.
func TestAnAttachmentIsFoundWhenItsDriverAttachesVolumes(t *testing.T) {
	for name, change := range map[string]func(*stage){
		"the CSIDriver changes": func(s *stage) { s.Store(s.t, aDriver(true)) },
		"the CSIDriver is gone": func(s *stage) { s.Remove(s.t, aDriver(false)) },
	} {
		t.Run(name, func(t *testing.T) {
			s := newStage(t, aNode("a", showing()), aVolume("v", once), anAttachment("v", "a", isAttached), aDriver(false))
			s.c.retry(s.Context(), s.Context())
			s.pass(soon)
			s.is()
			s.sent()
			change(s)
			s.pass(soon)
			s.c.retry(s.Context(), s.Context())
			s.pass(time.Minute)
			s.sent(inquired, look+"a", remove)
			s.is()
		})
	}
}
