package servicelb

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"kcmd.dev/pkg/controllers/kit/reconcile"
	"kcmd.dev/test/controllertest"
	"kcmd.dev/test/fakecloud"
	"kcmd.dev/test/must"
)

// Nothing happens to any Service while it is not known whether a node is gone. One that is worked on for another reason
// keeps the node. Pins SLB-39.
func TestANodeOfWhichItIsNotKnownWhetherItIsGone(t *testing.T) {
	controllertest.InBubble(aNodeOfWhichItIsNotKnownWhetherItIsGone)(t)
}

// aNodeOfWhichItIsNotKnownWhetherItIsGone lets everything come to rest before each change: the library reads the Services
// of its cache for a node without the lock of their worker.
func aNodeOfWhichItIsNotKnownWhetherItIsGone(t *testing.T) {
	cloud := fakecloud.The()
	cloud.Reset()
	env := running(t, balanced("resting"), balanced("edited"))
	wantHosts := func(want string) {
		t.Helper()
		for _, service := range []string{"resting", "edited"} {
			if names, _ := cloud.Hosts(balanced(service)); strings.Join(names, " ") != want {
				t.Errorf("the nodes of Service %s are %v, want %s", service, names, want)
			}
		}
	}
	synctest.Wait()
	env.Store(t, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "uncertain"}})
	synctest.Wait()
	wantHosts("uncertain")
	allow := env.Refuse("list nodes", errors.New("out of order"))
	env.Remove(t, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "uncertain"}})
	synctest.Wait()
	edited, err := env.Client.CoreV1().Services("a").Get(t.Context(), "edited", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	metav1.SetMetaDataAnnotation(&edited.ObjectMeta, "a", "reason to work on it")
	env.Store(t, edited)
	synctest.Wait()
	wantHosts("uncertain")
	const ensure, update = "EnsureLoadBalancer", "UpdateLoadBalancer"
	if calls := callsOf("edited"); !slices.Equal(calls, []string{ensure, update, ensure}) {
		t.Errorf("the calls of the Service that is edited are %v", calls)
	}
	if calls := callsOf("resting"); !slices.Equal(calls, []string{ensure, update}) {
		t.Errorf("the calls of the other one are %v", calls)
	}
	for _, event := range env.RecordedEvents() {
		if strings.Contains(event, "Failed") {
			t.Error(event)
		}
	}
	allow()
	env.Clock.Step(reconcile.RecheckAfter)
	synctest.Wait()
	wantHosts("")
	if calls := callsOf("resting"); !slices.Equal(calls, []string{ensure, update, update}) {
		t.Errorf("the calls are %v", calls)
	}
}

// running is a world in which an instance runs until the end of the test.
func running(t *testing.T, objects ...runtime.Object) *controllertest.Env {
	t.Helper()
	env := controllertest.New(t, objects...)
	c := must.Get(newController(env.Env, configWith(1)))(t)
	env.Start(t)
	t.Cleanup(env.Run(t, c))
	return env
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
			env := running(t, balanced("owed", finalized))
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

// The cloud fails to delete a load balancer, since the file with its credentials is outdated. The edit that repairs that
// ends the instance which knows of the load balancer, and its Service may be gone.
func TestTheNextInstanceDeletesLoadBalancersOfServicesThatAreGone(t *testing.T) {
	another := func(s *corev1.Service) { s.UID = "another" }
	for name, tc := range map[string]struct {
		// before is done while the cloud fails, and between when there is no instance.
		before, between func(*testing.T, *controllertest.Env)
		// stays is whether the load balancer does, and has whether another Service of the name has one.
		stays, has bool
	}{
		"SLB-44: a Service that wanted it is gone": {before: func(t *testing.T, env *controllertest.Env) {
			env.Remove(t, balanced("left"))
		}},
		"SLB-44: one that did not want it any more is gone": {before: func(t *testing.T, env *controllertest.Env) {
			env.Store(t, balanced("left", internal, finalized))
			synctest.Wait()
			env.Store(t, balanced("left", internal))
			synctest.Wait()
			env.Remove(t, balanced("left"))
		}},
		"SLB-44: it is there without the finalizer, and wants none": {before: func(t *testing.T, env *controllertest.Env) {
			env.Store(t, balanced("left", internal, finalized))
			synctest.Wait()
			env.Store(t, balanced("left", internal))
		}},
		"SLB-44: it is being deleted without the finalizer": {before: func(t *testing.T, env *controllertest.Env) {
			env.Store(t, balanced("left", deleted, heldElsewhere))
		}},
		"SLB-44: it has gone between the instances": {between: func(t *testing.T, env *controllertest.Env) {
			env.Remove(t, balanced("left"))
		}},
		"SLB-44: another one has its name": {before: func(t *testing.T, env *controllertest.Env) {
			env.Remove(t, balanced("left"))
			synctest.Wait()
			env.Store(t, balanced("left", another))
		}, has: true},
		"SLB-44: it is there, and wants it": {stays: true},
	} {
		t.Run(name, controllertest.InBubble(func(t *testing.T) {
			cloud := fakecloud.The()
			cloud.Reset()
			const deleting = "EnsureLoadBalancerDeleted a/left"
			cloud.Fail(deleting, errors.New("unauthorized"))
			has := func(s *corev1.Service) bool {
				_, ok := cloud.Hosts(s)
				return ok
			}
			env := controllertest.New(t, balanced("left", finalized))
			first := must.Get(newController(env.Env, configWith(1)))(t)
			env.Start(t)
			stop := env.Run(t, first)
			synctest.Wait() // before each change, so that no write of the instance overtakes it
			if tc.before != nil {
				tc.before(t, env)
				synctest.Wait()
			}
			stop()
			if !has(balanced("left")) {
				t.Fatalf("there is no load balancer: %v", cloud.Calls(""))
			}
			env.Succeed(first.HandOver())
			second := must.Get(newController(env.Env, configWith(2)))(t) // for which the cloud fails, too
			stop = env.Run(t, second)
			synctest.Wait()
			stop()
			env.Succeed(second.HandOver())
			if tc.between != nil {
				tc.between(t, env)
				synctest.Wait()
			}
			cloud.Fail(deleting, nil)
			env.Run(t, must.Get(newController(env.Env, configWith(1)))(t))
			controllertest.Eventually(t, "the load balancers are as they should be", func() bool {
				return has(balanced("left")) == tc.stays && has(balanced("left", another)) == tc.has
			})
		}))
	}
}

// A Service becomes one of another class while the cloud has not finished with its load balancer. The address in its
// status is that of the other controller by then.
func TestAServiceThatIsOfAnotherClassKeepsItsAddress(t *testing.T) {
	const ensuring, deleting = "EnsureLoadBalancer a/moving", "EnsureLoadBalancerDeleted a/moving"
	for name, busy := range map[string]func(*fakecloud.Cloud) (end func()){
		"SLB-42: the deletion fails": func(cloud *fakecloud.Cloud) func() {
			cloud.Fail(deleting, errors.New("busy"))
			return func() { cloud.Fail(deleting, nil) }
		},
		"SLB-43: it takes long to make it": func(cloud *fakecloud.Cloud) func() { return cloud.Hold(ensuring).Release },
	} {
		t.Run(name, controllertest.InBubble(func(t *testing.T) {
			cloud := fakecloud.The()
			cloud.Reset()
			end := busy(cloud)
			env := running(t, balanced("moving"))
			synctest.Wait() // before each change, so that no write of the instance overtakes it
			env.Store(t, balanced("moving", finalized, internal))
			synctest.Wait()
			env.Store(t, balanced("moving", finalized, ofClass, func(s *corev1.Service) {
				s.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{IP: theirs}}
			}))
			synctest.Wait()
			end()
			stored := func() *corev1.Service { return controllertest.MustStored[*corev1.Service](t, env, "a", "moving") }
			controllertest.Eventually(t, "the finalizer is gone", func() bool { return !slices.Contains(stored().Finalizers, finalizer) })
			synctest.Wait()
			if !hasAddress(stored(), theirs) {
				t.Errorf("its address is %v", stored().Status.LoadBalancer)
			}
			if _, ok := cloud.Hosts(balanced("moving")); ok || len(cloud.Calls(deleting)) == 0 {
				t.Errorf("the load balancer is still there: %v", cloud.Calls(""))
			}
		}))
	}
}
