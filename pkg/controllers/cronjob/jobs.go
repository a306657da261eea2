package cronjob

import (
	"cmp"
	"maps"
	"slices"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"kcmd.dev/pkg/controllers/kit/workloads"
)

var kind = batchv1.SchemeGroupVersion.WithKind("CronJob")

// howEnded returns Complete or Failed, or "" if the Job has not finished.
func howEnded(job *batchv1.Job) batchv1.JobConditionType {
	if end := workloads.FinishOf(job); end != nil {
		return end.Type
	}
	return ""
}

// surplus returns the finished Jobs beyond the history limits, oldest first. One that is being
// deleted is no part of the history any more.
func surplus(cj *batchv1.CronJob, children []*batchv1.Job) []*batchv1.Job {
	var succeeded, failed []*batchv1.Job
	for _, job := range children {
		if job.DeletionTimestamp != nil {
			continue
		}
		switch howEnded(job) {
		case batchv1.JobComplete:
			succeeded = append(succeeded, job)
		case batchv1.JobFailed:
			failed = append(failed, job)
		}
	}
	return append(oldest(succeeded, cj.Spec.SuccessfulJobsHistoryLimit), oldest(failed, cj.Spec.FailedJobsHistoryLimit)...)
}

// oldest returns the Jobs beyond a limit, those without a start time last.
func oldest(jobs []*batchv1.Job, limit *int32) []*batchv1.Job {
	if limit == nil || len(jobs) <= int(*limit) {
		return nil
	}
	slices.SortFunc(jobs, func(a, b *batchv1.Job) int {
		switch startA, startB := a.Status.StartTime, b.Status.StartTime; {
		case startA == nil && startB != nil:
			return 1
		case startA != nil && startB == nil:
			return -1
		case startA != nil && !startA.Equal(startB):
			return startA.Compare(startB.Time)
		}
		return cmp.Compare(a.Name, b.Name)
	})
	return jobs[:len(jobs)-int(*limit)]
}

// isActive reports whether a Job is listed as active in the status.
func isActive(cj *batchv1.CronJob, uid types.UID) bool {
	return slices.ContainsFunc(cj.Status.Active, func(ref corev1.ObjectReference) bool { return ref.UID == uid })
}

func removeActive(cj *batchv1.CronJob, uid types.UID) {
	cj.Status.Active = slices.DeleteFunc(cj.Status.Active, func(ref corev1.ObjectReference) bool { return ref.UID == uid })
}

// unrecorded returns the Jobs of scheduled times that have come and that the status does not show as started, in
// the order of these times.
func unrecorded(cj *batchv1.CronJob, children []*batchv1.Job, now time.Time) []*batchv1.Job {
	var all []*batchv1.Job
	for _, job := range children {
		if isUnrecorded(cj, job) && !scheduledTime(cj, job).After(now) {
			all = append(all, job)
		}
	}
	slices.SortFunc(all, func(a, b *batchv1.Job) int { return scheduledTime(cj, a).Compare(scheduledTime(cj, b)) })
	return all
}

// isUnrecorded reports whether a Job is that of a scheduled time that the status does not show as started. One of an
// earlier time than the last one that is recorded was listed before.
func isUnrecorded(cj *batchv1.CronJob, job *batchv1.Job) bool {
	var last time.Time
	if cj.Status.LastScheduleTime != nil {
		last = cj.Status.LastScheduleTime.Time
	}
	return !isActive(cj, job.UID) && scheduledTime(cj, job).After(last)
}

// isUnlisted reports whether a Job runs but is not listed as active.
func isUnlisted(cj *batchv1.CronJob, job *batchv1.Job) bool {
	return howEnded(job) == "" && !isActive(cj, job.UID)
}

// isNews reports whether a Job has succeeded, later than the last one that is recorded.
func isNews(cj *batchv1.CronJob, job *batchv1.Job) bool {
	if howEnded(job) != batchv1.JobComplete || job.Status.CompletionTime == nil {
		return false
	}
	last := cj.Status.LastSuccessfulTime
	return last == nil || job.Status.CompletionTime.After(last.Time)
}

// newestNews returns the Job that has succeeded last if that is not recorded, else nil.
func newestNews(cj *batchv1.CronJob, children []*batchv1.Job) (newest *batchv1.Job) {
	for _, job := range children {
		if isNews(cj, job) && (newest == nil || job.Status.CompletionTime.After(newest.Status.CompletionTime.Time)) {
			newest = job
		}
	}
	return newest
}

// newJob returns the Job of a scheduled time.
func newJob(cj *batchv1.CronJob, scheduled time.Time) (*batchv1.Job, error) {
	zone := time.UTC
	if cj.Spec.TimeZone != nil {
		var err error
		if zone, err = time.LoadLocation(*cj.Spec.TimeZone); err != nil {
			return nil, err
		}
	}
	template := &cj.Spec.JobTemplate
	stamp := labels.Set{batchv1.CronJobScheduledTimestampAnnotation: scheduled.In(zone).Format(time.RFC3339)}
	return &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{
			Namespace:         cj.Namespace,
			Name:              jobName(cj, scheduled),
			Labels:            maps.Clone(template.Labels),
			Annotations:       labels.Merge(template.Annotations, stamp),
			CreationTimestamp: metav1.Time{Time: scheduled},
			OwnerReferences:   []metav1.OwnerReference{*metav1.NewControllerRef(cj, kind)},
		},
		Spec: *template.Spec.DeepCopy(),
	}, nil
}
