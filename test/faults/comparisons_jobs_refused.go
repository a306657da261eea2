package faults

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
	schedulingv1alpha2 "k8s.io/api/scheduling/v1alpha2"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"kcmd.dev/test/manager"
)

// jobsRefused has the API server refuse the pods of Jobs, since a class of priority is missing, or a quota is used up.
func jobsRefused() Scenario {
	return Scenario{
		Name:        "jobs-refused",
		Bare:        true,
		Controllers: runJobs,
		Kinds:       []schema.GroupVersionResource{jobs, pods, corev1.SchemeGroupVersion.WithResource("resourcequotas")},
		Steps: []Step{
			{
				"create a quota that leaves room for two pods",
				[]Action{
					Create(`{apiVersion: v1, kind: ResourceQuota, metadata: {name: quota}, spec: {hard: {pods: "2"}}}`),
					PatchStatus("resourcequotas", "quota", `{"status":{"hard":{"pods":"2"},"used":{"pods":"0"}}}`),
					Rest(batched),
					aJob("no-class", "", "priorityClassName: none, "),
					aJob("no-class-indexed", indexedOf3, "priorityClassName: none, "),
				},
				[]Condition{counts("no-class", 0, 0, 0, 0, 0), counts("no-class-indexed", 0, 0, 0, 0, 0)},
			},
			{
				"use it up",
				[]Action{aJob("many", "parallelism: 5, completions: 5, ", "")},
				[]Condition{counts("many", 2, 0, 0, 0, 0)},
			},
			{
				"suspend and delete those without a class",
				[]Action{Rest(batched), Patch("jobs", "no-class", `{"spec":{"suspend":true}}`), Patch("jobs", "many", `{"spec":{"suspend":true}}`)},
				[]Condition{Has("jobs", "no-class", "{.status.conditions[*].reason}", "JobSuspended"), counts("many", 0, 0, 0, 0, 0)},
			},
		},
	}
}

// jobsInGroups has Jobs make Workloads and groups of their pods.
func jobsInGroups() Scenario {
	const gang = "completionMode: Indexed, completions: 2, parallelism: 2, "
	v := schedulingv1alpha2.SchemeGroupVersion
	long := strings.Repeat("long-", 11) + "er" // the name of the template of its group just fits
	longer := long + "er"
	return Scenario{
		Name:        "jobs-groups",
		Bare:        true,
		Controllers: runJobs,
		Configure: func(c *manager.Config) {
			c.FeatureGates = map[string]bool{"GenericWorkload": true, "WorkloadWithJob": true}
		},
		Kinds: []schema.GroupVersionResource{jobs, pods, v.WithResource("workloads"), v.WithResource("podgroups")},
		Steps: []Step{
			{
				"create",
				[]Action{
					aJob("gang", gang, ""), aJob("gang-3", indexedOf3, ""), aJob("alone", "completionMode: Indexed, completions: 1, parallelism: 1, ", ""),
					aJob("unequal", "completionMode: Indexed, completions: 3, parallelism: 2, ", ""), aJob("not-indexed", "completions: 2, parallelism: 2, ", ""),
					aJob("own-group", gang, "schedulingGroup: {podGroupName: mine}, "), aJob("suspended", "suspend: true, "+gang, ""),
					aJob(long, gang, ""), aJob(longer, gang, ""),
				},
				[]Condition{
					Count("podgroups", "", 4), Count("pods", "app=gang", 2), Count("pods", "app=gang-3", 3), Count("pods", "app=own-group", 2), Count("pods", "app=unequal", 2), Count("pods", "app="+long, 2),
					Has("jobs", "suspended", "{.status.conditions[*].reason}", "JobSuspended"),
				},
			},
			{
				"resume one, and have one fail",
				[]Action{Rest(batched), Patch("jobs", "suspended", `{"spec":{"suspend":false}}`), fails(podOf("gang", 0), 1), succeeds("app=gang-3")},
				[]Condition{Count("pods", "app=suspended", 2), counts("gang", 2, 0, 0, 0, 1), isComplete("gang-3", "CompletionsReached")},
			},
		},
	}
}
