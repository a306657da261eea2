package faults

import (
	"fmt"
)

// jobsFailing has Jobs fail for every reason, except those of policies.
func jobsFailing() Scenario {
	restarted := func(phase string, init, regular int) string {
		status := func(name string, n int) string {
			return fmt.Sprintf(`{"name":%q,"image":"web:1","imageID":"","ready":false,"restartCount":%d,"state":{"running":{}}}`, name, n)
		}
		return fmt.Sprintf(`{"status":{"phase":%q,"initContainerStatuses":[%s],"containerStatuses":[%s]}}`, phase, status("init", init), status("web", regular))
	}
	const onFailure = `restartPolicy: OnFailure, initContainers: [{name: init, image: "web:1"}], `
	const indexed = "completionMode: Indexed, completions: 3, parallelism: 3, "
	const deadline = `{"spec":{"activeDeadlineSeconds":1}}`
	return Scenario{
		Name:        "jobs-failing",
		Bare:        true,
		Controllers: runJobs,
		Kinds:       jobsAndPods,
		Steps: []Step{
			{
				"create",
				[]Action{
					aJob("limit-0", "backoffLimit: 0, completions: 3, parallelism: 2, ", ""),
					aJob("limit-1", "backoffLimit: 1, completions: 3, parallelism: 2, ", ""),
					aJob("replaced", "backoffLimit: 3, ", ""),
					aJob("some-running", "backoffLimit: 0, completions: 3, parallelism: 3, ", ""),
					aJob("queue", "backoffLimit: 0, parallelism: 3, ", ""),
					aJob("indexed", "backoffLimit: 1, "+indexed, ""),
					aJob("restarts", "backoffLimit: 2, ", onFailure),
					aJob("restarts-few", "backoffLimit: 3, ", onFailure),
					aJob("restarts-0", "backoffLimit: 0, ", onFailure),
					aJob("restarts-pending", "backoffLimit: 2, ", onFailure),
					aJob("deadline", "parallelism: 2, completions: 2, ", ""),
					aJob("deadline-indexed", ""+indexed, ""),
					aJob("deadline-later", "parallelism: 2, completions: 2, ", ""),
					aJob("both", "backoffLimit: 0, activeDeadlineSeconds: 100, ", ""),
					aJob("lost", "backoffLimit: 0, ", ""),
					aJob("lost-node", "backoffLimit: 2, ", "nodeName: node-a, terminationGracePeriodSeconds: 0, "),
					aJob("unknown", "backoffLimit: 2, ", ""),
				},
				[]Condition{
					Count("pods", "app=limit-0", 2), Count("pods", "app=limit-1", 2), Count("pods", "app=indexed", 3), Count("pods", "app=unknown", 1),
					Count("pods", "app=some-running", 3), Count("pods", "app=queue", 3), Count("pods", "app=lost-node", 1),
				},
			},
			{
				"fail",
				[]Action{
					Rest(batched),
					runs("app=some-running"), runs("app=queue"),
					PatchEach("pods", "app=unknown", `{"status":{"phase":"Unknown"}}`, "status"),
					fails("app=limit-0", 1), fails("app=limit-1", 1), fails("app=replaced", 1), fails("app=both", 1),
					succeeds(podOf("indexed", 1)), succeeds(podOf("deadline-indexed", 2)), fails(podOf("deadline-indexed", 1), 1),
					failsOne("app=some-running"), failsOne("app=queue"),
					PatchEach("pods", "app=restarts", restarted("Running", 1, 1), "status"), PatchEach("pods", "app=restarts-few", restarted("Running", 1, 1), "status"),
					PatchEach("pods", "app=restarts-0", restarted("Running", 1, 0), "status"), PatchEach("pods", "app=restarts-pending", restarted("Pending", 2, 0), "status"),
					DeleteEach("pods", "app=lost"), DeleteEach("pods", "app=lost-node"),
				},
				[]Condition{
					isFailed("limit-0", "BackoffLimitExceeded"), isFailed("limit-1", "BackoffLimitExceeded"), isFailed("both", "BackoffLimitExceeded"),
					isFailed("restarts", "BackoffLimitExceeded"), isFailed("restarts-0", "BackoffLimitExceeded"), isFailed("restarts-pending", "BackoffLimitExceeded"),
					isFailed("lost", "BackoffLimitExceeded"), counts("deadline-indexed", 2, 0, 0, 1, 1),
					isFailed("some-running", "BackoffLimitExceeded"), isFailed("queue", "BackoffLimitExceeded"),
					counts("replaced", 1, 0, 0, 0, 1), counts("indexed", 2, 0, 0, 1, 0), counts("lost-node", 1, 0, 0, 0, 1),
				},
			},
			{
				"have the others end, or be late",
				[]Action{
					succeeds("app=replaced"), fails(podOf("indexed", 0), 1),
					Patch("jobs", "deadline", deadline), Patch("jobs", "deadline-indexed", deadline), Patch("jobs", "deadline-later", `{"spec":{"activeDeadlineSeconds":100}}`),
				},
				[]Condition{
					isFailed("deadline", "DeadlineExceeded"), isFailed("deadline-indexed", "DeadlineExceeded"), isComplete("replaced", "CompletionsReached"),
					counts("indexed", 2, 0, 0, 1, 1),
				},
			},
			{
				"fail again",
				[]Action{fails(podOf("indexed", 2), 1)},
				[]Condition{isFailed("indexed", "BackoffLimitExceeded")},
			},
		},
	}
}

// jobsPolicy has pods fail in ways about which policies say something.
func jobsPolicy() Scenario {
	policy := func(rules string) string { return "podFailurePolicy: {rules: [" + rules + "]}, " }
	exits := func(action, operator, values, more string) string {
		return fmt.Sprintf("{action: %s, onExitCodes: {operator: %s, values: [%s]%s}}", action, operator, values, more)
	}
	condition := func(action, kind, status string) string {
		return fmt.Sprintf("{action: %s, onPodConditions: [{type: Other, status: \"True\"}, {type: %s, status: %q}]}", action, kind, status)
	}
	const two = `initContainers: [{name: init, image: "web:1"}], containers: [{name: web, image: "web:1"}, {name: side, image: "web:1"}], `
	const indexed = "completionMode: Indexed, completions: 3, parallelism: 3, "
	all := func(init, web, side int) string {
		return `{"status":{"phase":"Failed","initContainerStatuses":[` + exited("init", init) + `],"containerStatuses":[` + exited("web", web) + "," + exited("side", side) + `]}}`
	}
	disrupted := func(kind, status string) string {
		return fmt.Sprintf(`{"status":{"phase":"Failed","conditions":[{"type":%q,"status":%q}],"containerStatuses":[`, kind, status) + exited("web", 42) + `]}}`
	}
	var policies, failures []Action
	var conditions []Condition
	// Each is a Job with a policy, how its pods fail, and what comes of it.
	for _, one := range []struct {
		name, spec, pod string
		fail            Action
		then            Condition
	}{
		{"fail-job", policy(exits("FailJob", "In", "41, 42", "")), "", fails("app=fail-job", 42), isFailed("fail-job", "PodFailurePolicy")},
		{"fail-job-running", "parallelism: 2, completions: 2, " + policy(exits("FailJob", "In", "42", "")), "", PatchOne("app=fail-job-running", failure(42)), isFailed("fail-job-running", "PodFailurePolicy")},
		{"fail-job-indexed", indexed + policy(exits("FailJob", "In", "42", "")), "", fails(podOf("fail-job-indexed", 1), 42), isFailed("fail-job-indexed", "PodFailurePolicy")},
		{"not-in", policy(exits("FailJob", "NotIn", "1, 2", "")), "", fails("app=not-in", 3), isFailed("not-in", "PodFailurePolicy")},
		{"not-in-zero", "backoffLimit: 0, " + policy(exits("FailJob", "NotIn", "1, 2", "")), "", fails("app=not-in-zero", 0), isFailed("not-in-zero", "BackoffLimitExceeded")},
		{"no-match", "backoffLimit: 0, " + policy(exits("FailJob", "In", "42", "")), "", fails("app=no-match", 1), isFailed("no-match", "BackoffLimitExceeded")},
		{"ignore", "backoffLimit: 0, " + policy(condition("Ignore", "DisruptionTarget", "True")), "", PatchLiving("app=ignore", disrupted("DisruptionTarget", "True")), counts("ignore", 1, 0, 0, 0, 0)},
		{"ignore-status", "backoffLimit: 0, " + policy(condition("Ignore", "DisruptionTarget", "True")), "", PatchLiving("app=ignore-status", disrupted("DisruptionTarget", "False")), isFailed("ignore-status", "BackoffLimitExceeded")},
		{"ignore-false", "backoffLimit: 0, " + policy(condition("Ignore", "example.com/Bad", "False")), "", PatchLiving("app=ignore-false", disrupted("example.com/Bad", "False")), counts("ignore-false", 1, 0, 0, 0, 0)},
		{"count", "backoffLimit: 0, " + policy(exits("Count", "In", "42", "")+", "+exits("FailJob", "In", "42, 43", "")), "", fails("app=count", 42), isFailed("count", "BackoffLimitExceeded")},
		{"condition", policy(condition("FailJob", "ConfigIssue", "True")), "", PatchLiving("app=condition", disrupted("ConfigIssue", "True")), isFailed("condition", "PodFailurePolicy")},
		{"order", "backoffLimit: 0, " + policy(condition("Ignore", "DisruptionTarget", "True")+", "+exits("FailJob", "In", "42", "")), "", PatchLiving("app=order", disrupted("DisruptionTarget", "True")), counts("order", 1, 0, 0, 0, 0)},
		{"name", policy(exits("FailJob", "In", "42", ", containerName: side")), two, PatchLiving("app=name", all(0, 1, 42)), isFailed("name", "PodFailurePolicy")},
		{"name-other", "backoffLimit: 0, " + policy(exits("FailJob", "In", "42", ", containerName: side")), two, PatchLiving("app=name-other", all(0, 42, 1)), isFailed("name-other", "BackoffLimitExceeded")},
		{"init", policy(exits("FailJob", "In", "42", "")), two, PatchLiving("app=init", all(42, 0, 0)), isFailed("init", "PodFailurePolicy")},
		{"init-name", policy(exits("FailJob", "In", "42", ", containerName: init")), two, PatchLiving("app=init-name", all(42, 42, 0)), isFailed("init-name", "PodFailurePolicy")},
		{"first-container", policy(exits("FailJob", "In", "41, 42, 43", "")), two, PatchLiving("app=first-container", all(41, 42, 43)), isFailed("first-container", "PodFailurePolicy")},
	} {
		policies = append(policies, aJob(one.name, one.spec, one.pod))
		failures = append(failures, one.fail)
		conditions = append(conditions, one.then)
	}
	return Scenario{
		Name:        "jobs-policy",
		Bare:        true,
		Controllers: runJobs,
		Kinds:       jobsAndPods,
		Steps: []Step{
			{"create", policies, []Condition{Count("pods", "app=first-container", 1), Count("pods", "app=init-name", 1), Count("pods", "app=fail-job-indexed", 3), Count("pods", "", 20)}},
			{"fail", append([]Action{Rest(batched)}, failures...), conditions},
			{
				"have those that were ignored succeed",
				[]Action{Rest(batched), succeeds("app=ignore"), succeeds("app=ignore-false"), succeeds("app=order")},
				[]Condition{isComplete("ignore", "CompletionsReached"), isComplete("ignore-false", "CompletionsReached"), isComplete("order", "CompletionsReached")},
			},
		},
	}
}
