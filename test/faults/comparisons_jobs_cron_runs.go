package faults

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"kcmd.dev/test/manager"
)

// cronJobsRun has CronJobs run Jobs that end by themselves, and be deleted.
func cronJobsRun() Scenario {
	cron := func(name, more, job string) Action {
		return Create(fmt.Sprintf(`
apiVersion: batch/v1
kind: CronJob
metadata: {name: %[1]s, labels: {of: cronjob}, annotations: {of: cronjob}}
spec:
  schedule: %[2]q
  timeZone: Etc/UTC
  suspend: true
  %[3]s
  jobTemplate:
    metadata:
      name: ignored
      labels: {cron: %[1]s, of: job}
      annotations: {of: job, batch.kubernetes.io/cronjob-scheduled-timestamp: mine}
      finalizers: [example.com/ignored]
    spec:
      %[4]s
      template:
        metadata: {labels: {app: %[1]s}, annotations: {of: pod}}
        spec: {restartPolicy: OnFailure, terminationGracePeriodSeconds: 0, containers: [{name: web, image: "web:1"}]}
`, name, yearly(60), more, job))
	}
	jobOf := func(name string) string { return cronJobName(name, day(60)) }
	ended := func(name string) Condition { return Contains("cronjobs", name, "{.status.lastSuccessfulTime}", "T") }
	return Scenario{
		Name: "cronjobs-run",
		Controllers: func(c *manager.Config) []**bool {
			return []**bool{&c.Controllers.CronJob.Enabled, &c.Controllers.Job.Enabled, &c.Controllers.TTLAfterFinished.Enabled, &c.Controllers.GarbageCollector.Enabled}
		},
		Kinds: []schema.GroupVersionResource{cronJobs, jobs, pods},
		Steps: []Step{
			{
				"create",
				[]Action{
					cron("plain", "", "completions: 2"), cron("indexed", "concurrencyPolicy: Forbid", "completionMode: Indexed\n      completions: 2\n      parallelism: 2"), cron("expires", "", "ttlSecondsAfterFinished: 1"),
					cron("waiting", "concurrencyPolicy: Replace", "suspend: true"), cron("held", "", "suspend: true"), cron("orphaned", "", "suspend: true"), cron("again", "", "parallelism: 0"),
					lastRan("plain", day(100)), lastRan("indexed", day(100)), lastRan("expires", day(100)), lastRan("waiting", day(100)), lastRan("held", day(100)), lastRan("orphaned", day(100)), lastRan("again", day(100)),
				},
				nil,
			},
			{
				"resume",
				[]Action{resumed("plain"), resumed("indexed"), resumed("expires"), resumed("waiting"), resumed("held"), resumed("orphaned"), resumed("again")},
				[]Condition{
					ended("plain"), ended("indexed"), ended("expires"), isComplete(jobOf("plain"), "CompletionsReached"), Gone("jobs", jobOf("expires")),
					Has("cronjobs", "waiting", "{.status.active[*].name}", jobOf("waiting")), Has("jobs", jobOf("again"), "{.status.ready}", "0"),
				},
			},
			{
				"delete",
				[]Action{
					Rest(time.Second), Delete("cronjobs", "plain", metav1.DeletePropagationBackground), Delete("cronjobs", "held", metav1.DeletePropagationForeground),
					Delete("cronjobs", "orphaned", metav1.DeletePropagationOrphan), Delete("jobs", jobOf("again"), metav1.DeletePropagationForeground),
					Patch("jobs", jobOf("waiting"), `{"spec":{"suspend":false}}`),
				},
				[]Condition{
					Gone("cronjobs", "plain"), Gone("jobs", jobOf("plain")), Gone("cronjobs", "held"), Gone("jobs", jobOf("held")), Gone("cronjobs", "orphaned"), ended("waiting"), Gone("jobs", jobOf("again")),
					Has("cronjobs", "again", "{.status.active[*].name}", ""),
				},
			},
		},
	}
}

// cronJobsRefused has the API server refuse Jobs, and has CronJobs list Jobs that are not theirs.
func cronJobsRefused() Scenario {
	list := func(cronJob, job, uid string) Action {
		return PatchStatus("cronjobs", cronJob, fmt.Sprintf(`{"status":{"lastScheduleTime":%q,"active":[{"apiVersion":"batch/v1","kind":"Job","name":%q,"namespace":"NAMESPACE","uid":%q}]}}`,
			day(100).Format(time.RFC3339), job, uid))
	}
	const nobody = "00000000-0000-0000-0000-000000000001"
	return Scenario{
		Name:        "cronjobs-refused",
		Bare:        true,
		Controllers: func(c *manager.Config) []**bool { return []**bool{&c.Controllers.CronJob.Enabled} },
		Kinds:       []schema.GroupVersionResource{cronJobs, jobs, corev1.SchemeGroupVersion.WithResource("resourcequotas")},
		Steps: []Step{
			{
				"create a quota without room for a Job",
				[]Action{
					Create(`{apiVersion: v1, kind: ResourceQuota, metadata: {name: quota}, spec: {hard: {count/jobs.batch: "0"}}}`),
					PatchStatus("resourcequotas", "quota", `{"status":{"hard":{"count/jobs.batch":"0"},"used":{"count/jobs.batch":"0"}}}`),
					aCronJob("refused", yearly(60), ""), lastRan("refused", day(100)),
					aCronJob("lists-none", yearly(-60), ""), list("lists-none", "nobody", nobody),
					Rest(time.Second), resumed("refused"),
				},
				[]Condition{Has("cronjobs", "lists-none", "{.status.active}", "")},
			},
			{
				"make room",
				[]Action{
					Rest(3 * time.Second), suspendedAgain("refused"), Patch("resourcequotas", "quota", `{"spec":{"hard":{"count/jobs.batch":"5"}}}`),
					PatchStatus("resourcequotas", "quota", `{"status":{"hard":{"count/jobs.batch":"5"}}}`), Rest(batched),
				},
				nil,
			},
			{
				"resume, and make Jobs that look like those of others",
				[]Action{resumed("refused"), aCronJob("by-name", yearly(-60), ""), Create(fmt.Sprintf("{apiVersion: batch/v1, kind: Job, metadata: {name: free}, spec: {%s}}", jobSpec))},
				[]Condition{Has("cronjobs", "refused", "{.status.active[*].name}", cronJobName("refused", day(60)))},
			},
		},
	}
}
