package workloads

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/retry"
	"k8s.io/utils/ptr"

	"kcmd.dev/test/await"
	"kcmd.dev/test/integration/harness"
	"kcmd.dev/test/must"
)

// createJob creates a Job named pi. Its pods end as soon as they run, unless they cannot
// be scheduled (held) or are on a node that does not exist (haunted).
func createJob(t *testing.T, namespace string, completions, parallelism int32, edits ...func(*batchv1.Job)) *batchv1.Job {
	t.Helper()
	job := &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{Name: "pi"},
		Spec:       batchv1.JobSpec{Completions: &completions, Parallelism: &parallelism, Template: harness.PodTemplate("pi", "pi:1")},
	}
	job.Spec.Template.Spec.RestartPolicy = corev1.RestartPolicyNever
	for _, edit := range edits {
		edit(job)
	}
	return must.Get(admin.BatchV1().Jobs(namespace).Create(t.Context(), job, metav1.CreateOptions{}))(t)
}

func held(j *batchv1.Job) { harness.Unschedulable(&j.Spec.Template) }

func haunted(j *batchv1.Job) { j.Spec.Template.Spec.NodeName = harness.Ghost }

func indexedJob(j *batchv1.Job) { j.Spec.CompletionMode = ptr.To(batchv1.IndexedCompletion) }

func backoffLimit(n int32) func(*batchv1.Job) {
	return func(j *batchv1.Job) { j.Spec.BackoffLimit = &n }
}

func updateJob(t *testing.T, namespace string, edit func(*batchv1.Job)) {
	t.Helper()
	err := retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		job, err := admin.BatchV1().Jobs(namespace).Get(t.Context(), "pi", metav1.GetOptions{})
		if err != nil {
			return err
		}
		edit(job)
		_, err = admin.BatchV1().Jobs(namespace).Update(t.Context(), job, metav1.UpdateOptions{})
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// waitForJob waits until the status of the Job pi reads like this.
func waitForJob(t *testing.T, namespace, want string) *batchv1.Job {
	t.Helper()
	var job *batchv1.Job
	await.That(t, "the Job is "+want, func(ctx context.Context) (err error) {
		if job, err = admin.BatchV1().Jobs(namespace).Get(ctx, "pi", metav1.GetOptions{}); err != nil {
			return err
		}
		if got := jobText(job); got != want {
			return fmt.Errorf("it is %s", got)
		}
		return nil
	})
	return job
}

// jobText is what a status says, with what is zero left out.
func jobText(job *batchv1.Job) string {
	s := job.Status
	var text []string
	for _, count := range []struct {
		name string
		n    int32
	}{{"active", s.Active}, {"terminating", ptr.Deref(s.Terminating, 0)}, {"succeeded", s.Succeeded}, {"failed", s.Failed}} {
		if count.n != 0 {
			text = append(text, fmt.Sprintf("%s %d", count.name, count.n))
		}
	}
	if s.CompletedIndexes != "" {
		text = append(text, "completed "+s.CompletedIndexes)
	}
	if s.FailedIndexes != nil {
		text = append(text, "failed "+*s.FailedIndexes)
	}
	for _, c := range s.Conditions {
		text = append(text, fmt.Sprintf("%s=%s %s", c.Type, c.Status, c.Reason))
	}
	return strings.Join(text, ", ")
}

// jobPods waits until just count pods of the Job have not finished, and returns them in
// the order of their indexes.
func jobPods(t *testing.T, namespace string, count int) []corev1.Pod {
	t.Helper()
	var pods []corev1.Pod
	await.That(t, fmt.Sprintf("there are %d unfinished pods", count), func(ctx context.Context) error {
		all, err := cluster.PodsOf(ctx, namespace, map[string]string{"app": "pi"})
		if err != nil {
			return err
		}
		pods = slices.DeleteFunc(all, func(p corev1.Pod) bool {
			return p.DeletionTimestamp != nil || p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed
		})
		if len(pods) != count {
			return fmt.Errorf("there are %d", len(pods))
		}
		return nil
	})
	slices.SortFunc(pods, func(a, b corev1.Pod) int { return strings.Compare(jobIndex(&a), jobIndex(&b)) })
	return pods
}

func jobIndex(pod *corev1.Pod) string { return pod.Annotations[batchv1.JobCompletionIndexAnnotation] }

// finishPod makes a pod end with an exit code, as a kubelet would.
func finishPod(t *testing.T, pod *corev1.Pod, code int) {
	t.Helper()
	phase := corev1.PodFailed
	if code == 0 {
		phase = corev1.PodSucceeded
	}
	cluster.PatchPodStatus(t, pod.Namespace, pod.Name, map[string]any{"phase": phase, "containerStatuses": []any{map[string]any{
		"name": "web", "image": "pi:1", "imageID": "pi", "state": map[string]any{"terminated": map[string]any{"exitCode": code, "finishedAt": metav1.Now()}},
	}}})
}

// waitUntilUntracked waits until no pod of the Job has its finalizer.
func waitUntilUntracked(t *testing.T, namespace string) {
	t.Helper()
	await.That(t, "no pod has the finalizer", func(ctx context.Context) error {
		pods, err := cluster.PodsOf(ctx, namespace, map[string]string{"app": "pi"})
		if err == nil && slices.ContainsFunc(pods, func(p corev1.Pod) bool { return slices.Contains(p.Finalizers, batchv1.JobTrackingFinalizer) }) {
			err = errors.New("one has")
		}
		return err
	})
}

const (
	jobSucceeded = "SuccessCriteriaMet=True CompletionsReached, Complete=True CompletionsReached"
	jobExceeded  = "FailureTarget=True BackoffLimitExceeded, Failed=True BackoffLimitExceeded"
)

// Pins JOB-53 and JOB-82.
func TestJobCompletes(t *testing.T) {
	t.Parallel()
	namespace := cluster.NamespaceForPods(t)
	createJob(t, namespace, 3, 2)
	job := waitForJob(t, namespace, "succeeded 3, "+jobSucceeded)
	if s := job.Status; s.StartTime == nil || s.CompletionTime == nil || *s.Ready != 0 || s.UncountedTerminatedPods == nil {
		t.Errorf("the status is %+v", s)
	}
	waitUntilUntracked(t, namespace)
	pods := must.Get(cluster.PodsOf(t.Context(), namespace, map[string]string{batchv1.JobNameLabel: "pi"}))(t)
	want := []string{"job-controller Normal Completed: Job completed"}
	for i := range pods {
		want = append(want, "job-controller Normal SuccessfulCreate: Created pod: "+pods[i].Name)
		if !metav1.IsControlledBy(&pods[i], job) || !strings.HasPrefix(pods[i].Name, "pi-") {
			t.Errorf("pod %s belongs to %v", pods[i].Name, pods[i].OwnerReferences)
		}
	}
	if len(pods) != 3 {
		t.Errorf("there are %d pods", len(pods))
	}
	cluster.WaitForEvents(t, namespace, job.UID, want...)
}

// Pins JOB-42 and JOB-69.
func TestJobWithoutCompletions(t *testing.T) {
	t.Parallel()
	namespace := cluster.NamespaceForPods(t)
	createJob(t, namespace, 1, 2, held, func(j *batchv1.Job) { j.Spec.Completions = nil })
	pods := jobPods(t, namespace, 2)
	finishPod(t, &pods[0], 0)
	waitForJob(t, namespace, "active 1, succeeded 1")
	finishPod(t, &pods[1], 0)
	waitForJob(t, namespace, "succeeded 2, "+jobSucceeded)
}

func TestJobThatNeedsNoPods(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		edit func(*batchv1.Job)
		want string
	}{
		"no completions": {func(j *batchv1.Job) { j.Spec.Completions = ptr.To[int32](0) }, jobSucceeded},
		"a deadline": {func(j *batchv1.Job) {
			j.Spec.Parallelism, j.Spec.ActiveDeadlineSeconds = ptr.To[int32](0), ptr.To[int64](1)
		}, "FailureTarget=True DeadlineExceeded, Failed=True DeadlineExceeded"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			namespace := cluster.NamespaceForPods(t)
			createJob(t, namespace, 1, 1, test.edit)
			waitForJob(t, namespace, test.want)
		})
	}
}

// Pins JOB-49 and JOB-63.
func TestJobIndexes(t *testing.T) {
	t.Parallel()
	namespace := cluster.NamespaceForPods(t)
	createJob(t, namespace, 4, 3, indexedJob, held)
	pods := jobPods(t, namespace, 3)
	for i := range pods {
		n := fmt.Sprint(i)
		env := pods[i].Spec.Containers[0].Env
		if jobIndex(&pods[i]) != n || pods[i].Labels[batchv1.JobCompletionIndexAnnotation] != n || pods[i].Spec.Hostname != "pi-"+n ||
			!strings.HasPrefix(pods[i].Name, "pi-"+n+"-") || len(env) != 1 || env[0].Name != "JOB_COMPLETION_INDEX" {
			t.Errorf("pod %s has index %s, hostname %s, environment %v", pods[i].Name, jobIndex(&pods[i]), pods[i].Spec.Hostname, env)
		}
	}
	finishPod(t, &pods[0], 0)
	finishPod(t, &pods[2], 0)
	waitForJob(t, namespace, "active 2, succeeded 2, completed 0,2")
	for _, pod := range jobPods(t, namespace, 2) {
		finishPod(t, &pod, 0)
	}
	waitForJob(t, namespace, "succeeded 4, completed 0-3, "+jobSucceeded)
}

// Pins JOB-57.
func TestElasticJob(t *testing.T) {
	t.Parallel()
	namespace := cluster.NamespaceForPods(t)
	createJob(t, namespace, 3, 3, indexedJob, held)
	pods := jobPods(t, namespace, 3)
	finishPod(t, &pods[2], 0)
	waitForJob(t, namespace, "active 2, succeeded 1, completed 2")
	scale := func(n int32) {
		updateJob(t, namespace, func(j *batchv1.Job) { j.Spec.Completions, j.Spec.Parallelism = &n, &n })
	}
	scale(1)
	waitForJob(t, namespace, "active 1")
	scale(2)
	waitForJob(t, namespace, "active 2")
	for _, pod := range jobPods(t, namespace, 2) {
		finishPod(t, &pod, 0)
	}
	waitForJob(t, namespace, "succeeded 2, completed 0,1, "+jobSucceeded)
}

// Pins JOB-40d and JOB-50.
func TestJobFailsPastItsBackoffLimit(t *testing.T) {
	t.Parallel()
	namespace := cluster.NamespaceForPods(t)
	job := createJob(t, namespace, 2, 2, held, backoffLimit(0))
	pods := jobPods(t, namespace, 2)
	finishPod(t, &pods[0], 1)
	waitForJob(t, namespace, "failed 2, "+jobExceeded)
	jobPods(t, namespace, 0)
	cluster.WaitForEvent(t, namespace, job.UID, "job-controller Warning BackoffLimitExceeded: Job has reached the specified backoff limit")
	cluster.WaitForEvent(t, namespace, job.UID, "job-controller Normal SuccessfulDelete: Deleted pod: "+pods[1].Name)
}

// Pins JOB-53.
func TestJobEndsWhenItsPodsAreGone(t *testing.T) {
	t.Parallel()
	namespace := cluster.NamespaceForPods(t)
	createJob(t, namespace, 2, 2, haunted, backoffLimit(0))
	pods := jobPods(t, namespace, 2)
	finishPod(t, &pods[0], 1)
	waitForJob(t, namespace, "terminating 1, failed 2, FailureTarget=True BackoffLimitExceeded")
	cluster.DeletePodNow(t, namespace, pods[1].Name)
	waitForJob(t, namespace, "failed 2, "+jobExceeded)
}

func TestJobReplacesFailedPods(t *testing.T) {
	t.Parallel()
	namespace := cluster.NamespaceForPods(t)
	createJob(t, namespace, 1, 1, held)
	first := jobPods(t, namespace, 1)[0]
	finishPod(t, &first, 1)
	waitForJob(t, namespace, "failed 1")
	second := jobPods(t, namespace, 1)[0]
	if waited := second.CreationTimestamp.Sub(first.CreationTimestamp.Time); waited < 9e9 {
		t.Errorf("the pod was replaced after %v", waited)
	}
	finishPod(t, &second, 0)
	waitForJob(t, namespace, "succeeded 1, failed 1, "+jobSucceeded)
}

// Pins JOB-36b and JOB-71.
func TestJobReplacesOnlyFailedPods(t *testing.T) {
	t.Parallel()
	namespace := cluster.NamespaceForPods(t)
	createJob(t, namespace, 1, 1, haunted, func(j *batchv1.Job) { j.Spec.PodReplacementPolicy = ptr.To(batchv1.Failed) })
	pod := jobPods(t, namespace, 1)[0]
	if err := admin.CoreV1().Pods(namespace).Delete(t.Context(), pod.Name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	waitForJob(t, namespace, "terminating 1")
	finishPod(t, &pod, 0)
	waitForJob(t, namespace, "succeeded 1, "+jobSucceeded)
}

// Pins JOB-40c and JOB-75.
func TestJobFailurePolicy(t *testing.T) {
	t.Parallel()
	namespace := cluster.NamespaceForPods(t)
	on := func(action batchv1.PodFailurePolicyAction, code int32) batchv1.PodFailurePolicyRule {
		return batchv1.PodFailurePolicyRule{Action: action, OnExitCodes: &batchv1.PodFailurePolicyOnExitCodesRequirement{
			Operator: batchv1.PodFailurePolicyOnExitCodesOpIn, Values: []int32{code},
		}}
	}
	job := createJob(t, namespace, 3, 3, held, backoffLimit(0), func(j *batchv1.Job) {
		j.Spec.PodFailurePolicy = &batchv1.PodFailurePolicy{Rules: []batchv1.PodFailurePolicyRule{
			on(batchv1.PodFailurePolicyActionIgnore, 6), on(batchv1.PodFailurePolicyActionFailJob, 7),
		}}
	})
	pods := jobPods(t, namespace, 3)
	finishPod(t, &pods[0], 6)
	waitForJob(t, namespace, "active 2")
	finishPod(t, &pods[1], 7)
	waitForJob(t, namespace, "failed 2, FailureTarget=True PodFailurePolicy, Failed=True PodFailurePolicy")
	cluster.WaitForEvent(t, namespace, job.UID, fmt.Sprintf("job-controller Warning PodFailurePolicy: Container web for pod %s/%s failed with exit code 7 matching FailJob rule at index 1",
		namespace, pods[1].Name))
}

// Pins JOB-40f and JOB-59.
func TestJobBackoffLimitPerIndex(t *testing.T) {
	t.Parallel()
	namespace := cluster.NamespaceForPods(t)
	createJob(t, namespace, 2, 2, held, indexedJob, func(j *batchv1.Job) { j.Spec.BackoffLimitPerIndex = ptr.To[int32](1) })
	pods := jobPods(t, namespace, 2)
	finishPod(t, &pods[1], 0)
	waitForJob(t, namespace, "active 1, succeeded 1, completed 1, failed ")
	finishPod(t, &pods[0], 1)
	await.That(t, "the index is tried again", func(ctx context.Context) error {
		all, err := cluster.PodsOf(ctx, namespace, map[string]string{"app": "pi"})
		if err == nil && len(all) < 3 {
			err = errors.New("it is not")
		}
		return err
	})
	second := jobPods(t, namespace, 1)[0]
	if got := second.Annotations["batch.kubernetes.io/job-index-failure-count"]; got != "1" || jobIndex(&second) != "0" {
		t.Errorf("the pod of index %s has failed %s times", jobIndex(&second), got)
	}
	waitForJob(t, namespace, "active 1, succeeded 1, failed 1, completed 1, failed ")
	finishPod(t, &second, 1)
	waitForJob(t, namespace, "succeeded 1, failed 2, completed 1, failed 0, FailureTarget=True FailedIndexes, Failed=True FailedIndexes")
}

// TestNamespaceOfAJobWithALimitPerIndexIsDeleted deletes a namespace while a failed pod waits there for its replacement.
// Pins JOB-139.
func TestNamespaceOfAJobWithALimitPerIndexIsDeleted(t *testing.T) {
	t.Parallel()
	namespace := cluster.NamespaceForPods(t)
	createJob(t, namespace, 1, 1, held, indexedJob, func(j *batchv1.Job) { j.Spec.BackoffLimitPerIndex = ptr.To[int32](1) })
	finishPod(t, &jobPods(t, namespace, 1)[0], 1)
	cluster.DeleteNamespace(t, namespace)
	cluster.WaitForNamespaceGone(t, namespace)
}

// Pins JOB-40g and JOB-76.
func TestJobSuccessPolicy(t *testing.T) {
	t.Parallel()
	namespace := cluster.NamespaceForPods(t)
	createJob(t, namespace, 3, 3, held, indexedJob, func(j *batchv1.Job) {
		j.Spec.SuccessPolicy = &batchv1.SuccessPolicy{Rules: []batchv1.SuccessPolicyRule{{SucceededIndexes: ptr.To("1")}}}
	})
	pods := jobPods(t, namespace, 3)
	finishPod(t, &pods[0], 0)
	waitForJob(t, namespace, "active 2, succeeded 1, completed 0")
	finishPod(t, &pods[1], 0)
	waitForJob(t, namespace, "succeeded 2, completed 0,1, SuccessCriteriaMet=True SuccessPolicy, Complete=True SuccessPolicy")
	jobPods(t, namespace, 0)
}

// Pins JOB-42 and JOB-68.
func TestJobIsSuspendedAndResumed(t *testing.T) {
	t.Parallel()
	namespace := cluster.NamespaceForPods(t)
	suspend := func(yes bool) func(*batchv1.Job) {
		return func(j *batchv1.Job) { j.Spec.Suspend = &yes }
	}
	createJob(t, namespace, 2, 2, held, suspend(true))
	job := waitForJob(t, namespace, "Suspended=True JobSuspended")
	if job.Status.StartTime != nil {
		t.Error("a suspended Job has started")
	}
	updateJob(t, namespace, suspend(false))
	waitForJob(t, namespace, "active 2, Suspended=False JobResumed")
	updateJob(t, namespace, suspend(true))
	job = waitForJob(t, namespace, "Suspended=True JobSuspended")
	jobPods(t, namespace, 0)
	if job.Status.StartTime != nil {
		t.Error("a suspended Job keeps its start time")
	}
	updateJob(t, namespace, suspend(false))
	waitForJob(t, namespace, "active 2, Suspended=False JobResumed")
	for _, pod := range jobPods(t, namespace, 2) {
		finishPod(t, &pod, 0)
	}
	waitForJob(t, namespace, "succeeded 2, Suspended=False JobResumed, "+jobSucceeded)
	cluster.WaitForEvent(t, namespace, job.UID, "job-controller Normal Suspended: Job suspended")
	cluster.WaitForEvent(t, namespace, job.UID, "job-controller Normal Resumed: Job resumed")
}

// Pins JOB-40e.
func TestJobDeadline(t *testing.T) {
	t.Parallel()
	namespace := cluster.NamespaceForPods(t)
	createJob(t, namespace, 1, 1, held)
	waitForJob(t, namespace, "active 1")
	updateJob(t, namespace, func(j *batchv1.Job) { j.Spec.ActiveDeadlineSeconds = ptr.To[int64](2) })
	waitForJob(t, namespace, "failed 1, FailureTarget=True DeadlineExceeded, Failed=True DeadlineExceeded")
	jobPods(t, namespace, 0)
}

// Pins JOB-70.
func TestJobScalesDown(t *testing.T) {
	t.Parallel()
	namespace := cluster.NamespaceForPods(t)
	createJob(t, namespace, 5, 3, held)
	jobPods(t, namespace, 3)
	updateJob(t, namespace, func(j *batchv1.Job) { j.Spec.Parallelism = ptr.To[int32](1) })
	waitForJob(t, namespace, "active 1")
	jobPods(t, namespace, 1)
}

// Pins JOB-26.
func TestJobManagedElsewhereIsLeftAlone(t *testing.T) {
	t.Parallel()
	namespace := cluster.NamespaceForPods(t)
	createJob(t, namespace, 1, 1, func(j *batchv1.Job) {
		j.Name, j.Spec.ManagedBy = "other", ptr.To("example.com/other")
	})
	createJob(t, namespace, 1, 1)
	waitForJob(t, namespace, "succeeded 1, "+jobSucceeded)
	other := must.Get(admin.BatchV1().Jobs(namespace).Get(t.Context(), "other", metav1.GetOptions{}))(t)
	if jobText(other) != "" || other.Status.StartTime != nil {
		t.Errorf("the Job has the status %+v", other.Status)
	}
}

// Pins JOB-23.
func TestPodsOfADeletedJobLoseTheFinalizer(t *testing.T) {
	t.Parallel()
	namespace := cluster.NamespaceForPods(t)
	createJob(t, namespace, 2, 2, held)
	jobPods(t, namespace, 2)
	err := admin.BatchV1().Jobs(namespace).Delete(t.Context(), "pi", metav1.DeleteOptions{PropagationPolicy: ptr.To(metav1.DeletePropagationBackground)})
	if err != nil {
		t.Fatal(err)
	}
	waitUntilUntracked(t, namespace)
	jobPods(t, namespace, 2) // the garbage collector is off
}

// Pins JOB-33.
func TestJobReleasesAndAdoptsPods(t *testing.T) {
	t.Parallel()
	namespace := cluster.NamespaceForPods(t)
	job := createJob(t, namespace, 1, 1, held)
	pod := jobPods(t, namespace, 1)[0]
	cluster.PatchPod(t, namespace, pod.Name, `{"metadata":{"labels":{"batch.kubernetes.io/controller-uid":"none"}}}`)
	await.That(t, "the pod is released and replaced", func(ctx context.Context) error {
		released, err := admin.CoreV1().Pods(namespace).Get(ctx, pod.Name, metav1.GetOptions{})
		if err == nil && (len(released.OwnerReferences) > 0 || len(released.Finalizers) > 0) {
			err = fmt.Errorf("it has %v, %v", released.OwnerReferences, released.Finalizers)
		}
		return err
	})
	jobPods(t, namespace, 2)
	cluster.PatchPod(t, namespace, pod.Name, fmt.Sprintf(`{"metadata":{"labels":{"batch.kubernetes.io/controller-uid":%q}}}`, job.UID))
	jobPods(t, namespace, 1) // it is adopted and one of both is too many
	waitForJob(t, namespace, "active 1")
}
