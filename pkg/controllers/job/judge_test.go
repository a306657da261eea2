package job

import (
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

// Pins JOB-36a and JOB-36b.
func TestIsFailed(t *testing.T) {
	plain, policy := newJob(), newJob(withFailurePolicy())
	for _, test := range []struct {
		name string
		job  *batchv1.Job
		pod  *corev1.Pod
		want bool
	}{
		{"running", plain, newPod("p"), false},
		{"failed", plain, newPod("p", failed), true},
		{"succeeded", plain, newPod("p", succeeded), false},
		{"terminating", plain, newPod("p", leaving), true},
		{"succeeded while terminating", plain, newPod("p", succeeded, leaving), false},
		{"terminating, replacing failed only", newJob(replacesFailed), newPod("p", leaving), false},
		{"terminating, with a failure policy", policy, newPod("p", leaving), false},
		{"failed, with a failure policy", policy, newPod("p", failed, leaving), true},
		{"terminating, replacing terminating too", newJob(func(j *batchv1.Job) { j.Spec.PodReplacementPolicy = ptr.To(batchv1.TerminatingOrFailed) }), newPod("p", leaving), true},
	} {
		if got := replacementOf(test.job, true).isFailed(test.pod); got != test.want {
			t.Errorf("%s: %t", test.name, got)
		}
	}
}

// Pins JOB-36c.
func TestIndexOf(t *testing.T) {
	for text, want := range map[string]int{"0": 0, "12": 12, "-1": unknownIndex, "x": unknownIndex, "": unknownIndex} {
		pod := newPod("p", func(p *corev1.Pod) { annotate(p, batchv1.JobCompletionIndexAnnotation, text) })
		if got := indexOf(pod); got != want {
			t.Errorf("%q is %d, want %d", text, got, want)
		}
	}
	if got := indexOf(newPod("p")); got != unknownIndex {
		t.Errorf("none is %d", got)
	}
}

func ended(name string, ago time.Duration) corev1.ContainerStatus {
	return corev1.ContainerStatus{Name: name, State: corev1.ContainerState{
		Terminated: &corev1.ContainerStateTerminated{FinishedAt: metav1.NewTime(start.Add(-ago))},
	}}
}

// Pins JOB-65.
func TestFinishTime(t *testing.T) {
	running := corev1.ContainerStatus{Name: "running"}
	unknown := corev1.ContainerStatus{Name: "unknown", State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{}}}
	containers := func(statuses ...corev1.ContainerStatus) func(*corev1.Pod) {
		return func(p *corev1.Pod) { p.Status.ContainerStatuses = statuses }
	}
	sidecar := func(status corev1.ContainerStatus) func(*corev1.Pod) {
		return func(p *corev1.Pod) {
			p.Spec.InitContainers = append(p.Spec.InitContainers,
				corev1.Container{Name: "init"},
				corev1.Container{Name: status.Name, RestartPolicy: ptr.To(corev1.ContainerRestartPolicyAlways)})
			p.Status.InitContainerStatuses = append(p.Status.InitContainerStatuses, ended("init", 0), status)
		}
	}
	notReady := func(p *corev1.Pod) {
		p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionFalse, LastTransitionTime: metav1.NewTime(start.Add(-7 * time.Second))}}
	}
	for _, test := range []struct {
		name string
		pod  *corev1.Pod
		ago  time.Duration
	}{
		{"the last container", newPod("p", containers(ended("a", 5*time.Second), ended("b", 3*time.Second))), 3 * time.Second},
		{"a container runs", newPod("p", notReady, containers(ended("a", 5*time.Second), running)), 7 * time.Second},
		{"a time is unknown", newPod("p", notReady, containers(ended("a", 5*time.Second), unknown)), 7 * time.Second},
		{"a later sidecar", newPod("p", containers(ended("a", 5*time.Second)), sidecar(ended("s", time.Second))), time.Second},
		{"an earlier sidecar", newPod("p", containers(ended("a", 5*time.Second)), sidecar(ended("s", 9*time.Second))), 5 * time.Second},
		{"a running sidecar", newPod("p", notReady, containers(ended("a", 5*time.Second)), sidecar(running)), 7 * time.Second},
		{"only sidecars ended", newPod("p", notReady, containers(running), sidecar(ended("s", 2*time.Second))), 2 * time.Second},
		{"deletion without its grace period", newPod("p", leaving), 30 * time.Second},
		{"creation", newPod("p"), time.Minute},
	} {
		if got := start.Sub(finishTime(test.pod)); got != test.ago {
			t.Errorf("%s: %v ago, want %v", test.name, got, test.ago)
		}
	}
}

// Pins JOB-64.
func TestBackoffRecord(t *testing.T) {
	s := func(seconds int) time.Duration { return time.Duration(seconds) * time.Second }
	fail := func(ago int) *corev1.Pod { return newPod("f", exited(1, s(ago))) }
	ok := func(ago int) *corev1.Pod { return newPod("s", endedAgo(s(ago))) }
	before := backoffRecord{failures: 2, last: start.Add(-s(100))}
	for _, test := range []struct {
		name         string
		good, bad    []*corev1.Pod
		wantFailures int
		wantAgo      int // -1 for none
	}{
		{"nothing new", nil, nil, 2, 100},
		{"failures", nil, []*corev1.Pod{fail(5), fail(3), fail(9)}, 5, 3},
		{"successes", []*corev1.Pod{ok(5)}, nil, 0, -1},
		{"failures after the success", []*corev1.Pod{ok(9), ok(6)}, []*corev1.Pod{fail(5), fail(3), fail(7)}, 2, 3},
		{"no failure after the success", []*corev1.Pod{ok(2)}, []*corev1.Pod{fail(5)}, 0, -1},
		{"a failure at the same time", []*corev1.Pod{ok(2)}, []*corev1.Pod{fail(2)}, 0, -1},
		{"JOB-116: a failure in the future is one of this moment", nil, []*corev1.Pod{fail(-3600)}, 3, 0},
		{"JOB-116: a success in the future is one of this moment", []*corev1.Pod{ok(-3600)}, []*corev1.Pod{fail(5)}, 0, -1},
	} {
		want := backoffRecord{failures: test.wantFailures}
		if test.wantAgo >= 0 {
			want.last = start.Add(-s(test.wantAgo))
		}
		got := before.after(test.good, test.bad, start)
		if got.failures != want.failures || !got.last.Equal(want.last) {
			t.Errorf("%s: %+v, want %+v", test.name, got, want)
		}
	}
}

// Pins JOB-66.
func TestBackoffWait(t *testing.T) {
	for _, test := range []struct {
		failures int
		ago      time.Duration
		want     time.Duration
	}{
		{0, 0, 0},
		{1, 0, 10 * time.Second},
		{1, 4 * time.Second, 6 * time.Second},
		{1, time.Minute, 0},
		{2, 0, 20 * time.Second},
		{6, 0, 320 * time.Second},
		{7, 0, 600 * time.Second},
		{1000, 0, 600 * time.Second},
	} {
		if got := backoffWait(test.failures, start.Add(-test.ago), start); got != test.want {
			t.Errorf("%d failures %v ago: %v, want %v", test.failures, test.ago, got, test.want)
		}
	}
}

// Pins JOB-116.
func TestBackoffWaitIsAtMostTheDelay(t *testing.T) {
	for _, last := range []time.Time{start.Add(time.Second), start.Add(24 * time.Hour), start.AddDate(1000, 0, 0)} {
		if got := backoffWait(1, last, start); got != 10*time.Second {
			t.Errorf("after a failure at %v: %v", last, got)
		}
	}
}

// Pins JOB-81.
func TestEnsureCondition(t *testing.T) {
	now := start.Add(time.Hour)
	job := newJob()
	set := func(status corev1.ConditionStatus, reason, message string) bool {
		return ensureCondition(job, newCondition(batchv1.JobSuspended, status, reason, message, now))
	}
	for _, step := range []struct {
		status          corev1.ConditionStatus
		reason, message string
		changes         bool
		want            string
	}{
		{corev1.ConditionFalse, "A", "a", false, ""},
		{corev1.ConditionTrue, "A", "a", true, "Suspended=True A"},
		{corev1.ConditionTrue, "A", "a", false, "Suspended=True A"},
		{corev1.ConditionTrue, "A", "b", true, "Suspended=True A"},
		{corev1.ConditionTrue, "B", "b", true, "Suspended=True B"},
		{corev1.ConditionFalse, "B", "b", true, "Suspended=False B"},
	} {
		if got := set(step.status, step.reason, step.message); got != step.changes || conditionsOf(job) != step.want {
			t.Errorf("%+v: changed %t, %s", step, got, conditionsOf(job))
		}
	}
	if c := job.Status.Conditions[0]; !c.LastProbeTime.Time.Equal(now) || !c.LastTransitionTime.Time.Equal(now) {
		t.Errorf("the times are %v and %v", c.LastProbeTime, c.LastTransitionTime)
	}
}
