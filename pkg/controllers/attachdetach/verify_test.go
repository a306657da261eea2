package attachdetach

import (
	"errors"
	"testing"
	"time"

	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"kcmd.dev/test/controllertest"
)

// Pins ATT-39f, ATT-42, ATT-59, ATT-82.
func TestVerification(t *testing.T) {
	volumes := []string{"v"}
	for name, tc := range map[string]struct {
		change  func(*stage)
		verify  []string // requests
		want    []string
		shows   []string
		unbound bool
	}{
		"ATT-42: nothing is wrong": {change: func(*stage) {}, want: []string{"v@a wanted attached listed"}, shows: volumes},
		"ATT-42: deleted by somebody": {
			change: func(s *stage) { s.Remove(t, s.va("v", "a")) },
			verify: []string{read, create}, want: []string{"v@a wanted attached listed"}, shows: volumes,
		},
		"ATT-42, ATT-82: not attached any more": {
			change: func(s *stage) {
				s.idle = true
				s.change(vaOf("v", "a"), func(va *storagev1.VolumeAttachment) { va.Status.Attached = false })
			},
			verify: []string{reported + "a"}, want: []string{"v@a wanted uncertain"},
		},
		"ATT-42: the cache is behind": {
			change: func(s *stage) {
				s.Uncache(t, s.va("v", "a"))
				s.c.attachmentChanged(s.va("v", "a").Name)
				s.hide(&storagev1.VolumeAttachment{})
			},
			verify: []string{read}, want: []string{"v@a wanted attached listed"}, shows: volumes,
		},
		"ATT-82: it cannot be found out": {
			change: func(s *stage) {
				s.Remove(t, s.va("v", "a"))
				s.Refuse(read, apierrors.NewInternalError(errors.New("no")))
			},
			verify: []string{read}, want: []string{"v@a wanted attached listed"}, shows: volumes,
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStage(t, aNode("a"), aVolume("v", once), aClaim("v"), aPod("pod", "a", "v"))
			s.sent(create, reported+"a")
			s.pass(time.Second)
			tc.change(s)
			s.pass(soon)
			s.sent() // before the period has passed
			s.c.verify(s.Context(), s.Context())
			s.pass(time.Second)
			s.sent(tc.verify...)
			s.is(tc.want...)
			s.shows("a", tc.shows...)
		})
	}
}

// A VolumeAttachment is deleted while its driver requires none. Once the driver does, a pod that wants the volume there
// would wait for ever.
//
// Pins ATT-103.
func TestAnAttachmentStaysInDoubtWhileItsDriverRequiresNone(t *testing.T) {
	s := newStage(t, aNode("a"), aVolume("v", once), aClaim("v"), aPod("pod", "a", "v"))
	controllertest.Change(t, s.Env, "", "a", uses("v"))
	s.Store(t, aDriver(false))
	s.pass(soon)
	s.Remove(t, s.va("v", "a"))
	s.pass(soon)
	s.is("v@a attached listed")
	s.requests = nil
	s.c.verify(s.Context(), s.Context())
	s.pass(soon)
	s.sent()
	s.is("v@a attached listed")
	s.Store(t, aDriver(true))
	s.pass(soon)
	s.c.verify(s.Context(), s.Context())
	s.pass(soon)
	s.sent(read, create)
	s.is("v@a wanted attached listed")
	s.va("v", "a")
}

// Nobody wants a volume whose VolumeAttachment says that it is not attached. That is removed.
//
// Pins ATT-82.
func TestVerificationRemovesWhatNobodyWants(t *testing.T) {
	s := newStage(t, aNode("a", uses("v")), aVolume("v", once), aClaim("v"), aPod("pod", "a", "v"))
	s.Remove(t, aPod("pod", "a", "v"))
	s.idle = true
	s.change(vaOf("v", "a"), func(va *storagev1.VolumeAttachment) { va.Status.Attached = false })
	s.pass(soon)
	s.c.verify(s.Context(), s.Context())
	s.pass(soon)
	s.is("v@a uncertain")
	s.idle = false
	controllertest.Change(t, s.Env, "", "a", uses())
	s.pass(soon)
	s.is()
	if all := controllertest.AllStored[*storagev1.VolumeAttachment](t, s.Env, ""); len(all) > 0 {
		t.Errorf("%d VolumeAttachments are left", len(all))
	}
}

// A VolumeAttachment says that it is not attached, and another node gets the volume before it is attached again. It is
// removed with the pod that wanted it: otherwise the attacher would attach the volume to that node for ever.
//
// Pins ATT-82.
func TestVerificationRemovesWhatIsNotAttachedAgain(t *testing.T) {
	s := newStage(t, aNode("a"), aNode("b"), aVolume("v", once), aClaim("v"), aPod("pod", "a", "v"))
	controllertest.Change(t, s.Env, "", "a", uses())
	s.Store(t, aPod("next", "b", "v"))
	s.pass(soon)
	s.idle = true
	s.change(vaOf("v", "a"), func(va *storagev1.VolumeAttachment) { va.Status.Attached = false })
	s.pass(soon)
	s.c.verify(s.Context(), s.Context())
	if err := s.c.reconcile(s.Context(), place{volumeName("v"), "b"}); err != nil {
		t.Fatal(err)
	}
	s.change(vaOf("v", "b"), isAttached)
	s.pass(soon)
	s.is("v@a wanted uncertain", "v@b wanted attached listed")
	s.Remove(t, aPod("pod", "a", "v"))
	s.pass(soon)
	if va := s.va("v", "a"); va.DeletionTimestamp == nil {
		t.Error("it is not removed")
	}
}
