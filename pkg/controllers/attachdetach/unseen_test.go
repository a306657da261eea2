package attachdetach

import (
	"errors"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"kcmd.dev/test/controllertest"
)

// Pins ATT-39h, ATT-87 and ATT-21.
func TestANodeThatUsesAVolumeKeepsIt(t *testing.T) {
	s := newStage(t, aNode("a", uses()), aVolume("v", once), aClaim("v"), aPod("pod", "a", "v"))
	controllertest.Change(t, s.Env, "", "a", uses())
	s.pass(soon)
	s.hide(&corev1.Node{})
	controllertest.Change(t, s.Env, "", "a", uses("v"))
	s.Remove(t, aPod("pod", "a", "v"))
	s.pass(soon)
	s.is("v@a attached")
	s.sent(create, reported+"a", reported+"a", look+"a")

	s.hide()
	allow := s.Refuse("get nodes", errors.New("no"))
	controllertest.Change(t, s.Env, "", "a", uses())
	s.pass(time.Minute)
	s.is("v@a attached")
	allow()
	s.pass(time.Minute)
	s.is()
}

// The cache does not show that the first node uses the volume, which was not attached for certain otherwise.
//
// Pins ATT-87.
func TestAVolumeThatANodeUsesIsNotAttachedToAnother(t *testing.T) {
	s := newStage(t, aNode("a", uses()), aNode("b"), aVolume("v", once), aClaim("v"), aPod("pod", "a", "v"))
	controllertest.Change(t, s.Env, "", "a", uses())
	s.pass(soon)
	s.hide(&corev1.Node{})
	controllertest.Change(t, s.Env, "", "a", uses("v"))
	s.Remove(t, aPod("pod", "a", "v"))
	s.Store(t, aPod("other", "b", "v"))
	s.pass(time.Minute)
	s.is("v@a attached", "v@b wanted")

	s.hide()
	controllertest.Change(t, s.Env, "", "a", uses())
	s.pass(time.Minute)
	s.is("v@b wanted attached listed")
}

// The cache does not show that the first node uses the volume, and the node cannot be read.
//
// Pins ATT-87.
func TestAVolumeIsNotAttachedElsewhereWhileItsNodeCannotBeRead(t *testing.T) {
	s := newStage(t, aNode("a", uses()), aNode("b"), aVolume("v", once), aClaim("v"), aPod("pod", "a", "v"))
	controllertest.Change(t, s.Env, "", "a", uses())
	s.pass(soon)
	s.requests = nil
	allow := s.Refuse("get nodes a", errors.New("no"))
	s.hide(&corev1.Node{})
	controllertest.Change(t, s.Env, "", "a", uses("v"))
	s.Remove(t, aPod("pod", "a", "v"))
	s.Store(t, aPod("other", "b", "v"))
	s.pass(promptly)
	s.sent(reported+"a", look+"a")
	s.pass(time.Minute)
	s.is("v@a attached", "v@b wanted")

	s.hide()
	allow()
	controllertest.Change(t, s.Env, "", "a", uses())
	s.pass(time.Minute)
	s.is("v@b wanted attached listed")
}

// The cache does not show the VolumeAttachment, and it cannot be read either. No other node gets the volume.
//
// Pins ATT-87.
func TestAVolumeStaysAttachedWhileItsVolumeAttachmentCannotBeRead(t *testing.T) {
	s := newStage(t, aNode("a"), aNode("b"), aVolume("v", once), aClaim("v"), aPod("pod", "a", "v"))
	controllertest.Change(t, s.Env, "", "a", uses())
	s.pass(soon)
	s.requests = nil
	s.hide(&storagev1.VolumeAttachment{})
	s.Uncache(t, s.va("v", "a"))
	allow := s.Refuse(read, apierrors.NewInternalError(errRefused))
	s.Remove(t, aPod("pod", "a", "v"))
	s.Store(t, aPod("other", "b", "v"))
	s.pass(promptly)
	s.sent(reported+"a", read)
	s.pass(time.Minute)
	s.is("v@a attached", "v@b wanted")

	s.hide()
	allow()
	s.pass(time.Minute)
	s.is("v@b wanted attached listed")
}

// A list of pods after a break of the watch lacks one that runs. Its node is cut off later, and then the pod is deleted.
//
// Pins ATT-109.
func TestAPodThatOnlyAListLacksGoesOnWantingItsVolumes(t *testing.T) {
	pod := aPod("pod", "a", "v")
	for name, then := range map[string]func(*stage){"": func(*stage) {}, "before a restart": (*stage).restart} {
		t.Run(name, func(t *testing.T) {
			s := newStage(t, aNode("a", uses("v")), aVolume("v", once), aClaim("v"), pod)
			s.miss(pod)
			s.pass(time.Minute)
			then(s)
			s.pass(maxWait)
			s.is("v@a wanted attached listed")
			s.requests = nil
			s.pass(time.Minute)
			if len(s.requests) == 0 || slices.ContainsFunc(s.requests, func(r string) bool { return r != inquired }) {
				t.Errorf("requests are %q", s.requests)
			}
			controllertest.Change(t, s.Env, "", "a", notReady)
			s.Remove(t, pod)
			s.pass(maxWait)
			s.is("v@a attached listed")
			s.pass(time.Minute)
			s.is()
		})
	}
	t.Run("it is gone", func(t *testing.T) {
		s := newStage(t, aNode("a", uses()), aVolume("v", once), aClaim("v"), pod)
		controllertest.Change(t, s.Env, "", "a", uses())
		s.Remove(t, pod)
		s.miss(pod)
		s.pass(soon)
		s.is()
	})
	t.Run("the cache shows it again", func(t *testing.T) {
		s := newStage(t, aNode("a", uses()), aVolume("v", once), aClaim("v"), pod)
		s.miss(pod)
		s.hide()
		s.run()
		controllertest.Change(t, s.Env, "", "a", uses())
		s.requests = nil
		s.Remove(t, pod)
		s.pass(soon)
		s.is()
		if slices.Contains(s.requests, inquired) {
			t.Errorf("requests are %q", s.requests)
		}
	})
	t.Run("it cannot be read", func(t *testing.T) {
		s := newStage(t, aNode("a", uses()), aVolume("v", once), aClaim("v"), pod)
		controllertest.Change(t, s.Env, "", "a", uses())
		s.Remove(t, pod)
		allow := s.Refuse(inquired, errRefused)
		s.miss(pod)
		s.pass(time.Minute)
		s.is("v@a wanted attached listed")
		allow()
		s.pass(time.Minute)
		s.is()
	})
}
