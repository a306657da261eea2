package attachdetach

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"kcmd.dev/pkg/controllers/kit/reconcile"
	"kcmd.dev/test/controllertest"
)

// Pins ATT-39h, ATT-48 and ATT-57.
func TestADetachThatFailsLeavesTheAttachmentUncertain(t *testing.T) {
	s := newStage(t, aNode("a"), aVolume("v", once), aClaim("v"), aPod("pod", "a", "v"))
	s.sent(create, reported+"a")
	s.WantEvents(t, succeeded)
	s.idle = true
	s.Remove(t, aPod("pod", "a", "v"))
	controllertest.Change(t, s.Env, "", "a", uses())
	s.pass(soon)
	s.sent(reported+"a", remove)
	s.change(vaOf("v", "a"), detachError("stuck"))
	s.pass(reportPeriod)
	s.is("v@a attached") // the error may be from an earlier try
	s.pass(errorGrace)
	s.is("v@a uncertain")
	s.shows("a")

	s.Store(t, aPod("next", "a", "v"))
	s.pass(promptly)
	s.is("v@a wanted uncertain")
	s.shows("a")
	s.WantEvents(t, failed+"volume attachment is being deleted")
	s.sent()

	s.Remove(t, s.va("v", "a"))
	s.idle = false
	s.pass(10 * time.Second)
	s.sent(create, reported+"a")
	s.is("v@a wanted attached listed")
	s.WantEvents(t, succeeded)

	s.Store(t, aNode("b"), aPod("third", "b", "v"))
	s.pass(soon)
	s.is("v@a wanted attached listed", "v@b wanted")
	s.sent()
	s.WantEvents(t, multiplied+"used by pod(s) next")
}

// Pins ATT-26, ATT-28c, ATT-40c, ATT-40d and ATT-40g.
func TestAnAttachThatTimesOutIsUncertainAndDoesNotBlockOthers(t *testing.T) {
	s := newStage(t, aNode("a", notReady), aNode("b"), aVolume("v", once), aClaim("v"))
	s.idle = true
	s.Store(t, aPod("pod", "a", "v"))
	s.pass(driverWait - time.Second)
	s.is("v@a wanted")
	s.Store(t, aPod("other", "b", "v"))
	s.pass(time.Second)
	s.WantEvents(t, failed+"timed out waiting for external-attacher of csi.example.com CSI driver to attach volume v")
	s.is("v@a wanted uncertain", "v@b wanted")
	s.shows("a")
	s.sent(create)

	s.Remove(t, aPod("pod", "a", "v"))
	s.idle = false
	s.pass(time.Second)
	s.sent(create, reported+"b")
	s.is("v@a uncertain", "v@b wanted attached listed")
	s.shows("b", "v")
	s.WantEvents(t, succeeded)
	s.pass(time.Minute) // nothing shows that it is not mounted
	s.is("v@a uncertain", "v@b wanted attached listed")
	controllertest.Change(t, s.Env, "", "a", uses())
	s.pass(soon)
	s.is("v@b wanted attached listed")
}

// A volume that was never attached for certain is released as soon as no pod wants it.
func TestAVolumeThatCouldNotBeAttachedIsDetachedAtOnce(t *testing.T) {
	for name, tc := range map[string]struct {
		cached, live func(*corev1.Node)
		want         []string
		sent         []string
	}{
		"ATT-96: from a node that does not use it":     {uses(), uses(), nil, []string{look + "a", remove}},
		"ATT-96: not from one that uses it":            {uses("v"), uses("v"), []string{"v@a uncertain"}, nil},
		"ATT-80: not from one that uses it by now":     {uses(), uses("v"), []string{"v@a uncertain"}, []string{look + "a"}},
		"ATT-80: not from one that shows it":           {uses(), showing("v"), []string{"v@a uncertain"}, []string{look + "a", reported + "a"}},
		"ATT-96: not from a node that is not ready":    {notReady, notReady, []string{"v@a uncertain"}, nil},
		"ATT-96: not from one that attaches by itself": {unmanaged, unmanaged, []string{"v@a uncertain"}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStage(t, aNode("a"), aVolume("v", once), aClaim("v"))
			s.idle = true
			s.Store(t, aPod("pod", "a", "v"))
			s.run()
			s.change(vaOf("v", "a"), attachError("no such disk"))
			s.pass(errorGrace)
			s.is("v@a wanted uncertain")
			s.requests = nil
			s.hide(&corev1.Node{})
			node := controllertest.MustStored[*corev1.Node](t, s.Env, "", "a")
			tc.cached(node)
			s.Cache(t, node) // no event reports it
			controllertest.Change(t, s.Env, "", "a", tc.live)
			s.idle = false
			s.Remove(t, aPod("pod", "a", "v"))
			s.pass(promptly)
			s.is(tc.want...)
			s.sent(tc.sent...)
			s.wantForced()
		})
	}
}

// Without a VolumeAttachment nothing keeps the volume from another node, and the request that failed may still take
// effect. Once the VolumeAttachment is seen, it is deleted.
//
// Pins ATT-96.
func TestAnAttachmentThatIsNotSeenWaitsForTheNode(t *testing.T) {
	s := newStage(t, aNode("a"), aVolume("v", once), aClaim("v"))
	s.idle = true
	allow := s.Refuse(create, errors.New("timeout"))
	s.Store(t, aPod("pod", "a", "v"))
	s.run()
	s.is("v@a wanted uncertain")
	s.Remove(t, aPod("pod", "a", "v"))
	s.pass(time.Minute)
	s.is("v@a uncertain")
	s.sent(create)

	allow()
	s.Store(t, anAttachment("v", "a")) // the request took effect
	s.idle = false
	s.pass(promptly)
	s.is()
	s.sent(look+"a", remove)
}

// The deletion that was requested is waited for, as often as the detach is tried.
//
// Pins ATT-97.
func TestAVolumeAttachmentThatIsBeingDeletedIsNotDeletedAgain(t *testing.T) {
	for name, tc := range map[string]struct {
		before func(*stage)
		sent   []string
	}{
		"after a restart":       {func(s *stage) { s.coldStart() }, []string{inquired, look + "a"}},
		"after it was too long": {func(s *stage) { s.pass(driverWait) }, nil},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStage(t, aNode("a", uses()), aNode("b"), aVolume("v", once), aClaim("v"), aPod("pod", "a", "v"))
			controllertest.Change(t, s.Env, "", "a", uses())
			s.pass(soon)
			s.idle = true
			s.Remove(t, aPod("pod", "a", "v"))
			s.pass(soon)
			s.sent(create, reported+"a", reported+"a", remove)
			tc.before(s)
			s.pass(promptly)
			s.is("v@a uncertain")
			s.sent(tc.sent...)

			s.pass(10 * time.Minute)
			s.is("v@a uncertain")
			s.Store(t, aPod("next", "b", "v"))
			for _, request := range append(s.requests, s.Requests()...) {
				if request != look+"a" && request != inquired {
					t.Errorf("sent %s", request)
				}
			}
			s.requests = nil
			s.idle = false
			s.pass(lastBackoff)
			s.is("v@b wanted attached listed")
			s.shows("b", "v")
		})
	}
}

// Pins ATT-26, ATT-40d, ATT-40e and ATT-55.
func TestAttachesAreRepeatedWithABackoff(t *testing.T) {
	s := newStage(t, aNode("a"), aVolume("v", once), aClaim("v"))
	s.Refuse(create, errors.New("no"))
	s.Store(t, aPod("pod", "a", "v"))
	s.run()
	s.sent(create)
	for wait := firstBackoff; wait < lastBackoff; wait *= 2 {
		s.pass(wait)
		s.sent()
		s.pass(1)
		s.sent(create)
	}
	s.pass(lastBackoff)
	s.sent()
	s.pass(1)
	s.sent(create)
	if events := s.RecordedEvents(); len(events) != 10 || events[9] != failed+"kubernetes.io/csi: attacher.Attach failed: no" {
		t.Errorf("events are %q", events)
	}
	s.is("v@a wanted uncertain")
}

// Pins ATT-95.
func TestACutOffAttachReportsNothing(t *testing.T) {
	s := newStage(t, aNode("a"), aVolume("v", once), aClaim("v"))
	ctx, cancel := context.WithCancel(s.Context())
	s.Intercept(create, func(action) error {
		cancel()
		return context.Canceled
	})
	s.Store(t, aPod("pod", "a", "v"))
	s.show()
	s.podQueue.work(s.c.reconcilePod)
	for s.placeQueue.work(func(_ context.Context, at place) error { return s.c.reconcile(ctx, at) }) {
	}
	if ctx.Err() == nil {
		t.Error("nothing was cut off")
	}
	s.is("v@a wanted uncertain")
	s.WantEvents(t)
}

// A volume is to be moved, and neither its detach nor its attach is permitted. Each is repeated after its own backoff.
//
// Pins ATT-91.
func TestADetachAndAnAttachThatFailDoNotRepeatEachOther(t *testing.T) {
	s := newStage(t, aNode("a"), aNode("b"), aVolume("v", once), aClaim("v"), aPod("pod", "a", "v"))
	controllertest.Change(t, s.Env, "", "a", uses())
	s.pass(soon)
	s.requests = nil
	allow := s.Refuse(create, apierrors.NewInternalError(errRefused))
	s.Refuse(remove, apierrors.NewInternalError(errRefused))
	s.Remove(t, aPod("pod", "a", "v"))
	s.Store(t, aPod("next", "b", "v"))
	s.pass(10 * time.Second)
	s.is("v@a uncertain", "v@b wanted uncertain")
	for _, request := range []string{create, remove} {
		number := 0
		for _, sent := range s.requests {
			if strings.HasPrefix(sent, request) {
				number++
			}
		}
		if number != 5 { // after 0.5, 1, 2 and 4 seconds
			t.Errorf("%s was sent %d times", request, number)
		}
	}
	allow()
	s.pass(10 * time.Second)
	s.is("v@a uncertain", "v@b wanted attached listed")
}

// A volume is about to be detached for a pod elsewhere, and is then wanted again where it is.
//
// Pins ATT-40c.
func TestAPodIsToldThatADetachDoesNotTakePlace(t *testing.T) {
	for name, judged := range map[string]bool{"ATT-40c: the detach was considered": true, "ATT-40c: it was not": false} {
		t.Run(name, func(t *testing.T) {
			s := newStage(t, aNode("a"), aNode("b"), aVolume("v", once), aClaim("v"), aPod("pod", "a", "v"))
			controllertest.Change(t, s.Env, "", "a", uses())
			s.pass(soon)
			s.WantEvents(t, succeeded)
			pod, other := aPod("pod", "a", "v"), aPod("other", "b", "v")
			s.Remove(t, pod)
			s.Store(t, other)
			s.c.placePod(s.Context(), reconcile.KeyOf(pod), nil)
			s.c.placePod(s.Context(), reconcile.KeyOf(other), other)
			if judged {
				s.c.decide(s.Context(), place{volumeName("v"), "a"})
			}
			s.c.decide(s.Context(), place{volumeName("v"), "b"})
			s.Store(t, pod)
			s.c.placePod(s.Context(), reconcile.KeyOf(pod), pod)
			s.placeQueue.forget(place{volumeName("v"), "b"})
			s.pass(soon)
			s.is("v@a wanted attached listed", "v@b wanted")
			s.WantEvents(t, multiplied+"used by pod(s) pod")
		})
	}
}
