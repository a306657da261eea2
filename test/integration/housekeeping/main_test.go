// Package housekeeping tests, on a real API server, the controllers that start and clear
// away what others left: cron jobs, finished Jobs, pods that nobody ends, pod groups.
package housekeeping

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	schedulingv1alpha2 "k8s.io/api/scheduling/v1alpha2"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/ptr"

	"kcmd.dev/test/controlplane"
	"kcmd.dev/test/manager"
)

var (
	plane *controlplane.ControlPlane
	admin kubernetes.Interface
)

func TestMain(m *testing.M) {
	options := controlplane.Options{
		Nodes:                     1,
		NoServiceAccountAdmission: true,
		APIServerArgs: []string{
			"--feature-gates=GenericWorkload=true",
			"--runtime-config=scheduling.k8s.io/v1alpha2=true",
		},
	}
	os.Exit(manager.RunTests(m, options, housekeepers, func(cp *controlplane.ControlPlane, _ *manager.Manager) {
		plane, admin = cp, cp.AdminClient()
	}))
}

// housekeepers turns on what is tested here and nothing else.
func housekeepers(c *manager.Config) {
	c.FeatureGates = map[string]bool{"GenericWorkload": true}
	c.ControllerDefaults.Enabled = ptr.To(false)
	for _, enabled := range []**bool{
		&c.Controllers.CronJob.Enabled, &c.Controllers.TTLAfterFinished.Enabled,
		&c.Controllers.PodGarbageCollector.Enabled, &c.Controllers.PodGroupProtection.Enabled,
	} {
		*enabled = ptr.To(true)
	}
	c.Controllers.PodGarbageCollector.TerminatedPodThreshold = ptr.To(int32(2))
}

func eventually(t *testing.T, limit time.Duration, what string, check func(context.Context) error) {
	t.Helper()
	var last error
	err := wait.PollUntilContextTimeout(t.Context(), 25*time.Millisecond, limit, true, func(ctx context.Context) (bool, error) {
		last = check(ctx)
		return last == nil, nil
	})
	if err != nil {
		t.Fatalf("not so after %v: %s: %v", limit, what, last)
	}
}

// gone is nil if the answer of a GET is that the object does not exist.
func gone(err error) error {
	switch {
	case apierrors.IsNotFound(err):
		return nil
	case err == nil:
		return fmt.Errorf("it still exists")
	}
	return err
}

func cronJob(t *testing.T, namespace string, spec batchv1.CronJobSpec) *batchv1.CronJob {
	t.Helper()
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

func waitForEvent(t *testing.T, namespace, want string) {
	t.Helper()
	eventually(t, 30*time.Second, want, func(ctx context.Context) error {
		list, err := admin.CoreV1().Events(namespace).List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		var all []string
		for _, e := range list.Items {
			text := fmt.Sprintf("%s %s %s: %s", e.Source.Component, e.Type, e.Reason, e.Message)
			if strings.HasPrefix(text, want) {
				return nil
			}
			all = append(all, text)
		}
		return fmt.Errorf("events: %q", all)
	})
}

func TestACronJobRunsKeepsTrackAndTidiesUp(t *testing.T) {
	t.Parallel()
	namespace := plane.Namespace(t)
	cj := cronJob(t, namespace, batchv1.CronJobSpec{
		Schedule: "* * * * *", TimeZone: ptr.To("Asia/Tokyo"), ConcurrencyPolicy: batchv1.ForbidConcurrent,
		SuccessfulJobsHistoryLimit: ptr.To(int32(0)), FailedJobsHistoryLimit: ptr.To(int32(1)),
	})
	ranAt(t, cj, 3*time.Minute)
	var job batchv1.Job
	eventually(t, 30*time.Second, "a job is started", func(ctx context.Context) error {
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
	waitForEvent(t, namespace, "cronjob-controller Normal SuccessfulCreate: Created job "+job.Name)
	eventually(t, 30*time.Second, "the status lists the job", func(ctx context.Context) error {
		now, err := admin.BatchV1().CronJobs(namespace).Get(ctx, cj.Name, metav1.GetOptions{})
		if err != nil || len(now.Status.Active) != 1 || now.Status.Active[0].UID != job.UID || now.Status.LastScheduleTime == nil {
			return fmt.Errorf("status %+v, %w", now.Status, err)
		}
		return nil
	})
	end(t, &job, batchv1.JobComplete, time.Now())
	waitForEvent(t, namespace, "cronjob-controller Normal SuccessfulDelete: Deleted job "+job.Name)
	eventually(t, 30*time.Second, "the job is off the list and its success noted", func(ctx context.Context) error {
		now, err := admin.BatchV1().CronJobs(namespace).Get(ctx, cj.Name, metav1.GetOptions{})
		if err != nil || slices.ContainsFunc(now.Status.Active, func(r corev1.ObjectReference) bool { return r.UID == job.UID }) || now.Status.LastSuccessfulTime == nil {
			return fmt.Errorf("status %+v, %w", now.Status, err)
		}
		return nil
	})
}

func TestACronJobThatIsSuspendedDoesNotRun(t *testing.T) {
	t.Parallel()
	namespace := plane.Namespace(t)
	cj := cronJob(t, namespace, batchv1.CronJobSpec{Schedule: "* * * * *", Suspend: ptr.To(true)})
	ranAt(t, cj, 3*time.Minute)
	patch := `{"spec":{"suspend":false,"concurrencyPolicy":"Replace"}}`
	before := time.Now()
	if _, err := admin.BatchV1().CronJobs(namespace).Patch(t.Context(), cj.Name, types.MergePatchType, []byte(patch), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, 30*time.Second, "a job is started once it goes on", func(ctx context.Context) error {
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

func TestAFinishedJobGoesWhenItsTimeIsOver(t *testing.T) {
	t.Parallel()
	namespace := plane.Namespace(t)
	create := func(name string, ttl *int32) *batchv1.Job {
		t.Helper()
		job := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: batchv1.JobSpec{TTLSecondsAfterFinished: ttl, Template: corev1.PodTemplateSpec{
			Spec: corev1.PodSpec{RestartPolicy: corev1.RestartPolicyNever, Containers: []corev1.Container{{Name: "c", Image: "x"}}},
		}}}
		created, err := admin.BatchV1().Jobs(namespace).Create(t.Context(), job, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return created
	}
	soon, later, never := create("soon", ptr.To(int32(2))), create("later", ptr.To(int32(3600))), create("never", nil)
	for _, job := range []*batchv1.Job{soon, later, never} {
		end(t, job, batchv1.JobComplete, time.Now())
	}
	deleting := func(name string) func(context.Context) error {
		return func(ctx context.Context) error {
			job, err := admin.BatchV1().Jobs(namespace).Get(ctx, name, metav1.GetOptions{})
			if err == nil && job.DeletionTimestamp != nil {
				if !slices.Contains(job.Finalizers, metav1.FinalizerDeleteDependents) {
					return fmt.Errorf("it is not deleted in the foreground: %v", job.Finalizers)
				}
				return nil
			}
			return gone(err)
		}
	}
	eventually(t, 30*time.Second, "the job is deleted", deleting("soon"))
	if _, err := admin.BatchV1().Jobs(namespace).Patch(t.Context(), "later", types.MergePatchType, []byte(`{"spec":{"ttlSecondsAfterFinished":1}}`), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, 30*time.Second, "the job whose time was shortened is deleted", deleting("later"))
	if job, err := admin.BatchV1().Jobs(namespace).Get(t.Context(), "never", metav1.GetOptions{}); err != nil || job.DeletionTimestamp != nil {
		t.Errorf("the job without a time to live: %v %v", job, err)
	}
}

func pod(t *testing.T, namespace, name string, edit func(*corev1.Pod)) *corev1.Pod {
	t.Helper()
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "x"}}}}
	edit(p)
	created, err := admin.CoreV1().Pods(namespace).Create(t.Context(), p, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return created
}

func TestPodsThatNobodyEndsAreDeleted(t *testing.T) {
	t.Parallel()
	namespace := plane.Namespace(t)
	const hold = "test.kcmd.dev/hold"
	// The node exists while its pod is bound to it, and goes.
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "short-lived"}}
	if _, err := admin.CoreV1().Nodes().Create(t.Context(), node, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	pod(t, namespace, "lost", func(p *corev1.Pod) { p.Spec.NodeName, p.Finalizers = "short-lived", []string{hold} })
	if err := admin.CoreV1().Nodes().Delete(t.Context(), "short-lived", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	// Without a kubelet, a pod being deleted that was never scheduled stays, held by its finalizer.
	pod(t, namespace, "never-scheduled", func(p *corev1.Pod) { p.Finalizers = []string{hold} })
	if err := admin.CoreV1().Pods(namespace).Delete(t.Context(), "never-scheduled", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	for n := range 4 {
		name := fmt.Sprint("ended-", n)
		pod(t, namespace, name, func(*corev1.Pod) {})
		if _, err := admin.CoreV1().Pods(namespace).Patch(t.Context(), name, types.MergePatchType, []byte(`{"status":{"phase":"Succeeded"}}`), metav1.PatchOptions{}, "status"); err != nil {
			t.Fatal(err)
		}
	}

	eventually(t, 60*time.Second, "no more ended pods are left than the threshold", func(ctx context.Context) error {
		list, err := admin.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{FieldSelector: "status.phase=Succeeded"})
		if err != nil || len(list.Items) > 2 {
			return fmt.Errorf("%d are left, %w", len(list.Items), err)
		}
		return nil
	})
	failed := func(name string) *corev1.Pod {
		t.Helper()
		var p *corev1.Pod
		eventually(t, 100*time.Second, name+" is Failed and being deleted", func(ctx context.Context) (err error) {
			if p, err = admin.CoreV1().Pods(namespace).Get(ctx, name, metav1.GetOptions{}); err != nil {
				return err
			}
			if p.Status.Phase != corev1.PodFailed || p.DeletionTimestamp == nil || *p.DeletionGracePeriodSeconds != 0 {
				return fmt.Errorf("phase %s, deleted at %v", p.Status.Phase, p.DeletionTimestamp)
			}
			return nil
		})
		return p
	}
	failed("never-scheduled")
	lost := failed("lost")
	target := slices.IndexFunc(lost.Status.Conditions, func(c corev1.PodCondition) bool { return c.Type == corev1.DisruptionTarget })
	if target < 0 || lost.Status.Conditions[target].Reason != "DeletionByPodGC" || lost.Status.Conditions[target].Message != "PodGC: node no longer exists" {
		t.Errorf("conditions: %+v", lost.Status.Conditions)
	}
	for _, name := range []string{"never-scheduled", "lost"} {
		if _, err := admin.CoreV1().Pods(namespace).Patch(t.Context(), name, types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{}); err != nil {
			t.Error(err)
		}
	}
}

func TestAPodGroupStaysWhileItHasPods(t *testing.T) {
	t.Parallel()
	namespace := plane.Namespace(t)
	groups := admin.SchedulingV1alpha2().PodGroups(namespace)
	group := &schedulingv1alpha2.PodGroup{ObjectMeta: metav1.ObjectMeta{Name: "group"}, Spec: schedulingv1alpha2.PodGroupSpec{
		SchedulingPolicy: schedulingv1alpha2.PodGroupSchedulingPolicy{Basic: &schedulingv1alpha2.BasicSchedulingPolicy{}},
	}}
	created, err := groups.Create(t.Context(), group, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Contains(created.Finalizers, "scheduling.k8s.io/podgroup-protection") {
		t.Fatalf("the API server did not protect the group: %v", created.Finalizers)
	}
	pod(t, namespace, "member", func(p *corev1.Pod) {
		p.Spec.SchedulingGroup = &corev1.PodSchedulingGroup{PodGroupName: ptr.To("group")}
	})
	if err := groups.Delete(t.Context(), "group", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	other := group.DeepCopy()
	other.Name = "empty"
	if _, err := groups.Create(t.Context(), other, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := groups.Delete(t.Context(), "empty", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, 30*time.Second, "the group without pods goes", func(ctx context.Context) error {
		_, err := groups.Get(ctx, "empty", metav1.GetOptions{})
		return gone(err)
	})
	if _, err := groups.Get(t.Context(), "group", metav1.GetOptions{}); err != nil {
		t.Fatalf("the group with a pod is gone: %v", err)
	}
	if _, err := admin.CoreV1().Pods(namespace).Patch(t.Context(), "member", types.MergePatchType, []byte(`{"status":{"phase":"Succeeded"}}`), metav1.PatchOptions{}, "status"); err != nil {
		t.Fatal(err)
	}
	eventually(t, 30*time.Second, "the group goes with its last pod", func(ctx context.Context) error {
		_, err := groups.Get(ctx, "group", metav1.GetOptions{})
		return gone(err)
	})
}
