package cronjob

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/robfig/cron/v3"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/reference"
	"k8s.io/klog/v2"
	"k8s.io/utils/ptr"

	"kcmd.dev/pkg/controller"
	"kcmd.dev/pkg/controllers/kit/pods"
	"kcmd.dev/pkg/controllers/kit/reconcile"
	"kcmd.dev/pkg/controllers/kit/writes"
)

// reconciliation is one reconcile of a CronJob.
type reconciliation struct {
	*cronJobController
	cj       *batchv1.CronJob // a copy, whose status is modified
	children []*batchv1.Job
	now      time.Time
	dirty    bool           // the status must be written
	again    *time.Duration // when it is reconciled again at the latest, nil if only an event causes that
	removed  []types.UID
	news     bool // a Job is kept until the cache shows its time and its success in the status
}

func (c *cronJobController) reconcile(ctx context.Context, cached *batchv1.CronJob) error {
	children, err := c.jobs.OwnedBy(kind.Kind, cached)
	if err != nil {
		return err
	}
	s := &reconciliation{cronJobController: c, cj: cached.DeepCopy(), children: children, now: c.Clock.Now()}
	wait, err := s.do(ctx)
	if s.news {
		s.within(s.untilRecorded())
	}
	if s.dirty {
		written, failure := c.Client.BatchV1().CronJobs(cached.Namespace).UpdateStatus(controller.OnlyMetadata(ctx), s.cj, metav1.UpdateOptions{})
		if failure != nil {
			return fmt.Errorf("updating the status of cron job %s: %w", klog.KObj(cached), failure)
		}
		s.cj.ObjectMeta = written.ObjectMeta
		c.owners.Wrote(cached, s.cj)
	}
	if wait == nil && err != nil {
		return err
	}
	if s.again != nil && (wait == nil || *wait > *s.again) {
		wait = s.again
	}
	if wait != nil {
		c.owners.EnqueueAfter(cached, *wait)
	}
	return nil
}

// within has the CronJob reconciled again after a delay, or before.
func (s *reconciliation) within(delay time.Duration) {
	if s.again == nil || *s.again > delay {
		s.again = &delay
	}
}

// untilRecorded returns the delay of the next reconcile if a Job is kept until the status tells of it. The write of the
// status records it. Without a write, the stored status has it already, and only the cache does not show that.
func (s *reconciliation) untilRecorded() time.Duration {
	if s.dirty {
		return 0
	}
	return reconcile.RecheckAfter
}

// in returns a pointer to a delay.
func in(d time.Duration) *time.Duration { return &d }

// do reconciles the CronJob and returns the delay until the next reconcile, nil if only an
// event causes one.
func (s *reconciliation) do(ctx context.Context) (*time.Duration, error) {
	s.prune(ctx)
	if err := s.trackChildren(ctx); err != nil {
		return nil, err
	}
	if err := s.trackActive(ctx); err != nil {
		return nil, err
	}
	if s.cj.DeletionTimestamp != nil {
		return nil, nil
	}
	schedule, ok := s.schedule()
	if !ok {
		return nil, nil
	}
	return s.start(ctx, schedule)
}

// prune deletes finished Jobs beyond the history limits, except for those whose success, or time,
// is yet to be recorded in the status: if that write failed, it would never be. Until its time is
// recorded, the Job is what keeps that from being run again.
func (s *reconciliation) prune(ctx context.Context) {
	news := append(unrecorded(s.cj, s.children, s.now), newestNews(s.cj, s.children))
	for _, job := range surplus(s.cj, s.children) {
		if slices.Contains(news, job) {
			s.news = true
			continue
		}
		switch err := s.delete(ctx, job); {
		case reconcile.Absent(err):
			s.gone(job)
		case err != nil:
			s.RecordFailure(ctx, failedDelete(s.cj, err))
			s.within(reconcile.RecheckAfter)
		}
	}
}

func (s *reconciliation) delete(ctx context.Context, job *batchv1.Job) error {
	err := s.Client.BatchV1().Jobs(job.Namespace).Delete(ctx, job.Name, metav1.DeleteOptions{
		PropagationPolicy: ptr.To(metav1.DeletePropagationBackground),
		Preconditions:     metav1.NewUIDPreconditions(string(job.UID)),
	})
	if err != nil {
		return err
	}
	s.gone(job)
	s.Record(deletedJob(s.cj, job.Name))
	return nil
}

// gone removes a deleted Job from the list of active ones.
func (s *reconciliation) gone(job *batchv1.Job) {
	s.dirty = s.dirty || isActive(s.cj, job.UID)
	removeActive(s.cj, job.UID)
	s.removed = append(s.removed, job.UID)
}

// trackChildren removes finished Jobs from the list of active ones, records the starts that are
// not, and reports other Jobs missing from the list.
func (s *reconciliation) trackChildren(ctx context.Context) error {
	if err := s.lookAgain(ctx); err != nil {
		return err
	}
	for _, job := range unrecorded(s.cj, s.children, s.now) {
		s.record(job)
	}
	for _, job := range s.children {
		if how := howEnded(job); how != "" {
			s.ended(job, how)
		} else if !isActive(s.cj, job.UID) {
			s.Record(unexpectedJob(s.cj, job.Name))
		}
	}
	return nil
}

// ended removes a finished Job from the list of active ones, and records its success.
func (s *reconciliation) ended(job *batchv1.Job, how batchv1.JobConditionType) {
	if isActive(s.cj, job.UID) {
		removeActive(s.cj, job.UID)
		s.Record(completedJob(s.cj, job.Name, how))
		s.dirty = true
	}
	if isNews(s.cj, job) {
		s.cj.Status.LastSuccessfulTime = job.Status.CompletionTime
		s.dirty = true
	}
}

// lookAgain reads the CronJob live if the cached status does not list a running Job, or not the
// start of a finished one, and continues with the live one. It runs before anything is recorded
// in the status, since that would be lost.
func (s *reconciliation) lookAgain(ctx context.Context) error {
	isMissing := func(job *batchv1.Job) bool { return isUnlisted(s.cj, job) }
	if !slices.ContainsFunc(s.children, isMissing) && len(unrecorded(s.cj, s.children, s.now)) == 0 {
		return nil
	}
	live, err := s.Client.BatchV1().CronJobs(s.cj.Namespace).Get(ctx, s.cj.Name, metav1.GetOptions{})
	if err != nil {
		return fmt.Errorf("reading cron job %s/%s: %w", s.cj.Namespace, s.cj.Name, err)
	}
	if live.UID != s.cj.UID {
		return reconcile.Requeue(fmt.Errorf("cron job %s/%s was recreated", s.cj.Namespace, s.cj.Name))
	}
	for _, uid := range s.removed {
		removeActive(live, uid)
	}
	s.cj = live
	return nil
}

// trackActive removes Jobs that no longer exist from the list of active ones, also if another one
// has the name, and those that have finished. No event tells of the end of a Job that was taken from the CronJob.
func (s *reconciliation) trackActive(ctx context.Context) error {
	known := map[types.UID]bool{}
	for _, job := range s.children {
		known[job.UID] = true
	}
	for _, ref := range append([]corev1.ObjectReference(nil), s.cj.Status.Active...) {
		if known[ref.UID] {
			continue
		}
		job, err := s.Client.BatchV1().Jobs(s.cj.Namespace).Get(ctx, ref.Name, metav1.GetOptions{})
		switch {
		case err == nil && job.UID == ref.UID:
			if how := howEnded(job); how != "" {
				s.ended(job, how)
			} else if metav1.IsControlledBy(job, s.cj) {
				s.within(reconcile.RecheckAfter)
			}
		case err == nil, reconcile.Absent(err):
			s.missing(ref)
		default:
			return fmt.Errorf("reading job %s/%s: %w", s.cj.Namespace, ref.Name, err)
		}
	}
	return nil
}

// missing removes a Job that no longer exists from the list of active ones.
func (s *reconciliation) missing(ref corev1.ObjectReference) {
	s.Record(missingJob(s.cj, ref.Name))
	removeActive(s.cj, ref.UID)
	s.dirty = true
}

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

// start creates the Job of the scheduled time that is due, if any.
func (s *reconciliation) start(ctx context.Context, schedule cron.Schedule) (*time.Duration, error) {
	scheduled, count, err := due(s.cj, schedule, s.now)
	if err != nil {
		s.Record(invalidSchedule(s.cj, err))
		return nil, nil
	}
	if count == missedMany {
		s.Record(tooManyMissedTimes(s.cj))
	}
	next := in(untilNext(s.cj, schedule, s.now))
	switch {
	case scheduled == nil:
		return next, nil
	case isTooLate(s.cj, *scheduled, s.now):
		s.Record(missSchedule(s.cj, *scheduled))
		return next, nil
	case isProcessed(s.cj, *scheduled):
		return next, nil
	}
	if err := s.lookForAttempt(ctx, jobName(s.cj, *scheduled)); err != nil {
		return nil, err
	}
	switch {
	case s.cj.Spec.ConcurrencyPolicy == batchv1.ForbidConcurrent && len(s.cj.Status.Active) > 0:
		s.Record(jobAlreadyActive(s.cj))
		return next, nil
	case s.cj.Spec.ConcurrencyPolicy == batchv1.ReplaceConcurrent:
		if err := s.replaceActive(ctx); err != nil {
			return nil, err
		}
	}
	job, err := s.create(ctx, *scheduled)
	switch {
	case err != nil:
		return nil, err
	case job == nil:
		return next, nil
	}
	return in(s.started(job, *scheduled, schedule)), nil
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
			s.gone(job) // another deletion could change what becomes of its pods
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
	if writes.MayHaveCreated(err) {
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

// lookForAttempt finds the Job of an earlier attempt whose creation had no answer, before one of another name is created:
// the cache may not show it yet, and the concurrency policy has to take it into account.
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

// record makes up for a status that does not tell of a Job that was started.
func (s *reconciliation) record(job *batchv1.Job) {
	if scheduled := scheduledTime(s.cj, job); howEnded(job) == "" {
		s.list(job, scheduled)
	} else {
		s.processed(scheduled)
	}
}

// started records a Job in the status and returns the delay until the next scheduled time.
func (s *reconciliation) started(job *batchv1.Job, scheduled time.Time, schedule cron.Schedule) time.Duration {
	s.list(job, scheduled)
	return untilNext(s.cj, schedule, s.now)
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
