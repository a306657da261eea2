package daemonset

import (
	"slices"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"kcmd.dev/test/controllertest"
	"kcmd.dev/test/must"
)

// harness is a controller on a fake API server. Its caches show only what CatchUp has put
// into them, so that a test decides how stale they are.
type harness struct {
	*controllertest.Subject[types.NamespacedName]
	c *daemonSetController
}

func newHarness(t testing.TB, requireFresh bool, objects ...runtime.Object) *harness {
	t.Helper()
	h := &harness{Subject: controllertest.NewSubject(t, key)}
	h.Store(t, objects...)
	h.CompleteWrites()
	h.c = must.Get(newController(h.Env.Env, config{concurrentSyncs: 2, requireFresh: requireFresh}))(t)
	h.Work, h.c.owners.Queue, h.Queued.Namespace = h.c.owners.Reconcile, h.Queued, namespace
	h.Kinds = []runtime.Object{&appsv1.DaemonSet{}, &appsv1.ControllerRevision{}, &corev1.Pod{}, &corev1.Node{}}
	return h
}

// reconcile catches up, reconciles, and fails the test on an error.
func (h *harness) reconcile(t testing.TB) {
	t.Helper()
	h.CatchUp(t)
	h.MustReconcile(t)
}

// settle reconciles until there is nothing to do, making new pods ready on their nodes.
func (h *harness) settle(t testing.TB) {
	t.Helper()
	for range 50 {
		h.reconcile(t)
		changed := len(h.Requests()) > 0
		for _, pod := range h.pods(t) {
			if pod.Spec.NodeName == "" {
				pod.Spec.NodeName = targetOf(pod)
				pod.Status = newPod("", "").Status
				h.Store(t, pod)
				changed = true
			}
		}
		if !changed {
			return
		}
		h.Clock.Step(time.Second)
	}
	t.Fatal("it does not settle")
}

// set is the set agent as the API server has it.
func (h *harness) set(t testing.TB) *appsv1.DaemonSet {
	t.Helper()
	return controllertest.MustStored[*appsv1.DaemonSet](t, h.Env, namespace, key.Name)
}

func (h *harness) pods(t testing.TB) []*corev1.Pod {
	t.Helper()
	return controllertest.AllStored[*corev1.Pod](t, h.Env, namespace)
}

func (h *harness) revisions(t testing.TB) []*appsv1.ControllerRevision {
	t.Helper()
	all := controllertest.AllStored[*appsv1.ControllerRevision](t, h.Env, namespace)
	slices.SortFunc(all, func(a, b *appsv1.ControllerRevision) int { return int(a.Revision - b.Revision) })
	return all
}

// change changes the spec of the set.
func (h *harness) change(t testing.TB, changes ...func(*appsv1.DaemonSet)) {
	t.Helper()
	controllertest.Change(t, h.Env, namespace, key.Name, append(changes, func(ds *appsv1.DaemonSet) { ds.Generation++ })...)
}
