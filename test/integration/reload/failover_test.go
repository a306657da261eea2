package reload

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"

	"kcmd.dev/pkg/runtime"
	"kcmd.dev/pkg/runtime/supervisor"
	"kcmd.dev/test/await"
	"kcmd.dev/test/controlplane"
	"kcmd.dev/test/integration/harness"
	"kcmd.dev/test/manager"
)

const leaseNamespace, leaseName = "kube-system", "kube-controller-manager"

// TestAStandbyTakesOverFromAKilledLeader covers promise 8: the leader is killed with
// kill -9; the standby reconciles within a second of the lease's expiry, from caches it
// has already.
func TestAStandbyTakesOverFromAKilledLeader(t *testing.T) {
	leader, standby, d := leaderAndStandby(t)

	mark, err := plane.Audit().Mark()
	if err != nil {
		t.Fatal(err)
	}
	if err := leader.Kill(); err != nil {
		t.Fatal(err)
	}
	lease, err := plane.AdminClient().CoordinationV1().Leases(leaseNamespace).Get(t.Context(), leaseName, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	expiry := lease.Spec.RenewTime.Add(time.Duration(*lease.Spec.LeaseDurationSeconds) * time.Second)
	scale(t, d, 5)

	var first time.Time
	await.Within(t, 30*time.Second, "the standby reconciles", func(ctx context.Context) error {
		s := controller(t, standby, "replicaset-controller")
		if len(s.Loops) == 0 || s.Loops[0].FirstReconcile.IsZero() {
			return errors.New("not yet")
		}
		first = s.Loops[0].FirstReconcile
		return nil
	})
	waitAvailable(t, d, 5, 30*time.Second)
	t.Logf("first reconcile %v after the expiry of the lease", first.Sub(expiry))
	if late := first.Sub(expiry); late > time.Second {
		t.Errorf("the first reconcile was %v after the expiry of the lease", late)
	}
	lists, err := plane.Audit().Since(mark, controlplane.ByVerb("list"))
	if err != nil {
		t.Fatal(err)
	}
	looks := 0
	for _, l := range lists {
		switch {
		case isSweep(&l):
		case isLook(&l):
			looks++
			if !strings.Contains(l.RequestURI, "resourceVersionMatch=NotOlderThan") {
				t.Errorf("the look at other leases waits for etcd: %s", l.RequestURI)
			}
		default:
			t.Errorf("the new leader sent %s %s", l.Verb, l.RequestURI)
		}
	}
	if looks != 1 {
		t.Errorf("the new leader looked %d times for others that run its controllers, want once", looks)
	}
}

// TestAStandbyTakesOverAReleasedLease measures what it costs to wait for the last writes of
// the leader: the time from the release of the lease to the first reconcile, with full
// caches, and the reads it takes.
func TestAStandbyTakesOverAReleasedLease(t *testing.T) {
	leader, standby, d := leaderAndStandby(t)
	mark, err := plane.Audit().Mark()
	if err != nil {
		t.Fatal(err)
	}
	await.Within(t, time.Minute, "earlier tests' namespaces are gone", noneTerminating)
	scale(t, d, 5)
	waitAvailable(t, d, 5, 30*time.Second)
	released := watchForRelease(t)
	scale(t, d, 7)
	if err := leader.Stop(); err != nil {
		t.Fatal(err)
	}
	at := <-released
	waitAvailable(t, d, 7, 30*time.Second)
	var first time.Time
	await.Within(t, 30*time.Second, "the standby reconciles", func(context.Context) error {
		for _, l := range controller(t, standby, "replicaset-controller").Loops {
			if !l.FirstReconcile.IsZero() {
				first = l.FirstReconcile
				return nil
			}
		}
		return errors.New("not yet")
	})

	reads, err := plane.Audit().Since(mark, func(e *auditv1.Event) bool {
		return e.Verb == "list" || strings.Contains(e.RequestURI, "sendInitialEvents=true")
	})
	if err != nil {
		t.Fatal(err)
	}
	compared := 0
	for _, e := range reads {
		switch {
		case isSweep(&e), isLook(&e):
		case e.Verb == "list":
			t.Errorf("the new leader sent %s", e.RequestURI)
		case e.Stage == auditv1.StageResponseStarted:
			compared++
			t.Logf("compared: %s", e.RequestURI)
		}
	}
	took := first.Sub(at)
	t.Logf("first reconcile %v after the lease was released, %d caches compared with the API server", took.Round(100*time.Microsecond), compared)
	if took > time.Second {
		t.Errorf("the first reconcile was %v after the release of the lease", took)
	}
}

// leaderAndStandby starts a leader in a process of its own, with 5,000 pods that nobody owns
// and a Deployment of three, and a standby with full caches.
func leaderAndStandby(t *testing.T) (leader *manager.Process, standby *manager.Manager, d *appsv1.Deployment) {
	t.Helper()
	leader = manager.StartProcess(t, plane, quick)
	ballast(t, harness.Size(t, "KCMD_RELOAD_PODS", 1000))
	namespace := harness.NamespaceForPods(t, plane)
	d = deployment(t, namespace, "web", 3)
	waitAvailable(t, d, 3, 30*time.Second)

	standby = manager.Join(t, plane, runtime.Options{}, quick)
	harness.Wait(t, standby, "the standby is warm", harness.StandsBy)
	renewed(t) // a standby counts from what it has seen
	return leader, standby, d
}

// renewed waits for the next renewal of the lease.
func renewed(t *testing.T) {
	t.Helper()
	before := renewal(t)
	await.Within(t, 30*time.Second, "the lease is renewed", func(context.Context) error {
		if !renewal(t).After(before) {
			return errors.New("not yet")
		}
		return nil
	})
}

func renewal(t *testing.T) time.Time {
	t.Helper()
	lease, err := plane.AdminClient().CoordinationV1().Leases(leaseNamespace).Get(t.Context(), leaseName, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return lease.Spec.RenewTime.Time
}

// noneTerminating is nil when no namespace is being deleted. A leader that stops in the middle
// of one does not know the versions of what it deleted last.
func noneTerminating(ctx context.Context) error {
	list, err := plane.AdminClient().CoreV1().Namespaces().List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	for _, n := range list.Items {
		if n.DeletionTimestamp != nil {
			return fmt.Errorf("%s is being deleted", n.Name)
		}
	}
	return nil
}

// watchForRelease returns when the lease was first seen without a holder.
func watchForRelease(t *testing.T) <-chan time.Time {
	t.Helper()
	w, err := plane.AdminClient().CoordinationV1().Leases(leaseNamespace).Watch(t.Context(), metav1.ListOptions{FieldSelector: "metadata.name=" + leaseName})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.Stop)
	released := make(chan time.Time, 1)
	go func() {
		for event := range w.ResultChan() {
			if l, ok := event.Object.(*coordinationv1.Lease); ok && *l.Spec.HolderIdentity == "" {
				released <- time.Now()
				return
			}
		}
	}()
	return released
}

// isLook reports the one request by which the holder of a lease finds out whether another
// process still runs its controllers.
func isLook(e *auditv1.Event) bool {
	return e.Verb == "list" && e.ObjectRef != nil && e.ObjectRef.Resource == "leases" && strings.Contains(e.RequestURI, "labelSelector=config.kcmd.dev%2Fmanager")
}

func scale(t *testing.T, d interface {
	GetNamespace() string
	GetName() string
}, replicas int) {
	t.Helper()
	patch := fmt.Sprintf(`{"spec":{"replicas":%d}}`, replicas)
	_, err := plane.AdminClient().AppsV1().Deployments(d.GetNamespace()).
		Patch(t.Context(), d.GetName(), types.MergePatchType, []byte(patch), metav1.PatchOptions{})
	if err != nil {
		t.Fatal(err)
	}
}

// TestLosingTheLeaseStopsWritesAndKeepsTheProcess covers promise 7: the API server stands
// still for longer than the lease lasts. The manager writes nothing until it holds the
// lease again, keeps its caches, and goes on.
func TestLosingTheLeaseStopsWritesAndKeepsTheProcess(t *testing.T) {
	m := manager.Start(t, plane, quick)
	namespace := harness.NamespaceForPods(t, plane)
	d := deployment(t, namespace, "web", 3)
	waitAvailable(t, d, 3, 30*time.Second)
	await.Within(t, time.Minute, "earlier tests' namespaces are gone", noneTerminating)
	harness.Wait(t, m, "every cache is complete", harness.CachesFilled)
	harness.Wait(t, m, "nothing is left to do", harness.QueuesAreEmpty)

	mark, err := plane.Audit().Mark()
	if err != nil {
		t.Fatal(err)
	}
	paused := time.Now()
	if err := plane.PauseAPIServer(); err != nil {
		t.Fatal(err)
	}
	await.Within(t, 10*time.Second, "the manager stands by", func(ctx context.Context) error {
		s, err := m.Status(ctx)
		if err != nil {
			return err
		}
		if s.Leadership.Leading {
			return errors.New("it leads")
		}
		for _, c := range s.Controllers {
			if c.State == supervisor.Running || c.State == supervisor.Stopping {
				return fmt.Errorf("%s is %s", c.Name, c.State)
			}
		}
		return nil
	})
	gone := time.Since(paused)
	if gone > 3*time.Second+time.Second {
		t.Errorf("the manager stood by only after %v, with a renew deadline of 3s", gone)
	}
	if err := plane.ResumeAPIServer(); err != nil {
		t.Fatal(err)
	}
	scale(t, d, 6)
	if err := m.WaitRunning(t.Context()); err != nil {
		t.Fatal(err)
	}
	waitAvailable(t, d, 6, 30*time.Second)
	t.Logf("stood by %v after the API server stopped answering", gone.Round(time.Millisecond))

	events, err := plane.Audit().Since(mark)
	if err != nil {
		t.Fatal(err)
	}
	reacquired := time.Time{}
	for _, e := range events {
		resource := ""
		if e.ObjectRef != nil {
			resource = e.ObjectRef.Resource
		}
		switch {
		case e.Verb == "list" && !isSweep(&e) && !isLook(&e):
			t.Errorf("a cache was filled again: %s", e.RequestURI)
		case resource == "leases" && e.Verb == "update" && e.ResponseStatus != nil && e.ResponseStatus.Code == 200:
			if reacquired.IsZero() && e.RequestReceivedTimestamp.After(paused.Add(gone)) {
				reacquired = e.RequestReceivedTimestamp.Time
			}
		case resource == "leases", resource == "events":
			// An attempt that came to nothing, and events: one that was sent while the server was suspended is
			// read when it goes on.
		case e.Verb == "create" || e.Verb == "update" || e.Verb == "patch" || e.Verb == "delete":
			// What arrived before the manager stood by, an event for instance, was sent under the lease.
			if reacquired.IsZero() && e.RequestReceivedTimestamp.After(paused.Add(gone)) {
				t.Errorf("%s %s at %s, before the lease was held again", e.Verb, e.RequestURI, e.RequestReceivedTimestamp)
			}
		}
	}
	if s := controller(t, m, "replicaset-controller"); s.Generation != 2 {
		t.Errorf("replicaset-controller is of generation %d, want 2", s.Generation)
	}
}
