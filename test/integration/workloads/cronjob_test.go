package workloads

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"kcmd.dev/test/await"
)

// theTest is who runs the Jobs of CronJobs and those that have ended: the controller of Jobs
// leaves them alone.
const theTest = "test.kcmd.dev/the-test"

func cronJob(t *testing.T, namespace string, spec batchv1.CronJobSpec) *batchv1.CronJob {
	t.Helper()
	spec.JobTemplate.Spec.ManagedBy = ptr.To(theTest)
	spec.JobTemplate.Spec.Template.Spec = corev1.PodSpec{RestartPolicy: corev1.RestartPolicyNever, Containers: []corev1.Container{{Name: "c", Image: "x"}}}
	created, err := admin.BatchV1().CronJobs(namespace).Create(t.Context(), &batchv1.CronJob{ObjectMeta: metav1.ObjectMeta{Name: "cron"}, Spec: spec}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return created
}

// ranAt makes a CronJob believe that it last ran some time ago.
func ranAt(t *testing.T, cj *batchv1.CronJob, ago time.Duration) {
	t.Helper()
	patch := fmt.Sprintf(`{"status":{"lastScheduleTime":%q}}`, time.Now().Add(-ago).UTC().Format(time.RFC3339))
	if _, err := admin.BatchV1().CronJobs(cj.Namespace).Patch(t.Context(), cj.Name, types.MergePatchType, []byte(patch), metav1.PatchOptions{}, "status"); err != nil {
		t.Fatal(err)
	}
}

func jobsOf(ctx context.Context, namespace string) ([]batchv1.Job, error) {
	list, err := admin.BatchV1().Jobs(namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	return list.Items, nil
}

// end gives a Job the status of one that has ended.
func end(t *testing.T, job *batchv1.Job, how batchv1.JobConditionType, when time.Time) {
	t.Helper()
	at := metav1.NewTime(when.Truncate(time.Second))
	job = job.DeepCopy()
	job.Status.StartTime = &at
	target := batchv1.JobFailureTarget
	if how == batchv1.JobComplete {
		target = batchv1.JobSuccessCriteriaMet
		job.Status.CompletionTime = &at
		job.Status.Succeeded = 1
	}
	for _, c := range []batchv1.JobConditionType{target, how} {
		job.Status.Conditions = append(job.Status.Conditions, batchv1.JobCondition{Type: c, Status: corev1.ConditionTrue, LastProbeTime: at, LastTransitionTime: at})
	}
	if _, err := admin.BatchV1().Jobs(job.Namespace).UpdateStatus(t.Context(), job, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
}

// Pins CRON-17, CRON-18b, CRON-27a, CRON-27e and CRON-27f.
func TestACronJobRunsKeepsTrackAndTidiesUp(t *testing.T) {
	t.Parallel()
	namespace := cluster.NamespaceForPods(t)
	cj := cronJob(t, namespace, batchv1.CronJobSpec{
		Schedule: "* * * * *", TimeZone: ptr.To("Asia/Tokyo"), ConcurrencyPolicy: batchv1.ForbidConcurrent,
		SuccessfulJobsHistoryLimit: ptr.To(int32(0)), FailedJobsHistoryLimit: ptr.To(int32(1)),
	})
	ranAt(t, cj, 3*time.Minute)
	var job batchv1.Job
	await.That(t, "a job is started", func(ctx context.Context) error {
		jobs, err := jobsOf(ctx, namespace)
		if err != nil || len(jobs) != 1 {
			return fmt.Errorf("%d jobs, %w", len(jobs), err)
		}
		job = jobs[0]
		return nil
	})
	if owner := metav1.GetControllerOf(&job); owner == nil || owner.UID != cj.UID || !strings.HasPrefix(job.Name, "cron-") {
		t.Errorf("the job is %+v", job.ObjectMeta)
	}
	if stamp := job.Annotations[batchv1.CronJobScheduledTimestampAnnotation]; !strings.HasSuffix(stamp, "+09:00") {
		t.Errorf("scheduled at %q", stamp)
	}
	cluster.WaitForEvent(t, namespace, cj.UID, "cronjob-controller Normal SuccessfulCreate: Created job "+job.Name)
	await.That(t, "the status lists the job", func(ctx context.Context) error {
		now, err := admin.BatchV1().CronJobs(namespace).Get(ctx, cj.Name, metav1.GetOptions{})
		if err != nil || len(now.Status.Active) != 1 || now.Status.Active[0].UID != job.UID || now.Status.LastScheduleTime == nil {
			return fmt.Errorf("status %+v, %w", now.Status, err)
		}
		return nil
	})
	end(t, &job, batchv1.JobComplete, time.Now())
	cluster.WaitForEvent(t, namespace, cj.UID, "cronjob-controller Normal SuccessfulDelete: Deleted job "+job.Name)
	await.That(t, "the job is off the list and its success noted", func(ctx context.Context) error {
		now, err := admin.BatchV1().CronJobs(namespace).Get(ctx, cj.Name, metav1.GetOptions{})
		if err != nil || slices.ContainsFunc(now.Status.Active, func(r corev1.ObjectReference) bool { return r.UID == job.UID }) || now.Status.LastSuccessfulTime == nil {
			return fmt.Errorf("status %+v, %w", now.Status, err)
		}
		return nil
	})
}

// Pins CRON-22.
func TestACronJobThatIsSuspendedDoesNotRun(t *testing.T) {
	t.Parallel()
	namespace := cluster.NamespaceForPods(t)
	cj := cronJob(t, namespace, batchv1.CronJobSpec{Schedule: "* * * * *", Suspend: ptr.To(true)})
	ranAt(t, cj, 3*time.Minute)
	patch := `{"spec":{"suspend":false,"concurrencyPolicy":"Replace"}}`
	before := time.Now()
	if _, err := admin.BatchV1().CronJobs(namespace).Patch(t.Context(), cj.Name, types.MergePatchType, []byte(patch), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	await.That(t, "a job is started once it goes on", func(ctx context.Context) error {
		jobs, err := jobsOf(ctx, namespace)
		if err != nil || len(jobs) == 0 {
			return fmt.Errorf("%d jobs, %w", len(jobs), err)
		}
		if jobs[0].CreationTimestamp.Time.Before(before.Truncate(time.Second)) {
			t.Error("a job was started while the cron job was suspended")
		}
		return nil
	})
}
