package faults

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kcmd.dev/test/manager"
)

// onNode are fields of pods on a node whose kubelet does nothing, so that they stay when they are deleted.
const onNode = "nodeName: node-a, "

const indexedOf3 = "completionMode: Indexed, completions: 3, parallelism: 3, "

// jobsSuspended suspends and resumes Jobs.
func jobsSuspended() Scenario {
	suspend := func(job string) Action { return Patch("jobs", job, `{"spec":{"suspend":true}}`) }
	resume := func(job string) Action { return Patch("jobs", job, `{"spec":{"suspend":false}}`) }
	isSuspended := func(job, status, reason string) Condition {
		return Has("jobs", job, `{.status.conditions[?(@.type=="Suspended")]['status','reason']}`, status+" "+reason)
	}
	const directives = `{"spec":{"template":{"metadata":{"labels":{"new":"label"},"annotations":{"new":"annotation"}},"spec":{"nodeSelector":{"a":"b"},` +
		`"tolerations":[{"key":"a","operator":"Exists"}],"schedulingGates":[{"name":"example.com/gate"}]}}}}`
	const resources = `{"spec":{"template":{"spec":{"containers":[{"name":"web","image":"web:1","resources":{"requests":{"cpu":"1"}}}]}}}}`
	return Scenario{
		Name:        "jobs-suspended",
		Bare:        true,
		Controllers: runJobs,
		Kinds:       jobsAndPods,
		Steps: []Step{
			{
				"create",
				[]Action{
					aJob("running", "parallelism: 2, completions: 3, ", ""), aJob("indexed", indexedOf3, ""), aJob("started-late", "suspend: true, ", ""),
					aJob("changed", "suspend: true, ", ""), aJob("failed", "backoffLimit: 4, parallelism: 2, completions: 2, ", ""), aJob("on-node", "parallelism: 2, completions: 2, ", onNode),
					aJob("deadline", "suspend: true, activeDeadlineSeconds: 1, ", ""), aJob("queue", "parallelism: 2, ", ""), aJob("last", "parallelism: 2, completions: 2, ", onNode),
					aJob("not-suspended", "suspend: false, ", ""), aJob("per-index", perIndex(1, ""), ""), aJob("replaced-late", "podReplacementPolicy: Failed, ", onNode),
					aJob("nothing", "suspend: true, completions: 0, ", ""), aJob("deleted", "suspend: true, ", ""), aJob("idle", "suspend: true, parallelism: 0, ", ""),
				},
				[]Condition{
					Count("pods", "", 18), isSuspended("started-late", "True", "JobSuspended"), isSuspended("changed", "True", "JobSuspended"), isSuspended("deadline", "True", "JobSuspended"),
					isSuspended("deleted", "True", "JobSuspended"), isSuspended("idle", "True", "JobSuspended"),
				},
			},
			{
				"succeed and fail in part",
				[]Action{
					Rest(batched), succeeds(podOf("indexed", 1)), failsOne("app=failed"), PatchOne("app=running", succeeded), PatchOne("app=queue", succeeded), PatchOne("app=last", succeeded),
					runs("app=on-node"), fails(podOf("per-index", 0), 1),
				},
				[]Condition{
					counts("indexed", 2, 0, 0, 1, 0), counts("failed", 2, 0, 0, 0, 1), counts("running", 2, 0, 0, 1, 0), counts("queue", 1, 0, 0, 1, 0), counts("on-node", 2, 2, 0, 0, 0),
					counts("last", 1, 0, 0, 1, 0), counts("per-index", 3, 0, 0, 0, 1),
				},
			},
			{
				"suspend",
				[]Action{
					Rest(batched), suspend("running"), suspend("indexed"), suspend("failed"), suspend("on-node"), suspend("queue"), suspend("last"), suspend("per-index"), suspend("replaced-late"),
					Patch("jobs", "changed", directives), Patch("jobs", "deadline", `{"spec":{"activeDeadlineSeconds":2}}`), Delete("jobs", "deleted", metav1.DeletePropagationBackground),
				},
				[]Condition{
					isSuspended("running", "True", "JobSuspended"), counts("running", 0, 0, 0, 1, 0), counts("indexed", 0, 0, 0, 1, 0), counts("failed", 0, 0, 0, 0, 1),
					counts("on-node", 0, 0, 2, 0, 0), counts("queue", 0, 0, 0, 1, 0), counts("last", 0, 0, 1, 1, 0), counts("per-index", 0, 0, 0, 0, 1), counts("replaced-late", 0, 0, 1, 0, 0),
					isSuspended("per-index", "True", "JobSuspended"), isSuspended("on-node", "True", "JobSuspended"), Has("jobs", "on-node", "{.status.startTime}", ""),
				},
			},
			{
				"change what is suspended",
				[]Action{
					Rest(batched), Patch("jobs", "running", directives), Patch("jobs", "running", resources), Patch("jobs", "indexed", `{"spec":{"parallelism":2}}`),
					Patch("jobs", "failed", `{"spec":{"activeDeadlineSeconds":1,"backoffLimit":2}}`),
				},
				nil,
			},
			{
				"resume",
				[]Action{
					resume("running"), resume("indexed"), resume("failed"), resume("on-node"), resume("queue"), resume("last"), resume("per-index"), resume("replaced-late"),
					resume("changed"), resume("started-late"), resume("deadline"), resume("idle"),
				},
				[]Condition{
					isSuspended("running", "False", "JobResumed"), counts("running", 2, 0, 0, 1, 0), counts("indexed", 2, 0, 0, 1, 0), isFailed("failed", "DeadlineExceeded"),
					counts("on-node", 2, 0, 2, 0, 0), isFailed("deadline", "DeadlineExceeded"), isSuspended("changed", "False", "JobResumed"), counts("last", 1, 0, 1, 1, 0),
					counts("replaced-late", 0, 0, 1, 0, 0), isSuspended("idle", "False", "JobResumed"), counts("per-index", 3, 0, 0, 0, 1),
				},
			},
			{
				"end what terminates",
				[]Action{Rest(batched), DeleteLeaving("app=replaced-late"), succeeds("app=last"), succeeds("app=started-late"), succeeds("app=changed")},
				[]Condition{
					counts("replaced-late", 1, 0, 0, 0, 0), isComplete("last", "CompletionsReached"), isComplete("started-late", "CompletionsReached"), isComplete("changed", "CompletionsReached"),
				},
			},
		},
	}
}

// jobsDeleted deletes Jobs whose pods are in every state, with a collector of garbage.
func jobsDeleted() Scenario {
	var create, states, remove []Action
	var gone []Condition
	for _, propagation := range []metav1.DeletionPropagation{metav1.DeletePropagationBackground, metav1.DeletePropagationForeground, metav1.DeletePropagationOrphan} {
		for _, pod := range []struct {
			name, spec, pod string
			state           func(selector string) Action
		}{
			{"waits", "", "", nil},
			{"runs", "", onNode, runs},
			{"succeeds", "parallelism: 2, completions: 3, ", "", func(selector string) Action { return PatchOne(selector, succeeded) }},
			{"complete", "", "", succeeds},
			{"failed", "backoffLimit: 0, ", "", func(selector string) Action { return fails(selector, 1) }},
			{"leaves", "podReplacementPolicy: Failed, ", onNode, func(selector string) Action { return DeleteEach("pods", selector) }},
			{"suspended", "suspend: true, ", "", nil},
		} {
			name := fmt.Sprintf("%s-%s", map[metav1.DeletionPropagation]string{"Background": "b", "Foreground": "f", "Orphan": "o"}[propagation], pod.name)
			create = append(create, aJob(name, pod.spec, pod.pod))
			if pod.state != nil {
				states = append(states, pod.state("app="+name))
			}
			remove = append(remove, Delete("jobs", name, propagation))
			gone = append(gone, func(ctx context.Context, w *world) error {
				if pod.pod == onNode && propagation == metav1.DeletePropagationForeground {
					return Has("jobs", name, "{.metadata.finalizers[0]}", metav1.FinalizerDeleteDependents)(ctx, w)
				}
				return Gone("jobs", name)(ctx, w)
			})
		}
	}
	return Scenario{
		Name: "jobs-deleted",
		Bare: true,
		Controllers: func(c *manager.Config) []**bool {
			return []**bool{&c.Controllers.Job.Enabled, &c.Controllers.GarbageCollector.Enabled}
		},
		Kinds: jobsAndPods,
		Steps: []Step{
			{"create", create, []Condition{Count("pods", "", 21)}},
			{"have pods end", append([]Action{Rest(batched)}, states...), []Condition{
				counts("b-leaves", 0, 0, 1, 0, 0), counts("f-leaves", 0, 0, 1, 0, 0), counts("o-leaves", 0, 0, 1, 0, 0), isComplete("b-complete", "CompletionsReached"),
				isComplete("f-complete", "CompletionsReached"), isComplete("o-complete", "CompletionsReached"), isFailed("b-failed", "BackoffLimitExceeded"),
				isFailed("f-failed", "BackoffLimitExceeded"), isFailed("o-failed", "BackoffLimitExceeded"), counts("b-succeeds", 2, 0, 0, 1, 0), counts("f-succeeds", 2, 0, 0, 1, 0),
				counts("o-succeeds", 2, 0, 0, 1, 0), counts("b-runs", 1, 1, 0, 0, 0), counts("f-runs", 1, 1, 0, 0, 0), counts("o-runs", 1, 1, 0, 0, 0),
			}},
			{"delete", append([]Action{Rest(batched)}, remove...), gone},
			{"have pods leave", []Action{Repeat(DeleteLeaving("app=f-runs")), Repeat(DeleteLeaving("app=f-leaves"))}, []Condition{Gone("jobs", "f-runs"), Gone("jobs", "f-leaves")}},
		},
	}
}
