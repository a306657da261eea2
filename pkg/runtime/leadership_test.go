package runtime

import (
	"testing"

	"k8s.io/utils/ptr"

	"kcmd.dev/pkg/config/plan"
	"kcmd.dev/pkg/config/v1beta1"
	"kcmd.dev/pkg/controller"
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
		action   plan.Action
		cause    string
	}{
		{"nothing", nil, nil, plan.Keep, ""},
		{"into a group", nil, grouped("apps", ""), plan.Restart, "leaderElection.groups"},
		{"out of it", grouped("apps", ""), nil, plan.Restart, "leaderElection.groups"},
		{"to another group", grouped("apps", ""), grouped("other", ""), plan.Restart, "leaderElection.groups"},
		{"another lease for the group", grouped("apps", ""), grouped("apps", "x"), plan.Restart, "leaderElection.groups"},
		{"its lease, spelled out", grouped("apps", ""), grouped("apps", "kube-controller-manager-apps"), plan.Keep, ""},
		{"a group of others", nil, func(c *cfg) {
			c.LeaderElection.Groups = []v1beta1.LeaseGroup{{Name: "batch", Controllers: []string{"job-controller"}}}
		}, plan.Keep, ""},
		{"migration is on", nil, migratedTo("*"), plan.Restart, "leaderMigration.enabled"},
		{"to another component", migratedTo("*"), migratedTo("other"), plan.Stop, "leaderMigration.controllerLeaders"},
		{"back to this one", migratedTo("other"), migratedTo("kube-controller-manager"), plan.Start, "leaderMigration.controllerLeaders"},
		{"this is another component", migratedTo("kube-controller-manager"), func(c *cfg) {
			migrate(c, "kube-controller-manager")
			c.LeaderMigration.Component = "other"
		}, plan.Stop, "leaderMigration.component"},
		{"the migration lease", migratedTo("*"), func(c *cfg) {
			migrate(c, "*")
			c.LeaderMigration.LeaderName = "another"
		}, plan.Restart, "leaderMigration.leaderName"},
		{"another main lease", nil, func(c *cfg) { c.LeaderElection.ResourceName = "x" }, plan.Restart, "leaderElection.resourceName"},
		{"no leader election", nil, func(c *cfg) { c.LeaderElection.LeaderElect = ptr.To(false) }, plan.Restart, "leaderElection.leaderElect"},
		{"spread and standby", nil, func(c *cfg) {
			c.LeaderElection.Spread, c.LeaderElection.Standby = v1beta1.SpreadSticky, v1beta1.StandbyCold
		}, plan.Keep, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			old, new := v1beta1.NewDefault(), v1beta1.NewDefault()
			for config, change := range map[*cfg]func(*cfg){old: c.old, new: c.new} {
				if change != nil {
					change(config)
				}
			}
			plan := plan.New(old, new, Subjects([]controller.Descriptor{describe(controller.Descriptor{})}))
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
