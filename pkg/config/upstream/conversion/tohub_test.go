package conversion

import (
	"errors"
	"maps"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	generic "k8s.io/controller-manager/config/v1alpha1"
	"k8s.io/kube-controller-manager/config/v1alpha1"
	"k8s.io/utils/ptr"

	"kcmd.dev/pkg/config/v1beta1"
)

// with returns upstream's default with a change.
func with(change func(*v1alpha1.KubeControllerManagerConfiguration)) *v1alpha1.KubeControllerManagerConfiguration {
	cfg := NewDefault()
	change(cfg)
	return cfg
}

// Pins MGR-162 and WL-106.
func TestDefaultsOfUpstreamAreOursExceptForTheLimits(t *testing.T) {
	result, err := ToHub(NewDefault())
	if err != nil {
		t.Fatal(err)
	}
	want := v1beta1.NewDefault()
	want.ClientConnection.QPS, want.ClientConnection.Burst = ptr.To[float32](20), ptr.To[int32](30)
	if diff := cmp.Diff(want, result.Config); diff != "" {
		t.Errorf("upstream's defaults are not ours (-ours +upstream's):\n%s", diff)
	}
	if ours := v1beta1.NewDefault(); *ours.ClientConnection.QPS != 0 || ours.ControllerStartInterval.Duration != 0 {
		t.Errorf("by default %v requests per second are allowed, and controllers start %v apart", *ours.ClientConnection.QPS, ours.ControllerStartInterval)
	}
	if len(result.Notes) != 1 || result.Notes[0].Field != "Generic.ClientConnection.qps" {
		t.Errorf("notes: %v", result.Notes)
	}
}

// enabled are the fields that a list sets, with what they are set to.
func enabled(cfg *v1beta1.KubeControllerManagerConfiguration) map[string]bool {
	out := map[string]bool{}
	for _, c := range cfg.Controllers.All() {
		if c.Settings.Enabled != nil {
			out[c.Name] = *c.Settings.Enabled
		}
	}
	return out
}

// Pins MGR-66 and MGR-67.
func TestListsOfControllers(t *testing.T) {
	tests := []struct {
		name     string
		list     []string
		standard bool
		want     map[string]bool
		notes    []string // the fields of the notes
	}{
		{"everything", []string{"*"}, true, nil, nil},
		{"nothing", nil, false, nil, nil},
		{"one", []string{"deployment-controller"}, false, map[string]bool{"deployment-controller": true}, nil},
		{"former names", []string{"*", "deployment", "-job"}, true, map[string]bool{"deployment-controller": true, "job-controller": false}, nil},
		{"the first entry decides", []string{"-job", "job", "*"}, true, map[string]bool{"job-controller": false}, []string{"Generic.Controllers[1]"}},
		{"the first entry decides, by any name", []string{"job", "*", "-job-controller"}, true, map[string]bool{"job-controller": true}, []string{"Generic.Controllers[2]"}},
		{"the same twice is no news", []string{"*", "-job", "-job"}, true, map[string]bool{"job-controller": false}, nil},
		{"off by default", []string{"*", "bootstrapsigner"}, true, map[string]bool{"bootstrap-signer-controller": true}, nil},
		{"never in upstream", []string{"*", "service"}, true, nil, []string{"Generic.Controllers[1]"}},
		{"off what is never in upstream", []string{"*", "-service"}, true, map[string]bool{"service-lb-controller": false}, nil},
		{"the list does not matter to upstream", []string{"*", "-serviceaccount-token"}, true, nil, []string{"Generic.Controllers[1]"}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			result, err := ToHub(with(func(c *v1alpha1.KubeControllerManagerConfiguration) {
				c.Generic.Controllers = test.list
				c.Generic.ClientConnection.QPS = Unlimited
			}))
			if err != nil {
				t.Fatal(err)
			}
			if *result.Config.ControllerDefaults.Enabled != test.standard || !maps.Equal(enabled(result.Config), test.want) {
				t.Errorf("controllerDefaults.enabled %t and %v, want %t and %v", *result.Config.ControllerDefaults.Enabled, enabled(result.Config), test.standard, test.want)
			}
			var notes []string
			for _, note := range result.Notes {
				notes = append(notes, note.Field)
				if !note.Important {
					t.Errorf("a note on controllers is important: %v", note)
				}
			}
			if !slices.Equal(notes, test.notes) {
				t.Errorf("notes on %v, want %v", notes, test.notes)
			}
		})
	}
}

// Upstream runs that controller whenever it has a key, also if no * and no entry selects it.
func TestTokenControllerRunsWithAKeyWhateverTheListSays(t *testing.T) {
	for key, want := range map[string]map[string]bool{"": {"job-controller": true}, "sa.key": {"job-controller": true, tokenController: true}} {
		result, err := ToHub(with(func(c *v1alpha1.KubeControllerManagerConfiguration) {
			c.Generic.Controllers = []string{"job-controller"}
			c.SAController.ServiceAccountKeyFile = key
		}))
		if err != nil {
			t.Fatal(err)
		}
		if got := enabled(result.Config); !maps.Equal(got, want) {
			t.Errorf("with the key %q: %v, want %v", key, got, want)
		}
	}
}

func TestGarbageCollectorThatIsSwitchedOffIsDisabled(t *testing.T) {
	result, err := ToHub(with(func(c *v1alpha1.KubeControllerManagerConfiguration) {
		c.Generic.Controllers = []string{"*", collector}
		c.GarbageCollectorController.EnableGarbageCollector = ptr.To(false)
	}))
	if err != nil {
		t.Fatal(err)
	}
	if got := enabled(result.Config); got[collector] || len(got) != 1 {
		t.Errorf("enabled: %v", got)
	}
	if out := FromHub(result.Config); *out.GarbageCollectorController.EnableGarbageCollector {
		t.Error("it is on after going back")
	}
}

func TestLimits(t *testing.T) {
	tests := []struct {
		name      string
		qps       float32
		burst     int32
		wantQPS   float32
		wantBurst int32
		notes     int
	}{
		{"upstream's default", 20, 30, 20, 30, 1},
		{"another", 50, 100, 50, 100, 0},
		{"none", Unlimited, 0, 0, 0, 0},
		{"none, whatever the burst", -7, 100, 0, 0, 0},
		{"what client-go takes 0 for", 0, 0, 5, 10, 1},
		{"a burst alone", 0, 40, 5, 40, 1},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			result, err := ToHub(with(func(c *v1alpha1.KubeControllerManagerConfiguration) {
				c.Generic.ClientConnection.QPS, c.Generic.ClientConnection.Burst = test.qps, test.burst
			}))
			if err != nil {
				t.Fatal(err)
			}
			c := result.Config.ClientConnection
			if *c.QPS != test.wantQPS || *c.Burst != test.wantBurst || len(result.Notes) != test.notes {
				t.Errorf("qps %v, burst %v, notes %v; want %v, %v and %d", *c.QPS, *c.Burst, result.Notes, test.wantQPS, test.wantBurst, test.notes)
			}
		})
	}
}

func TestSizesOfNodeRanges(t *testing.T) {
	tests := []struct {
		name           string
		ranges         string
		any, ipv4, v6  int32
		wantV4, wantV6 int32
	}{
		{"none", "10.0.0.0/16", 0, 0, 0, 24, 64},
		{"of the IPv4 range", "10.0.0.0/16", 25, 0, 0, 25, 64},
		{"of the IPv6 range", "fd00::/56", 70, 0, 0, 24, 70},
		{"of no range", "", 26, 0, 0, 26, 64},
		{"of either family", "10.0.0.0/16, fd00::/56", 0, 27, 72, 27, 72},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			result, err := ToHub(with(func(c *v1alpha1.KubeControllerManagerConfiguration) {
				c.KubeCloudShared.ClusterCIDR = test.ranges
				c.NodeIPAMController = v1alpha1.NodeIPAMControllerConfiguration{NodeCIDRMaskSize: test.any, NodeCIDRMaskSizeIPv4: test.ipv4, NodeCIDRMaskSizeIPv6: test.v6}
			}))
			if err != nil {
				t.Fatal(err)
			}
			block := result.Config.Controllers.NodeIPAM
			if *block.NodeCIDRMaskSizeIPv4 != test.wantV4 || *block.NodeCIDRMaskSizeIPv6 != test.wantV6 {
				t.Errorf("%d and %d, want %d and %d", *block.NodeCIDRMaskSizeIPv4, *block.NodeCIDRMaskSizeIPv6, test.wantV4, test.wantV6)
			}
		})
	}
}

func TestLeaderMigration(t *testing.T) {
	result, err := ToHub(with(func(c *v1alpha1.KubeControllerManagerConfiguration) {
		c.Generic.LeaderMigrationEnabled = true
		c.Generic.LeaderMigration = generic.LeaderMigrationConfiguration{LeaderName: "m", ResourceLock: "leases", ControllerLeaders: []generic.ControllerLeaderConfiguration{
			{Name: "route-controller", Component: "*"}, {Name: "service-controller", Component: "cloud-controller-manager"}, {Name: "node-ipam-controller", Component: "kube-controller-manager"}}}
	}))
	if err != nil {
		t.Fatal(err)
	}
	want := v1beta1.LeaderMigration{Enabled: ptr.To(true), LeaderName: "m", Component: "kube-controller-manager", ControllerLeaders: []v1beta1.ControllerLeader{
		{Name: "node-route-controller", Component: "*"}, {Name: "service-lb-controller", Component: "cloud-controller-manager"}, {Name: "node-ipam-controller", Component: "kube-controller-manager"}}}
	if diff := cmp.Diff(want, result.Config.LeaderMigration); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// A file of leader migration names controllers as its release of Kubernetes did.
func TestNamesInLeaderMigration(t *testing.T) {
	for name, want := range map[string]string{
		"route": "node-route-controller", "route-controller": "node-route-controller", "node-route-controller": "node-route-controller",
		"service": "service-lb-controller", "service-controller": "service-lb-controller", "service-lb-controller": "service-lb-controller",
		"cloud-node": "cloud-node-controller", "cloud-node-lifecycle": "cloud-node-lifecycle-controller",
		"nodeipam": "node-ipam-controller", "node-ipam-controller": "node-ipam-controller", "attachdetach": "persistentvolume-attach-detach-controller",
	} {
		result, err := ToHub(with(func(c *v1alpha1.KubeControllerManagerConfiguration) {
			c.Generic.LeaderMigrationEnabled = true
			c.Generic.LeaderMigration = generic.LeaderMigrationConfiguration{
				LeaderName: "m", ControllerLeaders: []generic.ControllerLeaderConfiguration{{Name: name, Component: "*"}},
			}
		}))
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if got := result.Config.LeaderMigration.ControllerLeaders[0].Name; got != want {
			t.Errorf("%s becomes %s, want %s", name, got, want)
		}
	}
}

func TestValuesThatCannotBeConverted(t *testing.T) {
	tests := []struct {
		name, field string
		change      func(*v1alpha1.KubeControllerManagerConfiguration)
	}{
		{"unknown controller", "Generic.Controllers[1]", func(c *v1alpha1.KubeControllerManagerConfiguration) {
			c.Generic.Controllers = []string{"*", "-a"}
		}},
		{"a controller that only cloud controller managers have", "Generic.Controllers[0]", func(c *v1alpha1.KubeControllerManagerConfiguration) {
			c.Generic.Controllers = []string{unknownUpstream}
		}},
		{"another lock", resourceLockPath, func(c *v1alpha1.KubeControllerManagerConfiguration) {
			c.Generic.LeaderElection.ResourceLock = "endpoints"
		}},
		{"another lock of the migration", "Generic.LeaderMigration.resourceLock", func(c *v1alpha1.KubeControllerManagerConfiguration) {
			c.Generic.LeaderMigration = generic.LeaderMigrationConfiguration{LeaderName: "m", ResourceLock: "endpoints"}
		}},
		{"a migration without a name", "Generic.LeaderMigration.leaderName", func(c *v1alpha1.KubeControllerManagerConfiguration) {
			c.Generic.LeaderMigration.ResourceLock = "leases"
		}},
		{"a lease without a name", "Generic.LeaderElection.resourceName", func(c *v1alpha1.KubeControllerManagerConfiguration) {
			c.Generic.LeaderElection.ResourceName = ""
		}},
		{"qps without a burst", "Generic.ClientConnection.burst", func(c *v1alpha1.KubeControllerManagerConfiguration) {
			c.Generic.ClientConnection.Burst = 0
		}},
		{"another allocator", allocatorPath, func(c *v1alpha1.KubeControllerManagerConfiguration) {
			c.KubeCloudShared.CIDRAllocatorType = "CloudAllocator"
		}},
		{"a built-in cloud provider", "KubeCloudShared.CloudProvider.Name", func(c *v1alpha1.KubeControllerManagerConfiguration) {
			c.KubeCloudShared.CloudProvider.Name = "aws"
		}},
		{"one size for two ranges", maskPath, func(c *v1alpha1.KubeControllerManagerConfiguration) {
			c.KubeCloudShared.AllocateNodeCIDRs = true
			c.KubeCloudShared.ClusterCIDR, c.NodeIPAMController.NodeCIDRMaskSize = "10.0.0.0/16,fd00::/56", 25
		}},
		{"two sizes for one family", maskPath, func(c *v1alpha1.KubeControllerManagerConfiguration) {
			c.KubeCloudShared.AllocateNodeCIDRs = true
			c.NodeIPAMController.NodeCIDRMaskSize, c.NodeIPAMController.NodeCIDRMaskSizeIPv4 = 25, 26
		}},
		{"no period of checks", "AttachDetachController.ReconcilerSyncLoopPeriod", func(c *v1alpha1.KubeControllerManagerConfiguration) {
			c.AttachDetachController.ReconcilerSyncLoopPeriod.Duration = 0
		}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			_, err := ToHub(with(test.change))
			var problems Errors
			if !errors.As(err, &problems) || len(problems) != 1 || problems[0].Field != test.field {
				t.Errorf("errors %v, want one of %s", err, test.field)
			}
		})
	}
}

// An empty text that upstream starts with is converted, also where none is allowed here.
func TestEmptyTextsThatUpstreamAccepts(t *testing.T) {
	const json = "application/json"
	standard := v1beta1.NewDefault()
	tests := []struct {
		name, path, field, want string
		important               bool
	}{
		{"name of the cluster", clusterNamePath, "cloud.clusterName", standard.Cloud.ClusterName, false},
		{"content type", contentTypePath, "clientConnection.contentType", json, false},
		{"directory of drivers", flexVolumePath, "volumes.flexVolumePluginDirectory", standard.Volumes.FlexVolumePluginDirectory, true},
		{"name of a lease", electionPath + "resourceName", "leaderElection.resourceName", standard.LeaderElection.ResourceName, false},
		{"namespace of a lease", electionPath + "resourceNamespace", "leaderElection.resourceNamespace", standard.LeaderElection.ResourceNamespace, false},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			result, err := ToHub(with(func(c *v1alpha1.KubeControllerManagerConfiguration) {
				c.Generic.LeaderElection.LeaderElect = ptr.To(false)
				Lookup(c, test.path).SetString("")
			}))
			if err != nil {
				t.Fatal(err)
			}
			if got := Lookup(result.Config, test.field).String(); got != test.want {
				t.Errorf("%s is %q, want %q", test.field, got, test.want)
			}
			noted := func(n Note) bool { return n.Field == test.path && n.Important == test.important }
			if !slices.ContainsFunc(result.Notes, noted) {
				t.Errorf("no note about it (important %t): %v", test.important, result.Notes)
			}
		})
	}
}

func TestNegativeValuesThatUpstreamTakesForZero(t *testing.T) {
	result, err := ToHub(with(func(c *v1alpha1.KubeControllerManagerConfiguration) {
		c.PodGCController.TerminatedPodGCThreshold = -1
		c.NamespaceController.NamespaceSyncPeriod = seconds(-1)
	}))
	if err != nil {
		t.Fatal(err)
	}
	if *result.Config.Controllers.PodGarbageCollector.TerminatedPodThreshold != 0 || result.Config.Controllers.Namespace.ResyncPeriod.Duration != 0 {
		t.Error("they are not zero")
	}
}
