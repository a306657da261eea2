package leadership

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"kcmd.dev/pkg/config/v1beta1"
	"kcmd.dev/pkg/runtime"
	"kcmd.dev/pkg/runtime/supervisor"
	"kcmd.dev/test/await"
	"kcmd.dev/test/fakecloud"
	"kcmd.dev/test/integration/harness"
	"kcmd.dev/test/manager"
	"kcmd.dev/test/must"
)

const (
	routes    = "node-route-controller"
	balancers = "service-lb-controller"
)

// cloudLeaders says which component runs the controllers of routes and of load balancers.
func cloudLeaders(component string) func(*manager.Config) {
	return func(c *manager.Config) {
		c.LeaderMigration.Enabled = ptr.To(true)
		c.LeaderMigration.ControllerLeaders = []v1beta1.ControllerLeader{{Name: routes, Component: component}, {Name: balancers, Component: component}}
	}
}

// beginCloud runs a manager with the two controllers, whose provider is owned by name.
func beginCloud(t *testing.T, name string, edit func(*manager.Config)) *manager.Manager {
	t.Helper()
	file := filepath.Join(t.TempDir(), "cloud.conf")
	must.Succeed(t, os.WriteFile(file, []byte(name+"\n"), 0o600))
	return manager.Join(t, plane, runtime.Options{}, harness.All(quick, func(c *manager.Config) {
		c.LeaderElection.Identity = name
		c.Serving.Port = ptr.To[int32](0)
		c.ControllerDefaults.Enabled = ptr.To(false)
		c.Controllers.NodeRoute.Enabled, c.Controllers.ServiceLB.Enabled = ptr.To(true), ptr.To(true)
		c.Controllers.NodeRoute.ReconciliationPeriod = &metav1.Duration{Duration: time.Second}
		c.Networking.ClusterCIDRs = []string{"10.244.0.0/16"}
		c.Cloud.Provider, c.Cloud.ConfigFile = fakecloud.Name, file
	}, edit))
}

// owners are those of calls, in the order in which they began, without repetitions.
func owners(calls []fakecloud.Call) []string {
	var names []string
	for _, call := range calls {
		names = append(names, call.Owner)
	}
	return slices.Compact(names)
}

// waitCaller waits until the newest calls of a method are those of a process.
func waitCaller(t *testing.T, method, process string) {
	t.Helper()
	await.True(t, fmt.Sprintf("%s is called by %s", method, process), func() bool {
		called := owners(fakecloud.The().Calls(method))
		return len(called) > 0 && called[len(called)-1] == process
	})
}

// The controllers of a cloud move from one component to the other and back, live, while both run.
// A call that is in flight when they move ends before the other component makes one.
// Pins CLOUD-39.
func TestControllersOfACloudMigrateBetweenComponents(t *testing.T) {
	memory, namespace := fakecloud.The(), plane.Namespace(t)
	a := beginCloud(t, "a", cloudLeaders(ours))
	b := beginCloud(t, "b", harness.All(cloudLeaders(ours), func(c *manager.Config) {
		c.LeaderElection.ResourceName = cloud
		c.LeaderMigration.Component = cloud
	}))
	waitCaller(t, "ListRoutes", "a")
	for n, to := range []string{cloud, ours, cloud} {
		name := fmt.Sprintf("held-%d", n)
		about := "EnsureLoadBalancer " + namespace + "/" + name
		hold := memory.Hold(about)
		t.Cleanup(hold.Release)
		made := must.Get(plane.AdminClient().CoreV1().Services(namespace).Create(t.Context(), &corev1.Service{
			ObjectMeta: metav1.ObjectMeta{Name: name},
			Spec:       corev1.ServiceSpec{Type: corev1.ServiceTypeLoadBalancer, Ports: []corev1.ServicePort{{Port: 80}}},
		}, metav1.CreateOptions{}))(t)
		await.True(t, "the call has begun", func() bool { return len(memory.Calls(about)) == 1 })

		last, next := a, "b"
		if to == ours {
			last, next = b, "a"
		}
		harness.Edit(t, a, cloudLeaders(to))
		harness.Edit(t, b, cloudLeaders(to))
		harness.Wait(t, last, "it finishes the call", func(s *runtime.Status) error {
			if c := harness.ControllerOf(s, balancers); c.State != supervisor.Stopping {
				return fmt.Errorf("it is %s", c.State)
			}
			return nil
		})
		if calls := memory.Calls(about); len(calls) != 1 {
			t.Errorf("%d calls for the load balancer while the first has not ended", len(calls))
		}
		hold.Release()
		waitCaller(t, "EnsureLoadBalancer", next)
		waitCaller(t, "ListRoutes", next)
		await.True(t, "the next owner has asked for the load balancer", func() bool {
			_, ok := memory.Hosts(made)
			return ok && len(memory.Calls(about)) == 2
		})
	}
	for _, method := range []string{"ListRoutes", "EnsureLoadBalancer"} {
		calls := memory.Calls(method)
		if got := owners(calls); !slices.Equal(got, []string{"a", "b", "a", "b"}) {
			t.Errorf("%s was called by %v", method, got)
		}
		for _, call := range calls {
			if call.Beside != "" {
				t.Errorf("%s of %s began while one of %s had not ended", call.What, call.Owner, call.Beside)
			}
		}
	}
}
