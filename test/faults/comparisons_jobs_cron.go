package faults

import (
	"fmt"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"kcmd.dev/test/manager"
)

// yearly is a schedule that runs once a year, on the day that was so many days ago.
func yearly(ago int) string { return fmt.Sprintf("0 0 %d %d *", day(ago).Day(), day(ago).Month()) }

// aCronJob creates one that is suspended. More are further fields of its spec, with a comma at the end of each.
func aCronJob(name, schedule, more string) Action {
	return Create(fmt.Sprintf("{apiVersion: batch/v1, kind: CronJob, metadata: {name: %s}, spec: {schedule: %q, suspend: true, %s jobTemplate: {metadata: {labels: {cron: %s}}, spec: {%s}}}}",
		name, schedule, more, name, jobSpec))
}

// lastRan has the status of a CronJob tell when it ran last.
func lastRan(name string, at time.Time) Action {
	return PatchStatus("cronjobs", name, fmt.Sprintf(`{"status":{"lastScheduleTime":%q}}`, at.Format(time.RFC3339)))
}

// resumed has a CronJob not be suspended any more.
func resumed(name string) Action { return Patch("cronjobs", name, `{"spec":{"suspend":false}}`) }

// suspendedAgain has it be suspended.
func suspendedAgain(name string) Action {
	return Patch("cronjobs", name, `{"spec":{"suspend":true}}`)
}

// cronJobName is the name of the Job of a CronJob for a time.
func cronJobName(cronJob string, at time.Time) string {
	return fmt.Sprintf("%s-%d", cronJob, at.Unix()/60)
}

// endedOn is a patch of the status of a Job that began and ended on a day of 2026, and has a condition.
func endedOn(day int, condition string) string {
	criterion := map[string]string{"Complete": "SuccessCriteriaMet", "Failed": "FailureTarget"}[condition]
	at := fmt.Sprintf("2026-01-%02dT00:00:00Z", day)
	patch := fmt.Sprintf(`{"status":{"startTime":%q,"conditions":[{"type":%q,"status":"True","lastTransitionTime":%q},{"type":%q,"status":"True","lastTransitionTime":%q}]`,
		at, criterion, at, condition, at)
	if condition == "Complete" {
		patch += fmt.Sprintf(`,"completionTime":%q`, at)
	}
	return patch + "}}"
}

// ownedByCron creates a Job that belongs to a CronJob.
func ownedByCron(cronJob, job, annotation string) Action {
	text := fmt.Sprintf("{apiVersion: batch/v1, kind: Job, metadata: {name: %s, labels: {cron: %s}, annotations: {%s}}, spec: {%s}}", job, cronJob, annotation, jobSpec)
	return CreateControlled("cronjobs", cronJob, text)
}

// cronJobsSchedules runs CronJobs on schedules of all kinds.
func cronJobsSchedules() Scenario {
	ran := func(name string) Condition {
		return Has("cronjobs", name, "{.status.active[*].name}", cronJobName(name, day(60)))
	}
	const zone = "timeZone: Etc/UTC, "
	inZone := func(offset time.Duration) time.Time { return day(60).Add(-offset) }
	annotated := func(name string, at time.Time, want string) Condition {
		return Has("jobs", cronJobName(name, at), `{.metadata.annotations.batch\.kubernetes\.io/cronjob-scheduled-timestamp}`, want)
	}
	never := func(name string) Condition { return Count("jobs", "cron="+name, 0) }
	create := []Action{
		aCronJob("plain", yearly(60), ""),
		aCronJob("utc", yearly(60), zone),
		aCronJob("kolkata", yearly(60), "timeZone: Asia/Kolkata, "),
		aCronJob("new-york", yearly(60), "timeZone: America/New_York, "),
		aCronJob("deadline", yearly(60), zone+"startingDeadlineSeconds: 10000000, "),
		aCronJob("deadline-over", yearly(60), zone+"startingDeadlineSeconds: 100, "),
		aCronJob("many-missed", yearly(60), zone),
		aCronJob("many-missed-deadline", yearly(60), zone+"startingDeadlineSeconds: 10000000, "),
		aCronJob("some-missed", yearly(60), zone),
		aCronJob("impossible", "0 0 31 2 *", zone),
		aCronJob("to-come", yearly(-60), zone),
		aCronJob("never-ran", yearly(60), zone),
		aCronJob("steps", fmt.Sprintf("0 0 %d-%d/1 %s *", day(60).Day(), day(60).Day(), strings.ToUpper(day(60).Format("Jan"))), zone),
		aCronJob("annually", "@annually", zone),
	}
	var resume []Action
	for _, name := range []string{"plain", "utc", "kolkata", "new-york", "deadline", "deadline-over", "some-missed", "impossible", "to-come", "steps", "annually"} {
		create = append(create, lastRan(name, day(100)))
		resume = append(resume, resumed(name))
	}
	for _, name := range []string{"many-missed", "many-missed-deadline"} {
		create = append(create, lastRan(name, day(150*365)))
		resume = append(resume, resumed(name))
	}
	create = append(create, lastRan("some-missed", day(50*365)))
	return Scenario{
		Name:        "cronjobs-schedules",
		Bare:        true,
		Controllers: func(c *manager.Config) []**bool { return []**bool{&c.Controllers.CronJob.Enabled} },
		Kinds:       []schema.GroupVersionResource{cronJobs, jobs},
		Steps: []Step{
			{"create", create, nil},
			{
				"resume",
				append(resume, resumed("never-ran")),
				[]Condition{
					ran("plain"), ran("utc"), annotated("kolkata", inZone(5*time.Hour+30*time.Minute), inZone(0).Format("2006-01-02")+"T00:00:00+05:30"),
					Count("jobs", "cron=new-york", 1), ran("deadline"), never("deadline-over"), ran("many-missed"), ran("many-missed-deadline"), ran("some-missed"),
					never("impossible"), never("to-come"), never("never-ran"), ran("steps"), annotated("utc", day(60), day(60).Format(time.RFC3339)),
				},
			},
			{
				// A manager that takes over wakes them, too.
				"change time zones and schedules, and wake them",
				[]Action{
					Patch("cronjobs", "utc", `{"spec":{"timeZone":"Europe/Berlin"}}`), Patch("cronjobs", "plain", fmt.Sprintf(`{"spec":{"schedule":%q}}`, yearly(40))),
					Patch("cronjobs", "impossible", fmt.Sprintf(`{"spec":{"schedule":%q}}`, yearly(60))), Patch("cronjobs", "deadline", `{"spec":{"jobTemplate":{"metadata":{"labels":{"new":"label"}}}}}`),
					Rest(batched), Patch("cronjobs", "utc", `{"metadata":{"labels":{"a":"b"}}}`), Patch("cronjobs", "plain", `{"metadata":{"labels":{"a":"b"}}}`),
					Patch("cronjobs", "impossible", `{"metadata":{"labels":{"a":"b"}}}`), Patch("cronjobs", "deadline-over", `{"spec":{"startingDeadlineSeconds":null}}`),
				},
				[]Condition{ran("impossible"), ran("deadline-over"), Has("jobs", cronJobName("plain", day(40)), "{.metadata.labels.cron}", "plain")},
			},
		},
	}
}

// cronJobsConcurrency has times come while Jobs run.
func cronJobsConcurrency() Scenario {
	active := func(name string, ago ...int) Condition {
		var names []string
		for _, days := range ago {
			names = append(names, cronJobName(name, day(days)))
		}
		return Has("cronjobs", name, "{.status.active[*].name}", strings.Join(names, " "))
	}
	var create, resume, next []Action
	names := map[string]string{
		"allow": "", "forbid": "concurrencyPolicy: Forbid, ", "replace": "concurrencyPolicy: Replace, ", "lost": "concurrencyPolicy: Forbid, ", "forbid-deadline": "concurrencyPolicy: Forbid, startingDeadlineSeconds: 10000000, ",
		"taken": "", "unexpected": "concurrencyPolicy: Allow, ",
	}
	for name, more := range names {
		create = append(create, aCronJob(name, yearly(60), "timeZone: Etc/UTC, "+more), lastRan(name, day(100)))
		resume = append(resume, resumed(name))
		next = append(next, Patch("cronjobs", name, fmt.Sprintf(`{"spec":{"suspend":true,"schedule":%q}}`, yearly(40))))
	}
	another := Create(fmt.Sprintf("{apiVersion: batch/v1, kind: Job, metadata: {name: %s}, spec: {%s}}", cronJobName("taken", day(60)), jobSpec))
	return Scenario{
		Name:        "cronjobs-concurrency",
		Bare:        true,
		Controllers: func(c *manager.Config) []**bool { return []**bool{&c.Controllers.CronJob.Enabled} },
		Kinds:       []schema.GroupVersionResource{cronJobs, jobs},
		Steps: []Step{
			{"create", append(create, another), nil},
			{
				"resume", append(resume, ownedByCron("unexpected", "by-hand", "")),
				[]Condition{active("allow", 60), active("forbid", 60), active("replace", 60), active("lost", 60), active("forbid-deadline", 60), active("unexpected", 60)},
			},
			{"have another time be due", append(next, Rest(batched)), nil},
			{
				"resume again", append([]Action{Delete("jobs", cronJobName("lost", day(60)), metav1.DeletePropagationBackground)}, resume...),
				[]Condition{active("allow", 60, 40), active("replace", 40), active("lost", 40), active("forbid", 60), active("forbid-deadline", 60), active("taken", 40)},
			},
			{
				"have Jobs end",
				[]Action{
					Rest(batched), PatchStatus("jobs", cronJobName("forbid", day(60)), completed), PatchStatus("jobs", cronJobName("forbid-deadline", day(60)), failed), PatchStatus("jobs", cronJobName("allow", day(40)), completed),
					PatchStatus("jobs", cronJobName("replace", day(40)), failed), PatchStatus("jobs", "by-hand", completed), suspendedAgain("lost"),
				},
				[]Condition{active("forbid", 40), active("forbid-deadline", 40), active("allow", 60), active("replace"), Has("cronjobs", "unexpected", "{.status.lastSuccessfulTime}", "2026-01-01T00:00:01Z")},
			},
			{
				"delete Jobs, and a CronJob", // nobody collects what that leaves
				[]Action{Delete("jobs", cronJobName("forbid", day(40)), metav1.DeletePropagationBackground), Delete("cronjobs", "allow", metav1.DeletePropagationBackground), Delete("cronjobs", "replace", metav1.DeletePropagationOrphan)},
				[]Condition{active("forbid")},
			},
		},
	}
}

// cronJobsHistory prunes what CronJobs have run.
func cronJobsHistory() Scenario {
	var create, end []Action
	for _, one := range []struct{ name, more string }{
		{"default", ""},
		{"none", "successfulJobsHistoryLimit: 0, failedJobsHistoryLimit: 0, "},
		{"one", "successfulJobsHistoryLimit: 1, failedJobsHistoryLimit: 2, "},
		{"all", "successfulJobsHistoryLimit: 10, failedJobsHistoryLimit: 10, "},
	} {
		create = append(create, aCronJob(one.name, yearly(-60), one.more))
		for i := 1; i <= 10; i++ {
			create = append(create, ownedByCron(one.name, fmt.Sprintf("%s-%d", one.name, i), ""))
			condition := "Complete"
			if i%2 == 0 {
				condition = "Failed"
			}
			end = append(end, PatchStatus("jobs", fmt.Sprintf("%s-%d", one.name, i), endedOn(1+i*7%11, condition)))
		}
	}
	return Scenario{
		Name:        "cronjobs-history",
		Bare:        true,
		Controllers: func(c *manager.Config) []**bool { return []**bool{&c.Controllers.CronJob.Enabled} },
		Kinds:       []schema.GroupVersionResource{cronJobs, jobs},
		Before:      append(create, end...), // events about Jobs that run would leave no room for others
		Steps: []Step{
			{"wait", nil, []Condition{Count("jobs", "cron=none", 0), Count("jobs", "cron=one", 3), Count("jobs", "cron=default", 4), Count("jobs", "cron=all", 10)}},
			{"keep fewer", []Action{Patch("cronjobs", "all", `{"spec":{"successfulJobsHistoryLimit":2}}`)}, []Condition{Count("jobs", "cron=all", 7)}},
		},
	}
}
