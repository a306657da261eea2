package faults

import (
	"fmt"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"kcmd.dev/test/manager"
)

// jobsComparisons are those of the controllers of Jobs, CronJobs and pods that have ended.
func jobsComparisons() []Scenario {
	return []Scenario{
		jobsBasic(), jobsFailing(), jobsPolicy(), jobsPerIndex(), jobsSuccessPolicy(), jobsElastic(),
		jobsSuspended(), jobsTerminating(), jobsDeleted(), jobsOrphans(), jobsRefused(), jobsInGroups(),
		cronJobsSchedules(), cronJobsConcurrency(), cronJobsHistory(), cronJobsRun(), cronJobsRefused(),
		jobsExpired(), podsCollected(), podsOfLostNodes(),
	}
}

// runJobs are the controllers of scenarios about Jobs alone.
func runJobs(c *manager.Config) []**bool { return []**bool{&c.Controllers.Job.Enabled} }

var jobsAndPods = []schema.GroupVersionResource{jobs, pods}

// aJob creates a Job. The first text has fields of its spec, the second one those of its pods, each with a comma at the
// end of a field. Its pods have its name as the label app.
func aJob(name, spec, pod string) Action {
	if !strings.Contains(pod, "restartPolicy") {
		pod += "restartPolicy: Never, "
	}
	if !strings.Contains(" "+pod, " containers:") {
		pod += `containers: [{name: web, image: "web:1"}], `
	}
	return Create(fmt.Sprintf("{apiVersion: batch/v1, kind: Job, metadata: {name: %[1]s}, spec: {%[2]s template: {metadata: {labels: {app: %[1]s}}, spec: {%[3]s}}}}", name, spec, pod))
}

// podOf selects the pods of an index of a Job.
func podOf(job string, index int) string {
	return fmt.Sprintf("app=%s,batch.kubernetes.io/job-completion-index=%d", job, index)
}

// exited is what the status of a container says that has ended long ago, so that nothing delays what replaces it.
func exited(container string, code int) string {
	return fmt.Sprintf(`{"name":%q,"image":"web:1","imageID":"","ready":false,"restartCount":0,"state":{"terminated":`+
		`{"exitCode":%d,"startedAt":"2026-01-01T00:00:00Z","finishedAt":"2026-01-01T00:00:01Z"}}}`, container, code)
}

// runningNow is a patch of the status of a pod that runs and is ready.
const runningNow = `{"status":{"phase":"Running","conditions":[{"type":"Ready","status":"True","lastTransitionTime":"2026-01-01T00:00:00Z"}]}}`

// succeeded is a patch of the status of a pod that has succeeded.
var succeeded = `{"status":{"phase":"Succeeded","conditions":[],"containerStatuses":[` + exited("web", 0) + `]}}`

// failure is a patch of the status of a pod of which a container has ended with an exit code.
func failure(code int) string {
	return `{"status":{"phase":"Failed","conditions":[],"containerStatuses":[` + exited("web", code) + `]}}`
}

// fails has the pods that a selector selects fail with an exit code, if they have not ended.
func fails(selector string, code int) Action { return PatchLiving(selector, failure(code)) }

// failsOne has one of them fail.
func failsOne(selector string) Action { return PatchOne(selector, failure(1)) }

// succeeds has them succeed.
func succeeds(selector string) Action { return PatchLiving(selector, succeeded) }

// runs has them run and be ready.
func runs(selector string) Action { return PatchLiving(selector, runningNow) }

// batched is longer than the controller of Jobs puts off what it does about pods.
const batched = 1500 * time.Millisecond

// isComplete is that a Job has the condition for a reason.
func isComplete(job, reason string) Condition { return endedWith(job, "Complete", reason) }

// isFailed is that a Job has failed for a reason.
func isFailed(job, reason string) Condition { return endedWith(job, "Failed", reason) }

func endedWith(job, condition, reason string) Condition {
	return Has("jobs", job, fmt.Sprintf("{.status.conditions[?(@.type==%q)].reason}", condition), reason)
}

// counts is what the status of a Job counts: active, ready, terminating, succeeded and failed pods, where nothing is 0.
func counts(job string, active, ready, terminating, succeeded, failed int) Condition {
	var pathsAndValues []string
	for _, c := range []struct {
		field string
		want  int
	}{{"active", active}, {"ready", ready}, {"terminating", terminating}, {"succeeded", succeeded}, {"failed", failed}} {
		want := fmt.Sprint(c.want)
		if c.want == 0 && (c.field == "active" || c.field == "succeeded" || c.field == "failed") { // they are left out
			want = ""
		}
		pathsAndValues = append(pathsAndValues, "{.status."+c.field+"}", want)
	}
	return Has("jobs", job, pathsAndValues...)
}

// jobsBasic runs Jobs to their end, in a cluster that does.
func jobsBasic() Scenario {
	const indexed = "completionMode: Indexed, "
	long := strings.Repeat("long-", 11) + "na" // with a dash it just fits into 58 bytes
	longer := strings.Repeat("longer-", 8) + "nam"
	return Scenario{
		Name:        "jobs-basic",
		Controllers: runJobs,
		Kinds:       jobsAndPods,
		Steps: []Step{
			{
				"create",
				[]Action{
					aJob("fixed", "completions: 3, parallelism: 2, ", ""),
					aJob("queue", "parallelism: 3, ", ""),
					aJob("indexed", indexed+"completions: 3, parallelism: 2, ", ""),
					aJob("indexed-env", indexed+"completions: 1, ", `subdomain: web, initContainers: [{name: init, image: "web:1"}], containers: [{name: web, image: "web:1", env: [{name: JOB_COMPLETION_INDEX, value: mine}]}, {name: other, image: "web:1", env: [{name: A, value: b}]}], `),
					aJob("per-index", indexed+"completions: 2, parallelism: 1, backoffLimitPerIndex: 1, ", ""),
					aJob("manual", "manualSelector: true, selector: {matchLabels: {app: manual}, matchExpressions: [{key: gone, operator: DoesNotExist}]}, ", ""),
					aJob("suspended", "suspend: true, completions: 2, parallelism: 2, ", ""),
					aJob("idle", "parallelism: 0, completions: 2, ", ""),
					aJob("nothing", "completions: 0, ", ""),
					aJob("nothing-indexed", indexed+"completions: 0, parallelism: 0, ", ""),
					aJob(long, "", ""),
					aJob(longer, indexed+"completions: 11, parallelism: 11, ", ""),
					aJob("managed", "managedBy: example.com/other, ", ""),
					aJob("managed-here", "managedBy: kubernetes.io/job-controller, ", ""),
					aJob("restarting", "backoffLimit: 0, ", "restartPolicy: OnFailure, "),
					aJob("success", indexed+"completions: 1, parallelism: 1, successPolicy: {rules: [{succeededIndexes: \"0\"}]}, ", ""),
					Create(`
apiVersion: batch/v1
kind: Job
metadata: {name: rich, labels: {of: job}, annotations: {of: job}, finalizers: [example.com/job]}
spec:
  completions: 2
  parallelism: 2
  template:
    metadata:
      name: ignored
      labels: {app: rich, more: labels}
      annotations: {batch.kubernetes.io/job-completion-index: "7", example.com/more: annotations}
      finalizers: [batch.kubernetes.io/job-tracking]
    spec:
      restartPolicy: Never
      hostname: mine
      containers: [{name: web, image: "web:1"}]
`),
				},
				[]Condition{
					isComplete("fixed", "CompletionsReached"), isComplete("queue", "CompletionsReached"), isComplete("indexed", "CompletionsReached"),
					isComplete("indexed-env", "CompletionsReached"), isComplete("per-index", "CompletionsReached"), isComplete("manual", "CompletionsReached"),
					isComplete("nothing", "CompletionsReached"), isComplete("nothing-indexed", "CompletionsReached"),
					isComplete(long, "CompletionsReached"), isComplete(longer, "CompletionsReached"), isComplete("managed-here", "CompletionsReached"),
					isComplete("restarting", "CompletionsReached"), isComplete("success", "SuccessPolicy"), isComplete("rich", "CompletionsReached"),
					Has("jobs", "suspended", "{.status.conditions[*].reason}", "JobSuspended"), Has("jobs", "idle", "{.status.ready}", "0"),
				},
			},
			{
				"resume, and scale out",
				[]Action{
					Patch("jobs", "suspended", `{"spec":{"suspend":false}}`), Patch("jobs", "idle", `{"spec":{"parallelism":2}}`),
					Patch("jobs", "managed", `{"metadata":{"labels":{"changed":"true"}}}`), Patch("jobs", "fixed", `{"spec":{"parallelism":5,"ttlSecondsAfterFinished":5}}`),
					DeleteEach("pods", "app=queue"),
				},
				[]Condition{isComplete("suspended", "CompletionsReached"), isComplete("idle", "CompletionsReached")},
			},
			{
				"create under a name again, and delete a Job and keep its pods",
				[]Action{
					Delete("jobs", "fixed", metav1.DeletePropagationBackground), aJob("fixed", "completions: 1, ", ""),
					Delete("jobs", "indexed", metav1.DeletePropagationOrphan),
				},
				[]Condition{isComplete("fixed", "CompletionsReached")},
			},
		},
	}
}
