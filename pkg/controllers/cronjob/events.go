package cronjob

import (
	"time"

	batchv1 "k8s.io/api/batch/v1"

	"kcmd.dev/pkg/controller"
)

func deletedJob(cj *batchv1.CronJob, name string) controller.Event {
	return controller.Normal(cj, "SuccessfulDelete", "Deleted job %v", name)
}

func failedDelete(cj *batchv1.CronJob, err error) controller.Event {
	return controller.Warning(cj, "FailedDelete", "Deleted job: %v", err)
}

func createdJob(cj *batchv1.CronJob, name string) controller.Event {
	return controller.Normal(cj, "SuccessfulCreate", "Created job %v", name)
}

func failedCreate(cj *batchv1.CronJob, err error) controller.Event {
	return controller.Warning(cj, "FailedCreate", "Error creating job: %v", err)
}

func failedGet(cj *batchv1.CronJob, err error) controller.Event {
	return controller.Warning(cj, "FailedGet", "Get job: %v", err)
}

func unexpectedJob(cj *batchv1.CronJob, name string) controller.Event {
	return controller.Warning(cj, "UnexpectedJob", "Saw a job that the controller did not create or forgot: %s", name)
}

func completedJob(cj *batchv1.CronJob, name string, how batchv1.JobConditionType) controller.Event {
	return controller.Normal(cj, "SawCompletedJob", "Saw completed job: %s, condition: %v", name, how)
}

func missingJob(cj *batchv1.CronJob, name string) controller.Event {
	return controller.Normal(cj, "MissingJob", "Active job went missing: %v", name)
}

func unsupportedSchedule(cj *batchv1.CronJob) controller.Event {
	return controller.Warning(cj, "UnsupportedSchedule", "CRON_TZ or TZ used in schedule %q is not officially supported, see https://kubernetes.io/docs/concepts/workloads/controllers/cron-jobs/ for more details", cj.Spec.Schedule)
}

func unparseableUpdate(cj *batchv1.CronJob) controller.Event {
	return controller.Warning(cj, "UnParseableCronJobSchedule",
		"unparseable schedule for cronjob: %s", cj.Spec.Schedule)
}

func unparseableSchedule(cj *batchv1.CronJob, err error) controller.Event {
	return controller.Warning(cj, "UnparseableSchedule", "unparseable schedule: %q : %s", cj.Spec.Schedule, err)
}

func invalidSchedule(cj *batchv1.CronJob, err error) controller.Event {
	return controller.Warning(cj, "InvalidSchedule", "invalid schedule: %s : %s", cj.Spec.Schedule, err)
}

func unknownTimeZone(cj *batchv1.CronJob, zone string, err error) controller.Event {
	return controller.Warning(cj, "UnknownTimeZone", "invalid timeZone: %q: %s", zone, err)
}

func tooManyMissedTimes(cj *batchv1.CronJob) controller.Event {
	return controller.Warning(cj, "TooManyMissedTimes",
		"too many missed start times. Set or decrease .spec.startingDeadlineSeconds or check clock skew")
}

func missSchedule(cj *batchv1.CronJob, scheduled time.Time) controller.Event {
	return controller.Warning(cj, "MissSchedule",
		"Missed scheduled time to start a job: %s", scheduled.UTC().Format(time.RFC1123Z))
}

func jobAlreadyActive(cj *batchv1.CronJob) controller.Event {
	return controller.Normal(cj, "JobAlreadyActive",
		"Not starting job because prior execution is running and concurrency policy is Forbid")
}
