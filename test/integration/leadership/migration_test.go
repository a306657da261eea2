package leadership

import (
	"testing"
	"time"

	"k8s.io/utils/ptr"

	"kcmd.dev/pkg/config/v1beta1"
	"kcmd.dev/pkg/runtime"
	"kcmd.dev/test/await"
	"kcmd.dev/test/integration/harness"
	"kcmd.dev/test/manager"
	"kcmd.dev/test/must"
)

const (
	ours  = "kube-controller-manager"
	cloud = "cloud-controller-manager"
)

// leaders says which component runs two controllers that both components have.
func leaders(jobsIn, cronJobsIn string) func(*manager.Config) {
	return func(c *manager.Config) {
		c.LeaderMigration.Enabled = ptr.To(true)
		c.LeaderMigration.ControllerLeaders = []v1beta1.ControllerLeader{
			{Name: jobs, Component: jobsIn},
			{Name: cronJobs, Component: cronJobsIn},
		}
	}
}

// cloudOnly is the configuration of the other component: it has the two controllers only.
func cloudOnly(c *manager.Config) {
	c.LeaderElection.ResourceName = cloud
	c.LeaderMigration.Component = cloud
	c.ControllerDefaults.Enabled = ptr.To(false)
	c.Controllers.Job.Enabled, c.Controllers.CronJob.Enabled = ptr.To(true), ptr.To(true)
}

// Controllers move from one component to the other and back, live, while both run; whichever
// reads its file first. Those that do not move do not notice.
// Pins MGR-89 and MGR-174.
func TestControllersMigrateBetweenComponents(t *testing.T) {
	l := newLedger(t)
	a := l.begin("a", leaders(ours, ours))
	l.waitAll()
	waitLocks(t, a, "main", "migration")
	b := l.begin("b", func(c *manager.Config) {
		cloudOnly(c)
		leaders(ours, ours)(c)
	})
	waitLocks(t, b, "main")
	unmoved := generations(status(t, a))[deployments]

	for n, to := range []string{cloud, ours, cloud, ours} {
		first, second := a, b
		if n >= 2 {
			first, second = b, a
		}
		harness.Edit(t, first, leaders(to, to))
		await.Elapse(t, 300*time.Millisecond)
		harness.Edit(t, second, leaders(to, to))
		owner := map[string]string{ours: "a", cloud: "b"}[to]
		l.waitOwner(jobs, owner)
		l.waitOwner(cronJobs, owner)
		t.Logf("to %s: a gap of %v", to, l.gap(jobs))
	}
	// Any component: whoever holds the lease. It goes on when that one ends.
	harness.Edit(t, a, leaders("*", "*"))
	harness.Edit(t, b, leaders("*", "*"))
	l.waitOwner(jobs, "a")
	if got := generations(status(t, a))[deployments]; got != unmoved {
		t.Errorf("a controller that does not move went from instance %d to %d", unmoved, got)
	}
	must.Succeed(t, a.Stop())
	l.waitOwner(jobs, "b")
	l.waitOwner(cronJobs, "b")
}

// Migration is switched on and off live. While only one of the components has read that,
// both mean to run the controllers, under leases of their own: one of them does.
func TestMigrationIsSwitchedLive(t *testing.T) {
	l := newLedger(t)
	a := l.begin("a", nil)
	l.waitAll()
	b := l.begin("b", cloudOnly)
	harness.Wait(t, b, "it waits for the other component", func(s *runtime.Status) error {
		if len(leaseOf(s, "main").Blocked) != 2 {
			return errNotYet
		}
		return nil
	})
	harness.Edit(t, b, leaders(cloud, cloud))
	waitLocks(t, b, "main", "migration")
	harness.Edit(t, a, leaders(cloud, cloud))
	l.waitOwner(jobs, "b")
	l.waitOwner(cronJobs, "b")
	waitLocks(t, a, "main") // not the migration lock: nothing of a runs under it
	for _, m := range []*manager.Manager{a, b} {
		harness.Edit(t, m, func(c *manager.Config) { c.LeaderMigration.Enabled = ptr.To(false) })
	}
	must.Succeed(t, b.Stop())
	l.waitOwner(jobs, "a")
	l.waitAll()
}
