package attachdetach

import (
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"kcmd.dev/test/controllertest"
)

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
	for name, then := range map[string]func(*stage){
		"ATT-104: it is deleted later":            func(*stage) {},
		"ATT-104: it is deleted before a restart": (*stage).restart,
	} {
		t.Run(name, func(t *testing.T) {
			s := begin(t, first)
			s.pass(soon)
			s.Remove(t, first)
			then(s)
			s.pass(maxWait)
			s.is("v@a attached listed", "w@a wanted attached listed")
			s.pass(time.Minute)
			s.is("w@a wanted attached listed")
		})
	}
	for name, more := range map[string]func(*stage){
		"ATT-105: it is over when the cache shows it again": func(*stage) {},
		"ATT-105: the cache does not show its claim":        func(s *stage) { s.lose(aClaim("v")) },
	} {
		t.Run(name, func(t *testing.T) {
			s := begin(t, first)
			s.hide()
			more(s)
			controllertest.Change(t, s.Env, "ns", "pod", controllertest.Terminating, func(p *corev1.Pod) { p.Status.ContainerStatuses = nil })
			s.pass(maxWait)
			s.is("v@a attached listed", "w@a wanted attached listed")
			s.pass(time.Minute)
			s.is("w@a wanted attached listed")
		})
	}
	t.Run("ATT-105: it is deleted, and the cache has not shown its claim", func(t *testing.T) {
		s := newStage(t, aNode("a", uses("v", "w")), aVolume("v", once), aClaim("v"), first, aVolume("w", once), aClaim("w"), second)
		s.lose(aClaim("v"))
		s.coldStart()
		s.pass(2 * maxWait)
		s.is("v@a attached listed", "w@a wanted attached listed")
		controllertest.Change(t, s.Env, "", "a", notReady)
		s.Remove(t, first)
		s.pass(maxWait)
		s.is("v@a attached listed", "w@a wanted attached listed")
		s.pass(time.Minute)
		s.is("w@a wanted attached listed")
	})
	for name, end := range map[string]func(*stage){
		"ATT-105: it is deleted, which the cache does not show either": func(s *stage) { s.Remove(s.t, first) },
		"ATT-105: it is over, which the cache does not show either": func(s *stage) {
			s.changePod(func(p *corev1.Pod) { p.Status.Phase = corev1.PodFailed })
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStage(t, aNode("a", uses("v", "w")), aVolume("v", once), aClaim("v"), first, aVolume("w", once), aClaim("w"), second)
			s.lose(aClaim("v"))
			s.coldStart()
			s.pass(2 * maxWait)
			s.hide(&corev1.PersistentVolumeClaim{}, &corev1.Pod{})
			controllertest.Change(t, s.Env, "", "a", notReady)
			end(s)
			s.pass(maxWait)
			s.is("v@a attached", "w@a wanted attached listed")
			s.hide(&corev1.PersistentVolumeClaim{})
			s.pass(maxWait)
			s.is("v@a attached listed", "w@a wanted attached listed")
			s.pass(time.Minute)
			s.is("w@a wanted attached listed")
		})
	}
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
