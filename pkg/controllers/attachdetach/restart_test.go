package attachdetach

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"

	"kcmd.dev/test/controllertest"
)

// TestRestart ends an instance in the middle of something. Another one in the process goes on as if nothing had
// happened, and one in another process ends in the same state.
func TestRestart(t *testing.T) {
	for name, tc := range map[string]struct {
		before func(*stage)
		after  func(*stage)
		want   []string
		// sent are the requests of an instance in the same process.
		sent   []string
		events []string
	}{
		"ATT-71, ATT-84: nothing goes on": {
			before: func(*stage) {}, after: func(*stage) {},
			want: []string{"v@a wanted attached listed"},
		},
		"ATT-73, ATT-84: an attach waits": {
			before: func(s *stage) {
				s.idle = true
				s.Store(s.t, aVolume("w", once), aClaim("w"), aPod("second", "a", "w"))
			},
			after: func(s *stage) { s.idle = false },
			want:  []string{"v@a wanted attached listed", "w@a wanted attached listed"}, sent: []string{reported + "a"},
			events: []string{`Normal SuccessfulAttachVolume AttachVolume.Attach succeeded for volume "w" `},
		},
		"ATT-73, ATT-84: a detach waits": {
			before: func(s *stage) { s.idle = true; s.Remove(s.t, aPod("pod", "a", "v")) },
			after:  func(s *stage) { s.idle = false },
		},
		"ATT-57, ATT-71, ATT-84: a detach has failed": {
			before: func(s *stage) {
				s.idle = true
				s.Remove(s.t, aPod("pod", "a", "v"))
				s.pass(soon)
				s.change(vaOf("v", "a"), detachError("stuck"))
				s.pass(time.Second)
				s.Store(s.t, aPod("pod", "a", "v"))
				s.pass(5 * time.Second)
				s.RecordedEvents()
			},
			after: func(s *stage) {
				s.pass(soon)
				s.is("v@a wanted uncertain")
				s.shows("a")
				s.Remove(s.t, s.va("v", "a"))
				s.idle = false
			},
			want: []string{"v@a wanted attached listed"}, sent: []string{create, reported + "a"},
			events: []string{succeeded},
		},
		"ATT-40i, ATT-71, ATT-84: a conflict was reported": {
			before: func(s *stage) {
				controllertest.Change(s.t, s.Env, "", "a", uses("v"))
				s.Store(s.t, aPod("other", "b", "v"))
				s.pass(soon)
				s.RecordedEvents()
			},
			after: func(*stage) {},
			want:  []string{"v@a wanted attached listed", "v@b wanted"},
		},
		"ATT-71, ATT-84: a node has not been told": {
			before: func(s *stage) {
				s.Store(s.t, aVolume("w", once), aClaim("w"))
				s.hide(&corev1.Node{})
				s.Refuse(reported+"a", errRefused)
				s.Store(s.t, aPod("second", "a", "w"))
				s.pass(soon)
				s.hide()
				s.RecordedEvents()
			},
			after: func(s *stage) { s.Fake.ReactionChain = s.Fake.ReactionChain[1:] },
			want:  []string{"v@a wanted attached listed", "w@a wanted attached listed"}, sent: []string{reported + "a"},
		},
	} {
		for _, how := range []string{"same process", "other process"} {
			t.Run(name+", "+how, func(t *testing.T) {
				s := newStage(t, aNode("a"), aNode("b"), aVolume("v", once), aClaim("v"), aPod("pod", "a", "v"))
				controllertest.Change(t, s.Env, "", "a", uses())
				s.pass(soon)
				s.WantEvents(t, succeeded)
				tc.before(s)
				s.pass(soon)
				s.requests = nil
				s.Requests()
				if how == "same process" {
					s.restart()
				} else {
					s.coldStart()
				}
				tc.after(s)
				s.pass(10 * time.Second)
				if how == "same process" {
					s.sent(tc.sent...)
					s.WantEvents(t, tc.events...)
				}
				controllertest.Change[*corev1.Node](t, s.Env, "", "a") // a heartbeat
				s.pass(time.Minute)
				s.is(tc.want...)
			})
		}
	}
}

// Pins ATT-84.
func TestARestartDoesNotRestartTheTimer(t *testing.T) {
	for name, tc := range map[string]struct {
		between time.Duration
		want    []string
	}{
		"at once": {0, nil},
		"long after, in which somebody may have wanted it": {time.Minute, []string{"v@a attached listed"}},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStage(t, aNode("a", uses("v"), notReady), aVolume("v", once), aClaim("v"), aPod("pod", "a", "v"))
			s.Remove(t, aPod("pod", "a", "v"))
			s.pass(maxWait - 2*time.Minute)
			left := s.c.HandOver()
			s.Clock.Step(tc.between)
			s.Succeed(left)
			s.start(s.c.config)
			s.pass(2*time.Minute + soon - tc.between)
			s.is(tc.want...)
		})
	}
}

// A volume is withdrawn and being detached, which the cache of the node does not show when another instance begins.
// The node is not told again that it is attached.
//
// Pins ATT-84.
func TestARestartDoesNotReportWhatWasWithdrawn(t *testing.T) {
	s := twoAttached(t)
	s.idle = true
	s.hide(&corev1.Node{})
	s.Remove(t, aPod("pod", "a", "v"))
	s.pass(soon)
	s.sent(reported+"a", remove)
	s.restart()
	s.pass(soon)
	s.hide()
	s.pass(soon)
	s.sent()
	s.shows("a", "w")
	s.is("v@a uncertain", "w@a wanted attached listed")
	s.idle = false
	s.pass(soon)
	s.is("w@a wanted attached listed")
}

// A volume is detached, which the cache of the node does not show when another instance begins. A pod that wants it
// there again gets it attached.
//
// Pins ATT-84.
func TestARestartDoesNotTakeAVolumeForAttachedThatWasDetached(t *testing.T) {
	s := twoAttached(t)
	s.hide(&corev1.Node{})
	s.Remove(t, aPod("pod", "a", "v"))
	s.pass(soon)
	s.sent(reported+"a", remove)
	s.restart()
	s.is("w@a wanted attached listed")
	s.Store(t, aPod("next", "a", "v"))
	s.pass(soon)
	s.sent(create, reported+"a")
}

// The pod that a volume is being attached for is deleted, and another instance begins before the cache shows the
// VolumeAttachment. It is deleted all the same.
//
// Pins ATT-84.
func TestARestartGoesOnWithAnAttachThatNobodyWants(t *testing.T) {
	s := newStage(t, aNode("a"), aVolume("v", once), aClaim("v"))
	s.idle = true
	s.hide(&storagev1.VolumeAttachment{})
	s.Store(t, aPod("pod", "a", "v"))
	s.pass(soon)
	s.sent(create)
	s.Remove(t, aPod("pod", "a", "v"))
	s.run()
	s.restart()
	s.hide()
	s.idle = false
	s.pass(time.Minute)
	s.is()
	if all := controllertest.AllStored[*storagev1.VolumeAttachment](t, s.Env, ""); len(all) > 0 {
		t.Errorf("%d VolumeAttachments are left", len(all))
	}
}

// The PersistentVolume of a claim was deleted by force while a pod uses it. The caches do not show any more what the pod
// wants, which another instance does not forget.
//
// Pins ATT-108.
func TestARestartKeepsWhatAPodWantsWhoseClaimIsLost(t *testing.T) {
	for name, tc := range map[string]struct {
		meanwhile func(*stage)
		isWanted  bool
	}{
		"the pod runs":      {func(*stage) {}, true},
		"the pod is gone":   {func(s *stage) { s.Remove(s.t, aPod("pod", "a", "v")) }, false},
		"it is another pod": {func(s *stage) { s.changePod(func(p *corev1.Pod) { p.UID = "another" }) }, false},
		"the pod is over":   {func(s *stage) { s.changePod(func(p *corev1.Pod) { p.Status.Phase = corev1.PodFailed }) }, false},
		"it wants another volume": {func(s *stage) {
			s.Store(s.t, aVolume("w", once))
			controllertest.Change(s.t, s.Env, "", "w", func(pv *corev1.PersistentVolume) { pv.Spec.ClaimRef.UID, pv.Spec.ClaimRef.Name = "claim-v", "v" })
			controllertest.Change(s.t, s.Env, "ns", "v", func(c *corev1.PersistentVolumeClaim) {
				c.Spec.VolumeName, c.Status.Phase = "w", corev1.ClaimBound
			})
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStage(t, aNode("a", uses("v")), aVolume("v", once), aClaim("v"), aPod("pod", "a", "v"))
			s.Remove(t, aVolume("v", once))
			controllertest.Change(t, s.Env, "ns", "v", func(c *corev1.PersistentVolumeClaim) { c.Status.Phase = corev1.ClaimLost })
			s.pass(soon)
			s.is("v@a wanted attached listed")
			left := s.c.HandOver()
			tc.meanwhile(s)
			s.Succeed(left)
			s.start(s.c.config)
			if l := s.c.world.links[place{volumeName("v"), "a"}]; l.isWanted() != tc.isWanted {
				t.Errorf("the volume is wanted: %t", l.isWanted())
			}
			if !tc.isWanted {
				return
			}
			s.pass(maxWait)
			controllertest.Change(t, s.Env, "", "a", notReady)
			s.pass(time.Minute)
			s.is("v@a wanted attached listed")
			s.Remove(t, aPod("pod", "a", "v"))
			s.pass(maxWait)
			s.is("v@a attached listed")
			s.pass(time.Minute)
			s.is()
		})
	}
}
