package benchmark

import (
	"context"

	"kcmd.dev/test/controlplane"
)

// Scenario is what happens on one control plane.
type Scenario struct {
	Name string
	// About says what it does at full size.
	About string
	// limits says that the result depends on client-side limits: the scenario is run in
	// every mode. The others run in the first of the chosen modes only.
	limits bool
	// oursOnly says that there is nothing to compare: it is not run with upstream.
	oursOnly bool
	// plane is the control plane it needs.
	plane controlplane.Options
	run   func(context.Context, *stage) error
}

// nodes is the number of simulated nodes where pods are to run.
const nodes = 20

// Scenarios are all scenarios.
func Scenarios() []Scenario {
	// Pods run: they are scheduled, and kwok makes them ready.
	live := controlplane.Options{Nodes: nodes, Scheduler: true}
	// Objects are stored only, and before a manager runs.
	stored := controlplane.Options{NoServiceAccountAdmission: true}
	return []Scenario{
		{Name: "deployments", About: "20 Deployments of 100 pods: created, rolled out, scaled in, deleted with their namespace", limits: true, plane: live, run: runDeployments},
		{Name: "services", About: "200 Services of 50 pods: created, and all their pods replaced", limits: true, plane: live, run: runServices},
		{Name: "cronjobs", About: "500 CronJobs due in the same minute", limits: true, plane: live, run: runCronJobs},
		{Name: "ttl", About: "5,000 finished Jobs whose time to live ends at the same moment", limits: true, plane: stored, run: runTTL},
		{Name: "garbage", About: "20 owners deleted, 2,000 dependents collected", limits: true, plane: stored, run: runGarbage},
		{Name: "steady", About: "2,000 pods and nothing to do", plane: live, run: runSteady},
		{Name: "ballast", About: "2,000 ConfigMaps of 64 KiB and 2,000 Secrets of 16 KiB that no controller needs", plane: stored, run: runBallast},
		{Name: "growth", About: "start with no pods, 1,000, 5,000 and 10,000", plane: stored, run: runGrowth},
		{Name: "growth-large", About: "start with 50,000 pods that run on 500 nodes", plane: stored, run: runGrowthLarge},
		{Name: "slopes", About: "start with 1,000 nodes, and then 5,000 pods, 5,000 Jobs, 2,000 Services and 10,000 ConfigMaps more", plane: stored, run: runSlopes},
		{Name: "controllers", About: "no controller, half of them and all of kcmd, and nothing to do", oursOnly: true, plane: stored, run: runControllers},
		{Name: "change", About: "one setting changed, with 2,000 pods cached", limits: true, plane: stored, run: runChange},
		{Name: "nodes", About: "1,000 nodes of 10 pods renewing leases; one falls silent; 300 do", plane: stored, run: runNodes},
		{Name: "quotas", About: "500 quotas of 20 resources: 10,000 pods created, and all of them replaced", plane: stored, run: runQuotas},
		{Name: "storage", About: "1,000 claims provisioned and bound; 2,000 volumes attached to 100 nodes and detached; 10,000 claims and nothing to do", plane: stored, run: runStorage},
		{Name: "failover", About: "a standby takes over, with 2,000 pods cached", plane: stored, run: runFailover},
	}
}
