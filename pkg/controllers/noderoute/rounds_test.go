package noderoute

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/cache"
	cloudprovider "k8s.io/cloud-provider"

	"kcmd.dev/pkg/config/gates"
	"kcmd.dev/pkg/config/v1beta1"
	"kcmd.dev/test/await"
	"kcmd.dev/test/controllertest"
	"kcmd.dev/test/fakecloud"
	"kcmd.dev/test/must"
)

func nodeWith(name, podRange string) *corev1.Node {
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.NodeSpec{PodCIDRs: []string{podRange}}}
}

// run runs an instance until the end of the test, in a cloud with some routes. It returns how often the
// routes have been listed.
func run(t *testing.T, cfg config, node *corev1.Node, routes ...cloudprovider.Route) (env *controllertest.Env, rounds func() int) {
	t.Helper()
	memory := fakecloud.The()
	memory.SetRoutes("kubernetes", routes...)
	env = controllertest.New(t, node)
	c := must.Get(newController(env.Env, cfg))(t)
	env.Start(t)
	t.Cleanup(env.Run(t, c))
	return env, func() int { return len(memory.Calls("ListRoutes")) }
}

// A round in which nothing has changed lists the routes, and writes nothing. Pins ROUTE-11 and ROUTE-28.
func TestRoundsFollowOneAnother(t *testing.T) {
	fakecloud.The().Reset()
	cfg := configWith(nil)
	cfg.period = time.Millisecond
	env, rounds := run(t, cfg, nodeWith("periodic", "10.244.4.0/24"))
	nodes := env.CacheOf(t, &corev1.Node{})
	controllertest.Eventually(t, "the cache shows the condition", func() bool {
		node, ok, err := nodes.GetByKey("periodic")
		return err == nil && ok && len(node.(*corev1.Node).Status.Conditions) == 1
	})
	awaitRounds := func() {
		more := rounds() + 3
		controllertest.Eventually(t, "there are more rounds", func() bool { return rounds() >= more })
	}
	awaitRounds() // one may have begun before
	written := len(env.Writes())
	awaitRounds()
	if created := fakecloud.The().Calls("CreateRoute periodic"); len(created) != 1 || len(env.Writes()) != written {
		t.Errorf("the provider was asked for %v, and %v were sent", created, env.WriteVerbs())
	}
}

// With the gate, the first event has a round at once. Further ones share one of their own, ten seconds
// later, and so has a failure. Pins ROUTE-11 and ROUTE-26.
func TestRoundsAfterEventsAreLimited(t *testing.T) {
	controllertest.InBubble(func(t *testing.T) {
		memory := fakecloud.The()
		memory.Reset()
		began := time.Now()
		cfg := configWith(func(c *v1beta1.KubeControllerManagerConfiguration) {
			c.FeatureGates = map[string]bool{gates.CloudWatchBasedRoutes: true}
		})
		cfg.period = time.Millisecond // has no effect
		memory.Fail("ListRoutes", errors.New("busy"))
		env, rounds := run(t, cfg, nodeWith("early", "10.244.5.0/24"))
		controllertest.Eventually(t, "the routes are listed", func() bool { return rounds() == 1 })
		memory.Fail("ListRoutes", nil)
		env.Store(t, nodeWith("late", "10.244.6.0/24"))
		controllertest.Eventually(t, "both nodes have routes", func() bool {
			return len(memory.Routes("early")) == 1 && len(memory.Routes("late")) == 1
		})
		if took := time.Since(began); took < 9*time.Second || rounds() != 2 {
			t.Errorf("there were %d rounds within %v", rounds(), took)
		}
	})(t)
}

// Routes with the addresses of nodes are deleted before others are created; without them, one does not
// wait for the other. A route without a node goes if it is in a range of the cluster. Pins ROUTE-14,
// ROUTE-15 and ROUTE-22.
func TestRoutesAreDeletedAndCreated(t *testing.T) {
	for name, addresses := range map[string]bool{"deleted-first": true, "at-once": false} {
		t.Run(name, func(t *testing.T) {
			memory := fakecloud.The()
			memory.Reset()
			stale := types.NodeName("")
			if addresses {
				stale = "gone"
			}
			route := cloudprovider.Route{Name: "stale", TargetNode: stale, DestinationCIDR: "10.244.9.0/24", EnableNodeAddresses: addresses}
			deletion := memory.Hold("DeleteRoute")
			t.Cleanup(deletion.Release)
			_, _ = run(t, configWith(nil), nodeWith(name, "10.244.8.0/24"), route)
			created := func() []fakecloud.Call { return memory.Calls("CreateRoute " + name) }
			deleted := "DeleteRoute"
			if addresses {
				deleted += " gone"
			}
			controllertest.Eventually(t, "the deletion has begun", func() bool {
				calls := memory.Calls(deleted)
				return len(calls) > 0 && calls[len(calls)-1].What == deleted
			})
			if addresses {
				deletion.Release()
			}
			controllertest.Eventually(t, "the route is created", func() bool { return len(memory.Routes(name)) == 1 })
			deletion.Release()
			controllertest.Eventually(t, "the stale route is deleted", func() bool { return len(memory.Routes(string(stale))) == 0 })
			if calls := created(); len(calls) != 1 || addresses && slices.Contains(calls[0].Open, deleted) {
				t.Errorf("the calls are %+v", calls)
			}
		})
	}
}

// What the cache does not show is no reason to delete a route. Pins ROUTE-32.
func TestARouteOfANodeThatTheCacheDoesNotShowIsKept(t *testing.T) {
	is := nodeWith("late", "10.244.8.0/24")
	for name, test := range map[string]struct {
		cached, stored *corev1.Node // nil: there is none
		refused        error
		deleted        bool
	}{
		"a node that the cache does not show":        {nil, is, nil, false},
		"a node whose range the cache does not show": {&corev1.Node{ObjectMeta: is.ObjectMeta}, is, nil, false},
		"a node that is gone":                        {nil, nil, nil, true},
		"a node that has another range":              {nil, nodeWith("late", "10.244.9.0/24"), nil, true},
		"a node that cannot be read":                 {nil, nil, errors.New("busy"), false},
	} {
		t.Run(name, func(t *testing.T) {
			memory := fakecloud.The()
			memory.Reset()
			memory.SetRoutes("kubernetes", cloudprovider.Route{Name: "r", TargetNode: "late", DestinationCIDR: "10.244.8.0/24"})
			var objects []runtime.Object
			if test.stored != nil {
				objects = append(objects, test.stored)
			}
			env := controllertest.New(t, objects...)
			cfg := configWith(nil)
			cfg.period = time.Millisecond
			c := must.Get(newController(env.Env, cfg))(t)
			first := memory.Hold("ListRoutes")
			t.Cleanup(first.Release)
			env.Start(t)
			t.Cleanup(env.Run(t, c))
			controllertest.Eventually(t, "a round has begun", func() bool { return len(memory.Calls("ListRoutes")) == 1 })
			env.Uncache(t, is)
			if test.cached != nil {
				env.Cache(t, test.cached)
			}
			if test.refused != nil {
				env.Refuse("list nodes", test.refused)
			}
			first.Release()
			controllertest.Eventually(t, "there are more rounds", func() bool { return len(memory.Calls("ListRoutes")) > 5 })
			if deleted := len(memory.Calls("DeleteRoute late")) > 0; deleted != test.deleted {
				t.Errorf("the route is deleted: %t", deleted)
			}
		})
	}
}

// With the gate, no event follows a round in which the node of a route could not be read. Pins ROUTE-33.
func TestANodeThatCannotBeReadIsReadAgain(t *testing.T) {
	controllertest.InBubble(func(t *testing.T) {
		memory := fakecloud.The()
		memory.Reset()
		memory.SetRoutes("kubernetes",
			cloudprovider.Route{Name: "r", TargetNode: "gone", DestinationCIDR: "10.244.8.0/24"},
			cloudprovider.Route{Name: "s", TargetNode: "there", DestinationCIDR: "10.244.9.0/24"})
		there := nodeWith("there", "10.244.9.0/24") // nothing is done for it, so it has no events
		there.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeNetworkUnavailable, Status: corev1.ConditionFalse, Reason: "RouteCreated"}}
		env := controllertest.New(t, there)
		c := must.Get(newController(env.Env, configWith(func(c *v1beta1.KubeControllerManagerConfiguration) {
			c.FeatureGates = map[string]bool{gates.CloudWatchBasedRoutes: true}
		})))(t)
		first := memory.Hold("ListRoutes")
		t.Cleanup(first.Release)
		env.Start(t)
		t.Cleanup(env.Run(t, c))
		controllertest.Eventually(t, "a round has begun", func() bool { return len(memory.Calls("ListRoutes")) == 1 })
		reads := 0
		env.Intercept("list nodes", func(clienttesting.Action) error {
			if reads++; reads == 1 {
				return errors.New("busy")
			}
			return nil
		})
		first.Release()
		controllertest.Eventually(t, "the route is deleted", func() bool { return len(memory.Calls("DeleteRoute gone")) == 1 })
	})(t)
}

// With the gate, no event follows a round that has failed in part, and the next one may come hours later.
// Pins ROUTE-33.
func TestARoundThatFailedInPartIsRepeated(t *testing.T) {
	memory := fakecloud.The()
	memory.Reset()
	for name, tc := range map[string]struct {
		// fail has something fail until the function that it returns is called.
		fail   func(env *controllertest.Env, node string) (end func())
		failed func(env *controllertest.Env, node string) bool
	}{
		"no-route": {
			func(_ *controllertest.Env, node string) func() {
				memory.Fail("CreateRoute "+node, errors.New("busy"))
				return func() { memory.Fail("CreateRoute "+node, nil) }
			},
			func(_ *controllertest.Env, node string) bool { return len(memory.Calls("CreateRoute "+node)) == 1 },
		},
		"no-condition": {
			func(env *controllertest.Env, node string) func() {
				return env.Refuse("patch nodes/status "+node, errors.New("busy"))
			},
			func(env *controllertest.Env, _ string) bool { return len(env.Writes()) == 1 },
		},
	} {
		t.Run(name, controllertest.InBubble(func(t *testing.T) {
			node := nodeWith(name, "10.244.5.0/24")
			node.Status.Conditions = []corev1.NodeCondition{{
				Type: corev1.NodeNetworkUnavailable, Status: corev1.ConditionTrue, Reason: "NoRouteCreated",
			}}
			env := controllertest.New(t, node)
			end := tc.fail(env, name)
			cfg := configWith(func(c *v1beta1.KubeControllerManagerConfiguration) {
				c.FeatureGates = map[string]bool{gates.CloudWatchBasedRoutes: true}
			})
			cfg.cluster = name
			c := must.Get(newController(env.Env, cfg))(t)
			env.Start(t)
			t.Cleanup(env.Run(t, c))
			controllertest.Eventually(t, "it has failed", func() bool { return tc.failed(env, name) })
			end()
			controllertest.Eventually(t, "the next round makes up for it", func() bool {
				return controllertest.MustStored[*corev1.Node](t, env, "", name).Status.Conditions[0].Reason == "RouteCreated"
			})
		}))
	}
}

// TestAConditionThatIsLostHasOneMoreRound has a write of a condition executed after the round that made up for it. Pins
// ROUTE-35.
func TestAConditionThatIsLostHasOneMoreRound(t *testing.T) {
	for name, lost := range map[string]func(*corev1.Node){
		"another status": func(n *corev1.Node) {
			n.Status.Conditions[0].Status, n.Status.Conditions[0].Reason = corev1.ConditionTrue, "NoRouteCreated"
		},
		"none": func(n *corev1.Node) { n.Status.Conditions = nil },
	} {
		t.Run(name, controllertest.InBubble(func(t *testing.T) {
			memory := fakecloud.The()
			memory.Reset()
			env := controllertest.New(t, nodeWith("late", "10.244.5.0/24"))
			c := must.Get(newController(env.Env, configWith(func(c *v1beta1.KubeControllerManagerConfiguration) {
				c.FeatureGates = map[string]bool{gates.CloudWatchBasedRoutes: true}
			})))(t)
			env.Start(t)
			t.Cleanup(env.Run(t, c))
			isRouted := func() bool {
				conditions := controllertest.MustStored[*corev1.Node](t, env, "", "late").Status.Conditions
				return len(conditions) == 1 && conditions[0].Reason == "RouteCreated"
			}
			// A patch gives no new version here, so that the library takes it for a resync.
			controllertest.Eventually(t, "the condition is written", func() bool { return len(memory.Calls("ListRoutes")) == 2 })
			controllertest.Change(t, env, "", "late", lost)
			controllertest.Eventually(t, "the next round makes up for it", isRouted)
		}))
	}
}

// scripted are routes of which the attempts to create one end as a test says.
type scripted struct {
	cloudprovider.Routes
	outcomes []error
}

func (s *scripted) CreateRoute(context.Context, string, string, *cloudprovider.Route) error {
	outcome := s.outcomes[0]
	s.outcomes = s.outcomes[1:]
	return outcome
}

// The library repeats an attempt that ends with a conflict, and each attempt is checked. Pins ROUTE-33.
func TestAnAttemptThatFailsHasOneMoreRound(t *testing.T) {
	conflict := apierrors.NewConflict(corev1.Resource("routes"), "", errors.New("busy"))
	for name, tc := range map[string]struct {
		rounds [][]error
		want   int
	}{
		"all succeed":               {[][]error{{nil, nil}, {nil}}, 0},
		"one is repeated":           {[][]error{{conflict, nil}}, 1},
		"some are repeated":         {[][]error{{conflict, nil, conflict, conflict, nil}}, 1},
		"one fails for good":        {[][]error{{nil, errors.New("busy")}}, 1},
		"one in each of two rounds": {[][]error{{conflict, nil}, {conflict, nil}}, 2},
		"one in the first round":    {[][]error{{conflict, nil}, {nil}}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			env := controllertest.New(t)
			var repeated again
			nodes := repeated.nodes(env.Informers.Core().V1().Nodes())
			more := 0
			must.Get(nodes.Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{AddFunc: func(any) { more++ }}))(t)
			provider := &scripted{}
			routes := repeated.routes(provider)
			for _, outcomes := range tc.rounds {
				must.Get(nodes.Lister().List(labels.Everything()))(t)
				provider.outcomes = outcomes
				for range outcomes {
					_ = routes.CreateRoute(t.Context(), "", "", &cloudprovider.Route{})
				}
			}
			if more != tc.want {
				t.Errorf("%d more rounds were asked for, want %d", more, tc.want)
			}
		})
	}
}

// A conflict of the provider is tried again, five times in all. What fails in the first round is an event
// already, and the condition says so. Pins ROUTE-19 and ROUTE-25.
func TestConflictsOfTheProviderAreTriedFiveTimes(t *testing.T) {
	memory := fakecloud.The()
	memory.Reset()
	cfg := configWith(nil)
	cfg.period = time.Hour
	memory.Fail("CreateRoute refused", apierrors.NewConflict(corev1.Resource("routes"), "", errors.New("busy")))
	began := time.Now()
	env, _ := run(t, cfg, nodeWith("refused", "10.244.7.0/24"))
	controllertest.Eventually(t, "the condition is written", func() bool { return len(env.Writes()) == 1 })
	if took, calls := time.Since(began), memory.Calls("CreateRoute refused"); len(calls) != 5 || took < 400*time.Millisecond {
		t.Errorf("the provider was asked %d times within %v", len(calls), took)
	}
	node := controllertest.MustStored[*corev1.Node](t, env, "", "refused")
	if c := node.Status.Conditions; len(c) != 1 || c[0].Reason != "NoRouteCreated" || c[0].Status != corev1.ConditionTrue {
		t.Errorf("conditions are %+v", c)
	}
	var events []string
	controllertest.Eventually(t, "each failure is an event", func() bool {
		events = append(events, env.RecordedEvents()...)
		return len(events) == 5
	})
	for _, event := range events {
		if !strings.HasPrefix(event, "Warning FailedToCreateRoute Could not create route ") {
			t.Errorf("the event is %q", event)
		}
	}
}

// Pins ROUTE-19.
func TestCallsOfTheProviderAreLimited(t *testing.T) {
	const limit = 200
	memory := fakecloud.The()
	memory.Reset()
	node := nodeWith("limited", "10.244.0.0/24") // and all the others, so that one condition is written
	for i := range limit {
		node.Spec.PodCIDRs = append(node.Spec.PodCIDRs, fmt.Sprintf("10.244.%d.0/24", i+1))
	}
	cfg := configWith(nil)
	cfg.period = time.Hour
	hold := memory.Hold("CreateRoute")
	run(t, cfg, node)
	t.Cleanup(hold.Release) // before the stop
	calls := func() int { return len(memory.Calls("CreateRoute")) }
	controllertest.Eventually(t, "all but one are asked for", func() bool { return calls() >= limit })
	await.Stays(t, "the last one waits", 50*time.Millisecond, func(context.Context) error {
		if n := calls(); n != limit {
			return fmt.Errorf("%d calls are in flight", n)
		}
		return nil
	})
	hold.Release()
	controllertest.Eventually(t, "the last one is asked for", func() bool { return calls() == limit+1 })
}

// What another manager with other nodes has made goes, if it has the same name of the cluster.
func TestTwoManagersInOneCloud(t *testing.T) {
	for name, test := range map[string]struct {
		cluster string
		fight   bool
	}{
		"ROUTE-24: of one cluster":  {"kubernetes", true},
		"ROUTE-24: of two clusters": {"another", false},
	} {
		t.Run(name, func(t *testing.T) {
			memory := fakecloud.The()
			memory.Reset()
			cfg := configWith(nil)
			cfg.period = time.Millisecond
			_, rounds := run(t, cfg, nodeWith("one", "10.244.1.0/24"))
			cfg.cluster = test.cluster
			env := controllertest.New(t, nodeWith("two", "10.244.2.0/24"))
			c := must.Get(newController(env.Env, cfg))(t)
			env.Start(t)
			t.Cleanup(env.Run(t, c))
			lost := func() [2]int {
				return [2]int{len(memory.Calls("DeleteRoute one")), len(memory.Calls("DeleteRoute two"))}
			}
			if test.fight {
				controllertest.Eventually(t, "each takes the route of the other, again and again", func() bool { return lost()[0] > 1 && lost()[1] > 1 })
				return
			}
			controllertest.Eventually(t, "each has a route", func() bool { return len(memory.Routes("one"))+len(memory.Routes("two")) == 2 })
			more := rounds() + 10
			controllertest.Eventually(t, "there are more rounds", func() bool { return rounds() > more })
			if lost() != [2]int{} {
				t.Errorf("%v routes were deleted", lost())
			}
		})
	}
}
