package conversion

import (
	"slices"

	generic "k8s.io/controller-manager/config/v1alpha1"

	"kcmd.dev/pkg/config/registry"
	"kcmd.dev/pkg/config/v1beta1"
)

const (
	migrationPath = "Generic.LeaderMigration"
	leasesLock    = "leases"
)

// migrationNames are the names that upstream's default migration has for controllers. Files also
// have former names.
var migrationNames = map[string]string{
	"route-controller":   "node-route-controller",
	"service-controller": "service-lb-controller",
}

// migrationToHub converts a migration that is described. None is described by an empty
// one, as /configz shows it while migration is off: then v1beta1's default remains.
func (c *converter) migrationToHub() {
	in := c.in.Generic.LeaderMigration
	if in.LeaderName == "" && in.ResourceLock == "" && len(in.ControllerLeaders) == 0 {
		return
	}
	if in.ResourceLock != leasesLock && in.ResourceLock != "" {
		c.errs.addf(migrationPath+".resourceLock",
			"must be leases, not %q: upstream accepts endpoints too, but fails to create such a lock", in.ResourceLock)
	}
	if in.LeaderName == "" {
		c.errs.addf(migrationPath+".leaderName", "must not be empty: upstream rejects it too")
	}
	c.out.LeaderMigration.LeaderName = in.LeaderName
	c.origin("leaderMigration.leaderName", migrationPath+".leaderName")
	leaders := []v1beta1.ControllerLeader{}
	for _, leader := range in.ControllerLeaders {
		name := leader.Name
		if canonical, ok := migrationNames[name]; ok {
			name = canonical
		}
		name, _ = registry.Canonical(name)
		leaders = append(leaders, v1beta1.ControllerLeader{Name: name, Component: leader.Component})
	}
	c.out.LeaderMigration.ControllerLeaders = leaders
	c.origin("leaderMigration.controllerLeaders", migrationPath+".controllerLeaders")
}

func (c *exporter) migrationFromHub() {
	in, standard := c.in.LeaderMigration, v1beta1.NewDefault().LeaderMigration
	isStandard := in.LeaderName == standard.LeaderName &&
		slices.Equal(in.ControllerLeaders, standard.ControllerLeaders)
	if !*in.Enabled && isStandard {
		return
	}
	out := generic.LeaderMigrationConfiguration{LeaderName: in.LeaderName, ResourceLock: leasesLock}
	for _, leader := range in.ControllerLeaders {
		out.ControllerLeaders = append(out.ControllerLeaders,
			generic.ControllerLeaderConfiguration{Name: leader.Name, Component: leader.Component})
	}
	c.out.Generic.LeaderMigration = out
}
