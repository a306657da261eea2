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

	"kcmd.dev/pkg/controller"
	"kcmd.dev/pkg/controllers/kit/reconcile"
)

// prune deletes finished Jobs beyond the history limits, except for those whose success, or time,
// is yet to be recorded in the status: if that write failed, it would never be recorded. Until its time is
// recorded, only the Job keeps that time from being run again.
func (r *reconciliation) prune(ctx context.Context) {
	news := append(unrecorded(r.cj, r.children, r.now), newestNews(r.cj, r.children))
	for _, job := range surplus(r.cj, r.children) {
		if slices.Contains(news, job) {
			r.news = true
			continue
		}
		switch err := r.delete(ctx, job); {
		case controller.Absent(err):
			r.gone(job)
		case err != nil:
			r.RecordFailure(ctx, failedDelete(r.cj, err))
			r.within(reconcile.RecheckAfter)
		}
	}
}

func (r *reconciliation) delete(ctx context.Context, job *batchv1.Job) error {
	err := r.Client.BatchV1().Jobs(job.Namespace).Delete(ctx, job.Name, metav1.DeleteOptions{
		PropagationPolicy: ptr.To(metav1.DeletePropagationBackground),
		Preconditions:     metav1.NewUIDPreconditions(string(job.UID)),
	})
	if err != nil {
		return err
	}
	r.gone(job)
	r.Record(deletedJob(r.cj, job.Name))
	return nil
}

// gone removes a deleted Job from the list of active ones.
func (r *reconciliation) gone(job *batchv1.Job) {
	r.dirty = r.dirty || isActive(r.cj, job.UID)
	removeActive(r.cj, job.UID)
	r.removed = append(r.removed, job.UID)
}

// trackChildren removes finished Jobs from the list of active ones, records the starts that are
// not recorded yet, and reports other Jobs that are missing from the list.
func (r *reconciliation) trackChildren(ctx context.Context) error {
	if err := r.lookAgain(ctx); err != nil {
		return err
	}
	for _, job := range unrecorded(r.cj, r.children, r.now) {
		r.record(job)
	}
	for _, job := range r.children {
		if how := howEnded(job); how != "" {
			r.ended(job, how)
		} else if !isActive(r.cj, job.UID) {
			r.Record(unexpectedJob(r.cj, job.Name))
		}
	}
	return nil
}

// ended removes a finished Job from the list of active ones, and records its success.
func (r *reconciliation) ended(job *batchv1.Job, how batchv1.JobConditionType) {
	if isActive(r.cj, job.UID) {
		removeActive(r.cj, job.UID)
		r.Record(completedJob(r.cj, job.Name, how))
		r.dirty = true
	}
	if isNews(r.cj, job) {
		r.cj.Status.LastSuccessfulTime = job.Status.CompletionTime
		r.dirty = true
	}
}

// lookAgain reads the CronJob live if the cached status does not list a running Job, or not the
// start of a finished one, and continues with the live one. It runs before anything is recorded
// in the status, since that would be lost.
func (r *reconciliation) lookAgain(ctx context.Context) error {
	isMissing := func(job *batchv1.Job) bool { return isUnlisted(r.cj, job) }
	if !slices.ContainsFunc(r.children, isMissing) && len(unrecorded(r.cj, r.children, r.now)) == 0 {
		return nil
	}
	live, err := r.Client.BatchV1().CronJobs(r.cj.Namespace).Get(ctx, r.cj.Name, metav1.GetOptions{})
	if err != nil {
		return fmt.Errorf("reading cron job %s/%s: %w", r.cj.Namespace, r.cj.Name, err)
	}
	if live.UID != r.cj.UID {
		return reconcile.Requeue(fmt.Errorf("cron job %s/%s was recreated", r.cj.Namespace, r.cj.Name))
	}
	for _, uid := range r.removed {
		removeActive(live, uid)
	}
	r.cj = live
	return nil
}

// trackActive removes Jobs that no longer exist from the list of active ones, also if another one
// has the name, and those that have finished. The end of a Job that was taken from the CronJob is no event.
func (r *reconciliation) trackActive(ctx context.Context) error {
	known := map[types.UID]bool{}
	for _, job := range r.children {
		known[job.UID] = true
	}
	for _, ref := range append([]corev1.ObjectReference(nil), r.cj.Status.Active...) {
		if known[ref.UID] {
			continue
		}
		job, err := r.Client.BatchV1().Jobs(r.cj.Namespace).Get(ctx, ref.Name, metav1.GetOptions{})
		switch {
		case err == nil && job.UID == ref.UID:
			if how := howEnded(job); how != "" {
				r.ended(job, how)
			} else if metav1.IsControlledBy(job, r.cj) {
				r.within(reconcile.RecheckAfter)
			}
		case err == nil, controller.Absent(err):
			r.missing(ref)
		default:
			return fmt.Errorf("reading job %s/%s: %w", r.cj.Namespace, ref.Name, err)
		}
	}
	return nil
}

// missing removes a Job that no longer exists from the list of active ones.
func (r *reconciliation) missing(ref corev1.ObjectReference) {
	r.Record(missingJob(r.cj, ref.Name))
	removeActive(r.cj, ref.UID)
	r.dirty = true
}

// record adds a Job that was started to the status, which lacks it.
func (r *reconciliation) record(job *batchv1.Job) {
	if scheduled := scheduledTime(r.cj, job); howEnded(job) == "" {
		r.list(job, scheduled)
	} else {
		r.processed(scheduled)
	}
}
