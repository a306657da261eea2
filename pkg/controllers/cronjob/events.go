package cronjob

import (
	"fmt"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
)

// event is an event of a CronJob.
type event struct{ kind, reason, message string }

func normal(reason, format string, args ...any) event {
	return event{corev1.EventTypeNormal, reason, fmt.Sprintf(format, args...)}
}

func warning(reason, format string, args ...any) event {
	return event{corev1.EventTypeWarning, reason, fmt.Sprintf(format, args...)}
}

func deletedJob(name string) event { return normal("SuccessfulDelete", "Deleted job %v", name) }

func failedDelete(err error) event { return warning("FailedDelete", "Deleted job: %v", err) }

func createdJob(name string) event { return normal("SuccessfulCreate", "Created job %v", name) }

func failedCreate(err error) event { return warning("FailedCreate", "Error creating job: %v", err) }

func failedGet(err error) event { return warning("FailedGet", "Get job: %v", err) }

func unexpectedJob(name string) event {
	return warning("UnexpectedJob", "Saw a job that the controller did not create or forgot: %s", name)
}

func completedJob(name string, how batchv1.JobConditionType) event {
	return normal("SawCompletedJob", "Saw completed job: %s, condition: %v", name, how)
}

func missingJob(name string) event {
	return normal("MissingJob", "Active job went missing: %v", name)
}

func unsupportedSchedule(schedule string) event {
	return warning("UnsupportedSchedule", "CRON_TZ or TZ used in schedule %q is not officially supported, see https://kubernetes.io/docs/concepts/workloads/controllers/cron-jobs/ for more details", schedule)
}

func unparseableUpdate(schedule string) event {
	return warning("UnParseableCronJobSchedule", "unparseable schedule for cronjob: %s", schedule)
}

func unparseableSchedule(schedule string, err error) event {
	return warning("UnparseableSchedule", "unparseable schedule: %q : %s", schedule, err)
}

func invalidSchedule(schedule string, err error) event {
	return warning("InvalidSchedule", "invalid schedule: %s : %s", schedule, err)
}

func unknownTimeZone(zone string, err error) event {
	return warning("UnknownTimeZone", "invalid timeZone: %q: %s", zone, err)
}

func tooManyMissedTimes() event {
	return warning("TooManyMissedTimes", "too many missed start times. Set or decrease .spec.startingDeadlineSeconds or check clock skew")
}

func missSchedule(scheduled time.Time) event {
	return warning("MissSchedule", "Missed scheduled time to start a job: %s", scheduled.UTC().Format(time.RFC1123Z))
}

func jobAlreadyActive() event {
	return normal("JobAlreadyActive", "Not starting job because prior execution is running and concurrency policy is Forbid")
}
