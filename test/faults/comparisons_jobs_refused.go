package faults

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
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
