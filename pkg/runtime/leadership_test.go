package runtime

import (
	"fmt"
	"strings"
	"testing"

	"k8s.io/utils/ptr"

	"kcmd.dev/pkg/config"
	"kcmd.dev/pkg/config/v1beta1"
	"kcmd.dev/pkg/controllers/kit/controller"
)

// A controller that changes its lock is restarted, and the plan says which field did it.
func TestThePlanShowsChangesOfTheLock(t *testing.T) {
	type cfg = v1beta1.KubeControllerManagerConfiguration
	grouped := func(name, lease string) func(*cfg) {
		return func(c *cfg) {
			c.LeaderElection.Groups = []v1beta1.LeaseGroup{{Name: name, ResourceName: lease, Controllers: []string{"deployment-controller"}}}
		}
	}
	migratedTo := func(component string) func(*cfg) { return func(c *cfg) { migrate(c, component) } }
	for _, c := range []struct {
		name     string
		old, new func(*cfg)
		action   config.Action
		cause    string
	}{
		{"nothing", nil, nil, config.Keep, ""},
		{"into a group", nil, grouped("apps", ""), config.Restart, "leaderElection.groups"},
		{"out of it", grouped("apps", ""), nil, config.Restart, "leaderElection.groups"},
		{"to another group", grouped("apps", ""), grouped("other", ""), config.Restart, "leaderElection.groups"},
		{"another lease for the group", grouped("apps", ""), grouped("apps", "x"), config.Restart, "leaderElection.groups"},
		{"its lease, spelled out", grouped("apps", ""), grouped("apps", "kube-controller-manager-apps"), config.Keep, ""},
		{"a group of others", nil, func(c *cfg) {
			c.LeaderElection.Groups = []v1beta1.LeaseGroup{{Name: "batch", Controllers: []string{"job-controller"}}}
		}, config.Keep, ""},
		{"migration is on", nil, migratedTo("*"), config.Restart, "leaderMigration.enabled"},
		{"to another component", migratedTo("*"), migratedTo("other"), config.Stop, "leaderMigration.controllerLeaders"},
		{"back to this one", migratedTo("other"), migratedTo("kube-controller-manager"), config.Start, "leaderMigration.controllerLeaders"},
		{"this is another component", migratedTo("kube-controller-manager"), func(c *cfg) {
			migrate(c, "kube-controller-manager")
			c.LeaderMigration.Component = "other"
		}, config.Stop, "leaderMigration.component"},
		{"the migration lease", migratedTo("*"), func(c *cfg) {
			migrate(c, "*")
			c.LeaderMigration.LeaderName = "another"
		}, config.Restart, "leaderMigration.leaderName"},
		{"another main lease", nil, func(c *cfg) { c.LeaderElection.ResourceName = "x" }, config.Restart, "leaderElection.resourceName"},
		{"no leader election", nil, func(c *cfg) { c.LeaderElection.LeaderElect = ptr.To(false) }, config.Restart, "leaderElection.leaderElect"},
		{"spread and standby", nil, func(c *cfg) {
			c.LeaderElection.Spread, c.LeaderElection.Standby = v1beta1.SpreadSticky, v1beta1.StandbyCold
		}, config.Keep, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			old, new := v1beta1.NewDefault(), v1beta1.NewDefault()
			for config, change := range map[*cfg]func(*cfg){old: c.old, new: c.new} {
				if change != nil {
					change(config)
				}
			}
			plan := config.NewPlan(old, new, Subjects([]controller.Descriptor{describe(controller.Descriptor{})}))
			if len(plan.Controllers) != 1 {
				t.Fatalf("got %+v", plan.Controllers)
			}
			causes := map[string]bool{}
			for _, change := range plan.Controllers[0].Causes {
				causes[change.Path] = true
			}
			if got := plan.Controllers[0].Action; got != c.action || causes[c.cause] != (c.cause != "") {
				t.Errorf("got %s because of %v, want %s because of %q", got, causes, c.action, c.cause)
			}
		})
	}
}

// What restarts in the plan is what gets a new lock, and what is kept keeps it.
func TestLocksAreReplacedWhenTheirKeyChanges(t *testing.T) {
	key := func(change func(*v1beta1.KubeControllerManagerConfiguration)) string {
		cfg := v1beta1.NewDefault()
		cfg.LeaderElection.Groups = []v1beta1.LeaseGroup{{Name: "apps", Controllers: []string{"deployment-controller"}}}
		if change != nil {
			change(cfg)
		}
		var keys []lockKey
		for _, l := range config.Locks(cfg) {
			keys = append(keys, keyOf(1, cfg, l))
		}
		return fmt.Sprint(keys)
	}
	same := key(nil)
	for name, c := range map[string]struct {
		change   func(*v1beta1.KubeControllerManagerConfiguration)
		replaced bool
	}{
		"timings": {func(c *v1beta1.KubeControllerManagerConfiguration) { c.LeaderElection.LeaseDuration.Duration *= 2 }, false},
		"members": {func(c *v1beta1.KubeControllerManagerConfiguration) {
			c.LeaderElection.Groups[0].Controllers[0] = "job-controller"
		}, false},
		"identity":  {func(c *v1beta1.KubeControllerManagerConfiguration) { c.LeaderElection.Identity = "x" }, true},
		"name":      {func(c *v1beta1.KubeControllerManagerConfiguration) { c.LeaderElection.ResourceName = "x" }, true},
		"namespace": {func(c *v1beta1.KubeControllerManagerConfiguration) { c.LeaderElection.ResourceNamespace = "x" }, true},
		"lease":     {func(c *v1beta1.KubeControllerManagerConfiguration) { c.LeaderElection.Groups[0].ResourceName = "x" }, true},
		"elect":     {func(c *v1beta1.KubeControllerManagerConfiguration) { c.LeaderElection.LeaderElect = ptr.To(false) }, true},
	} {
		if got := key(c.change) != same; got != c.replaced {
			t.Errorf("%s: replaced %v, want %v", name, got, c.replaced)
		}
	}
}

// Processes that share a file, or a host, have different identities. One process keeps its own
// for as long as it lives.
func TestIdentitiesAreUnique(t *testing.T) {
	one, err := newSelf()
	if err != nil {
		t.Fatal(err)
	}
	other, err := newSelf()
	if err != nil {
		t.Fatal(err)
	}
	for name, prefix := range map[string]string{"": one.host + "_", "configured": "configured_"} {
		got := one.called(name)
		if !strings.HasPrefix(got, prefix) || got == prefix {
			t.Errorf("%q is called %q", name, got)
		}
		if got == other.called(name) || got != one.called(name) {
			t.Errorf("%q: %q, then %q, and %q in another process", name, got, one.called(name), other.called(name))
		}
	}
}
