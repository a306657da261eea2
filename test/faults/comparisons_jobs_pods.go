package faults

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

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

// jobsTerminating has pods terminate for long.
func jobsTerminating() Scenario {
	end := DeleteLeaving
	leaves := func(selector string) Action { return DeleteEach("pods", selector) }
	const policy = `podFailurePolicy: {rules: [{action: FailJob, onExitCodes: {operator: In, values: [42]}}]}, `
	return Scenario{
		Name:        "jobs-terminating",
		Bare:        true,
		Controllers: runJobs,
		Kinds:       jobsAndPods,
		Steps: []Step{
			{
				"create",
				[]Action{
					aJob("at-once", "", onNode), aJob("late", "podReplacementPolicy: Failed, ", onNode), aJob("late-succeeds", "podReplacementPolicy: Failed, ", onNode),
					aJob("late-gone", "podReplacementPolicy: Failed, ", onNode), aJob("policy", policy, onNode), aJob("indexed", indexedOf3, onNode),
					aJob("indexed-late", "podReplacementPolicy: Failed, "+indexedOf3, onNode), aJob("fails", "backoffLimit: 0, parallelism: 2, completions: 2, ", onNode),
					aJob("deadline", "parallelism: 2, completions: 2, ", onNode), aJob("scaled", "parallelism: 3, completions: 3, ", onNode), aJob("limit", "backoffLimit: 0, ", onNode),
					aJob("limit-late", "backoffLimit: 0, podReplacementPolicy: Failed, ", onNode), aJob("deleted", "", onNode), aJob("complete", "parallelism: 2, ", onNode),
					aJob("per-index", perIndex(1, ""), onNode), aJob("per-index-policy", perIndex(1, policy), onNode),
				},
				[]Condition{Count("pods", "", 29)},
			},
			{
				"have pods leave",
				[]Action{
					Rest(batched), leaves("app=at-once"), leaves("app=late"), leaves("app=late-succeeds"), leaves("app=late-gone"), leaves("app=policy"), leaves(podOf("indexed", 1)),
					leaves(podOf("indexed-late", 1)), failsOne("app=fails"), Patch("jobs", "scaled", `{"spec":{"parallelism":1}}`), leaves("app=limit"), leaves("app=limit-late"),
					Delete("jobs", "deleted", metav1.DeletePropagationBackground), PatchOne("app=complete", succeeded), leaves(podOf("per-index", 0)), leaves(podOf("per-index-policy", 0)),
				},
				[]Condition{
					counts("at-once", 1, 0, 1, 0, 1), counts("late", 0, 0, 1, 0, 0), counts("late-succeeds", 0, 0, 1, 0, 0), counts("late-gone", 0, 0, 1, 0, 0), counts("policy", 0, 0, 1, 0, 0),
					counts("indexed", 3, 0, 1, 0, 1), counts("indexed-late", 2, 0, 1, 0, 0), counts("fails", 0, 0, 1, 0, 2), counts("scaled", 1, 0, 2, 0, 0), counts("limit", 0, 0, 1, 0, 1),
					counts("limit-late", 0, 0, 1, 0, 0), counts("complete", 1, 0, 0, 1, 0), counts("per-index", 3, 0, 1, 0, 1), counts("per-index-policy", 2, 0, 1, 0, 0),
				},
			},
			{
				"have them end",
				[]Action{
					Rest(batched), fails("app=late", 1), succeeds("app=late-succeeds"), end("app=late-gone"), PatchLiving("app=policy", failure(42)), fails(podOf("indexed-late", 1), 1),
					end("app=fails"), end("app=scaled"), end("app=limit"), fails("app=limit-late", 1), leaves("app=complete"), fails(podOf("per-index-policy", 0), 1),
					Patch("jobs", "deadline", `{"spec":{"activeDeadlineSeconds":1}}`),
				},
				[]Condition{
					counts("late", 1, 0, 0, 0, 1), isComplete("late-succeeds", "CompletionsReached"), isFailed("policy", "PodFailurePolicy"), counts("late-gone", 0, 0, 1, 0, 0),
					counts("indexed-late", 3, 0, 0, 0, 1), isFailed("fails", "BackoffLimitExceeded"), isFailed("limit", "BackoffLimitExceeded"), isFailed("limit-late", "BackoffLimitExceeded"),
					counts("deadline", 0, 0, 2, 0, 2), counts("per-index-policy", 3, 0, 0, 0, 1),
				},
			},
			{
				"end the rest",
				[]Action{Rest(batched), end("app=deadline"), end("app=complete")},
				[]Condition{isFailed("deadline", "DeadlineExceeded"), isComplete("complete", "CompletionsReached")},
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

// jobsOrphans is about pods that Jobs adopt, release, and have left.
func jobsOrphans() Scenario {
	pod := func(name, labels, more string) Action {
		return Create(fmt.Sprintf(`{apiVersion: v1, kind: Pod, metadata: {name: %s, labels: {%s}%s}, spec: {restartPolicy: Never, containers: [{name: web, image: "web:1"}]}}`, name, labels, more))
	}
	const (
		manual  = "manualSelector: true, selector: {matchLabels: {app: %s}}, "
		tracked = ", finalizers: [batch.kubernetes.io/job-tracking]"
		owner   = ", ownerReferences: [{apiVersion: %s, kind: %s, name: %s, uid: 00000000-0000-0000-0000-000000000001, controller: true}]"
	)
	bySelector := func(name, more string) Action { return aJob(name, fmt.Sprintf(manual, name)+more, "") }
	lost := func(version, kind, name string) string { return tracked + fmt.Sprintf(owner, version, kind, name) }
	return Scenario{
		Name:        "jobs-orphans",
		Bare:        true,
		Controllers: runJobs,
		Kinds:       []schema.GroupVersionResource{jobs, pods},
		Differs: map[string]string{
			`^before step 4, by kcmd: pods/finished-\* differs: \.metadata\.finalizers\[0\] is "" instead of "batch\.kubernetes\.io/job-tracking"$`: "JOB-133",
		},
		Steps: []Step{
			{
				"create pods, and Jobs that select them",
				[]Action{
					pod("waiting", "app: adopts", ""), pod("ended", "app: adopts-ended", ""), PatchStatus("pods", "ended", succeeded), pod("failed", "app: adopts-failed", ""), PatchStatus("pods", "failed", failure(1)),
					// Which of them goes is no chance: the one that does not run.
					pod("extra-1", "app: adopts-many", ""), PatchStatus("pods", "extra-1", `{"status":{"phase":"Running"}}`), pod("extra-2", "app: adopts-many", ""),
					pod("tracked", "app: nobody", tracked), pod("of-no-job", "app: nobody", lost("batch/v1", "Job", "nobody")), pod("of-no-job-ended", "app: nobody", lost("batch/v1", "Job", "nobody")),
					PatchStatus("pods", "of-no-job-ended", succeeded), pod("of-another-uid", "app: nobody", lost("batch/v1", "Job", "adopts")), pod("of-other", "app: nobody", lost("example.com/v1", "Job", "nobody")),
					pod("of-set", "app: adopts", lost("apps/v1", "ReplicaSet", "nobody")), pod("no-index", "app: adopts-indexed", ""), pod("indexed", `app: adopts-indexed, batch.kubernetes.io/job-completion-index: "1"`, `, annotations: {batch.kubernetes.io/job-completion-index: "1"}`),
					bySelector("adopts", ""), bySelector("adopts-ended", ""), bySelector("adopts-failed", "backoffLimit: 1, "), bySelector("adopts-many", "completions: 1, "), bySelector("adopts-indexed", "completionMode: Indexed, completions: 2, parallelism: 2, "),
					bySelector("suspended", "suspend: true, "), pod("of-suspended", "app: suspended", ""),
					aJob("releases", "", ""), aJob("finished", "", ""), aJob("removed", "", ""), aJob("annotation", indexedOf3, ""), aJob("managed", "managedBy: example.com/other, ", ""), pod("of-managed", "app: managed", ""),
				},
				[]Condition{
					Has("pods", "waiting", "{.metadata.ownerReferences[0].name}", "adopts"), isComplete("adopts-ended", "CompletionsReached"), counts("adopts-failed", 1, 0, 0, 0, 1),
					counts("adopts-many", 1, 0, 0, 0, 0), Count("pods", "app=adopts-many", 1), counts("adopts-indexed", 2, 0, 0, 0, 0), Gone("pods", "no-index"), Gone("pods", "of-suspended"),
					Has("pods", "tracked", "{.metadata.finalizers}", ""), Count("pods", "app=releases", 1), Count("pods", "app=finished", 1), Count("pods", "app=removed", 1), Count("pods", "app=annotation", 3),
				},
			},
			{
				"change pods",
				[]Action{
					Rest(batched), PatchEach("pods", "app=releases", `{"metadata":{"labels":{"batch.kubernetes.io/controller-uid":null}}}`), succeeds("app=finished"),
					PatchEach("pods", "app=removed", `{"metadata":{"finalizers":null}}`), runs(podOf("annotation", 0)), PatchEach("pods", podOf("annotation", 1), `{"metadata":{"annotations":{"batch.kubernetes.io/job-completion-index":"0"}}}`),
					PatchEach("pods", podOf("annotation", 2), `{"metadata":{"annotations":{"batch.kubernetes.io/job-completion-index":"x"}}}`),
					DeleteEach("pods", "app=nobody"),
				},
				[]Condition{
					Count("pods", "app=releases", 2), isComplete("finished", "CompletionsReached"), Gone("pods", "of-no-job"), Gone("pods", "of-another-uid"), Gone("pods", "of-no-job-ended"),
					Count("pods", "app=annotation", 3),
				},
			},
			{
				"put back finalizers, and end pods without one",
				[]Action{
					Rest(batched), PatchEach("pods", "app=finished", `{"metadata":{"finalizers":["batch.kubernetes.io/job-tracking"]}}`), succeeds("app=removed"),
					PatchEach("pods", "app=releases,batch.kubernetes.io/controller-uid", succeeded, "status"),
				},
				[]Condition{isComplete("releases", "CompletionsReached")},
			},
			{
				"change the finished Job and delete its pod",
				[]Action{Rest(batched), Patch("jobs", "finished", `{"metadata":{"labels":{"a":"b"}}}`), Patch("jobs", "finished", `{"metadata":{"labels":{"a":"c"}}}`), DeleteEach("pods", "app=finished")},
				[]Condition{Count("pods", "app=finished", 0)},
			},
		},
	}
}
