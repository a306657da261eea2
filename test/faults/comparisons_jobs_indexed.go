package faults

import (
	"fmt"
)

// perIndex are fields of an Indexed Job of three indexes, which may fail so often each.
func perIndex(limit int, more string) string {
	return fmt.Sprintf("completionMode: Indexed, completions: 3, parallelism: 3, backoffLimitPerIndex: %d, %s", limit, more)
}

// jobsPerIndex has indexes fail for good.
func jobsPerIndex() Scenario {
	const (
		failIndex = `podFailurePolicy: {rules: [{action: FailIndex, onExitCodes: {operator: In, values: [42]}}, {action: Ignore, onPodConditions: [{type: DisruptionTarget, status: "True"}]}]}, `
		disrupted = `{"status":{"phase":"Failed","conditions":[{"type":"DisruptionTarget","status":"True"}]}}`
	)
	index := func(job string, i int) string { return podOf(job, i) }
	// failures is how often pods of an index have failed, as the pod tells that runs now.
	failures := func(job string, i int, want string) Condition {
		return Values("pods", index(job, i), `{.metadata.annotations['batch\.kubernetes\.io/job-index-failure-count','batch\.kubernetes\.io/job-index-ignored-failure-count']}`, want)
	}
	return Scenario{
		Name:        "jobs-per-index",
		Bare:        true,
		Controllers: runJobs,
		Kinds:       jobsAndPods,
		Steps: []Step{
			{
				"create",
				[]Action{
					aJob("again", perIndex(1, ""), ""),
					aJob("one", perIndex(0, ""), ""),
					aJob("most", perIndex(0, "maxFailedIndexes: 1, "), ""),
					aJob("none", perIndex(0, "maxFailedIndexes: 0, "), ""),
					aJob("global", perIndex(5, "backoffLimit: 1, "), ""),
					aJob("policy", perIndex(2, failIndex), ""),
					aJob("ignored", perIndex(0, failIndex), ""),
					aJob("every", perIndex(0, ""), ""),
					aJob("deadline", perIndex(0, ""), ""),
					aJob("success", perIndex(0, `successPolicy: {rules: [{succeededCount: 1}]}, `), ""),
					aJob("few", "completionMode: Indexed, completions: 4, parallelism: 1, backoffLimitPerIndex: 0, ", ""),
				},
				[]Condition{Count("pods", "", 31)},
			},
			{
				"fail",
				[]Action{
					Rest(batched),
					fails(index("again", 0), 1), fails(index("one", 1), 1), fails(index("most", 0), 1), fails(index("none", 2), 1), fails(index("global", 0), 1),
					fails(index("policy", 0), 42), fails(index("policy", 1), 1), PatchLiving(index("ignored", 0), disrupted),
					fails("app=every", 1), fails(index("deadline", 0), 1), fails(index("success", 0), 1), fails(index("few", 0), 1),
				},
				[]Condition{
					counts("again", 3, 0, 0, 0, 1), failures("again", 0, "0 1"),
					Has("jobs", "one", "{.status.failedIndexes}", "1", "{.status.active}", "2"), Has("jobs", "most", "{.status.failedIndexes}", "0"),
					isFailed("none", "MaxFailedIndexesExceeded"), Has("jobs", "policy", "{.status.failedIndexes}", "0", "{.status.active}", "2"),
					failures("policy", 1, "0 1"), counts("global", 3, 0, 0, 0, 1), isFailed("every", "FailedIndexes"),
					counts("deadline", 2, 0, 0, 0, 1), counts("success", 2, 0, 0, 0, 1), counts("few", 1, 0, 0, 0, 1), Count("pods", "app=few", 2),
					counts("ignored", 3, 0, 0, 0, 0), failures("ignored", 0, "0 0 1"),
				},
			},
			{
				"fail again",
				[]Action{
					Rest(batched),
					fails(index("again", 0), 1), fails(index("most", 1), 1), fails(index("policy", 1), 1), fails(index("global", 1), 1),
					PatchLiving(index("ignored", 0), disrupted), succeeds(index("one", 0)), succeeds(index("one", 2)), succeeds(index("success", 1)),
					Patch("jobs", "deadline", `{"spec":{"activeDeadlineSeconds":1}}`), fails(index("few", 1), 1),
				},
				[]Condition{
					Has("jobs", "again", "{.status.failedIndexes}", "0"), isFailed("most", "MaxFailedIndexesExceeded"), failures("policy", 1, "0 1 2"),
					isFailed("global", "BackoffLimitExceeded"), isFailed("one", "FailedIndexes"), isComplete("success", "SuccessPolicy"),
					isFailed("deadline", "DeadlineExceeded"), Has("jobs", "few", "{.status.failedIndexes}", "0,1"), Count("pods", "app=few", 3),
					counts("ignored", 3, 0, 0, 0, 0), failures("ignored", 0, "0 0 0 1 2"),
				},
			},
			{
				"have the others end, and limit one later",
				[]Action{
					Rest(batched),
					succeeds(index("again", 1)), succeeds(index("again", 2)), succeeds(index("policy", 1)), succeeds(index("policy", 2)),
					succeeds("app=ignored"), fails(index("few", 2), 1),
				},
				[]Condition{
					isFailed("again", "FailedIndexes"), isFailed("policy", "FailedIndexes"), isComplete("ignored", "CompletionsReached"),
					Has("jobs", "few", "{.status.failedIndexes}", "0-2"), Count("pods", "app=few", 4),
				},
			},
			{
				"have the last one end",
				[]Action{Patch("jobs", "few", `{"spec":{"parallelism":3}}`), succeeds(index("few", 3))},
				[]Condition{isFailed("few", "FailedIndexes")},
			},
		},
	}
}

// jobsSuccessPolicy has Jobs succeed by policies.
func jobsSuccessPolicy() Scenario {
	policy := func(rules string) string {
		return "completionMode: Indexed, completions: 5, parallelism: 5, successPolicy: {rules: [" + rules + "]}, "
	}
	return Scenario{
		Name:        "jobs-success-policy",
		Bare:        true,
		Controllers: runJobs,
		Kinds:       jobsAndPods,
		Steps: []Step{
			{
				"create",
				[]Action{
					aJob("leader", policy(`{succeededIndexes: "0"}`), ""),
					aJob("count", policy("{succeededCount: 2}"), ""),
					aJob("either", policy(`{succeededIndexes: "1-3", succeededCount: 1}`), ""),
					aJob("second", policy(`{succeededIndexes: "3,4"}, {succeededIndexes: "0,1"}`), ""),
					aJob("all", policy(`{succeededIndexes: "0-1"}`), ""),
					aJob("never", policy(`{succeededIndexes: "0"}`), ""),
					aJob("failing", "backoffLimit: 0, "+policy(`{succeededIndexes: "0"}`), ""),
					aJob("terminating", policy(`{succeededIndexes: "0"}`), onNode),
					aJob("terminating-fails", policy(`{succeededIndexes: "0"}`), onNode),
					aJob("suspended", policy(`{succeededIndexes: "0"}`), ""),
				},
				[]Condition{Count("pods", "", 50)},
			},
			{
				"succeed",
				[]Action{
					Rest(batched),
					succeeds(podOf("leader", 0)), succeeds(podOf("count", 1)), succeeds(podOf("count", 3)), succeeds(podOf("either", 2)), succeeds(podOf("second", 0)),
					succeeds(podOf("second", 1)), succeeds(podOf("all", 0)), succeeds(podOf("never", 1)), fails(podOf("failing", 1), 1), succeeds(podOf("failing", 0)),
					runs("app=terminating"), succeeds(podOf("terminating", 0)), succeeds(podOf("terminating-fails", 0)),
					succeeds(podOf("suspended", 1)),
				},
				[]Condition{
					isComplete("leader", "SuccessPolicy"), isComplete("count", "SuccessPolicy"), isComplete("either", "SuccessPolicy"), isComplete("second", "SuccessPolicy"),
					counts("all", 4, 0, 0, 1, 0), counts("never", 4, 0, 0, 1, 0), isFailed("failing", "BackoffLimitExceeded"), counts("terminating", 0, 0, 4, 1, 0),
					counts("terminating-fails", 0, 0, 4, 1, 0), counts("suspended", 4, 0, 0, 1, 0),
				},
			},
			{
				"have pods end that terminate",
				[]Action{
					Rest(batched),
					DeleteLeaving(podOf("terminating", 1)), DeleteLeaving(podOf("terminating", 2)), DeleteLeaving(podOf("terminating", 3)),
					succeeds(podOf("terminating", 4)), fails("app=terminating-fails", 1),
					succeeds(podOf("all", 1)), succeeds("app=never"), Patch("jobs", "suspended", `{"spec":{"suspend":true}}`),
				},
				[]Condition{
					isComplete("terminating", "SuccessPolicy"), isComplete("terminating-fails", "SuccessPolicy"), isComplete("all", "SuccessPolicy"),
					isComplete("never", "SuccessPolicy"), counts("suspended", 0, 0, 0, 1, 0),
				},
			},
			{
				"resume",
				[]Action{Patch("jobs", "suspended", `{"spec":{"suspend":false}}`)},
				[]Condition{counts("suspended", 4, 0, 0, 1, 0)},
			},
			{
				"succeed after that",
				[]Action{Rest(batched), succeeds(podOf("suspended", 0))},
				[]Condition{isComplete("suspended", "SuccessPolicy")},
			},
		},
	}
}

// jobsElastic scales Indexed Jobs.
func jobsElastic() Scenario {
	indexed := func(n int, more string) string {
		return fmt.Sprintf("completionMode: Indexed, completions: %[1]d, parallelism: %[1]d, %s", n, more)
	}
	scale := func(job string, n int) Action {
		return Patch("jobs", job, fmt.Sprintf(`{"spec":{"completions":%[1]d,"parallelism":%[1]d}}`, n))
	}
	parallel := func(job string, n int) Action {
		return Patch("jobs", job, fmt.Sprintf(`{"spec":{"parallelism":%d}}`, n))
	}
	completed := func(job, indexes string, active, succeeded int) Condition {
		return All(Has("jobs", job, "{.status.completedIndexes}", indexes), counts(job, active, 0, 0, succeeded, 0))
	}
	return Scenario{
		Name:        "jobs-elastic",
		Bare:        true,
		Controllers: runJobs,
		Kinds:       jobsAndPods,
		Steps: []Step{
			{
				"create",
				[]Action{
					aJob("shrunk", indexed(4, ""), ""), aJob("grown", indexed(2, ""), ""), aJob("done", indexed(3, ""), ""), aJob("none", indexed(3, ""), ""),
					aJob("failed-index", indexed(3, "backoffLimitPerIndex: 0, "), ""), aJob("node", indexed(3, ""), "nodeName: node-a, "),
					aJob("parallel", "completions: 6, parallelism: 4, ", ""), aJob("queue", "parallelism: 4, ", ""), aJob("most", "completions: 3, parallelism: 2, ", ""),
				},
				[]Condition{Count("pods", "", 28)},
			},
			{
				"succeed in part",
				[]Action{
					Rest(batched), succeeds(podOf("shrunk", 0)), succeeds(podOf("shrunk", 3)), succeeds(podOf("grown", 0)), succeeds(podOf("done", 0)), succeeds(podOf("done", 1)),
					fails(podOf("failed-index", 2), 1), succeeds(podOf("failed-index", 0)), succeeds(podOf("node", 2)), runs("app=parallel"),
				},
				[]Condition{
					completed("shrunk", "0,3", 2, 2), completed("grown", "0", 1, 1), completed("done", "0,1", 1, 2), completed("node", "2", 2, 1),
					Has("jobs", "failed-index", "{.status.failedIndexes}", "2", "{.status.completedIndexes}", "0"), counts("parallel", 4, 4, 0, 0, 0),
				},
			},
			{
				"scale",
				[]Action{
					Rest(batched), scale("shrunk", 2), scale("grown", 4), scale("done", 2), scale("none", 0), scale("failed-index", 2), scale("node", 1),
					parallel("parallel", 1), parallel("queue", 2), parallel("most", 5),
				},
				[]Condition{
					completed("shrunk", "0", 1, 1), completed("grown", "0", 3, 1), isComplete("done", "CompletionsReached"), isComplete("none", "CompletionsReached"),
					counts("parallel", 1, 1, 0, 0, 0), counts("queue", 2, 0, 0, 0, 0), counts("most", 3, 0, 0, 0, 0), counts("node", 1, 0, 1, 0, 0),
					Has("jobs", "failed-index", "{.status.active}", "1"),
				},
			},
			{
				"scale again",
				[]Action{
					Rest(batched), scale("shrunk", 5), scale("grown", 3), DeleteLeaving(podOf("node", 1)), parallel("parallel", 0), parallel("queue", 3), scale("failed-index", 4),
				},
				[]Condition{
					Has("jobs", "shrunk", "{.status.active}", "4"), completed("grown", "0", 2, 1), counts("node", 1, 0, 0, 0, 0), counts("parallel", 0, 0, 0, 0, 0), counts("queue", 3, 0, 0, 0, 0),
				},
			},
			{
				"end",
				[]Action{Rest(batched), succeeds("app=shrunk"), succeeds("app=grown"), succeeds("app=queue"), succeeds("app=most"), succeeds("app=node")},
				[]Condition{
					isComplete("shrunk", "CompletionsReached"), isComplete("grown", "CompletionsReached"), isComplete("queue", "CompletionsReached"),
					isComplete("most", "CompletionsReached"), isComplete("node", "CompletionsReached"),
				},
			},
		},
	}
}
