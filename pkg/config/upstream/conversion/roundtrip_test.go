package conversion

import (
	"math/rand"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	cloudv1alpha1 "k8s.io/cloud-provider/config/v1alpha1"
	generic "k8s.io/controller-manager/config/v1alpha1"
	"k8s.io/kube-controller-manager/config/v1alpha1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/randfill"

	"kcmd.dev/pkg/config/v1beta1"
)

// rounds is how many configurations a test makes up.
const rounds = 100

func seeds(t *testing.T, check func(t *testing.T, fill *randfill.Filler)) {
	t.Helper()
	for seed := range int64(rounds) {
		check(t, randfill.NewWithSeed(seed))
	}
}

func TestUpstreamIsTheSameAfterGoingThereAndBack(t *testing.T) { seeds(t, checkUpstreamRoundTrip) }

func TestOursIsTheSameAfterGoingThereAndBack(t *testing.T) { seeds(t, checkHubRoundTrip) }

func FuzzUpstreamRoundTrip(f *testing.F) {
	f.Add([]byte("some seed"))
	f.Fuzz(func(t *testing.T, data []byte) { checkUpstreamRoundTrip(t, randfill.NewFromGoFuzz(data)) })
}

func FuzzHubRoundTrip(f *testing.F) {
	f.Add([]byte("some seed"))
	f.Fuzz(func(t *testing.T, data []byte) { checkHubRoundTrip(t, randfill.NewFromGoFuzz(data)) })
}

// words are values for texts; an empty one means upstream's default or nothing at all.
var words = []string{"a", "kube-system", "/etc/kubernetes/pki/ca.crt", "application/json"}

func pick[T any](c randfill.Continue, values ...T) T { return values[c.Intn(len(values))] }

func fillers(fill *randfill.Filler) *randfill.Filler {
	return fill.NilChance(0).NumElements(0, 3).Funcs(
		func(d *metav1.Duration, c randfill.Continue) {
			d.Duration = time.Duration(1+c.Intn(100_000)) * time.Second
		},
		func(s *string, c randfill.Continue) { *s = pick(c, words...) },
		func(n *int32, c randfill.Continue) { *n = int32(1 + c.Intn(100)) },
		func(f *float32, c randfill.Continue) { *f = float32(1+c.Intn(1000)) / 8 },
		func(f *float64, c randfill.Continue) { *f = float64(1+c.Intn(1000)) / 8 },
		func(r *v1alpha1.GroupResource, c randfill.Continue) {
			*r = v1alpha1.GroupResource{Group: pick(c, "", "apps", "events.k8s.io"), Resource: pick(c, "pods", "leases")}
		},
		func(r *v1beta1.GroupResource, c randfill.Continue) {
			*r = v1beta1.GroupResource{Group: pick(c, "", "apps", "events.k8s.io"), Resource: pick(c, "pods", "leases")}
		},
		fillGeneric, fillCloud, fillIPAM, fillAttachDetach, fillHub,
	)
}

func fillGeneric(g *generic.GenericControllerManagerConfiguration, c randfill.Continue) {
	c.FillNoCustom(g)
	g.LeaderElection.ResourceLock = leasesLock
	g.LeaderMigration.ResourceLock = leasesLock
	g.LeaderMigration.TypeMeta = metav1.TypeMeta{}
	if len(g.LeaderMigration.ControllerLeaders) == 0 {
		g.LeaderMigration.ControllerLeaders = nil
	}
	if c.Bool() {
		g.LeaderMigration, g.LeaderMigrationEnabled = generic.LeaderMigrationConfiguration{}, false
	}
	if c.Bool() {
		g.ClientConnection.QPS, g.ClientConnection.Burst = Unlimited, 0
	}
}

func fillCloud(k *cloudv1alpha1.KubeCloudSharedConfiguration, c randfill.Continue) {
	c.FillNoCustom(k)
	k.CIDRAllocatorType = "RangeAllocator"
	k.CloudProvider.Name = pick(c, "", "external")
	k.ClusterCIDR = pick(c, "", "10.0.0.0/16", "10.0.0.0/16,fd00::/56")
}

func fillIPAM(n *v1alpha1.NodeIPAMControllerConfiguration, c randfill.Continue) {
	*n = v1alpha1.NodeIPAMControllerConfiguration{
		ServiceCIDR: "10.96.0.0/12", SecondaryServiceCIDR: pick(c, "", "fd01::/112"),
		NodeCIDRMaskSizeIPv4: pick[int32](c, 0, 25, 26), NodeCIDRMaskSizeIPv6: pick[int32](c, 0, 65, 80),
	}
}

func fillAttachDetach(a *v1alpha1.AttachDetachControllerConfiguration, c randfill.Continue) {
	c.FillNoCustom(a)
	if a.DisableAttachDetachReconcilerSync {
		a.ReconcilerSyncLoopPeriod = seconds(60)
	}
}

// list makes up a list of controllers in the order in which FromHub writes it, of
// entries that have an effect.
func list(c *rand.Rand, cfg *v1alpha1.KubeControllerManagerConfiguration) []string {
	out := []string{}
	if c.Intn(2) == 0 {
		out = append(out, every)
	}
	for _, controller := range new(v1beta1.Controllers).All() {
		switch name := controller.Name; {
		case name == unknownUpstream, name == tokenController, c.Intn(3) > 0:
		case name == collector && !*cfg.GarbageCollectorController.EnableGarbageCollector:
		case name == collector:
			out = append(out, name)
		case slices.Contains(neverUpstream, name) || c.Intn(2) == 0:
			out = append(out, "-"+name)
		default:
			out = append(out, name)
		}
	}
	return out
}

func checkUpstreamRoundTrip(t *testing.T, fill *randfill.Filler) {
	in := &v1alpha1.KubeControllerManagerConfiguration{}
	fillers(fill).Fill(in)
	in.TypeMeta = NewDefault().TypeMeta
	in.Generic.Controllers = list(rand.New(rand.NewSource(int64(in.DeploymentController.ConcurrentDeploymentSyncs))), in)
	result, err := ToHub(in)
	if err != nil {
		t.Fatalf("converting %+v: %v", in, err)
	}
	out := FromHub(result.Config)
	forgetWithoutMeaning(in)
	if diff := cmp.Diff(in, out); diff != "" {
		t.Fatalf("after v1alpha1 to v1beta1 and back (-before +after):\n%s", diff)
	}
}

// forgetWithoutMeaning sets the fields that the table gives no meaning to upstream's
// defaults.
func forgetWithoutMeaning(cfg *v1alpha1.KubeControllerManagerConfiguration) {
	standard := NewDefault()
	for _, row := range Table() {
		if row.Upstream != "" && row.Field == "" {
			Lookup(cfg, row.Upstream).Set(Lookup(standard, row.Upstream))
		}
	}
}

// notCarried are the fields of which v1alpha1 knows nothing; docs/migrating.md lists them.
var notCarried = []string{
	`clientConnection\.server`, `leaderElection\.(identity|standby|spread|groups)`, `leaderMigration\.component`, `reload\..*`,
	`serving\.(bindAddress|port|permit.*|tls\..*|http2\..*|authentication\..*|authorization\..*)`, `metrics\..*`, `logging\..*`,
	`deletionBreaker\..*`, `(controllers\.[^.]*\.)?pausedNamespaces`, `controllers\.[^.]*\.paused`,
	`cloud\.provider`, `emulatedVersion`, `minCompatibilityVersion`, `featureGates\..*`,
	`controllers\.[^.]*\.resyncPeriod`, `controllers\.cloud-node-controller\..*`, `controllers\.cloud-node-lifecycle-controller\.nodeMonitorPeriod`,
	`controllers\.storage-version-migrator-controller\.migrationRate`,
	`controllers\.(cloud-node-lifecycle|service-lb|node-route|serviceaccount-token)-controller\.enabled`,
}

var isNotCarried = regexp.MustCompile("^(" + strings.Join(notCarried, "|") + ")$").MatchString

func fillHub(cfg *v1beta1.KubeControllerManagerConfiguration, c randfill.Continue) {
	c.FillNoCustom(cfg)
	cfg.Logging = v1beta1.NewDefault().Logging
	cfg.Networking.ClusterCIDRs = pick(c, nil, []string{"10.0.0.0/16"}, []string{"10.0.0.0/16", "fd00::/56"})
	cfg.Networking.ServiceCIDRs = pick(c, nil, []string{"10.96.0.0/12"}, []string{"10.96.0.0/12", "fd01::/112"})
	for _, controller := range cfg.Controllers.All() {
		if c.Intn(2) == 0 {
			controller.Settings.Enabled = nil
		}
	}
	if c.Bool() {
		cfg.ClientConnection.QPS, cfg.ClientConnection.Burst = ptr.To[float32](0), ptr.To[int32](0)
	}
	if c.Bool() {
		cfg.Controllers.PersistentVolumeAttachDetach.ReconcilerSyncPeriod = &metav1.Duration{}
	}
}

func checkHubRoundTrip(t *testing.T, fill *randfill.Filler) {
	cfg := &v1beta1.KubeControllerManagerConfiguration{}
	fillers(fill).Fill(cfg)
	cfg.TypeMeta = v1beta1.NewDefault().TypeMeta
	for _, field := range lost(t, cfg) {
		if !isNotCarried(field) || field == "controllers.namespace-controller.resyncPeriod" {
			t.Errorf("%s is lost on the way to v1alpha1 and back", field)
		}
	}
	there := FromHub(cfg)
	back, err := ToHub(there)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(there, FromHub(back.Config)); diff != "" {
		t.Errorf("the second time it is something else (-first +second):\n%s", diff)
	}
}

// Changing one field of v1alpha1 changes the fields of v1beta1 that the table says, and no
// other: the table is what the code does.
func TestTheTableSaysWhatTheConversionDoes(t *testing.T) {
	for _, row := range Table() {
		if row.Upstream == "" || row.Upstream == controllersPath || row.Upstream == migrationPath || row.Upstream == resourceLockPath || row.Upstream == allocatorPath {
			continue
		}
		t.Run(row.Upstream, func(t *testing.T) {
			before := base(t)
			after := base(t)
			change(t, Lookup(after, row.Upstream), row)
			a, errA := ToHub(before)
			b, errB := ToHub(after)
			if errA != nil || errB != nil {
				t.Fatal(errA, errB)
			}
			left, _ := toMap(a.Config)
			right, _ := toMap(b.Config)
			var changed []string
			differences(left, right, "", &changed)
			for _, field := range changed {
				if !slices.Contains(row.Fields(), field) {
					t.Errorf("it changes %s, and the table says %q", field, row.Field)
				}
				if from := b.Origins[field]; from != row.Upstream && from != "NodeIPAMController.ServiceCIDR" {
					t.Errorf("the origin of %s is %q", field, from)
				}
			}
			if row.Field != "" && len(changed) == 0 {
				t.Error("it changes nothing")
			}
			if row.Field == "" && len(b.Notes) != len(a.Notes)+1 {
				t.Errorf("it has no meaning, and the notes say nothing of it: %v", b.Notes)
			}
		})
	}
}

// base is a configuration in which every change has its effect.
func base(t *testing.T) *v1alpha1.KubeControllerManagerConfiguration {
	t.Helper()
	cfg := NewDefault()
	cfg.NodeIPAMController.ServiceCIDR = "10.96.0.0/12"
	return cfg
}

func change(t *testing.T, value reflect.Value, row Row) {
	t.Helper()
	value = reflect.Indirect(value)
	switch v := value.Addr().Interface().(type) {
	case *bool:
		*v = !*v
	case *string:
		*v = map[bool]string{true: "external", false: "10.1.0.0/16"}[strings.HasSuffix(row.Upstream, "CloudProvider.Name")]
	case *int32:
		*v += 2
	case *float32:
		*v += 2
	case *float64:
		*v += 2
	case *metav1.Duration:
		v.Duration += 7 * time.Second
	case *[]v1alpha1.GroupResource:
		*v = []v1alpha1.GroupResource{{Resource: "pods"}}
	default:
		t.Fatalf("no other value for %T", v)
	}
}
