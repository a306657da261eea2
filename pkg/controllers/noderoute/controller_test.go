package noderoute

import (
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/cloud-provider/names"

	"kcmd.dev/pkg/config/gates"
	"kcmd.dev/pkg/config/v1beta1"
	"kcmd.dev/test/controllertest"
	"kcmd.dev/test/fakecloud"
	"kcmd.dev/test/must"
)

func configWith(edit func(*v1beta1.KubeControllerManagerConfiguration)) config {
	cfg := v1beta1.NewDefault()
	cfg.Cloud.Provider = fakecloud.Name
	cfg.Networking.ClusterCIDRs = []string{"10.244.0.0/16", "fd00::/56"}
	if edit != nil {
		edit(cfg)
	}
	return configOf(cfg)
}

// Pins ROUTE-1 and ROUTE-2.
func TestNames(t *testing.T) {
	d := Descriptor()
	if d.Name != names.NodeRouteController || names.CCMControllerAliases()[d.Aliases[0]] != d.Name {
		t.Errorf("it is called %s, formerly %v", d.Name, d.Aliases)
	}
	if d.ServiceAccount != "route-controller" || d.EventSource != "route_controller" {
		t.Errorf("it acts as %s, and its events are those of %s", d.ServiceAccount, d.EventSource)
	}
}

func TestValue(t *testing.T) {
	tests := map[string]struct {
		edit func(*v1beta1.KubeControllerManagerConfiguration)
		idle bool
		want func(config) bool
	}{
		"ROUTE-6, ROUTE-7, ROUTE-29: the defaults": {want: func(c config) bool { return c.cluster == "kubernetes" && c.period == 10*time.Second && !c.watches }},
		"ROUTE-8: ranges of nodes are not allocated here": {
			edit: func(c *v1beta1.KubeControllerManagerConfiguration) { *c.Controllers.NodeIPAM.AllocateNodeCIDRs = false },
			want: func(c config) bool { return c.ranges == [2]string{"10.244.0.0/16", "fd00::/56"} },
		},
		"ROUTE-31: other spellings of the same ranges": {
			edit: func(c *v1beta1.KubeControllerManagerConfiguration) {
				c.Networking.ClusterCIDRs = []string{"10.244.7.1/16", "FD00::1/56"}
			},
			want: func(c config) bool { return c.ranges == [2]string{"10.244.0.0/16", "fd00::/56"} },
		},
		"ROUTE-5, ROUTE-20: no range": {
			edit: func(c *v1beta1.KubeControllerManagerConfiguration) { c.Networking.ClusterCIDRs = nil },
			idle: true,
		},
		"CLOUD-1: no provider": {
			edit: func(c *v1beta1.KubeControllerManagerConfiguration) { c.Cloud.Provider = "" },
			idle: true,
		},
		"ROUTE-3: the gate": {
			edit: func(c *v1beta1.KubeControllerManagerConfiguration) {
				c.FeatureGates = map[string]bool{gates.CloudWatchBasedRoutes: true}
			},
			want: func(c config) bool { return c.watches },
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			value := configWith(test.edit)
			if built, err := newController(controllertest.New(t).Env, value); err != nil || (built == nil) != test.idle {
				t.Errorf("New = %v, %v", built, err)
			}
			if !test.idle && !test.want(value) {
				t.Errorf("the value is %+v", value)
			}
		})
	}
}

// With the gate, and without it, the library reads the gate of the process as it is configured.
// Pins ROUTE-9, ROUTE-21, ROUTE-23, ROUTE-27, CLOUD-14 and CLOUD-20.
func TestRoundsBeginAsTheGateSays(t *testing.T) {
	for _, watches := range []bool{true, false} {
		name := map[bool]string{true: "watching", false: "periodically"}[watches]
		t.Run(name, func(t *testing.T) {
			cloud := fakecloud.The()
			node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node-" + name}, Spec: corev1.NodeSpec{PodCIDRs: []string{"10.244.3.0/24"}}}
			env := controllertest.New(t, node)
			c, err := newController(env.Env, configWith(func(c *v1beta1.KubeControllerManagerConfiguration) {
				c.FeatureGates = map[string]bool{gates.CloudWatchBasedRoutes: watches}
			}))
			if err != nil {
				t.Fatal(err)
			}
			env.Start(t)
			stop := env.Run(t, c)
			controllertest.Eventually(t, "there is a route, and the condition is written", func() bool {
				return slices.Equal(cloud.Routes(node.Name), []string{"10.244.3.0/24"}) && len(env.Writes()) == 1
			})
			stop()
			if got := utilfeature.DefaultFeatureGate.Enabled("CloudControllerManagerWatchBasedRoutesReconciliation"); got != watches {
				t.Errorf("the gate of the process is %t", got)
			}
		})
	}
}

// Pins ROUTE-1 and CLOUD-17.
func TestProviderWithoutRoutesLeavesItIdle(t *testing.T) {
	env := controllertest.New(t, nodeWith("waiting", "10.244.1.0/24"))
	c := must.Get(newController(env.Env, configWith(func(c *v1beta1.KubeControllerManagerConfiguration) { c.Cloud.Provider = fakecloud.Lacking })))(t)
	env.WantIdleFor(t, c, "the cloud provider does not support routes")
}
