package faults

import (
	"fmt"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"kcmd.dev/test/manager"
)

var cronJobs = batchv1.SchemeGroupVersion.WithResource("cronjobs")

// jobScenarios are those of the controllers that create and delete Jobs. The Jobs are carried out by users.
func jobScenarios() []Scenario { return []Scenario{cronJob(), cronJobReplaced(), ttlAfterFinished()} }

// jobSpec is the spec of all Jobs, in one line.
const jobSpec = `managedBy: test.kcmd.dev/user, template: {spec: {restartPolicy: Never, containers: [{name: web, image: "web:1"}]}}`

// completed is a patch of the status of a Job that completed long ago.
const completed = `{"status":{"startTime":"2026-01-01T00:00:00Z","completionTime":"2026-01-01T00:00:01Z","succeeded":1,"conditions":[` +
	`{"type":"SuccessCriteriaMet","status":"True","lastTransitionTime":"2026-01-01T00:00:01Z"},{"type":"Complete","status":"True","lastTransitionTime":"2026-01-01T00:00:01Z"}]}}`

// day is the beginning of one some days ago. CronJobs run once a year, on a day that has been a while ago, so that
// nothing depends on the time that a scenario takes.
func day(ago int) time.Time { return time.Now().UTC().Truncate(24*time.Hour).AddDate(0, 0, -ago) }

func cronJob() Scenario {
	jobOf := func(name string) string { return fmt.Sprintf("%s-%d", name, day(60).Unix()/60) }
	suspended := func(name string, keep int) Action {
		return Create(fmt.Sprintf(`
apiVersion: batch/v1
kind: CronJob
metadata: {name: %s}
spec: {schedule: "0 0 %d %d *", timeZone: Etc/UTC, suspend: true, successfulJobsHistoryLimit: %d, jobTemplate: {spec: {%s}}}
`, name, day(60).Day(), day(60).Month(), keep, jobSpec))
	}
	ranBefore := func(name string) Action {
		return PatchStatus("cronjobs", name, fmt.Sprintf(`{"status":{"lastScheduleTime":%q}}`, day(100).Format(time.RFC3339)))
	}
	resume := func(name string) Action { return Patch("cronjobs", name, `{"spec":{"suspend":false}}`) }
	active := func(name, job string) Condition {
		return Has("cronjobs", name, "{.status.active[*].name}", job)
	}
	return Scenario{
		Name:        "cronjob",
		Controllers: func(c *manager.Config) []**bool { return []**bool{&c.Controllers.CronJob.Enabled} },
		Kinds:       []schema.GroupVersionResource{cronJobs, jobs},
		// Upstream deletes a Job of which no history is kept before it has taken down that it has finished.
		Differs: map[string]string{"event .* CronJob brief: Normal (SawCompletedJob|MissingJob)": "CRON-52"},
		Steps: []Step{
			{"create two that are suspended", []Action{suspended("web", 1), ranBefore("web"), suspended("brief", 0), ranBefore("brief")}, nil},
			{"resume one", []Action{resume("web")}, []Condition{active("web", jobOf("web"))}},
			{"complete its Job", []Action{PatchStatus("jobs", jobOf("web"), completed)}, []Condition{active("web", "")}},
			{"resume the other", []Action{resume("brief")}, []Condition{active("brief", jobOf("brief"))}},
			{"complete the Job that is not kept", []Action{PatchStatus("jobs", jobOf("brief"), completed)}, []Condition{active("brief", ""), Gone("jobs", jobOf("brief"))}},
		},
	}
}

// failed is a patch of the status of a Job that failed long ago.
const failed = `{"status":{"startTime":"2026-01-01T00:00:00Z","failed":1,"conditions":[` +
	`{"type":"FailureTarget","status":"True","lastTransitionTime":"2026-01-01T00:00:01Z"},{"type":"Failed","status":"True","lastTransitionTime":"2026-01-01T00:00:01Z"}]}}`

func cronJobReplaced() Scenario {
	jobOf := func(ago int) string { return fmt.Sprintf("web-%d", day(ago).Unix()/60) }
	yearly := func(ago int) string { return fmt.Sprintf("0 0 %d %d *", day(ago).Day(), day(ago).Month()) }
	create := fmt.Sprintf(`
apiVersion: batch/v1
kind: CronJob
metadata: {name: web}
spec:
  schedule: %q
  timeZone: Etc/UTC
  suspend: true
  concurrencyPolicy: Replace
  failedJobsHistoryLimit: 0
  jobTemplate: {metadata: {labels: {app: web}}, spec: {%s}}
`, yearly(60), jobSpec)
	// What runs is shown, and nothing else is there.
	active := func(job string, count int) []Condition {
		return []Condition{Has("cronjobs", "web", "{.status.active[*].name}", job), Count("jobs", "app=web", count)}
	}
	// A change of the schedule alone has the CronJob wait for the next time of the new one.
	reschedule := func(ago int) Step {
		return Step{
			"suspend it, and change the schedule",
			[]Action{Patch("cronjobs", "web", fmt.Sprintf(`{"spec":{"suspend":true,"schedule":%q}}`, yearly(ago)))},
			[]Condition{Seen("cronjobs", "web")},
		}
	}
	resume := []Action{Patch("cronjobs", "web", `{"spec":{"suspend":false}}`)}
	return Scenario{
		Name:        "cronjob-replaced",
		Controllers: func(c *manager.Config) []**bool { return []**bool{&c.Controllers.CronJob.Enabled} },
		Kinds:       []schema.GroupVersionResource{cronJobs, jobs},
		// Upstream deletes a Job of which no history is kept before it has taken down that it has finished.
		Differs: map[string]string{"event .* CronJob web: Normal (SawCompletedJob|MissingJob)": "CRON-52"},
		Steps: []Step{
			{
				"create one that is suspended",
				[]Action{Create(create), PatchStatus("cronjobs", "web", fmt.Sprintf(`{"status":{"lastScheduleTime":%q}}`, day(100).Format(time.RFC3339)))},
				nil,
			},
			{"resume it", resume, active(jobOf(60), 1)},
			reschedule(40),
			{"resume it when the next time is due", resume, append(active(jobOf(40), 1), Gone("jobs", jobOf(60)))},
			{"lose the Job", []Action{Delete("jobs", jobOf(40), metav1.DeletePropagationBackground)}, active("", 0)},
			reschedule(20),
			{"resume it when another time is due", resume, active(jobOf(20), 1)},
			{"have the Job fail", []Action{PatchStatus("jobs", jobOf(20), failed)}, active("", 0)},
			{
				"change the schedule to a day to come",
				[]Action{Patch("cronjobs", "web", fmt.Sprintf(`{"spec":{"schedule":%q}}`, yearly(-20)))},
				[]Condition{Seen("cronjobs", "web")},
			},
		},
	}
}

func ttlAfterFinished() Scenario {
	create := func(name, ttl string) Action {
		return Create(fmt.Sprintf("{apiVersion: batch/v1, kind: Job, metadata: {name: %s}, spec: {%s %s}}", name, ttl, jobSpec))
	}
	// Nobody collects the dependents, which the Job waits for.
	isDeleted := func(name string) Condition {
		return Has("jobs", name, "{.metadata.finalizers[0]}", metav1.FinalizerDeleteDependents)
	}
	return Scenario{
		Name:        "ttlafterfinished",
		Controllers: func(c *manager.Config) []**bool { return []**bool{&c.Controllers.TTLAfterFinished.Enabled} },
		Kinds:       []schema.GroupVersionResource{jobs},
		Steps: []Step{
			{
				"create",
				[]Action{create("soon", "ttlSecondsAfterFinished: 1,"), create("later", "ttlSecondsAfterFinished: 2000000000,"), create("never", "")},
				[]Condition{Count("jobs", "", 3)},
			},
			{
				"complete",
				[]Action{PatchStatus("jobs", "never", completed), PatchStatus("jobs", "later", completed), PatchStatus("jobs", "soon", completed)},
				[]Condition{isDeleted("soon")},
			},
			{"shorten a time", []Action{Patch("jobs", "later", `{"spec":{"ttlSecondsAfterFinished":1}}`)}, []Condition{isDeleted("later")}},
			{
				"create again under the name",
				[]Action{Patch("jobs", "soon", `{"metadata":{"finalizers":null}}`), create("soon", "")},
				[]Condition{Has("jobs", "soon", "{.spec.ttlSecondsAfterFinished}", "")},
			},
			{"complete that without a time", []Action{PatchStatus("jobs", "soon", completed)}, nil},
		},
	}
}
