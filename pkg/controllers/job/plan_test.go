package job

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"

	"kcmd.dev/test/controllertest"
)

func TestPlan(t *testing.T) {
	some := func(n int, changes ...func(*corev1.Pod)) []*corev1.Pod {
		var all []*corev1.Pod
		for i := range n {
			all = append(all, newPod(fmt.Sprint("p", i), changes...))
		}
		return all
	}
	perPod := func(changes ...func(int) func(*corev1.Pod)) []*corev1.Pod {
		var all []*corev1.Pod
		for i, change := range changes {
			all = append(all, newPod(fmt.Sprint("p", i), change(i)))
		}
		return all
	}
	at := func(index int, more ...func(*corev1.Pod)) func(int) func(*corev1.Pod) {
		return func(int) func(*corev1.Pod) {
			return func(p *corev1.Pod) {
				atIndex(index)(p)
				for _, change := range more {
					change(p)
				}
			}
		}
	}
	pending := inPhase(corev1.PodPending)
	doneAt := func(text string) func(*batchv1.Job) {
		return func(j *batchv1.Job) { j.Status.CompletedIndexes = text }
	}
	for _, test := range []struct {
		name string
		job  *batchv1.Job
		pods []*corev1.Pod
		want string
	}{
		{"JOB-69, JOB-71: all pods are missing", newJob(sized(5, 3)), nil, "pods_created 3"},
		{"JOB-71: some pods are missing", newJob(sized(5, 3)), some(1), "pods_created 2"},
		{"JOB-73: no pod is missing", newJob(sized(5, 3)), some(3), "tracking 0"},
		{"JOB-69: fewer remain than may run", newJob(sized(5, 3), func(j *batchv1.Job) { j.Status.Succeeded = 4 }), nil, "pods_created 1"},
		{"JOB-69: more succeeded than asked for", newJob(sized(5, 3), func(j *batchv1.Job) { j.Status.Succeeded = 7 }), nil, "tracking 0"},
		{"JOB-69: a work queue starts", newJob(sized(-1, 3)), nil, "pods_created 3"},
		{"JOB-69: a work queue is drained", newJob(sized(-1, 3), func(j *batchv1.Job) { j.Status.Succeeded = 1 }), some(2), "tracking 0"},
		{"JOB-71, JOB-84: at most a burst", newJob(sized(2000, 2000)), nil, "pods_created 500"},
		{"JOB-71: terminating pods are replaced", newJob(sized(1, 1), started), some(1, leaving), "pods_created 1"},
		{"JOB-71: terminating pods are replaced when they have failed", newJob(sized(3, 3), replacesFailed), some(1, leaving), "pods_created 2"},
		{"JOB-70: scaled down", newJob(sized(5, 1)), []*corev1.Pod{newPod("a", ready), newPod("b"), newPod("c", pending)}, "pods_deleted 0 remove [b c]"},
		{"JOB-68: suspended", newJob(sized(5, 5), suspended), some(2), "pods_deleted 0 remove [p0 p1]"},
		{"JOB-68: suspended without pods", newJob(suspended), nil, "pods_deleted 0"},
		{"JOB-67: backing off", newJob(sized(5, 5)), some(1, exited(1, 4*time.Second)), "pods_created 0 wait 6s"},
		{"JOB-67: backing off for the last moment", newJob(sized(5, 5)), some(1, exited(1, 9900*time.Millisecond)), "pods_created 0 wait 1s"},
		{"JOB-67: backed off", newJob(sized(5, 5)), some(1, exited(1, time.Minute)), "pods_created 5"},
		{"JOB-62: indexes", newJob(indexed, sized(6, 3), doneAt("1")), perPod(at(2)), "pods_created 2 [0 3]"},
		{"JOB-62: indexes of terminating pods", newJob(indexed, sized(3, 3)), perPod(at(0, leaving, func(p *corev1.Pod) {
			p.CreationTimestamp.Time = start.Add(-time.Hour)
			p.DeletionTimestamp.Time = start.Add(-time.Hour)
		})), "pods_created 3 [0 1 2]"},
		{"JOB-62: indexes of terminating pods that may succeed", newJob(indexed, replacesFailed, sized(3, 3)), perPod(at(0, leaving)), "pods_created 2 [1 2]"},
		{"no index is left although pods are missing", newJob(indexed, sized(2, 2), replacesFailed, doneAt("0")), perPod(at(1)), "tracking 0"},
		{"JOB-70: pods without use", newJob(indexed, sized(3, 3)), perPod(at(0), at(3), at(-1)), "pods_deleted 0 remove [p1 p2]"},
		{"JOB-70: several pods of an index", newJob(indexed, sized(3, 3)), perPod(at(0, pending), at(0, ready), at(0), at(1)), "pods_deleted 0 remove [p0 p2]"},
		{"JOB-70: scaled down with pods without use", newJob(indexed, sized(9, 1)), perPod(at(0, ready), at(9, ready), at(1)), "pods_deleted 0 remove [p1 p2]"},
		{"JOB-57, JOB-70: scaled down in tandem", newJob(indexed, sized(1, 1), doneAt("0-5")), perPod(at(3)), "pods_deleted 0 remove [p0]"},
		{"JOB-67: each index backs off", newJob(perIndex(5), sized(3, 3)), perPod(at(0, exited(1, 4*time.Second)), at(1, exited(1, time.Minute))), "pods_created 2 [1 2]"},
		{"JOB-67: all indexes back off", newJob(perIndex(5), sized(2, 2)), perPod(at(0, exited(1, 4*time.Second)), at(1, exited(1, 2*time.Second), failedBefore(1))), "pods_created 0 wait 6s"},
		{"JOB-71: the first pending indexes are considered", newJob(perIndex(5), sized(3, 1)), perPod(at(0, exited(1, 4*time.Second))), "pods_created 0 wait 6s"},
		{"JOB-62: a failed index is not tried again", newJob(perIndex(0), sized(3, 3)), perPod(at(1, failed)), "pods_created 2 [0 2]"},
	} {
		t.Run(test.name, func(t *testing.T) {
			if got := planText(look(test.job, test.pods...).plan()); got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}

func planText(p plan) string {
	text := fmt.Sprintf("%s %d", p.action, p.create)
	if p.indexes != nil {
		text += fmt.Sprintf(" %v", p.indexes)
	}
	if len(p.remove) > 0 {
		text += fmt.Sprintf(" remove %v", controllertest.Names(p.remove))
	}
	if p.wait > 0 {
		text += fmt.Sprintf(" wait %v", p.wait)
	}
	return text
}

// Pins JOB-70.
func TestRemovalsAreCapped(t *testing.T) {
	var all []*corev1.Pod
	for i := range 700 {
		all = append(all, newPod(fmt.Sprint("p", i)))
	}
	if p := look(newJob(sized(5, 0)), all...).plan(); len(p.remove) != 500 {
		t.Errorf("scaling down removes %d", len(p.remove))
	}
	if p := look(newJob(sized(5, 5), suspended), all...).plan(); len(p.remove) != 700 {
		t.Errorf("suspending removes %d", len(p.remove))
	}
}

// Pins JOB-70.
func TestDeletionOrderIsPlain(t *testing.T) {
	age := func(seconds int) func(*corev1.Pod) {
		return func(p *corev1.Pod) { p.CreationTimestamp.Time = start.Add(-time.Duration(seconds) * time.Second) }
	}
	cheap := newPod("a-cheap", age(100), func(p *corev1.Pod) { annotate(p, corev1.PodDeletionCost, "-100") })
	// On a logarithmic scale the ages of the first two would be the same.
	sorted := inDeletionOrder([]*corev1.Pod{cheap, newPod("old", age(99)), newPod("new", age(98))})
	if got := fmt.Sprint(sorted[0].Name, sorted[1].Name, sorted[2].Name); got != "newolda-cheap" {
		t.Errorf("the order is %s", got)
	}
}

func TestIndexStates(t *testing.T) {
	const failIndex, ignore = batchv1.PodFailurePolicyActionFailIndex, batchv1.PodFailurePolicyActionIgnore
	job := func(changes ...func(*batchv1.Job)) *batchv1.Job {
		return newJob(append([]func(*batchv1.Job){perIndex(1), sized(9, 9)}, changes...)...)
	}
	reported := func(completed, failed string) func(*batchv1.Job) {
		return func(j *batchv1.Job) { j.Status.CompletedIndexes, j.Status.FailedIndexes = completed, &failed }
	}
	policy := withFailurePolicy(onExit(failIndex, 5), onExit(ignore, 6))
	for _, test := range []struct {
		name string
		job  *batchv1.Job
		pods []*corev1.Pod
		want string // succeeded; failed; retained
	}{
		{"JOB-58, JOB-59: indexes are as reported", job(reported("1,2", "4")), nil, "1,2;4;[]"},
		{"JOB-61: a failure to be retried", job(), []*corev1.Pod{newPod("p", failed, atIndex(3))}, ";;[p]"},
		{"JOB-59: a failure too many", job(), []*corev1.Pod{newPod("p", failed, atIndex(3), failedBefore(1))}, ";3;[]"},
		{"JOB-59: a pod without finalizer", job(), []*corev1.Pod{newPod("p", failed, atIndex(3), failedBefore(1), untracked), newPod("q", succeeded, atIndex(4), untracked)}, ";;[]"},
		{"JOB-36: an index beyond the end", job(), []*corev1.Pod{newPod("p", failed, atIndex(9)), newPod("q", succeeded, atIndex(10))}, ";;[]"},
		{"JOB-59: a rule fails the index", job(policy), []*corev1.Pod{newPod("p", exited(5, 0), atIndex(3))}, ";3;[]"},
		{"JOB-59: an ignored failure", job(policy), []*corev1.Pod{newPod("p", exited(6, 0), atIndex(3), failedBefore(7))}, ";;[p]"},
		{"JOB-61: the index runs again", job(), []*corev1.Pod{newPod("p", failed, atIndex(3)), newPod("q", atIndex(3))}, ";;[]"},
		{"JOB-61: the later failure is retained", job(), []*corev1.Pod{newPod("p", exited(1, 9*time.Second), atIndex(3)), newPod("q", exited(1, 5*time.Second), atIndex(3))}, ";;[q]"},
		{"JOB-61: the higher count is retained", newJob(perIndex(9), sized(9, 9)), []*corev1.Pod{newPod("p", exited(1, 9*time.Second), atIndex(3), failedBefore(2)), newPod("q", exited(1, 5*time.Second), atIndex(3))}, ";;[p]"},
		{"JOB-61, JOB-126: success wins over failure", job(), []*corev1.Pod{newPod("p", failed, atIndex(3), failedBefore(1)), newPod("q", succeeded, atIndex(3))}, "3;;[]"},
		{"JOB-126: what was reported wins", job(reported("1", "2")), []*corev1.Pod{newPod("p", failed, atIndex(1), failedBefore(1)), newPod("q", succeeded, atIndex(2))}, "1;2;[]"},
		{"JOB-59: no failed indexes without a limit per index", newJob(indexed, sized(9, 9), reported("", "4")), []*corev1.Pod{newPod("p", failed, atIndex(3))}, ";;[]"},
	} {
		t.Run(test.name, func(t *testing.T) {
			state := look(test.job, test.pods...).indexed
			var retained []*corev1.Pod
			for _, pod := range state.retained {
				retained = append(retained, pod)
			}
			if got := fmt.Sprintf("%s;%s;%v", state.succeeded, state.failed, controllertest.Names(retained)); got != test.want {
				t.Errorf("got %s, want %s", got, test.want)
			}
		})
	}
}

// Pins JOB-57.
func TestElasticJobDropsHigherIndexes(t *testing.T) {
	r := look(newJob(indexed, sized(3, 3), func(j *batchv1.Job) { j.Status.CompletedIndexes, j.Status.Succeeded = "0,2-5", 5 }))
	if r.succeeded != 2 || r.indexed.succeeded.String() != "0,2" {
		t.Errorf("succeeded are %d: %s", r.succeeded, r.indexed.succeeded)
	}
}

// Pins JOB-60.
func TestFailureCountsAreCarriedOn(t *testing.T) {
	ignored := func(n string) func(*corev1.Pod) {
		return func(p *corev1.Pod) { annotate(p, ignoredFailureCount, n) }
	}
	r := look(newJob(perIndex(9), withFailurePolicy(onExit(batchv1.PodFailurePolicyActionIgnore, 6))))
	for _, test := range []struct {
		name              string
		replaced          *corev1.Pod
		failures, ignored int32
	}{
		{"no pod is replaced", nil, 0, 0},
		{"the first failure", newPod("p0", failed), 1, 0},
		{"a further failure", newPod("p1", failed, failedBefore(3), ignored("2")), 4, 2},
		{"JOB-59: an ignored failure", newPod("p2", exited(6, 0), failedBefore(3), ignored("2")), 3, 3},
		{"counts that are nonsense", newPod("p3", failed, failedBefore(-3), ignored("x")), 1, 0},
		{"a count that is too large", newPod("p4", failed, failedBefore(1<<40), ignored("2147483647")), 1, 2147483647},
		{"the largest count", newPod("p5", failed, failedBefore(2147483647)), 2147483647, 0},
	} {
		if f, i := r.nextCounts(test.replaced); f != test.failures || i != test.ignored {
			t.Errorf("%s: %d and %d, want %d and %d", test.name, f, i, test.failures, test.ignored)
		}
	}
}

// Pins JOB-63.
func TestIndexTemplate(t *testing.T) {
	job := newJob(perIndex(3), sized(3, 3), func(j *batchv1.Job) {
		j.Spec.Template.Annotations = map[string]string{"a": "b"}
		j.Spec.Template.Spec.InitContainers = []corev1.Container{{Name: "init"}}
		j.Spec.Template.Spec.Containers = append(j.Spec.Template.Spec.Containers,
			corev1.Container{Name: "own", Env: []corev1.EnvVar{{Name: indexVariable, Value: "mine"}}})
	})
	before := job.DeepCopy()
	r := look(job, newPod("p", atIndex(2), exited(1, time.Hour), failedBefore(1), func(p *corev1.Pod) { annotate(p, ignoredFailureCount, "4") }))
	r.podGroup = "group"
	base := r.template()
	second, first := r.indexTemplate(base, 2), r.indexTemplate(base, 0)
	if got := fmt.Sprintln(second.Annotations, second.Labels[batchv1.JobCompletionIndexAnnotation], second.Spec.Hostname, second.Finalizers); got !=
		"map[a:b batch.kubernetes.io/job-completion-index:2 batch.kubernetes.io/job-index-failure-count:2 batch.kubernetes.io/job-index-ignored-failure-count:4] 2 pi-2 [batch.kubernetes.io/job-tracking]\n" {
		t.Error(got)
	}
	if got := fmt.Sprintln(first.Annotations, first.Spec.Hostname); got !=
		"map[a:b batch.kubernetes.io/job-completion-index:0 batch.kubernetes.io/job-index-failure-count:0] pi-0\n" {
		t.Error(got)
	}
	spec := second.Spec
	for _, c := range []corev1.Container{spec.InitContainers[0], spec.Containers[0]} {
		if len(c.Env) != 1 || c.Env[0].Name != indexVariable || c.Env[0].ValueFrom.FieldRef.FieldPath != "metadata.labels['batch.kubernetes.io/job-completion-index']" {
			t.Errorf("container %s has %v", c.Name, c.Env)
		}
	}
	if env := spec.Containers[1].Env; len(env) != 1 || env[0].Value != "mine" {
		t.Errorf("the container with a variable has %v", env)
	}
	if *spec.SchedulingGroup.PodGroupName != "group" {
		t.Errorf("the group is %v", spec.SchedulingGroup)
	}
	if diff := cmp.Diff(before.Spec, job.Spec); diff != "" {
		t.Errorf("the Job was changed: %s", diff)
	}
}

// Pins JOB-72.
func TestPlainTemplateKeepsAFinalizer(t *testing.T) {
	r := look(newJob(func(j *batchv1.Job) { j.Spec.Template.Finalizers = []string{"x", batchv1.JobTrackingFinalizer} }))
	template := r.template()
	if len(template.Finalizers) != 2 || template.Spec.Containers[0].Env != nil || template.Spec.SchedulingGroup != nil {
		t.Errorf("the template is %+v", template)
	}
}

// Pins JOB-63.
func TestIndexPrefix(t *testing.T) {
	long := "a23456789-b23456789-c23456789-d23456789-e23456789-f23456789-123"
	for _, test := range []struct {
		job   string
		index int
		want  string
	}{
		{"pi", 7, "pi-7-"},
		{long, 7, long[:55] + "-7-"},
		{long, 12345, long[:51] + "-12345-"},
	} {
		if got := indexPrefix(test.job, test.index); got != test.want || len(got) > 58 {
			t.Errorf("%s of %s is %s", fmt.Sprint(test.index), test.job, got)
		}
	}
}

// Pins JOB-83c.
func TestCreationReason(t *testing.T) {
	withFailed := func(j *batchv1.Job) { j.Status.Failed = 1 }
	for _, test := range []struct {
		job  *batchv1.Job
		pods []*corev1.Pod
		want string
	}{
		{newJob(), nil, "new"},
		{newJob(replacesFailed), nil, "new"},
		{newJob(withFailed), nil, "recreate_terminating_or_failed"},
		{newJob(replacesFailed, withFailed), nil, "recreate_failed"},
		{newJob(replacesFailed), []*corev1.Pod{newPod("p", leaving)}, "recreate_terminating_or_failed"},
	} {
		if got := creationReason(look(test.job, test.pods...)); got != test.want {
			t.Errorf("got %s, want %s", got, test.want)
		}
	}
}
