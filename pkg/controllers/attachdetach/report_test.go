package attachdetach

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"

	"kcmd.dev/pkg/controllers/kit/reconcile"
	"kcmd.dev/pkg/controllers/kit/requests"
	"kcmd.dev/pkg/controllers/kit/writes"
	"kcmd.dev/test/controllertest"
)

// twoAttached is a stage with two volumes that pods use on a node, of which the node says nothing.
func twoAttached(t *testing.T, more ...string) *stage {
	t.Helper()
	s := newStage(t, aNode("a"), aVolume("v", once), aClaim("v"), aPod("pod", "a", "v"),
		aVolume("w", once), aClaim("w"), aPod("other", "a", "w"))
	for _, node := range more {
		s.Store(t, aNode(node))
	}
	controllertest.Change(t, s.Env, "", "a", uses())
	s.pass(soon)
	s.shows("a", "v", "w")
	s.requests = nil
	return s
}

// Volumes that nobody waits for are withdrawn together, and the answer tells that each is released.
//
// Pins ATT-88 and ATT-89.
func TestVolumesAreWithdrawnTogether(t *testing.T) {
	s := twoAttached(t)
	s.Remove(t, aPod("pod", "a", "v"))
	s.pass(gatherPeriod / 2)
	s.Remove(t, aPod("other", "a", "w"))
	s.pass(gatherPeriod/2 - time.Millisecond)
	s.sent()
	s.pass(time.Millisecond)
	s.sent(reported+"a", remove, remove)
	s.is()
}

// Pins ATT-88.
func TestAVolumeThatIsWantedElsewhereIsWithdrawnAtOnce(t *testing.T) {
	s := twoAttached(t, "b")
	s.Store(t, aPod("next", "b", "v"))
	s.run()
	s.Remove(t, aPod("pod", "a", "v"))
	s.pass(reportDelay)
	s.sent(reported+"a", remove, create)
	s.pass(reportDelay)
	s.is("v@b wanted attached listed", "w@a wanted attached listed")
}

// While more are being attached, a node is told of those that are once a second.
//
// Pins ATT-88.
func TestVolumesAreReportedTogether(t *testing.T) {
	s := newStage(t, aNode("a"), aVolume("v", once), aClaim("v"), aVolume("w", once), aClaim("w"))
	s.idle = true
	s.Store(t, aPod("pod", "a", "v"), aPod("other", "a", "w"))
	s.run()
	s.change(vaOf("v", "a"), isAttached)
	s.pass(gatherPeriod - time.Millisecond)
	s.shows("a")
	s.pass(time.Millisecond)
	s.shows("a", "v")
	s.change(vaOf("w", "a"), isAttached)
	s.pass(reportPeriod)
	s.shows("a", "v", "w")
	s.sent(create, create, reported+"a", reported+"a")
}

// A kubelet has begun to use a volume that the cache does not show as used. The answer to the write does.
//
// Pins ATT-39h and ATT-89.
func TestAVolumeThatTheAnswerShowsAsUsedIsNotReleased(t *testing.T) {
	s := twoAttached(t)
	s.hide(&corev1.Node{})
	controllertest.Change(t, s.Env, "", "a", uses("v"))
	s.Remove(t, aPod("pod", "a", "v"))
	s.pass(soon)
	s.sent(reported+"a", look+"a")
	s.is("v@a attached", "w@a wanted attached listed")
}

// Pins ATT-89.
func TestAReleaseIsOfANodeAndRecent(t *testing.T) {
	at := controllertest.Epoch
	for name, tc := range map[string]struct {
		release release
		want    bool
	}{
		"ATT-89: recent":               {release{"a", at}, true},
		"ATT-89: of another Node":      {release{"b", at}, false},
		"ATT-89: there was none":       {release{}, false},
		"ATT-89: of long ago":          {release{"a", at.Add(-releaseLifetime - 1)}, false},
		"ATT-89: as old as it may get": {release{"a", at.Add(-releaseLifetime)}, true},
	} {
		t.Run(name, func(t *testing.T) {
			if got := tc.release.holds("a", at); got != tc.want {
				t.Errorf("%v, want %v", got, tc.want)
			}
		})
	}
}

// Pins ATT-89.
func TestAReleaseEnds(t *testing.T) {
	at := place{volumeName("v"), "a"}
	for name, end := range map[string]func(s *stage, l *link){
		"ATT-89: reported again":   func(s *stage, l *link) { l.listed = false; s.c.addToReport(l) },
		"ATT-89: attached again":   func(s *stage, _ *link) { s.c.world.markAttached(at, identified{}, "") },
		"ATT-89: not certain":      func(s *stage, _ *link) { s.c.world.markUncertain(at, identified{}) },
		"ATT-89: another instance": func(s *stage, _ *link) { s.restart() },
	} {
		t.Run(name, func(t *testing.T) {
			s := twoAttached(t)
			l := s.c.world.links[at]
			l.released = release{"a", s.Clock.Now()}
			end(s, l)
			if got := s.c.world.links[at].released; got != (release{}) {
				t.Errorf("it was released: %+v", got)
			}
		})
	}
}

// A write without an answer reports a volume, and may be executed after the one that withdraws it.
//
// Pins ATT-106.
func TestNoAnswerProvesAReleaseWhileAWriteMayComeLate(t *testing.T) {
	for name, tc := range map[string]struct {
		then func(*stage)
		want []string
	}{
		"ATT-106: soon":               {(*stage).run, []string{reported + "a", look + "a", remove}},
		"ATT-106: after a restart":    {(*stage).restart, []string{reported + "a", look + "a", remove}},
		"ATT-106: it cannot any more": {func(s *stage) { s.pass(requests.LateWithin) }, []string{reported + "a", remove}},
	} {
		t.Run(name, func(t *testing.T) {
			s := twoAttached(t)
			answer := s.Refuse(reported+"a", apierrors.NewTimeoutError("late", 0))
			s.Store(t, aVolume("x", once), aClaim("x"), aPod("third", "a", "x"))
			s.pass(reportPeriod)
			answer()
			s.pass(time.Second)
			tc.then(s)
			s.requests = nil
			s.Remove(t, aPod("pod", "a", "v"))
			s.pass(soon)
			s.sent(tc.want...)
			s.is("w@a wanted attached listed", "x@a wanted attached listed")
		})
	}
}

// Another process has attached a volume for a pod that the caches of this one do not show, or not with its claim.
//
// Pins ATT-90.
func TestAVolumeIsKeptThatAnUnseenPodWants(t *testing.T) {
	for name, hidden := range map[string]runtime.Object{
		"ATT-90: the pod": &corev1.Pod{}, "ATT-90: the claim": &corev1.PersistentVolumeClaim{}, "ATT-90: the volume": &corev1.PersistentVolume{},
		"ATT-90: the node": &corev1.Node{},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStage(t)
			s.hide(hidden)
			s.Store(t, aNode("a", showing("v")), aVolume("v", once), aClaim("v"), anAttachment("v", "a", isAttached), aPod("pod", "a", "v"))
			s.coldStart()
			controllertest.Change(t, s.Env, "", "a", uses())
			s.pass(time.Minute)
			if va := s.va("v", "a"); va.DeletionTimestamp != nil {
				t.Error("it is being detached")
			}
			s.hide()
			s.pass(time.Minute)
			s.is("v@a wanted attached listed")
			s.Remove(t, aPod("pod", "a", "v"))
			s.requests = nil
			s.pass(soon)
			s.sent(reported+"a", remove)
		})
	}
}

// A pod is seen while the API server is asked whether a volume may be detached: what it answers is known by then, and
// no reason to detach.
//
// Pins ATT-90.
func TestAVolumeIsKeptThatIsWantedMeanwhile(t *testing.T) {
	for question, before := range map[string]func(*stage){
		inquired: func(s *stage) {
			s.Store(t, aNode("a", showing("v")), aVolume("v", once), aClaim("v"), anAttachment("v", "a", isAttached))
			s.coldStart()
		},
		look + "a": func(s *stage) {
			s.Store(t, aNode("a", uses("v")), aVolume("v", once), aClaim("v"), aPod("pod", "a", "v"))
			s.pass(soon)
			s.Remove(t, aPod("pod", "a", "v"))
			s.pass(2 * maxWait) // so that the time is a reason to detach it, and the node has to be asked
		},
	} {
		t.Run(question, func(t *testing.T) {
			s := newStage(t)
			before(s)
			asked := 0
			s.Intercept(question, func(action) error {
				asked++
				next := aPod("next", "a", "v")
				s.Store(t, next)
				s.c.placePod(s.Context(), reconcile.KeyOf(next), next)
				return nil
			})
			controllertest.Change(t, s.Env, "", "a", uses())
			s.pass(time.Minute)
			if asked != 1 {
				t.Errorf("it was asked %d times", asked)
			}
			isDetach := func(request string) bool { return strings.HasPrefix(request, remove) }
			if requests := append(s.requests, s.Requests()...); slices.ContainsFunc(requests, isDetach) {
				t.Errorf("it was detached: %q", requests)
			}
			s.is("v@a wanted attached listed")
		})
	}
}

// Pods that want nothing, have ended, or are on nodes without attachments are not waited for, nor are claims that do not
// exist. The pods of a node are listed once.
//
// Pins ATT-90.
func TestAVolumeThatNoPodWantsIsDetached(t *testing.T) {
	s := newStage(t)
	s.Store(t, aNode("a", showing("v", "w")), aVolume("v", once), aVolume("w", once),
		anAttachment("v", "a", isAttached), anAttachment("w", "a", isAttached),
		aPod("lost", "a", "nothing"), aPod("plain", "a"), aPod("elsewhere", "b", "v"),
		controllertest.Changed(aPod("done", "a", "v"), func(p *corev1.Pod) { p.Status.Phase = corev1.PodSucceeded }))
	s.coldStart()
	s.requests = nil
	controllertest.Change(t, s.Env, "", "a", uses())
	s.pass(soon)
	s.is()
	lists := 0
	for _, request := range s.requests {
		if request == inquired {
			lists++
		}
	}
	if lists != 1 {
		t.Errorf("pods were listed %d times: %q", lists, s.requests)
	}
}

// restored makes the versions of a node go back, and its UID stays.
func (s *stage) restored(name string, changes ...func(*corev1.Node)) {
	s.t.Helper()
	n := controllertest.MustStored[*corev1.Node](s.t, s.Env, "", name)
	n.ResourceVersion = "1000000"
	if err := s.Fake.Tracker().Update(corev1.SchemeGroupVersion.WithResource("nodes"), n, ""); err != nil {
		s.t.Fatal(err)
	}
	s.show()
	controllertest.Change(s.t, s.Env, "", name, changes...)
}

// A cluster is restored from a backup. What is written to a node then is known to be.
//
// Pins ATT-92.
func TestAVolumeIsDetachedAfterARestore(t *testing.T) {
	s := twoAttached(t)
	s.restored("a")
	s.Remove(t, aPod("pod", "a", "v"))
	s.pass(soon)
	s.sent(reported+"a", remove)
	s.is("w@a wanted attached listed")
	s.shows("a", "w")
}

// What a node shows after a restore counts once no write can be newer.
//
// Pins ATT-92.
func TestANodeIsCorrectedAfterARestore(t *testing.T) {
	s := twoAttached(t)
	s.restored("a", showing("v"))
	s.pass(time.Minute)
	s.sent()
	s.pass(writes.Timeout)
	controllertest.Change[*corev1.Node](t, s.Env, "", "a") // a heartbeat
	s.pass(soon)
	s.sent(reported + "a")
	s.shows("a", "v", "w")
}

// A cluster is restored from a backup between the withdrawal of a volume and its detach. What the node shows then is older
// than what is known, and no event follows.
//
// Pins ATT-80.
func TestAReportThatIsUndoneIsWrittenAgain(t *testing.T) {
	s := twoAttached(t)
	restore := sync.OnceFunc(func() { s.restored("a", showing("v", "w")) })
	s.Intercept("get nodes a", func(action) error { restore(); return nil })
	s.Remove(t, aPod("pod", "a", "v"))
	s.pass(soon)
	s.shows("a", "w")
	s.pass(lastBackoff)
	s.is("w@a wanted attached listed")
	s.shows("a", "w")
}

// The answer to a write counts unless something newer was seen before it came.
//
// Pins ATT-92.
func TestTheAnswerToAWrite(t *testing.T) {
	version := func(version string, changes ...func(*corev1.Node)) *corev1.Node {
		return aNode("a", append(changes, func(n *corev1.Node) { n.ResourceVersion = version })...)
	}
	for name, tc := range map[string]struct {
		seen *corev1.Node // while the write is under way
		want string
	}{
		"ATT-92: nothing is seen":        {nil, "5"},
		"ATT-92: something older is":     {version("4"), "5"},
		"ATT-92: something newer is":     {version("1001"), "1001"},
		"ATT-92: another node of a name": {version("4", another), "4"},
	} {
		t.Run(name, func(t *testing.T) {
			r := report{known: true, uid: "a", version: "1000", sending: true}
			if tc.seen != nil {
				r.see(tc.seen, controllertest.Epoch)
			}
			r.answered(version("5"), nil)
			if r.version != tc.want {
				t.Errorf("version is %s, want %s", r.version, tc.want)
			}
		})
	}
}

// However many nodes cannot be written, each is tried again in time.
//
// Pins ATT-78.
func TestReportsAreRepeatedInTime(t *testing.T) {
	backoff := reportBackoff()
	for n := range 1000 {
		if got := backoff.When(fmt.Sprint("node-", n)); got != reportPeriod {
			t.Fatalf("node %d is tried again after %v", n, got)
		}
	}
	for range 20 {
		backoff.When("node-1")
	}
	if got := backoff.When("node-1"); got != lastReportRetry {
		t.Errorf("it is tried again after %v", got)
	}
}

// The answer to a write is lost, and while the write is repeated another volume is attached. The repetition changes
// nothing, so no event of the node follows, but that volume is reported as well.
//
// Pins ATT-78.
func TestAVolumeIsReportedThatIsAttachedWhileAWriteIsRepeated(t *testing.T) {
	s := newStage(t, aNode("a"), aVolume("v", once), aClaim("v"), aVolume("w", once), aClaim("w"))
	s.idle = true
	s.Store(t, aPod("pod", "a", "v"), aPod("other", "a", "w"))
	s.run()
	s.change(vaOf("v", "a"), isAttached)
	write := 0
	s.Intercept("patch nodes/status a", func(action) error {
		switch write++; write {
		case 1:
			controllertest.Change(t, s.Env, "", "a", showing("v"))
			return apierrors.NewTimeoutError("the answer is lost", 0)
		case 2:
			s.change(vaOf("w", "a"), isAttached)
			s.Cache(t, s.va("w", "a"))
			return s.c.reconcile(s.Context(), place{volumeName("w"), "a"})
		}
		return nil
	})
	s.pass(time.Minute)
	s.is("v@a wanted attached listed", "w@a wanted attached listed")
	s.shows("a", "v", "w")
	s.sent(create, create, reported+"a", reported+"a", reported+"a")
}
