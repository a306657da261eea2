package servicelb

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kcmd.dev/pkg/controllers/kit/reconcile"
	"kcmd.dev/test/controllertest"
	"kcmd.dev/test/fakecloud"
)

// Nothing happens to any Service while it is not known whether a node is gone. One that is worked on for another reason
// keeps the node. Pins SLB-39.
func TestANodeOfWhichItIsNotKnownWhetherItIsGone(t *testing.T) {
	cloud := fakecloud.The()
	cloud.Reset()
	env := controllertest.New(t, balanced("resting"), balanced("edited"))
	c, err := newController(env.Env, configWith(1))
	if err != nil {
		t.Fatal(err)
	}
	env.Start(t)
	env.Run(t, c)
	hosts := func(service string) string {
		names, _ := cloud.Hosts(balanced(service))
		return strings.Join(names, " ")
	}
	controllertest.Eventually(t, "there are load balancers", func() bool {
		return len(callsOf("resting")) == 1 && len(callsOf("edited")) == 1
	})
	// The node comes only now: the library reads the Services of its cache for it without the lock of their worker.
	env.Store(t, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "uncertain"}})
	controllertest.Eventually(t, "the load balancers have the node", func() bool {
		return hosts("resting") == "uncertain" && hosts("edited") == "uncertain"
	})
	allow := env.Refuse("list nodes", errors.New("out of order"))
	if err := env.Client.CoreV1().Nodes().Delete(t.Context(), "uncertain", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	controllertest.Eventually(t, "it is to be read again", env.Clock.HasWaiters)
	env.Store(t, balanced("edited", func(s *corev1.Service) { s.Annotations = map[string]string{"a": "reason to work on it"} }))
	controllertest.Eventually(t, "the other one is worked on", func() bool { return len(callsOf("edited")) == 3 })
	if calls := callsOf("resting"); len(calls) != 2 || hosts("resting")+hosts("edited") != "uncertainuncertain" {
		t.Errorf("the calls are %v, and the nodes %q and %q", calls, hosts("resting"), hosts("edited"))
	}
	for _, event := range env.RecordedEvents() {
		if strings.Contains(event, "Failed") {
			t.Error(event)
		}
	}
	allow()
	env.Clock.Step(reconcile.RecheckAfter)
	controllertest.Eventually(t, "the load balancers do not have the node any more", func() bool {
		return hosts("resting") == "" && hosts("edited") == ""
	})
	if calls := callsOf("resting"); !slices.Equal(calls, []string{"EnsureLoadBalancer", "UpdateLoadBalancer", "UpdateLoadBalancer"}) {
		t.Errorf("the calls are %v", calls)
	}
}

// A Service stops wanting its load balancer, which the cloud fails to delete, and is deleted after somebody has taken
// the finalizer away. Pins SLB-40.
func TestAServiceThatIsDeletedBeforeTheLoadBalancerThatItDoesNotWant(t *testing.T) {
	for name, isReplaced := range map[string]bool{"it is gone": false, "another one has its name": true} {
		t.Run(name, controllertest.InBubble(func(t *testing.T) {
			cloud := fakecloud.The()
			cloud.Reset()
			const deleting = "EnsureLoadBalancerDeleted a/owed"
			cloud.Fail(deleting, errors.New("busy"))
			env := controllertest.New(t, balanced("owed", finalized))
			c, err := newController(env.Env, configWith(1))
			if err != nil {
				t.Fatal(err)
			}
			env.Start(t)
			t.Cleanup(env.Run(t, c))
			synctest.Wait() // before each change, so that no write of the instance overtakes it
			env.Store(t, balanced("owed", internal, finalized))
			synctest.Wait()
			env.Store(t, balanced("owed", internal))
			synctest.Wait()
			env.Remove(t, balanced("owed", internal))
			synctest.Wait()
			another := balanced("owed", func(s *corev1.Service) { s.UID = "another" })
			if isReplaced {
				env.Store(t, another)
				synctest.Wait()
			}
			has := func(s *corev1.Service) bool {
				_, ok := cloud.Hosts(s)
				return ok
			}
			if len(cloud.Calls(deleting)) == 0 || !has(balanced("owed")) || has(another) {
				t.Fatalf("the deletion has not failed: %v", cloud.Calls(""))
			}
			cloud.Fail(deleting, nil)
			controllertest.Eventually(t, "the load balancer is gone", func() bool {
				return !has(balanced("owed")) && has(another) == isReplaced
			})
		}))
	}
}
