package faults

import (
	"fmt"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"

	"kcmd.dev/test/manager"
)

// jobsExpired has Jobs end that are deleted some time later, with their pods.
func jobsExpired() Scenario {
	const ttl = "ttlSecondsAfterFinished: %d, "
	at := func(n int, more string) string { return fmt.Sprintf(ttl, n) + more }
	return Scenario{
		Name: "jobs-expired",
		Bare: true,
		Controllers: func(c *manager.Config) []**bool {
			return []**bool{&c.Controllers.Job.Enabled, &c.Controllers.TTLAfterFinished.Enabled, &c.Controllers.GarbageCollector.Enabled}
		},
		Kinds: jobsAndPods,
		Steps: []Step{
			{
				"create",
				[]Action{
					aJob("now", at(0, ""), ""), aJob("soon", at(1, ""), ""), aJob("failed", at(1, "backoffLimit: 0, "), ""), aJob("late", at(2000000000, ""), ""), aJob("never", "", ""),
					aJob("suspended", at(0, "suspend: true, "), ""), aJob("running", at(0, ""), ""), aJob("waits", at(0, "parallelism: 2, completions: 1, "), ""), aJob("empty", at(0, "completions: 0, "), ""),
					aJob("managed", at(0, "managedBy: example.com/other, "), ""), aJob("shortened", at(2000000000, ""), ""), aJob("given", "", ""), aJob("kept", at(0, ""), ""),
				},
				[]Condition{Count("pods", "", 10), Gone("jobs", "empty"), Has("jobs", "suspended", "{.status.conditions[*].reason}", "JobSuspended")},
			},
			{
				"end",
				[]Action{
					Rest(batched), PatchEach("pods", "app=kept", `{"metadata":{"finalizers":["example.com/kept","batch.kubernetes.io/job-tracking"]}}`),
					succeeds("app=now"), succeeds("app=soon"), fails("app=failed", 1), succeeds("app=late"), succeeds("app=never"), succeeds("app=waits"), succeeds("app=kept"),
					succeeds("app=shortened"), succeeds("app=given"), PatchStatus("jobs", "managed", completed),
				},
				[]Condition{
					Gone("jobs", "now"), Gone("jobs", "soon"), Gone("jobs", "failed"), Gone("jobs", "waits"), Gone("jobs", "managed"), isComplete("late", "CompletionsReached"), isComplete("never", "CompletionsReached"),
					Has("jobs", "kept", "{.metadata.finalizers[0]}", "foregroundDeletion"), isComplete("shortened", "CompletionsReached"), isComplete("given", "CompletionsReached"),
				},
			},
			{
				"shorten a time, give one, and take one",
				[]Action{
					Patch("jobs", "shortened", `{"spec":{"ttlSecondsAfterFinished":1}}`), Patch("jobs", "given", `{"spec":{"ttlSecondsAfterFinished":0}}`), Patch("jobs", "late", `{"spec":{"ttlSecondsAfterFinished":null}}`),
					Patch("jobs", "running", `{"spec":{"ttlSecondsAfterFinished":null}}`), succeeds("app=running"),
				},
				[]Condition{Gone("jobs", "shortened"), Gone("jobs", "given"), isComplete("running", "CompletionsReached")},
			},
		},
	}
}

// gcPod creates a pod. More are further fields of its metadata and of its spec, with a comma at the end of each.
func gcPod(name, metadata, spec string) Action {
	return Create(fmt.Sprintf(`{apiVersion: v1, kind: Pod, metadata: {name: %s, %s labels: {app: web}}, spec: {%s containers: [{name: web, image: "web:1"}]}}`, name, metadata, spec))
}

// kept are fields of the metadata of a pod whose end can be seen.
const kept = "finalizers: [example.com/kept], "

// podsCollected has too many pods end, and nodes be out of service.
func podsCollected() Scenario {
	outOfService := func(name, taint, ready string) []Action {
		return []Action{
			Create(fmt.Sprintf("{apiVersion: v1, kind: Node, metadata: {name: %s}, spec: {taints: [%s]}}", name, taint)),
			PatchStatus("nodes", name, fmt.Sprintf(`{"status":{"conditions":[{"type":"Ready","status":%q}]}}`, ready)),
		}
	}
	var before []Action
	before = append(before, outOfService("out", "{key: node.kubernetes.io/out-of-service, value: nodeshutdown, effect: NoExecute}", "Unknown")...)
	before = append(before, outOfService("out-ready", "{key: node.kubernetes.io/out-of-service, effect: NoSchedule}", "True")...)
	before = append(before, outOfService("in", "", "False")...)
	before = append(before,
		gcPod("end-1", "", "nodeName: in, "), SetPhase("end-1", "Succeeded"), gcPod("end-2", "", "nodeName: in, "), SetPhase("end-2", "Failed"),
		gcPod("end-3", kept, "nodeName: in, "), SetPhase("end-3", "Succeeded"), gcPod("evicted", "", "nodeName: in, "), PatchStatus("pods", "evicted", `{"status":{"phase":"Failed","reason":"Evicted"}}`),
		gcPod("unknown", "", "nodeName: in, "), SetPhase("unknown", "Unknown"), gcPod("runs", "", "nodeName: out, "), running("runs"),
		gcPod("out-runs", kept, "nodeName: out, "), running("out-runs"), deletes("pods", "out-runs"), gcPod("out-waits", "", "nodeName: out, "), deletes("pods", "out-waits"),
		gcPod("ready-runs", "", "nodeName: out-ready, "), running("ready-runs"), deletes("pods", "ready-runs"), gcPod("in-runs", "", "nodeName: in, "), running("in-runs"), deletes("pods", "in-runs"),
		gcPod("unscheduled", kept, ""), deletes("pods", "unscheduled"), gcPod("waiting", "", ""),
	)
	return Scenario{
		Name:        "pods-collected",
		Bare:        true,
		Controllers: func(c *manager.Config) []**bool { return []**bool{&c.Controllers.PodGarbageCollector.Enabled} },
		Configure: func(c *manager.Config) {
			c.Controllers.PodGarbageCollector.TerminatedPodThreshold = ptr.To[int32](3)
		},
		Flags:  []string{"--terminated-pod-gc-threshold=3"},
		Kinds:  []schema.GroupVersionResource{nodes, pods},
		Before: before,
		Steps: []Step{
			{"wait for two passes", nil, []Condition{ // the first one has more pods end
				Gone("pods", "evicted"), Gone("pods", "out-waits"), Has("pods", "out-runs", "{.status.phase}", "Failed"), Has("pods", "unscheduled", "{.status.phase}", "Failed"),
				Gone("pods", "end-1"), Gone("pods", "end-2"),
			}},
			{
				"end more", []Action{gcPod("end-4", "", "nodeName: in, "), SetPhase("end-4", "Failed"), gcPod("end-5", "", "nodeName: in, "), SetPhase("end-5", "Failed")},
				[]Condition{Has("pods", "end-3", "{.metadata.deletionGracePeriodSeconds}", "0")},
			},
		},
	}
}

// podsOfLostNodes has pods on a node that does not exist.
func podsOfLostNodes() Scenario {
	return Scenario{
		Name:        "pods-lost",
		Bare:        true,
		Controllers: func(c *manager.Config) []**bool { return []**bool{&c.Controllers.PodGarbageCollector.Enabled} },
		Kinds:       []schema.GroupVersionResource{nodes, pods},
		Before: []Action{
			gcPod("runs", kept, "nodeName: lost, "), running("runs"), gcPod("waits", kept, "nodeName: lost, "), gcPod("ended", kept, "nodeName: lost, "), SetPhase("ended", "Succeeded"),
			gcPod("leaves", kept, "nodeName: lost, "), deletes("pods", "leaves"),
			gcPod("disrupted", kept, "nodeName: lost, "), PatchStatus("pods", "disrupted", `{"status":{"phase":"Running","conditions":[{"type":"DisruptionTarget","status":"True","reason":"Other","message":"other","lastTransitionTime":"2026-01-01T00:00:00Z"}]}}`),
			gcPod("gone", "", "nodeName: lost, "), Node("there"), gcPod("stays", "", "nodeName: there, "),
		},
		Steps: []Step{{
			"wait for passes", nil,
			[]Condition{
				Gone("pods", "gone"), Values("pods", "app=web", "{.status.phase}", "Failed Failed Failed Failed Pending Succeeded"),
				Values("pods", "app=web", "{.metadata.deletionGracePeriodSeconds}", "0 0 0 0 0"),
			},
		}},
	}
}
