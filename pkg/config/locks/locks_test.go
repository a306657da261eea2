package locks

import (
	"reflect"
	"testing"

	"k8s.io/utils/ptr"

	"kcmd.dev/pkg/config/v1beta1"
)

func locksConfig(change func(*v1beta1.KubeControllerManagerConfiguration)) *v1beta1.KubeControllerManagerConfiguration {
	cfg := v1beta1.NewDefault()
	if change != nil {
		change(cfg)
	}
	return cfg
}

// migrating has leader migration on, with two groups besides.
func migrating(cfg *v1beta1.KubeControllerManagerConfiguration) {
	cfg.LeaderElection.Groups = []v1beta1.LeaseGroup{
		{Name: "batch", Controllers: []string{"job-controller", "cronjob-controller"}},
		{Name: "apps", ResourceName: "the-apps", Controllers: []string{"deployment-controller"}},
	}
	cfg.LeaderMigration.Enabled = ptr.To(true)
	cfg.LeaderMigration.ControllerLeaders = []v1beta1.ControllerLeader{
		{Name: "namespace-controller", Component: "kube-controller-manager"},
		{Name: "endpoints-controller", Component: "*"},
		{Name: "replicaset-controller", Component: "cloud-controller-manager"},
		{Name: "serviceaccount-token-controller", Component: "cloud-controller-manager"},
	}
}

// migratingGated migrates one controller, which is enabled and needs a feature gate.
func migratingGated(cfg *v1beta1.KubeControllerManagerConfiguration, gate bool) {
	cfg.LeaderMigration.Enabled = ptr.To(true)
	cfg.LeaderMigration.ControllerLeaders = []v1beta1.ControllerLeader{{Name: "podgroup-protection-controller", Component: "*"}}
	cfg.Controllers.PodGroupProtection.Enabled = ptr.To(true)
	cfg.FeatureGates = map[string]bool{"GenericWorkload": gate}
}

// Pins MGR-89.
func TestOf(t *testing.T) {
	alone := func(cfg *v1beta1.KubeControllerManagerConfiguration) {
		migrating(cfg)
		cfg.LeaderElection.LeaderElect = ptr.To(false)
	}
	off := func(cfg *v1beta1.KubeControllerManagerConfiguration) {
		migrating(cfg)
		cfg.LeaderMigration.Enabled = ptr.To(false)
	}
	cloud := func(cfg *v1beta1.KubeControllerManagerConfiguration) {
		migrating(cfg)
		cfg.LeaderMigration.Component = "cloud-controller-manager"
	}
	for _, c := range []struct {
		name       string
		change     func(*v1beta1.KubeControllerManagerConfiguration)
		controller string
		lock       string
		ok         bool
	}{
		{"by default", nil, "job-controller", Main, true},
		{"in no group", migrating, "daemonset-controller", Main, true},
		{"in a group", migrating, "cronjob-controller", "group/batch", true},
		{"in another group", migrating, "deployment-controller", "group/apps", true},
		{"migrated to this component", migrating, "namespace-controller", Migration, true},
		{"migrated to any component", migrating, "endpoints-controller", Migration, true},
		{"migrated to another component", migrating, "replicaset-controller", "", false},
		{"never migrated", migrating, "serviceaccount-token-controller", Main, true},
		{"migrated, from the other side", cloud, "replicaset-controller", Migration, true},
		{"migrated away, from the other side", cloud, "namespace-controller", "", false},
		{"migration is off", off, "replicaset-controller", Main, true},
		{"no leader election, in a group", alone, "job-controller", Main, true},
		{"no leader election, migrated", alone, "replicaset-controller", Main, true},
		{"an entry by a former name", func(cfg *v1beta1.KubeControllerManagerConfiguration) {
			cfg.LeaderMigration.Enabled = ptr.To(true)
			cfg.LeaderMigration.ControllerLeaders = []v1beta1.ControllerLeader{{Name: "job", Component: "other"}}
		}, "job-controller", Main, true},
	} {
		lock, ok := Of(locksConfig(c.change), c.controller)
		if lock != c.lock || ok != c.ok {
			t.Errorf("%s: got %q, %v, want %q, %v", c.name, lock, ok, c.lock, c.ok)
		}
	}
}

// lockShape is a lock without its controllers.
type lockShape struct{ name, namespace, lease string }

func TestLocks(t *testing.T) {
	main := lockShape{Main, "kube-system", "kube-controller-manager"}
	migration := lockShape{Migration, "kube-system", "cloud-provider-extraction-migration"}
	batch := lockShape{"group/batch", "kube-system", "kube-controller-manager-batch"}
	apps := lockShape{"group/apps", "kube-system", "the-apps"}
	for _, c := range []struct {
		name   string
		change func(*v1beta1.KubeControllerManagerConfiguration)
		want   []lockShape
	}{
		{"by default", nil, []lockShape{main}},
		{"all kinds", migrating, []lockShape{main, migration, batch, apps}},
		{"no leader election", func(cfg *v1beta1.KubeControllerManagerConfiguration) {
			migrating(cfg)
			cfg.LeaderElection.LeaderElect = ptr.To(false)
		}, []lockShape{main}},
		{"nothing migrated runs here", func(cfg *v1beta1.KubeControllerManagerConfiguration) {
			migrating(cfg)
			cfg.LeaderMigration.ControllerLeaders = cfg.LeaderMigration.ControllerLeaders[2:]
		}, []lockShape{main, batch, apps}},
		{"nothing migrated is enabled", func(cfg *v1beta1.KubeControllerManagerConfiguration) {
			migrating(cfg)
			cfg.Controllers.Namespace.Enabled, cfg.Controllers.Endpoints.Enabled = ptr.To(false), ptr.To(false)
		}, []lockShape{main, batch, apps}},
		{"MGR-250: what is migrated needs a feature gate that is off", func(cfg *v1beta1.KubeControllerManagerConfiguration) {
			migratingGated(cfg, false)
		}, []lockShape{main}},
		{"MGR-250: what is migrated needs a feature gate that is on", func(cfg *v1beta1.KubeControllerManagerConfiguration) {
			migratingGated(cfg, true)
		}, []lockShape{main, migration}},
		{"other names", func(cfg *v1beta1.KubeControllerManagerConfiguration) {
			migrating(cfg)
			cfg.LeaderElection.ResourceNamespace, cfg.LeaderElection.ResourceName, cfg.LeaderMigration.LeaderName = "ha", "kcm", "move"
		}, []lockShape{{Main, "ha", "kcm"}, {Migration, "ha", "move"}, {"group/batch", "ha", "kcm-batch"}, {"group/apps", "ha", "the-apps"}}},
	} {
		var got []lockShape
		for _, l := range All(locksConfig(c.change)) {
			got = append(got, lockShape{l.Name, l.LeaseNamespace, l.LeaseName})
		}
		if !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: got %v, want %v", c.name, got, c.want)
		}
	}
}

// Every controller is under exactly the lock that Of says.
func TestLocksHaveTheControllersOfLockOf(t *testing.T) {
	cfg := locksConfig(migrating)
	under := map[string]string{}
	for _, l := range All(cfg) {
		for _, c := range l.Controllers {
			if under[c] != "" {
				t.Errorf("%s is under %s and %s", c, under[c], l.Name)
			}
			under[c] = l.Name
		}
	}
	for _, c := range cfg.Controllers.All() {
		if want, _ := Of(cfg, c.Name); under[c.Name] != want {
			t.Errorf("%s is under %q, want %q", c.Name, under[c.Name], want)
		}
	}
}
