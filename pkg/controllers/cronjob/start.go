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
	"kcmd.dev/pkg/controllers/kit/reconcile"
	"kcmd.dev/pkg/controllers/kit/requests"
)

// schedule returns the schedule to follow, if there is one.
func (s *reconciliation) schedule() (cron.Schedule, bool) {
	spec := &s.cj.Spec
	if spec.TimeZone != nil {
		if _, err := time.LoadLocation(*spec.TimeZone); err != nil {
			s.Record(unknownTimeZone(s.cj, *spec.TimeZone, err))
			return nil, false
		}
	}
	if spec.Suspend != nil && *spec.Suspend {
		return nil, false
	}
	if namesZone(spec) {
		s.Record(unsupportedSchedule(s.cj))
	}
	schedule, err := s.schedules.parse(effective(spec))
	if err != nil {
		s.Record(unparseableSchedule(s.cj, err))
		return nil, false
	}
	return schedule, true
}

// start creates the Job of the scheduled time that is due, if any, and has the CronJob reconciled at the next one.
func (s *reconciliation) start(ctx context.Context, schedule cron.Schedule) error {
	scheduled, count, err := due(s.cj, schedule, s.now)
	if err != nil {
		s.Record(invalidSchedule(s.cj, err))
		return nil
	}
	if count == missedMany {
		s.Record(tooManyMissedTimes(s.cj))
	}
	if scheduled != nil {
		if err := s.startAt(ctx, *scheduled); err != nil {
			return err
		}
	}
	s.within(untilNext(s.cj, schedule, s.now))
	return nil
}

// startAt creates the Job of a scheduled time, unless it is too late for that, was started before, or may not run
// beside another one.
func (s *reconciliation) startAt(ctx context.Context, scheduled time.Time) error {
	switch {
	case isTooLate(s.cj, scheduled, s.now):
		s.Record(missSchedule(s.cj, scheduled))
		return nil
	case isProcessed(s.cj, scheduled):
		return nil
	}
	if err := s.lookForAttempt(ctx, jobName(s.cj, scheduled)); err != nil {
		return err
	}
	switch {
	case s.cj.Spec.ConcurrencyPolicy == batchv1.ForbidConcurrent && len(s.cj.Status.Active) > 0:
		s.Record(jobAlreadyActive(s.cj))
		return nil
	case s.cj.Spec.ConcurrencyPolicy == batchv1.ReplaceConcurrent:
		if err := s.replaceActive(ctx); err != nil {
			return err
		}
	}
	job, err := s.create(ctx, scheduled)
	if job != nil {
		s.list(job, scheduled)
	}
	return err
}

// replaceActive deletes the running Jobs, but none that has finished or only has the name of one.
func (s *reconciliation) replaceActive(ctx context.Context) error {
	for _, ref := range append([]corev1.ObjectReference(nil), s.cj.Status.Active...) {
		job, err := s.Client.BatchV1().Jobs(s.cj.Namespace).Get(ctx, ref.Name, metav1.GetOptions{})
		if err != nil {
			s.RecordFailure(ctx, failedGet(s.cj, err))
			return fmt.Errorf("reading job %s/%s: %w", s.cj.Namespace, ref.Name, err)
		}
		if job.UID != ref.UID {
			s.missing(ref)
			continue
		}
		if how := howEnded(job); how != "" {
			s.ended(job, how) // the cache does not show it yet
			continue
		}
		if job.DeletionTimestamp != nil {
			s.gone(job) // another deletion could change whether its pods are deleted
			continue
		}
		if err := s.delete(ctx, job); err != nil {
			s.RecordFailure(ctx, failedDelete(s.cj, err))
			return fmt.Errorf("could not replace job %s/%s: %w", job.Namespace, job.Name, err)
		}
	}
	return nil
}

// create returns the Job of a scheduled time, created now or by an earlier attempt. It returns
// nil if that time has been processed or its name is taken.
func (s *reconciliation) create(ctx context.Context, scheduled time.Time) (*batchv1.Job, error) {
	job, err := newJob(s.cj, scheduled)
	if err != nil {
		return nil, fmt.Errorf("making the job of %s: %w", scheduled, err)
	}
	// Name, UID and time of the Job are all that is read.
	created, err := s.Client.BatchV1().Jobs(s.cj.Namespace).Create(controller.OnlyMetadata(ctx), job, metav1.CreateOptions{})
	if err == nil || apierrors.IsAlreadyExists(err) {
		s.owners.Writes.CreateCertain(s.cj)
	}
	switch {
	case err == nil:
		s.metrics.creationSkew.Observe(created.CreationTimestamp.Sub(scheduled).Seconds())
		s.Record(createdJob(s.cj, created.Name))
		return created, nil
	case apierrors.IsAlreadyExists(err):
		return s.createdEarlier(ctx, job.Name)
	case pods.NamespaceTerminating(err):
		return nil, fmt.Errorf("creating job %s/%s: %w", job.Namespace, job.Name, err)
	}
	if requests.MayHaveCreated(err) {
		s.owners.Writes.CreateUncertain(s.cj, job.Name)
	}
	s.RecordFailure(ctx, failedCreate(s.cj, err))
	return nil, fmt.Errorf("creating job %s/%s: %w", job.Namespace, job.Name, err)
}

func (s *reconciliation) createdEarlier(ctx context.Context, name string) (*batchv1.Job, error) {
	job, err := s.Client.BatchV1().Jobs(s.cj.Namespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return nil, fmt.Errorf("reading job %s/%s: %w", s.cj.Namespace, name, err)
	}
	if !metav1.IsControlledBy(job, s.cj) || isActive(s.cj, job.UID) {
		return nil, nil
	}
	return job, nil
}

// lookForAttempt finds the Job of an earlier attempt whose creation had no answer, before one of another name is
// created: the cache may not show it yet, and the concurrency policy has to take it into account.
func (s *reconciliation) lookForAttempt(ctx context.Context, next string) error {
	name := s.owners.Writes.Attempted(s.cj)
	if name == "" || name == next {
		return nil
	}
	job, err := s.createdEarlier(ctx, name)
	switch {
	case reconcile.Absent(err):
		if err := s.owners.Writes.MayCreate(s.cj, next); err != nil {
			return err // the request may still be under way
		}
	case err != nil:
		return err
	case job != nil:
		for _, job := range unrecorded(s.cj, []*batchv1.Job{job}, s.now) {
			s.record(job)
		}
	}
	s.owners.Writes.CreateCertain(s.cj)
	return nil
}

// list adds the Job of a scheduled time to the list of active ones.
func (s *reconciliation) list(job *batchv1.Job, scheduled time.Time) {
	if ref, err := reference.GetReference(scheme.Scheme, job); err == nil {
		s.cj.Status.Active = append(s.cj.Status.Active, *ref)
	}
	s.processed(scheduled)
}

// processed records that the Job of a scheduled time was started.
func (s *reconciliation) processed(scheduled time.Time) {
	s.cj.Status.LastScheduleTime = &metav1.Time{Time: scheduled}
	s.dirty = true
}
