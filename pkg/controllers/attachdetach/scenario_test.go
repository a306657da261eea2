package attachdetach

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"kcmd.dev/pkg/controllers/kit/reconcile"
	"kcmd.dev/test/controllertest"
)

// Requests and events, as tests print them.
const (
	create   = "create volumeattachments"
	remove   = "delete volumeattachments"
	read     = "get volumeattachments"
	reported = "patch nodes/status "
	look     = "get nodes "
	inquired = "list pods"

	succeeded  = `Normal SuccessfulAttachVolume AttachVolume.Attach succeeded for volume "v" `
	failed     = `Warning FailedAttachVolume AttachVolume.Attach failed for volume "v" : `
	multiplied = `Warning FailedAttachVolume Multi-Attach error for volume "v" Volume is already `
)

// Pins ATT-19, ATT-20, ATT-21, ATT-39a, ATT-40e, ATT-40g, ATT-43, ATT-48, ATT-49 and ATT-75.
func TestAVolumeIsAttachedAndDetached(t *testing.T) {
	s := newStage(t, aNode("a"), aVolume("v", once), aClaim("v"))
	s.Store(t, aPod("pod", "a", "v"))
	s.pass(soon)
	s.sent(create, reported+"a")
	s.is("v@a wanted attached listed")
	s.shows("a", "v")
	s.WantEvents(t, succeeded)

	controllertest.Change(t, s.Env, "", "a", uses("v"))
	s.Remove(t, aPod("pod", "a", "v"))
	s.pass(time.Hour)
	s.sent()
	s.is("v@a attached listed")

	controllertest.Change(t, s.Env, "", "a", uses())
	s.pass(soon)
	s.sent(reported+"a", inquired, look+"a", remove) // it has waited for longer than maxWait
	s.is()
	s.shows("a")
	s.WantEvents(t)
}

// Pins ATT-39c, ATT-39e, ATT-39g, ATT-52 and ATT-60.
func TestAVolumeIsForcedFromANodeThatIsNotHealthy(t *testing.T) {
	s := newStage(t, aNode("a"), aVolume("v", once), aClaim("v"), aPod("pod", "a", "v"))
	controllertest.Change(t, s.Env, "", "a", uses("v"), notReady)
	s.Remove(t, aPod("pod", "a", "v"))
	s.run()
	s.pass(maxWait)
	s.sent(create, reported+"a")
	s.pass(soon)
	s.sent(reported+"a", inquired, look+"a", remove)
	s.is()
	s.wantForced("reason=timeout 1")
}

// The time has passed while the node was healthy. It is forced as soon as it is not.
//
// Pins ATT-39e and ATT-60.
func TestAVolumeIsNotForcedFromAHealthyNode(t *testing.T) {
	s := newStage(t, aNode("a", uses("v")), aVolume("v", once), aClaim("v"), aPod("pod", "a", "v"))
	s.Remove(t, aPod("pod", "a", "v"))
	s.pass(2 * maxWait)
	s.is("v@a attached listed")
	controllertest.Change(t, s.Env, "", "a", notReady)
	s.pass(soon)
	s.is()
	s.wantForced("reason=timeout 1")
}

// Pins ATT-13, ATT-39e, ATT-39g, ATT-52 and ATT-60.
func TestTheTaintForcesAtOnceAndWithoutTheTimer(t *testing.T) {
	s := newStage(t, aNode("a", uses("v")), aVolume("v", once), aClaim("v"), aPod("pod", "a", "v"))
	s.restartWith(config{disableForceDetachOnTimeout: true})
	controllertest.Change(t, s.Env, "", "a", notReady)
	s.Remove(t, aPod("pod", "a", "v"))
	s.pass(10 * maxWait)
	s.is("v@a attached listed")
	s.sent(create, reported+"a")
	controllertest.Change(t, s.Env, "", "a", outOfService)
	s.pass(soon)
	s.is()
	s.sent(reported+"a", look+"a", remove)
	s.wantForced("reason=out-of-service 1")
}

// The cache shows a node as it was. What it is like is read before anything is forced.
//
// Pins ATT-80.
func TestAForcedDetachIsConfirmedByALiveRead(t *testing.T) {
	for name, tc := range map[string]struct {
		cached, live func(*corev1.Node)
		want         []string
	}{
		"healthy again":            {notReady, isReady, []string{"v@a attached"}},
		"taint gone":               {outOfService, func(n *corev1.Node) { n.Spec.Taints = nil }, []string{"v@a attached"}},
		"healthy again and unused": {notReady, uses(), nil},
		"still not healthy":        {notReady, func(*corev1.Node) {}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStage(t, aNode("a", uses("v")), aVolume("v", once), aClaim("v"), aPod("pod", "a", "v"))
			s.Remove(t, aPod("pod", "a", "v"))
			s.pass(maxWait + time.Second)
			s.is("v@a attached listed")
			s.Intercept("get nodes a", func(_ action) error { controllertest.Change(t, s.Env, "", "a", tc.live); return nil })
			controllertest.Change(t, s.Env, "", "a", tc.cached)
			s.pass(soon)
			s.is(tc.want...)
		})
	}
}

// The cache has shown a state of the node from before the volume was reported for so long that it counts (ATT-92).
//
// Pins ATT-80.
func TestTheTimeForcesNoVolumeThatIsStillReported(t *testing.T) {
	s := newStage(t, aNode("a", notReady), aVolume("v", once), aClaim("v"))
	s.hide(&corev1.Node{})
	s.Store(t, aPod("pod", "a", "v"))
	s.pass(soon)
	s.shows("a", "v")
	s.Remove(t, aPod("pod", "a", "v"))
	s.requests = nil
	s.pass(maxWait + time.Minute)
	s.sent(inquired, "get nodes a", reported+"a", inquired, "get nodes a", remove)
	s.is()
	s.shows("a")
}

// A kubelet has said that it uses a volume, which the cache does not show yet, when its node is deleted.
//
// Pins ATT-99.
func TestTheLastStateOfANodeThatIsGoneCounts(t *testing.T) {
	last := aNode("a", uses("v"))
	for name, gone := range map[string]func(*stage){
		"seen later": func(s *stage) {
			s.pass(soon) // which shows that the volume is in use
			s.Remove(s.t, last)
			s.pass(10 * time.Second)
			s.is("v@a attached")
			s.lose(last)
		},
		"seen while it is read": func(s *stage) {
			vanish := sync.OnceFunc(func() {
				s.Remove(s.t, last)
				s.Uncache(s.t, last)
				s.c.nodeChanged(last)
			})
			s.Intercept("get nodes a", func(action) error { vanish(); return nil })
			s.pass(soon)
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStage(t, aNode("a"), aVolume("v", once), aClaim("v"), aPod("pod", "a", "v"))
			controllertest.Change(t, s.Env, "", "a", uses())
			s.pass(soon)
			s.hide(&corev1.Node{})
			controllertest.Change(t, s.Env, "", "a", uses("v"))
			s.Remove(t, aPod("pod", "a", "v"))
			gone(s)
			s.pass(maxWait / 2)
			s.is("v@a attached listed")
			s.pass(maxWait / 2)
			s.is()
			s.wantForced("reason=timeout 1")
		})
	}
}

// A list of pods after a break of the watch lacked one that runs on a node that is cut off.
//
// Pins ATT-98.
func TestTheTimeForcesNoVolumeFromAPodThatRuns(t *testing.T) {
	first, second := aPod("pod", "a", "v"), aPod("second", "a", "w")
	begin := func(t *testing.T, lost ...*corev1.Pod) *stage {
		t.Helper()
		s := newStage(t, aNode("a"), aVolume("v", once), aClaim("v"), first, aVolume("w", once), aClaim("w"), second)
		controllertest.Change(t, s.Env, "", "a", uses("v", "w"), notReady)
		s.run()
		for _, pod := range lost {
			s.lose(pod)
		}
		s.pass(maxWait)
		return s
	}
	t.Run("it wants the volume", func(t *testing.T) {
		s := begin(t, first)
		s.pass(time.Minute)
		s.is("v@a attached", "w@a wanted attached listed")
		if s.va("v", "a").DeletionTimestamp != nil {
			t.Error("the volume is being detached")
		}
		s.hide()
		s.pass(soon)
		s.is("v@a wanted attached listed", "w@a wanted attached listed")
		s.shows("a", "v", "w")
	})
	t.Run("it is deleted later", func(t *testing.T) {
		s := begin(t, first)
		s.pass(soon)
		s.Remove(t, first)
		s.pass(time.Minute)
		s.is("w@a wanted attached listed")
	})
	t.Run("it wants another volume", func(t *testing.T) {
		s := begin(t, first, second)
		s.Remove(t, first)
		s.pass(time.Minute)
		s.is("w@a attached")
	})
	t.Run("the pods cannot be listed", func(t *testing.T) {
		s := begin(t, first)
		s.Remove(t, first)
		allow := s.Refuse(inquired, errRefused)
		s.pass(time.Minute)
		s.is("v@a attached", "w@a wanted attached listed")
		allow()
		s.pass(time.Minute)
		s.is("w@a wanted attached listed")
	})
}

// What is asked about one volume does not answer what is asked about all of them.
//
// Pins ATT-90.
func TestThePodsOfANodeAreKnownByAllTheirVolumes(t *testing.T) {
	s := newStage(t, aNode("a"), aVolume("v", once), aClaim("v"), aPod("pod", "a", "v"))
	at := place{volumeName("v"), "a"}
	unknown := []use{{volumeName("w"), podRef{UID: "another"}}}
	if missing, _, ok := s.c.unseen(at, unknown, false); ok || s.c.world.nodes["a"].podsKnown {
		t.Errorf("%v is missing: %t, or the pods are known", missing, ok)
	}
	if missing, _, ok := s.c.unseen(at, unknown, true); !ok || missing != unknown[0] || s.c.world.nodes["a"].podsKnown {
		t.Errorf("%v is missing: %t, or the pods are known", missing, ok)
	}
	if missing, _, ok := s.c.unseen(at, nil, true); ok || !s.c.world.nodes["a"].podsKnown {
		t.Errorf("%v is missing: %t, or the pods are not known", missing, ok)
	}
}

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

// Pins ATT-40c and ATT-40i.
func TestAVolumeForOneNodeIsNotAttachedToAnother(t *testing.T) {
	s := newStage(t, aNode("a", uses("v")), aNode("b"), aVolume("v", once), aClaim("v"), aPod("pod", "a", "v"))
	s.sent(create, reported+"a")
	s.WantEvents(t, succeeded)
	s.Store(t, aPod("other", "b", "v"))
	s.pass(time.Hour)
	s.WantEvents(t, multiplied+"used by pod(s) pod")
	s.Remove(t, aPod("pod", "a", "v"))
	s.pass(soon)
	s.is("v@a attached listed", "v@b wanted")
	s.WantEvents(t)

	controllertest.Change(t, s.Env, "", "a", uses())
	s.pass(soon)
	s.sent(reported+"a", remove, create, reported+"b")
	s.is("v@b wanted attached listed")
	s.WantEvents(t, succeeded)
}

// What can be detached is, before anybody is told that a volume is in use.
//
// Pins ATT-25 and ATT-40a.
func TestAVolumeMovesWithoutAnError(t *testing.T) {
	s := newStage(t, aNode("a", uses()), aNode("b"), aVolume("v", once), aClaim("v"), aPod("pod", "a", "v"))
	controllertest.Change(t, s.Env, "", "a", uses())
	s.pass(soon)
	s.WantEvents(t, succeeded)
	s.Remove(t, aPod("pod", "a", "v"))
	s.Store(t, aPod("other", "b", "v"))
	s.pass(soon)
	s.is("v@b wanted attached listed")
	s.WantEvents(t, succeeded)
}

// Pins ATT-26, ATT-38 and ATT-67.
func TestAVolumeForManyNodesIsAttachedToEach(t *testing.T) {
	s := newStage(t, aNode("a"), aNode("b"), aVolume("v", corev1.ReadWriteMany), aClaim("v"), aPod("pod", "a", "v"), aPod("other", "b", "v"))
	s.is("v@a wanted attached listed", "v@b wanted attached listed")
	controllertest.Change(t, s.Env, "", "a", uses())
	s.Remove(t, aPod("pod", "a", "v"))
	s.pass(soon)
	s.is("v@b wanted attached listed")
	s.shows("a")
	s.shows("b", "v")
}

// Pins ATT-39f and ATT-78.
func TestAVolumeIsNotDetachedWhileItsNodeHasNotBeenTold(t *testing.T) {
	s := newStage(t, aNode("a"), aNode("b"), aVolume("v", once), aClaim("v"), aPod("pod", "a", "v"))
	s.WantEvents(t, succeeded)
	controllertest.Change(t, s.Env, "", "a", uses())
	s.pass(soon)
	s.sent(create, reported+"a")
	allow := s.Refuse("patch nodes/status a", errors.New("no"))
	s.Remove(t, aPod("pod", "a", "v"))
	s.Store(t, aPod("other", "b", "v"))
	s.pass(2500 * time.Millisecond)
	s.sent(reported+"a", reported+"a", reported+"a")
	s.is("v@a attached", "v@b wanted")
	s.WantEvents(t, multiplied+"exclusively attached to one node and can't be attached to another")
	allow()
	s.pass(time.Second)
	s.is("v@b wanted attached listed")
}

// Pins ATT-39b, ATT-58 and ATT-78.
func TestAVolumeThatIsWantedAgainIsReportedAgain(t *testing.T) {
	s := newStage(t, aNode("a"), aVolume("v", once), aClaim("v"), aPod("pod", "a", "v"))
	controllertest.Change(t, s.Env, "", "a", uses())
	s.pass(soon)
	allow := s.Refuse("patch nodes/status a", errors.New("no"))
	s.Remove(t, aPod("pod", "a", "v"))
	s.pass(soon)
	s.is("v@a attached")
	s.Store(t, aPod("next", "a", "v"))
	s.pass(soon)
	allow()
	s.pass(time.Minute)
	s.is("v@a wanted attached listed")
	s.shows("a", "v")
	s.WantEvents(t, succeeded)
}

// Pins ATT-40b, ATT-58.
func TestAPodThatAppearsAgainResetsTheTimer(t *testing.T) {
	s := newStage(t, aNode("a", uses("v"), notReady), aVolume("v", once), aClaim("v"), aPod("pod", "a", "v"))
	for range 3 {
		s.Remove(t, aPod("pod", "a", "v"))
		s.pass(maxWait - time.Second)
		s.Store(t, aPod("pod", "a", "v"))
		s.pass(time.Minute)
	}
	s.is("v@a wanted attached listed")
	s.wantForced()
}

// A pod is created while its volume is being detached.
//
// Pins ATT-40a and ATT-58.
func TestAnAttachWaitsForTheDetach(t *testing.T) {
	s := newStage(t, aNode("a"), aVolume("v", once), aClaim("v"), aPod("pod", "a", "v"))
	controllertest.Change(t, s.Env, "", "a", uses())
	s.pass(soon)
	s.idle = true
	s.Remove(t, aPod("pod", "a", "v"))
	s.pass(soon)
	s.Store(t, aPod("next", "a", "v"))
	s.pass(time.Minute)
	s.is("v@a wanted attached")
	s.idle = false
	s.pass(soon)
	s.is("v@a wanted attached listed")
	s.sent(create, reported+"a", reported+"a", remove, create, reported+"a")
}

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

// Pins ATT-35, ATT-44 and ATT-45.
func TestPodsLeave(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(*stage)
		want   []string
	}{
		"ATT-34: finished": {change: func(s *stage) {
			s.changePod(func(p *corev1.Pod) { p.Status.Phase = corev1.PodSucceeded })
		}},
		"ATT-34, ATT-61: being deleted while containers run": {change: func(s *stage) {
			s.changePod(controllertest.Terminating)
		}, want: []string{"v@a wanted attached listed"}},
		"ATT-34: being deleted without containers that run": {change: func(s *stage) {
			s.changePod(controllertest.Terminating, func(p *corev1.Pod) { p.Status.ContainerStatuses = nil })
		}},
		"ATT-35, ATT-44: gone, and the claim before": {change: func(s *stage) {
			s.Remove(s.t, aClaim("v"), aVolume("v"))
			s.show()
			s.Remove(s.t, aPod("pod", "a", "v"))
		}},
		"ATT-44: replaced by another of its name": {change: func(s *stage) {
			s.changePod(func(p *corev1.Pod) { p.UID, p.Spec.Volumes = "another", nil })
		}},
		"ATT-44: replaced by another one elsewhere": {change: func(s *stage) {
			s.changePod(func(p *corev1.Pod) { p.UID, p.Spec.NodeName = "another", "b" })
		}, want: []string{"v@b wanted attached listed"}},
		"ATT-45: the driver attaches nothing any more": {change: func(s *stage) { s.Store(s.t, aDriver(false)) }},
		"ATT-33: the node is not managed any more":     {change: func(s *stage) { controllertest.Change(s.t, s.Env, "", "a", unmanaged) }, want: []string{"v@a wanted attached listed"}},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStage(t, aNode("a"), aNode("b"), aVolume("v", once), aClaim("v"), aPod("pod", "a", "v"))
			controllertest.Change(t, s.Env, "", "a", uses())
			s.pass(soon)
			tc.change(s)
			s.pass(soon)
			s.is(tc.want...)
		})
	}
}

func TestPodsThatHaveToWait(t *testing.T) {
	pending := aClaim("v")
	pending.Status.Phase = corev1.ClaimPending
	unowned := aVolume("v", once)
	unowned.Spec.ClaimRef = nil
	for name, tc := range map[string]struct {
		without func(*stage)
		then    func(*stage)
	}{
		"ATT-17, ATT-24: for the claim":             {func(s *stage) { s.Store(s.t, pending) }, func(s *stage) { s.Store(s.t, aClaim("v")) }},
		"ATT-35, ATT-79: for the volume":            {func(s *stage) { s.Store(s.t, unowned) }, func(s *stage) { s.Store(s.t, aVolume("v", once)) }},
		"ATT-37, ATT-79: for the node":              {func(s *stage) { s.Remove(s.t, aNode("a")) }, func(s *stage) { s.Store(s.t, aNode("a")) }},
		"ATT-5, ATT-37: for the node to be managed": {func(s *stage) { controllertest.Change(s.t, s.Env, "", "a", unmanaged) }, func(s *stage) { s.Store(s.t, aNode("a")) }},
		"ATT-6, ATT-79: for the driver":             {func(s *stage) { s.Store(s.t, aDriver(false)) }, func(s *stage) { s.Store(s.t, aDriver(true)) }},
		"ATT-33: to be bound to a node": {
			func(s *stage) { s.Store(s.t, aPod("pod", "", "v")) },
			func(s *stage) { s.Store(s.t, aPod("pod", "a", "v")) },
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStage(t, aNode("a"), aVolume("v", once), aClaim("v"))
			tc.without(s)
			if _, ok := controllertest.Stored[*corev1.Node](t, s.Env, "", "a"); !ok || name == "ATT-5, ATT-37: for the node to be managed" {
				s.c.world = newWorld(newCounts()) // as if it had never been there
			}
			s.pass(soon)
			if _, ok := controllertest.Stored[*corev1.Pod](t, s.Env, "ns", "pod"); !ok {
				s.Store(t, aPod("pod", "a", "v"))
			}
			s.pass(soon)
			s.is()
			tc.then(s)
			s.pass(soon)
			s.is("v@a wanted attached listed")
		})
	}
}
