package attachdetach

import (
	"testing"

	corev1 "k8s.io/api/core/v1"

	"kcmd.dev/test/controllertest"
)

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
