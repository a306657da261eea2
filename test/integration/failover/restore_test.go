package failover

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"

	"kcmd.dev/pkg/runtime/claims"
	"kcmd.dev/pkg/runtime/election"
	"kcmd.dev/test/await"
	"kcmd.dev/test/controlplane"
	"kcmd.dev/test/integration/harness"
	"kcmd.dev/test/must"
)

// TestTheLeaseIsHeldAgainAfterARestoreOfEtcd: resource versions go back under two running
// managers. One of them leads again, with no more requests than usual, and gives the lease
// back in the end, also one that has not found out yet what happened.
func TestTheLeaseIsHeldAgainAfterARestoreOfEtcd(t *testing.T) {
	s := setting{lease: harness.LeaseOf(t), timings: election.Timings{LeaseDuration: 3 * time.Second, RenewDeadline: 2 * time.Second, RetryPeriod: 300 * time.Millisecond}}
	a, b := s.join(t, "a"), s.join(t, "b")
	leader(t, a, b)
	snapshot, err := plane.SnapshotEtcd(t.Context())
	must.Succeed(t, err)
	leader(t, a, b)
	goOn(t, s.lease, 300)

	restore(t, snapshot, s.lease)
	began, mark := time.Now(), markAudit(t)
	found := leader(t, a, b)
	took := time.Since(began)
	t.Logf("%s leads %v after the restore", found.name, took.Round(time.Millisecond))
	if took > 3*s.timings.LeaseDuration {
		t.Errorf("it took %v until one of them led", took)
	}
	other := map[*replica]*replica{a: b, b: a}[found]
	until := time.Now().Add(2 * s.timings.LeaseDuration)
	await.That(t, "two lease durations have passed", func(context.Context) error {
		if found.leadership(t).Leading && other.leadership(t).Leading {
			t.Fatal("both lead")
		}
		if time.Now().Before(until) {
			return errors.New("not yet")
		}
		return nil
	})
	for _, r := range []*replica{a, b} {
		n := requestsForLease(t, mark, s.lease, r)
		t.Logf("%s sent %d requests for the lease in %v", r.name, n, time.Since(began).Round(time.Second))
		// A manager sends one per RetryPeriod, and a few more to find out what happened.
		if limit := int(2 * time.Since(began) / s.timings.RetryPeriod); n > limit {
			t.Errorf("%s sent %d requests for the lease, want at most %d", r.name, n, limit)
		}
	}

	began = time.Now()
	must.Succeed(t, found.Stop())
	t.Logf("%s stopped within %v", found.name, time.Since(began).Round(time.Millisecond))
	other.leads(t)
	if took := time.Since(began); took > s.timings.LeaseDuration {
		t.Errorf("the lease was passed on %v after the leader was told to stop", took)
	}
	goOn(t, s.lease, 300)
	restore(t, snapshot, s.lease)
	began = time.Now()
	must.Succeed(t, other.Stop())
	if took := time.Since(began); took > s.timings.LeaseDuration {
		t.Errorf("a manager that finds an older lease took %v to stop", took)
	}
}

// restore restores etcd. Leases of managers that are gone come back with it and would have
// others wait until they expire: those of other tests at once, that of this one after it.
func restore(t *testing.T, snapshot, lease string) {
	t.Helper()
	must.Succeed(t, plane.RestoreEtcd(t.Context(), snapshot))
	leases := plane.AdminClient().CoordinationV1().Leases(leaseNamespace)
	ours := metav1.ListOptions{LabelSelector: claims.ManagerLabel}
	all, err := leases.List(t.Context(), ours)
	must.Succeed(t, err)
	for _, l := range all.Items {
		if l.Name != lease {
			must.Succeed(t, leases.Delete(t.Context(), l.Name, metav1.DeleteOptions{}))
		}
	}
	t.Cleanup(func() {
		if err := leases.DeleteCollection(context.Background(), metav1.DeleteOptions{}, ours); err != nil {
			t.Error(err)
		}
	})
}

// goOn lets the cluster go on: other objects are written, and the lease is renewed.
func goOn(t *testing.T, lease string, writes int) {
	t.Helper()
	maps := plane.AdminClient().CoreV1().ConfigMaps(plane.Namespace(t))
	for n := range writes {
		_, err := maps.Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("map-", n)}}, metav1.CreateOptions{})
		must.Succeed(t, err)
	}
	last := storedLease(t, lease)
	await.That(t, "the lease is renewed", func(context.Context) error {
		if storedLease(t, lease).ResourceVersion == last.ResourceVersion {
			return errors.New("it is not")
		}
		return nil
	})
}

// requestsForLease counts what a manager has asked for a lease since a mark.
func requestsForLease(t *testing.T, since controlplane.Mark, lease string, r *replica) int {
	t.Helper()
	events, err := plane.Audit().Since(since, controlplane.ByResource("leases"), controlplane.BySourceIP(r.network.SourceIP()),
		func(e *auditv1.Event) bool { return e.ObjectRef.Name == lease || e.ObjectRef.Name == "" })
	must.Succeed(t, err)
	return len(events)
}

// TestCachesAreFilledAgainAfterARestoreOfEtcd: informers go on from versions that were lost, each until it notices.
// Nothing is written by what has read them. All caches are replaced, those of a standby, too, before anybody leads
// again. Pins MGR-206.
func TestCachesAreFilledAgainAfterARestoreOfEtcd(t *testing.T) {
	s := setting{lease: harness.LeaseOf(t), timings: election.Timings{LeaseDuration: 3 * time.Second, RenewDeadline: 2 * time.Second, RetryPeriod: 300 * time.Millisecond}}
	a, b := s.join(t, "a"), s.join(t, "b")
	leader(t, a, b)
	kept := plane.Namespace(t)
	deploy(t, kept)
	snapshot, err := plane.SnapshotEtcd(t.Context())
	must.Succeed(t, err)
	rollOut(t, kept)
	deploy(t, plane.Namespace(t))
	goOn(t, s.lease, 300)

	before, mark := replicaSets(t), markAudit(t)
	restore(t, snapshot, s.lease)
	began := time.Now()
	lost := before.Difference(replicaSets(t))
	if lost.Len() != 2 {
		t.Fatalf("%d ReplicaSets are lost, want 2", lost.Len())
	}
	deploy(t, plane.Namespace(t))
	t.Logf("a Deployment that was created after the restore has its pod after %v", time.Since(began).Round(time.Millisecond))
	for _, r := range []*replica{a, b} {
		await.That(t, r.name+" has replaced its caches", func(ctx context.Context) error {
			status, err := r.Status(ctx)
			if err == nil && status.Connection.Generation != 2 {
				err = fmt.Errorf("its connection is %d", status.Connection.Generation)
			}
			return err
		})
	}
	events, err := plane.Audit().Since(mark, controlplane.ByResource("pods"), controlplane.ByVerb("create"),
		controlplane.ByStage(auditv1.StageResponseComplete))
	must.Succeed(t, err)
	created := 0
	for _, e := range events {
		if e.ObjectRef.Subresource != "" {
			continue
		}
		var pod metav1.PartialObjectMetadata
		must.Succeed(t, json.Unmarshal(e.RequestObject.Raw, &pod))
		created++
		if owner := metav1.GetControllerOf(&pod); owner != nil && lost.Has(owner.UID) {
			t.Errorf("a pod was created in %s for the ReplicaSet %s, which is lost, at %v",
				e.ObjectRef.Namespace, owner.Name, e.RequestReceivedTimestamp)
		}
	}
	if created == 0 {
		t.Error("the audit log has no pods")
	}
}

// replicaSets are the UIDs of all ReplicaSets.
func replicaSets(t *testing.T) sets.Set[types.UID] {
	t.Helper()
	all := must.Get(plane.AdminClient().AppsV1().ReplicaSets("").List(t.Context(), metav1.ListOptions{}))(t)
	uids := sets.New[types.UID]()
	for _, rs := range all.Items {
		uids.Insert(rs.UID)
	}
	return uids
}

// rollOut changes what a Deployment runs, and waits until the pod of the next ReplicaSet is there.
func rollOut(t *testing.T, namespace string) {
	t.Helper()
	patch := []byte(`{"spec":{"template":{"metadata":{"labels":{"next":"true"}}}}}`)
	deployments := plane.AdminClient().AppsV1().Deployments(namespace)
	_, err := deployments.Patch(t.Context(), "web", types.MergePatchType, patch, metav1.PatchOptions{})
	must.Succeed(t, err)
	await.That(t, "the next pod is there", func(ctx context.Context) error {
		pods, err := plane.AdminClient().CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{LabelSelector: "next"})
		if err == nil && len(pods.Items) != 1 {
			err = fmt.Errorf("there are %d", len(pods.Items))
		}
		return err
	})
}

// deploy creates a Deployment, and waits for its pod.
func deploy(t *testing.T, namespace string) {
	t.Helper()
	_, err := plane.AdminClient().AppsV1().Deployments(namespace).Create(t.Context(), harness.NewDeployment(1, nil), metav1.CreateOptions{})
	must.Succeed(t, err)
	await.That(t, "the Deployment has its pod", func(ctx context.Context) error {
		pods, err := plane.AdminClient().CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{})
		if err == nil && len(pods.Items) != 1 {
			err = fmt.Errorf("it has %d", len(pods.Items))
		}
		return err
	})
}
