package faults

import (
	"fmt"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"kcmd.dev/test/manager"
)

func deploymentComparisons() []Scenario {
	return []Scenario{deploymentsRolling(), deploymentsStuck(), deploymentsAnnotated(), deploymentsDenied(), workloadsDeleted()}
}

func ofDeployments(c *manager.Config) []**bool {
	return []**bool{&c.Controllers.Deployment.Enabled, &c.Controllers.ReplicaSet.Enabled}
}

// complete is that so many pods of a Deployment are there and available, all of the newest template.
func complete(n int, names ...string) []Condition {
	var all []Condition
	number := fmt.Sprint(n)
	if n == 0 {
		number = ""
	}
	for _, name := range names {
		all = append(all,
			Has("deployments", name, "{.status.replicas}", number, "{.status.updatedReplicas}", number, "{.status.availableReplicas}", number,
				"{.status.conditions[?(@.type=='Available')].status}", "True"),
			Count("pods", "app="+name, n))
	}
	return all
}

// deploymentsRolling rolls out with every strategy. The sizes are such that each step of a rollout is the only one
// possible.
func deploymentsRolling() Scenario {
	rolling := func(surge, unavailable string) string {
		return fmt.Sprintf("strategy: {rollingUpdate: {maxSurge: %s, maxUnavailable: %s}}", surge, unavailable)
	}
	one, two := []string{"tiny", "plain", "slow", "endless"}, []string{"plus", "minus", "half", "twice", "recreate", "forgetful", "short"}
	everyone := func(more ...Condition) []Condition {
		all := append(complete(1, one...), complete(2, two...)...)
		return append(append(all, complete(3, "all")...), append(complete(0, "zero"), more...)...)
	}
	return Scenario{
		Name:        "deployments-rolling",
		Controllers: ofDeployments,
		Kinds:       []schema.GroupVersionResource{deployments, replicaSets, pods},
		Steps: []Step{
			{
				"create",
				[]Action{createAll("Deployment",
					workload{name: "plus", spec: "replicas: 2, " + rolling("1", "0")},
					workload{name: "minus", spec: "replicas: 2, " + rolling("0", "1")},
					workload{name: "half", spec: "replicas: 2, " + rolling("50%", "50%")},
					workload{name: "twice", spec: "replicas: 2, " + rolling("200%", "100%")},
					workload{name: "tiny", spec: "replicas: 1, " + rolling("0%", "1%")},
					workload{name: "plain"},
					workload{name: "all", spec: "replicas: 3, " + rolling("0", "100%")},
					workload{name: "recreate", spec: "replicas: 2, strategy: {type: Recreate}"},
					workload{name: "zero", spec: "replicas: 0"},
					workload{name: "slow", spec: "minReadySeconds: 2"},
					workload{name: "endless", spec: "progressDeadlineSeconds: 2147483647"},
					workload{name: "forgetful", spec: "replicas: 2, revisionHistoryLimit: 0, " + rolling("1", "0")},
					workload{name: "short", spec: "replicas: 2, revisionHistoryLimit: 1, " + rolling("1", "0")},
					workload{name: "paused", spec: "replicas: 2, paused: true, " + rolling("1", "0")},
				)},
				everyone(Has("deployments", "paused", "{.status.conditions[?(@.type=='Progressing')].reason}", "DeploymentPaused")),
			},
			{"roll out", []Action{PatchEach("deployments", bySide, newImage)}, everyone()},
			{
				"roll out something else, and resume",
				[]Action{
					PatchEach("deployments", bySide, `{"spec":{"template":{"metadata":{"annotations":{"a":"b"}}}}}`),
					Patch("deployments", "paused", `{"spec":{"paused":false}}`),
				},
				everyone(complete(2, "paused")...),
			},
			{
				"scale, and pause",
				[]Action{
					PatchEach("deployments", bySide, `{"spec":{"replicas":3}}`),
					Patch("deployments", "paused", `{"spec":{"paused":true,"replicas":1}}`),
				},
				append(complete(3, append(append([]string{"zero"}, one...), two...)...), complete(1, "paused")...),
			},
		},
	}
}
