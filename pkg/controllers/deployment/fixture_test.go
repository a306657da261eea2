package deployment

import (
	"testing"

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
	c *deploymentController
}

func newHarness(t testing.TB, objects ...runtime.Object) *harness {
	t.Helper()
	h := &harness{Subject: controllertest.NewSubject(t, key)}
	h.Store(t, objects...)
	h.CompleteWrites()
	h.CheckWrites("deployments", "replicasets")
	h.c = must.Get(newController(h.Env.Env, config{concurrentSyncs: 2, terminatingReplicas: true}))(t)
	h.Work = h.c.owners.Reconcile
	h.Kinds = []runtime.Object{&appsv1.Deployment{}, &appsv1.ReplicaSet{}, &corev1.Pod{}}
	return h
}

// reconcile catches up, reconciles, and fails the test on an error.
func (h *harness) reconcile(t testing.TB) {
	t.Helper()
	h.CatchUp(t)
	h.MustReconcile(t)
}

// remembered is the number of objects that were written and that the caches do not show.
func (h *harness) remembered() int {
	n := 0
	for _, objects := range h.c.owners.Writes.HandOver()[key].Objects {
		n += len(objects)
	}
	return n
}

// deployment is the Deployment as the API server has it.
func (h *harness) deployment(t testing.TB) *appsv1.Deployment {
	t.Helper()
	return controllertest.MustStored[*appsv1.Deployment](t, h.Env, namespace, "web")
}

// set is a ReplicaSet as the API server has it.
func (h *harness) set(t testing.TB, name string) *appsv1.ReplicaSet {
	t.Helper()
	return controllertest.MustStored[*appsv1.ReplicaSet](t, h.Env, namespace, name)
}

// wantProgress checks the reason of the condition Progressing.
func (h *harness) wantProgress(t testing.TB, reason string) {
	t.Helper()
	if got := progressReason(h.deployment(t)); got != reason {
		t.Errorf("Progressing is for the reason %q, want %q", got, reason)
	}
}

// changed stores a changed ReplicaSet as its controller would.
func (h *harness) changed(t testing.TB, name string, change setChange) {
	t.Helper()
	controllertest.Change(t, h.Env, namespace, name, change)
}
