package cloud

import (
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
	"k8s.io/utils/ptr"

	"kcmd.dev/pkg/runtime"
	"kcmd.dev/pkg/runtime/supervisor"
	"kcmd.dev/test/await"
	"kcmd.dev/test/controlplane"
	"kcmd.dev/test/fakecloud"
	"kcmd.dev/test/integration/harness"
	"kcmd.dev/test/manager"
)

const balancers = "service-lb-controller"

func balancing(on bool) func(*manager.Config) {
	return func(c *manager.Config) { c.Controllers.ServiceLB.Enabled = ptr.To(on) }
}

// restore makes an edit when the test has ended.
func restore(t *testing.T, edit func(*manager.Config)) {
	t.Helper()
	cluster.Restore(t, edit)
}

func waitForState(t *testing.T, name string, want supervisor.State) {
	t.Helper()
	harness.Wait(t, cluster.Manager, fmt.Sprintf("%s is %s", name, want), func(s *runtime.Status) error {
		c := harness.ControllerOf(s, name)
		if c.State != want || c.Pending && want != supervisor.Stopping {
			return fmt.Errorf("it is %s, a decision is not carried out yet: %t", c.State, c.Pending)
		}
		return nil
	})
}

// heldCall has a call for a new Service of the test begin, and not end.
func heldCall(t *testing.T, namespace string) *fakecloud.Hold {
	t.Helper()
	about := "EnsureLoadBalancer " + namespace + "/held"
	hold := memory.Hold(about)
	t.Cleanup(hold.Release)
	createBalanced(t, namespace, "held", nil)
	await.True(t, "the call has begun", func() bool { return len(memory.Calls(about)) == 1 })
	return hold
}

// A stop lets the call that is in flight end, and what follows from it; the queue stays as it is.
// What has happened meanwhile is seen by the next instance.
// Pins CLOUD-41 and SLB-26.
func TestStopEndsWhatHasBegunAndBeginsNothing(t *testing.T) {
	namespace := cluster.Namespace(t)
	restore(t, balancing(true))
	hold := heldCall(t, namespace) // by the only worker
	createBalanced(t, namespace, "queued", nil)
	harness.Wait(t, cluster.Manager, "the status shows the call", func(s *runtime.Status) error {
		for _, l := range harness.ControllerOf(s, balancers).Loops {
			for _, call := range l.InFlight {
				if call.Key == "EnsureLoadBalancer "+namespace+"/held" {
					return nil
				}
			}
		}
		return fmt.Errorf("%+v", harness.ControllerOf(s, balancers).Loops)
	})
	harness.Edit(t, cluster.Manager, balancing(false))
	waitForState(t, balancers, supervisor.Stopping)
	hold.Release()
	waitForState(t, balancers, supervisor.Disabled)
	waitForService(t, namespace, "held", "it has the address", hasAddress)

	createBalanced(t, namespace, "later", nil)
	createNode(t, "while-stopped", corev1.ConditionTrue, withRanges("10.244.99.0/24"))
	waitForRoutes(t, "while-stopped", "10.244.99.0/24") // the others go on
	for _, name := range []string{"queued", "later"} {
		if calls := memory.Calls("EnsureLoadBalancer " + namespace + "/" + name); len(calls) > 0 {
			t.Errorf("the provider was asked for the load balancer of %s after the stop", name)
		}
	}
	harness.Edit(t, cluster.Manager, balancing(true))
	for _, name := range []string{"queued", "later"} {
		waitForService(t, namespace, name, "it has the address", hasAddress)
	}
}

// A call that does not end when the controller stops is cancelled once the time for that is over,
// although the library gives it a context that does not end.
// Pins CLOUD-41.
func TestCallThatOutlivesItsControllerIsCancelled(t *testing.T) {
	namespace := cluster.Namespace(t)
	drain := cluster.Manager.Config().Reload.DrainTimeout
	restore(t, harness.All(balancing(true), func(c *manager.Config) { c.Reload.DrainTimeout = drain }))
	harness.Edit(t, cluster.Manager, func(c *manager.Config) { c.Reload.DrainTimeout = &metav1.Duration{Duration: 200 * time.Millisecond} })
	hold := heldCall(t, namespace)
	harness.Edit(t, cluster.Manager, balancing(false))
	await.True(t, "the call was cancelled", func() bool {
		call := memory.Calls("EnsureLoadBalancer " + namespace + "/held")[0]
		return call.Ended && call.Err != nil
	})
	waitForState(t, balancers, supervisor.Disabled)
	waitForService(t, namespace, "held", "it has no address", func(s *corev1.Service) error {
		if hasAddress(s) == nil {
			return await.Final(fmt.Errorf("it has %v", s.Status))
		}
		return nil
	})
	hold.Release()
	harness.Edit(t, cluster.Manager, balancing(true))
	waitForService(t, namespace, "held", "it has the address", hasAddress)
}

// The controllers read the caches that there are.
// Pins CLOUD-40 and CLOUD-42.
func TestRestartSendsNoList(t *testing.T) {
	createNode(t, "before", corev1.ConditionTrue, withRanges("10.244.98.0/24"))
	waitForRoutes(t, "before", "10.244.98.0/24")
	mark, err := cluster.Audit().Mark()
	if err != nil {
		t.Fatal(err)
	}
	names := []string{balancers, "node-route-controller", "cloud-node-controller", "cloud-node-lifecycle-controller"}
	harness.Edit(t, cluster.Manager, func(c *manager.Config) { c.Cloud.AllowUntagged = ptr.To(true) })
	restore(t, func(c *manager.Config) { c.Cloud.AllowUntagged = ptr.To(false) })
	for _, name := range names {
		waitForState(t, name, supervisor.Running)
	}
	createNode(t, "after", corev1.ConditionTrue, withRanges("10.244.97.0/24"))
	waitForRoutes(t, "after", "10.244.97.0/24")
	wantNoReads(t, mark)
}

// wantNoReads fails if a manager has listed or watched nodes or Services since.
func wantNoReads(t *testing.T, mark controlplane.Mark) {
	t.Helper()
	reads, err := cluster.Audit().Since(mark, controlplane.ByVerb("list", "watch"), controlplane.ByResource("nodes", "services"),
		func(e *auditv1.Event) bool { return !strings.HasPrefix(e.User.Username, "system:apiserver") })
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range reads {
		if e.Stage == auditv1.StageResponseComplete && e.Verb == "watch" {
			continue // one that was open ended
		}
		t.Errorf("%s sent %s %s", e.UserAgent, e.Verb, e.RequestURI)
	}
}
