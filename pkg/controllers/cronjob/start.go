package cronjob

import (
	"context"
	"fmt"
	"time"

	"github.com/robfig/cron/v3"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/reference"

	"kcmd.dev/pkg/controller"
	"kcmd.dev/pkg/controllers/kit/pods"
	"kcmd.dev/pkg/controllers/kit/requests"
)

// schedule returns the schedule to follow, if there is one.
func (r *reconciliation) schedule() (cron.Schedule, bool) {
	spec := &r.cj.Spec
	if spec.TimeZone != nil {
		if _, err := time.LoadLocation(*spec.TimeZone); err != nil {
			r.Record(unknownTimeZone(r.cj, *spec.TimeZone, err))
			return nil, false
		}
	}
	if spec.Suspend != nil && *spec.Suspend {
		return nil, false
	}
	if namesZone(spec) {
		r.Record(unsupportedSchedule(r.cj))
	}
	schedule, err := r.schedules.parse(effective(spec))
	if err != nil {
		r.Record(unparseableSchedule(r.cj, err))
		return nil, false
	}
	return schedule, true
}

// start creates the Job of the scheduled time that is due, if any, and has the CronJob reconciled at the next one.
func (r *reconciliation) start(ctx context.Context, schedule cron.Schedule) error {
	scheduled, count, err := due(r.cj, schedule, r.now)
	if err != nil {
		r.Record(invalidSchedule(r.cj, err))
		return nil
	}
	if count == missedMany {
		r.Record(tooManyMissedTimes(r.cj))
	}
	if scheduled != nil {
		if err := r.startAt(ctx, *scheduled); err != nil {
			return err
		}
	}
	r.within(untilNext(r.cj, schedule, r.now))
	return nil
}

// startAt creates the Job of a scheduled time, unless it is too late for that, was started before, or may not run
// beside another one.
func (r *reconciliation) startAt(ctx context.Context, scheduled time.Time) error {
	switch {
	case isTooLate(r.cj, scheduled, r.now):
		r.Record(missSchedule(r.cj, scheduled))
		return nil
	case isProcessed(r.cj, scheduled):
		return nil
	case r.starts.has(r.cj, scheduled):
		return r.recordStart(ctx, scheduled)
	}
	if err := r.lookForAttempt(ctx, jobName(r.cj, scheduled)); err != nil {
		return err
	}
	if err := r.lookForStarts(ctx); err != nil {
		return err
	}
	switch {
	case r.cj.Spec.ConcurrencyPolicy == batchv1.ForbidConcurrent && len(r.cj.Status.Active) > 0:
		r.Record(jobAlreadyActive(r.cj))
		return nil
	case r.cj.Spec.ConcurrencyPolicy == batchv1.ReplaceConcurrent:
		if err := r.replaceActive(ctx); err != nil {
			return err
		}
	}
	job, err := r.create(ctx, scheduled)
	if job != nil {
		r.list(job, scheduled)
	}
	return err
}

// recordStart records a time whose Job was created before. That may be gone by now.
func (r *reconciliation) recordStart(ctx context.Context, scheduled time.Time) error {
	job, err := r.startedAt(ctx, scheduled)
	switch {
	case err != nil && !controller.Absent(err):
		return err
	case job == nil || howEnded(job) != "":
		r.processed(scheduled)
	case !isActive(r.cj, job.UID):
		r.list(job, scheduled)
	}
	if r.owners.Writes.Attempted(r.cj) == jobName(r.cj, scheduled) {
		r.owners.Writes.CreateCertain(r.cj)
	}
	return nil
}

// startedAt returns the Job that was created for a time, as the cache or the API server has it; nil, or an error that
// says so, if there is none any more.
func (r *reconciliation) startedAt(ctx context.Context, scheduled time.Time) (*batchv1.Job, error) {
	name := jobName(r.cj, scheduled)
	for _, job := range r.children {
		if job.Name == name {
			return job, nil
		}
	}
	return r.createdEarlier(ctx, name)
}

// lookForStarts records the Jobs of other times that the status does not show yet, since the concurrency policy has to
// take those that run into account. The cache may lack them, or their times are later than now, because the clock was
// ahead when they were created.
func (r *reconciliation) lookForStarts(ctx context.Context) error {
	for _, scheduled := range r.started {
		if err := r.recordStart(ctx, scheduled); err != nil {
			return err
		}
	}
	return nil
}

// replaceActive deletes the running Jobs, but none that has finished or only has the name of one.
func (r *reconciliation) replaceActive(ctx context.Context) error {
	for _, ref := range append([]corev1.ObjectReference(nil), r.cj.Status.Active...) {
		job, err := r.Client.BatchV1().Jobs(r.cj.Namespace).Get(ctx, ref.Name, metav1.GetOptions{})
		if err != nil {
			r.RecordFailure(ctx, failedGet(r.cj, err))
			return fmt.Errorf("reading job %s/%s: %w", r.cj.Namespace, ref.Name, err)
		}
		if job.UID != ref.UID {
			r.missing(ref)
			continue
		}
		if how := howEnded(job); how != "" {
			r.ended(job, how) // the cache does not show it yet
			continue
		}
		if job.DeletionTimestamp != nil {
			r.gone(job) // another deletion could change whether its pods are deleted
			continue
		}
		if err := r.delete(ctx, job); err != nil {
			r.RecordFailure(ctx, failedDelete(r.cj, err))
			return fmt.Errorf("could not replace job %s/%s: %w", job.Namespace, job.Name, err)
		}
	}
	return nil
}

// create returns the Job of a scheduled time, created now or by an earlier attempt. It returns
// nil if that time has been processed or its name is taken.
func (r *reconciliation) create(ctx context.Context, scheduled time.Time) (*batchv1.Job, error) {
	job, err := newJob(r.cj, scheduled)
	if err != nil {
		return nil, fmt.Errorf("making the job of %s: %w", scheduled, err)
	}
	sent := r.Clock.Now()
	// Name, UID and time of the Job are all that is read.
	created, err := r.Client.BatchV1().Jobs(r.cj.Namespace).Create(controller.OnlyMetadata(ctx), job, metav1.CreateOptions{})
	if err == nil || apierrors.IsAlreadyExists(err) {
		r.owners.Writes.CreateCertain(r.cj)
	}
	switch {
	case err == nil:
		r.metrics.creationSkew.Observe(created.CreationTimestamp.Sub(scheduled).Seconds())
		r.Record(createdJob(r.cj, created.Name))
		return created, nil
	case apierrors.IsAlreadyExists(err):
		return r.createdEarlier(ctx, job.Name)
	case pods.NamespaceTerminating(err):
		return nil, fmt.Errorf("creating job %s/%s: %w", job.Namespace, job.Name, err)
	}
	if requests.MayHaveCreated(err) {
		r.owners.Writes.CreateUncertain(r.cj, job.Name, sent)
	}
	r.RecordFailure(ctx, failedCreate(r.cj, err))
	return nil, fmt.Errorf("creating job %s/%s: %w", job.Namespace, job.Name, err)
}

func (r *reconciliation) createdEarlier(ctx context.Context, name string) (*batchv1.Job, error) {
	job, err := r.Client.BatchV1().Jobs(r.cj.Namespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return nil, fmt.Errorf("reading job %s/%s: %w", r.cj.Namespace, name, err)
	}
	if !metav1.IsControlledBy(job, r.cj) || isActive(r.cj, job.UID) {
		return nil, nil
	}
	return job, nil
}

// lookForAttempt finds the Job of an earlier attempt whose creation had no answer, before one of another name is
// created: the cache may not show it yet, and the concurrency policy has to take it into account.
func (r *reconciliation) lookForAttempt(ctx context.Context, next string) error {
	name := r.owners.Writes.Attempted(r.cj)
	if name == "" || name == next {
		return nil
	}
	job, err := r.createdEarlier(ctx, name)
	switch {
	case controller.Absent(err) && r.cj.Spec.ConcurrencyPolicy == batchv1.AllowConcurrent:
		// It may run beside the next one, however late it is created.
	case controller.Absent(err):
		if err := r.owners.Writes.MayCreate(r.cj, next); err != nil {
			return err // the request may still be under way
		}
	case err != nil:
		return err
	case job != nil:
		if isUnrecorded(r.cj, job) {
			r.record(job)
		}
	}
	r.owners.Writes.CreateCertain(r.cj)
	return nil
}

// list adds the Job of a scheduled time to the list of active ones.
func (r *reconciliation) list(job *batchv1.Job, scheduled time.Time) {
	if ref, err := reference.GetReference(scheme.Scheme, job); err == nil {
		r.cj.Status.Active = append(r.cj.Status.Active, *ref)
		r.dirty = true
	}
	r.processed(scheduled)
}

// processed records that the Job of a scheduled time was started. One that is later than now is only remembered:
// nothing would be run before it.
func (r *reconciliation) processed(scheduled time.Time) {
	r.starts.add(r.cj, scheduled)
	last := r.cj.Status.LastScheduleTime
	if scheduled.After(r.now) || last != nil && !scheduled.After(last.Time) {
		return
	}
	r.cj.Status.LastScheduleTime = &metav1.Time{Time: scheduled}
	r.dirty = true
}
