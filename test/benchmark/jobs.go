package benchmark

import (
	"context"
	"errors"
	"fmt"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/utils/ptr"

	"kcmd.dev/test/benchmark/report"
)

const (
	cronJobs = 500
	jobs     = 5000
)

// runCronJobs creates CronJobs that are all due at the beginning of one minute, and only
// then. Each runs a Job of one pod.
func runCronJobs(ctx context.Context, s *stage) error {
	if err := s.start(ctx); err != nil {
		return err
	}
	if err := s.namespace(ctx, load); err != nil {
		return err
	}
	n := scaled(cronJobs, s.options.Scale)
	// Long enough for all of them to be created and seen.
	due := time.Now().UTC().Add(10*time.Second + time.Duration(n)*10*time.Millisecond).Truncate(time.Minute).Add(time.Minute)
	err := each(ctx, n, func(ctx context.Context, i int) error {
		_, err := s.client.BatchV1().CronJobs(load).Create(ctx, newCronJob(i, due), metav1.CreateOptions{})
		return err
	})
	if err != nil {
		return err
	}
	if err := s.settle(ctx); err != nil {
		return err
	}
	if time.Now().After(due) {
		return errors.New("the CronJobs were due before the manager was ready")
	}
	// The phase begins with the work: how long the manager waits for it differs from run to run.
	if err := pause(ctx, time.Until(due.Add(-time.Second))); err != nil {
		return err
	}
	return s.measure(ctx, phase{
		name: "cronjobs", size: fmt.Sprintf("%d CronJobs due in the same minute, until all have run", n), units: float64(n), unit: "run",
		work: func(ctx context.Context, figures map[string]float64) error {
			if err := s.untilRun(ctx, n); err != nil {
				return err
			}
			figures[report.Wall] = time.Since(due).Seconds()
			return nil
		},
		check: s.describeJobs,
	})
}

func newCronJob(i int, due time.Time) *batchv1.CronJob {
	return &batchv1.CronJob{ObjectMeta: metav1.ObjectMeta{Name: numbered("cron", i)}, Spec: batchv1.CronJobSpec{
		Schedule: fmt.Sprintf("%d %d %d %d *", due.Minute(), due.Hour(), due.Day(), due.Month()),
		TimeZone: ptr.To("UTC"),
		JobTemplate: batchv1.JobTemplateSpec{Spec: batchv1.JobSpec{
			Template: podTemplate(map[string]string{"app": "cron"}, corev1.RestartPolicyNever),
		}},
	}}
}

// untilRun watches until n CronJobs have run and have nothing running.
func (s *stage) untilRun(ctx context.Context, n int) error {
	w, err := s.client.BatchV1().CronJobs(load).Watch(ctx, metav1.ListOptions{ResourceVersion: "0"})
	if err != nil {
		return err
	}
	defer w.Stop()
	done := sets.New[string]()
	for done.Len() < n {
		select {
		case event, open := <-w.ResultChan():
			cron, ok := event.Object.(*batchv1.CronJob)
			if !open || !ok {
				return fmt.Errorf("watching CronJobs: the watch ended with %v", event.Object)
			}
			if cron.Status.LastSuccessfulTime != nil && len(cron.Status.Active) == 0 {
				done.Insert(cron.Name)
			}
		case <-ctx.Done():
			return fmt.Errorf("waiting for CronJobs, %d of %d have run: %w", done.Len(), n, context.Cause(ctx))
		case <-s.manager.Exited():
			return errors.New("waiting for CronJobs: the manager has ended")
		}
	}
	return nil
}

func (s *stage) describeJobs(ctx context.Context) (string, error) {
	list, err := s.client.BatchV1().Jobs(load).List(ctx, metav1.ListOptions{})
	if err != nil {
		return "", err
	}
	t := tally{}
	for _, j := range list.Items {
		t.add("Jobs of a %s, %d succeeded, %d active, complete %t", metav1.GetControllerOf(&j).Kind, j.Status.Succeeded, j.Status.Active, j.Status.CompletionTime != nil)
	}
	return t.String(), nil
}

// runTTL stores Jobs that finished long ago, before the manager is started, with times to
// live that all end at a moment when it is ready.
func runTTL(ctx context.Context, s *stage) error {
	if err := s.namespace(ctx, load); err != nil {
		return err
	}
	n := scaled(jobs, s.options.Scale)
	finished := time.Now().Add(-time.Hour)
	expiry := time.Now().Add(15*time.Second + time.Duration(n)*6*time.Millisecond)
	if err := s.createFinishedJobs(ctx, n, finished, expiry); err != nil {
		return err
	}
	if err := s.start(ctx); err != nil {
		return err
	}
	if time.Now().After(expiry) {
		return errors.New("the Jobs expired before the manager was ready")
	}
	return s.measure(ctx, phase{
		name: "ttl", size: fmt.Sprintf("%d finished Jobs whose time to live ends at the same moment", n), units: float64(n), unit: "Job",
		work: func(ctx context.Context, figures map[string]float64) error {
			err := s.until(ctx, "all Jobs are gone", func(ctx context.Context) error {
				list, err := s.client.BatchV1().Jobs(load).List(ctx, one)
				if err == nil && len(list.Items) > 0 {
					err = fmt.Errorf("%d are left", count(len(list.Items), list.ListMeta))
				}
				return err
			})
			figures[report.Wall] = time.Since(expiry).Seconds()
			return err
		},
	})
}

func (s *stage) createFinishedJobs(ctx context.Context, n int, finished, expiry time.Time) error {
	start, end := metav1.NewTime(finished.Add(-time.Minute)), metav1.NewTime(finished)
	ttl := int32(expiry.Sub(finished).Seconds())
	return each(ctx, n, func(ctx context.Context, i int) error {
		job := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Name: numbered("job", i)}, Spec: batchv1.JobSpec{
			TTLSecondsAfterFinished: &ttl,
			Template:                podTemplate(map[string]string{"app": "batch"}, corev1.RestartPolicyNever),
		}}
		created, err := s.client.BatchV1().Jobs(load).Create(ctx, job, metav1.CreateOptions{})
		if err != nil {
			return err
		}
		created.Status = batchv1.JobStatus{StartTime: &start, CompletionTime: &end, Succeeded: 1, Ready: ptr.To(int32(0))}
		for _, kind := range []batchv1.JobConditionType{batchv1.JobSuccessCriteriaMet, batchv1.JobComplete} {
			created.Status.Conditions = append(created.Status.Conditions, batchv1.JobCondition{
				Type: kind, Status: corev1.ConditionTrue, LastProbeTime: end, LastTransitionTime: end, Reason: batchv1.JobReasonCompletionsReached,
			})
		}
		_, err = s.client.BatchV1().Jobs(load).UpdateStatus(ctx, created, metav1.UpdateOptions{})
		return err
	})
}
