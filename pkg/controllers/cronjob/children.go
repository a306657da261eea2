package cronjob

import (
	"context"
	"fmt"
	"slices"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"kcmd.dev/pkg/controllers/kit/reconcile"
)

// prune deletes finished Jobs beyond the history limits, except for those whose success, or time,
// is yet to be recorded in the status: if that write failed, it would never be recorded. Until its time is
// recorded, only the Job keeps that time from being run again.
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
// not recorded yet, and reports other Jobs that are missing from the list.
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
// has the name, and those that have finished. The end of a Job that was taken from the CronJob is no event.
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

// record adds a Job that was started to the status, which lacks it.
func (s *reconciliation) record(job *batchv1.Job) {
	if scheduled := scheduledTime(s.cj, job); howEnded(job) == "" {
		s.list(job, scheduled)
	} else {
		s.processed(scheduled)
	}
}
