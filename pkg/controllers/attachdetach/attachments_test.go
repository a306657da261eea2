package attachdetach

import (
	"testing"
	"time"

	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"

	"kcmd.dev/pkg/controllers/kit/requests"
	"kcmd.dev/test/controllertest"
)

// Pins ATT-40f and ATT-40g.
func TestTheVolumeAttachment(t *testing.T) {
	pv := aVolume("handle", once)
	pv.Name = "pv"
	at := place{volumeName("handle"), "node"}
	va := vaFor(at, migrated(specOf(pv)))
	// sha256 of "handlecsi.example.comnode"
	if want := "csi-" + sumOf("handlecsi.example.comnode"); va.Name != want {
		t.Errorf("name is %s, want %s", va.Name, want)
	}
	if va.Spec.Attacher != driver || va.Spec.NodeName != "node" || *va.Spec.Source.PersistentVolumeName != "pv" || va.Spec.Source.InlineVolumeSpec != nil {
		t.Errorf("spec is %+v", va.Spec)
	}
	inline := specOf(pv)
	inline.Inline = true
	if va := vaFor(at, migrated(inline)); va.Spec.Source.PersistentVolumeName != nil || va.Spec.Source.InlineVolumeSpec == nil {
		t.Errorf("spec is %+v", va.Spec)
	}
}

// Pins ATT-69 and ATT-76.
func TestForeignVolumeAttachmentsAreLeftAlone(t *testing.T) {
	foreign := anAttachment("v", "a", isAttached, func(va *storagev1.VolumeAttachment) { va.Name = "foreign" })
	s := newStage(t, aNode("a"), aVolume("v", once), aClaim("v"), foreign)
	controllertest.Change(t, s.Env, "", "a", uses())
	s.pass(time.Minute)
	s.is()
	s.sent(inquired, look+"a", read)
	s.change("foreign", func(va *storagev1.VolumeAttachment) { va.Status.Attached = false })
	s.change("foreign", beingDeleted)
	s.idle = true
	s.pass(time.Minute)
	s.sent()
}

// Pins ATT-81 and ATT-101.
func TestADeletedVolumeAttachmentIsNotTrusted(t *testing.T) {
	for name, tc := range map[string]struct {
		live        func(*stage)
		want, later []string // later is what is so once the deletion cannot be executed any more, nil for the same
	}{
		"it is being deleted": {func(*stage) {}, []string{"v@a wanted uncertain"}, nil},
		"it is gone":          {func(s *stage) { s.Remove(s.t, s.va("v", "a")) }, []string{"v@a wanted uncertain"}, nil},
		"it is gone, as another deletion shows": {
			func(s *stage) { s.Remove(s.t, s.va("v", "a")); s.pass(firstBackoff + soon) }, []string{"v@a wanted uncertain"}, nil,
		},
		"it was never deleted": {
			func(s *stage) { s.Store(s.t, anAttachment("v", "a", isAttached)) },
			[]string{"v@a wanted uncertain"}, []string{"v@a wanted attached listed"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStage(t, aNode("a", showing("v"), uses("v")), aVolume("v", once), aClaim("v"), anAttachment("v", "a", isAttached), aPod("pod", "a", "v"))
			s.is("v@a wanted attached listed")
			s.idle = true
			s.hide(&storagev1.VolumeAttachment{})
			s.Fake.PrependReactor("delete", "volumeattachments", func(a action) (bool, runtime.Object, error) {
				if _, _, err := s.deleteAttachment(a); apierrors.IsNotFound(err) {
					return true, nil, err
				}
				return true, nil, errRefused // the answer is lost
			})
			controllertest.Change(t, s.Env, "", "a", uses())
			s.Remove(t, aPod("pod", "a", "v"))
			s.pass(soon)
			s.is("v@a uncertain")
			tc.live(s)
			s.Store(t, aPod("next", "a", "v"))
			s.pass(soon)
			s.is(tc.want...)
			if tc.later != nil {
				s.pass(requests.LateWithin + lastBackoff)
				s.is(tc.later...)
			}
		})
	}
}

// Nothing is left of it that could be executed later. Pins ATT-101.
func TestADeletionThatWasRefusedIsNotWaitedFor(t *testing.T) {
	s := newStage(t, aNode("a", showing("v"), uses("v")), aVolume("v", once), aClaim("v"), anAttachment("v", "a", isAttached), aPod("pod", "a", "v"))
	s.is("v@a wanted attached listed")
	s.idle = true
	refusal := apierrors.NewForbidden(storagev1.Resource("volumeattachments"), "v", errRefused)
	s.Fake.PrependReactor("delete", "volumeattachments", func(action) (bool, runtime.Object, error) { return true, nil, refusal })
	controllertest.Change(t, s.Env, "", "a", uses())
	s.Remove(t, aPod("pod", "a", "v"))
	s.pass(soon)
	s.is("v@a uncertain")
	s.Store(t, aPod("next", "a", "v"))
	s.pass(firstBackoff + soon)
	s.is("v@a wanted attached listed")
}

// The deletion had no answer. When a pod wants the volume again, nothing has come of it yet: the volume would be taken
// away from the node once it is used. That is handed over. Pins ATT-101.
func TestAVolumeThatMayBeDetachedLateIsNotReported(t *testing.T) {
	for _, replaced := range []bool{false, true} {
		s := newStage(t, aNode("a", showing("v"), uses("v")), aVolume("v", once), aClaim("v"), anAttachment("v", "a", isAttached), aPod("pod", "a", "v"))
		s.is("v@a wanted attached listed")
		s.idle = true
		allow := s.Refuse("delete volumeattachments", apierrors.NewTimeoutError("late", 0))
		controllertest.Change(t, s.Env, "", "a", uses())
		s.Remove(t, aPod("pod", "a", "v"))
		s.pass(soon)
		s.is("v@a uncertain")
		allow()
		s.Store(t, aPod("next", "a", "v"))
		if replaced {
			s.restart()
		}
		s.pass(time.Minute)
		s.is("v@a wanted uncertain")
		s.pass(lastBackoff)
		s.is("v@a wanted attached listed")
	}
}

// Another VolumeAttachment has the name of the one that was to be deleted.
//
// Pins ATT-81.
func TestAVolumeAttachmentOfAnotherUIDIsNotDeleted(t *testing.T) {
	s := newStage(t, aNode("a", showing("v")), aVolume("v", once), aClaim("v"), anAttachment("v", "a", isAttached), aPod("pod", "a", "v"))
	s.idle = true
	s.hide(&storagev1.VolumeAttachment{})
	s.Store(t, anAttachment("v", "a", isAttached, func(va *storagev1.VolumeAttachment) { va.UID = "another" }))
	s.Remove(t, aPod("pod", "a", "v"))
	s.pass(soon)
	s.is("v@a uncertain")
	if va := s.va("v", "a"); va.DeletionTimestamp != nil {
		t.Error("the other VolumeAttachment was deleted")
	}
	s.hide()
	s.idle = false
	s.pass(time.Minute)
	s.is()
}

// The cache does not show the VolumeAttachment that is to be deleted. That it is gone is not concluded from
// the cache.
//
// Pins ATT-81.
func TestAVolumeAttachmentThatTheCacheDoesNotShowIsDeleted(t *testing.T) {
	s := newStage(t, aNode("a", showing("v")), aVolume("v", once), aClaim("v"))
	s.hide(&storagev1.VolumeAttachment{})
	s.idle = true
	s.Store(t, aNode("b"), aPod("pod", "b", "v"))
	s.pass(driverWait + promptly)
	s.is("v@b wanted uncertain")
	s.Remove(t, aPod("pod", "b", "v"))
	controllertest.Change(t, s.Env, "", "b", uses())
	s.pass(soon)
	s.is("v@b uncertain")
	if va := s.va("v", "b"); va.DeletionTimestamp == nil {
		t.Error("it was not deleted")
	}
	s.hide()
	s.pass(time.Minute)
	s.is("v@b uncertain")
	s.idle = false
	s.pass(time.Minute)
	s.is()
}
