package faults

import (
	"fmt"
	"time"

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
