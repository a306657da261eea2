package namespace

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clienttesting "k8s.io/client-go/testing"

	"kcmd.dev/pkg/controllers/kit/reconcile"
	"kcmd.dev/test/controllertest"
)

// After a take-over, namespaces that cannot be emptied are many and slow, and one that somebody has just deleted does
// not wait for them. Pins NS-19 and WL-101.
func TestReplayedNamespacesWaitBehindThoseThatAreDeletedNow(t *testing.T) {
	f := start(t, serving(pods))
	queued := &controllertest.Queue[string]{}
	f.queue = queued
	now := terminating(func(ns *corev1.Namespace) { ns.Name, ns.UID = "b", "uid-b" })
	active := now.DeepCopy()
	active.DeletionTimestamp = nil

	f.observe(reconcile.Backlog, terminating())
	f.observe(reconcile.Backlog, active)
	f.observe(reconcile.Fresh, now)
	queued.Want(t, "backlog ns in 5s", "b in 5s")
}

// The namespace of the cache may be an older one of the name. Pins NS-19.
func TestANamespaceThatTheCacheLacksWaitsAsWell(t *testing.T) {
	old := terminating(func(ns *corev1.Namespace) { ns.UID, ns.DeletionTimestamp = "old", nil })
	f := start(t, serving(pods), old)
	queued := &controllertest.Queue[string]{}
	f.queue = queued
	now := terminating()
	f.Fake.PrependReactor("get", "namespaces", func(clienttesting.Action) (bool, runtime.Object, error) { return true, now, nil })
	if err := f.reconcile(f.Context(), now.Name); err != nil {
		t.Fatal(err)
	}
	queued.Want(t, "ns in 5s")
}
