package fromflags

import (
	"errors"
	"io/fs"

	migration "k8s.io/controller-manager/pkg/leadermigration/config"

	generic "k8s.io/controller-manager/config/v1alpha1"
)

const migrationFlag = "leader-migration-config"

// readMigration reads the file of --leader-migration-config, as upstream does: only with
// --enable-leader-migration.
func (c *converter) readMigration() {
	name := c.options.migrationFile
	if name == "" {
		return
	}
	if !c.options.upstream.Generic.LeaderMigrationEnabled {
		c.note(migrationFlag, name+" is not read, as in upstream without --enable-leader-migration")
		return
	}
	content, err := migration.ReadLeaderMigrationConfiguration(name)
	var unread *fs.PathError
	if errors.As(err, &unread) {
		c.noteImportant(migrationFlag, name+" cannot be read, so the default of leaderMigration applies: "+
			"copy its leaderName and controllerLeaders there ("+err.Error()+")")
		return
	}
	if err != nil {
		c.fail(migrationFlag, "failed to parse leader migration configuration: %v", err)
		return
	}
	if problems := migration.ValidateLeaderMigrationConfiguration(content); len(problems) > 0 {
		c.fail(migrationFlag, "%v", problems.ToAggregate())
		return
	}
	out := generic.LeaderMigrationConfiguration{LeaderName: content.LeaderName, ResourceLock: content.ResourceLock}
	for _, leader := range content.ControllerLeaders {
		out.ControllerLeaders = append(out.ControllerLeaders,
			generic.ControllerLeaderConfiguration{Name: leader.Name, Component: leader.Component})
	}
	c.options.upstream.Generic.LeaderMigration = out
}
