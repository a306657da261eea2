package job

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	ktesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/ptr"

	"kcmd.dev/pkg/controllers/kit/controllertest"
	"kcmd.dev/pkg/controllers/kit/reconcile"
)

var (
	start     = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	key       = types.NamespacedName{Namespace: "ns", Name: "pi"}
	podLabels = map[string]string{batchv1.ControllerUidLabel: "job-uid", "app": "pi"}
	defaults  = value{
		concurrentSyncs: 5, staleConsistency: true, resetStartTimeOfSuspended: true, podReplacementPolicy: true, managedBy: true,
	}
)

// newJob makes a Job that runs one pod to completion.
func newJob(changes ...func(*batchv1.Job)) *batchv1.Job {
	job := &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "pi", UID: "job-uid", Generation: 1, ResourceVersion: "10"},
		Spec: batchv1.JobSpec{
			Parallelism:  ptr.To[int32](1),
			Completions:  ptr.To[int32](1),
			BackoffLimit: ptr.To[int32](6),
			Selector:     &metav1.LabelSelector{MatchLabels: map[string]string{batchv1.ControllerUidLabel: "job-uid"}},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: podLabels},
				Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c"}}, RestartPolicy: corev1.RestartPolicyNever},
			},
		},
	}
	for _, change := range changes {
		change(job)
	}
	return job
}

// sized sets completions, none if negative, and parallelism.
func sized(completions, parallelism int32) func(*batchv1.Job) {
	return func(job *batchv1.Job) {
		job.Spec.Completions, job.Spec.Parallelism = &completions, &parallelism
		if completions < 0 {
			job.Spec.Completions = nil
		}
	}
}

func indexed(job *batchv1.Job) { job.Spec.CompletionMode = ptr.To(batchv1.IndexedCompletion) }

func perIndex(limit int32) func(*batchv1.Job) {
	return func(job *batchv1.Job) {
		indexed(job)
		job.Spec.BackoffLimitPerIndex, job.Spec.BackoffLimit = &limit, nil
	}
}

func suspended(job *batchv1.Job) { job.Spec.Suspend = ptr.To(true) }

func withFailurePolicy(rules ...batchv1.PodFailurePolicyRule) func(*batchv1.Job) {
	return func(job *batchv1.Job) { job.Spec.PodFailurePolicy = &batchv1.PodFailurePolicy{Rules: rules} }
}

func onExit(action batchv1.PodFailurePolicyAction, codes ...int32) batchv1.PodFailurePolicyRule {
	return batchv1.PodFailurePolicyRule{
		Action:      action,
		OnExitCodes: &batchv1.PodFailurePolicyOnExitCodesRequirement{Operator: batchv1.PodFailurePolicyOnExitCodesOpIn, Values: codes},
	}
}

func replacesFailed(job *batchv1.Job) { job.Spec.PodReplacementPolicy = ptr.To(batchv1.Failed) }

// started is a Job whose status shows that it has run for an hour.
func started(job *batchv1.Job) {
	job.Status.StartTime = &metav1.Time{Time: start.Add(-time.Hour)}
	job.Status.Ready, job.Status.Terminating = ptr.To[int32](0), ptr.To[int32](0)
	job.Status.UncountedTerminatedPods = &batchv1.UncountedTerminatedPods{}
}

func withStatusCondition(kind batchv1.JobConditionType, status corev1.ConditionStatus, reason string) func(*batchv1.Job) {
	return func(job *batchv1.Job) {
		job.Status.Conditions = append(job.Status.Conditions, batchv1.JobCondition{Type: kind, Status: status, Reason: reason, Message: "because " + reason})
	}
}

// newPod makes a running pod of the Job.
func newPod(name string, changes ...func(*corev1.Pod)) *corev1.Pod {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "ns", Name: name, UID: types.UID(name), ResourceVersion: "20", Labels: podLabels,
			CreationTimestamp: metav1.NewTime(start.Add(-time.Minute)),
			OwnerReferences:   []metav1.OwnerReference{*metav1.NewControllerRef(newJob(), jobKind)},
			Finalizers:        []string{batchv1.JobTrackingFinalizer},
		},
		Spec:   corev1.PodSpec{NodeName: "node"},
		Status: corev1.PodStatus{Phase: corev1.PodRunning},
	}
	for _, change := range changes {
		change(pod)
	}
	return pod
}

func inPhase(phase corev1.PodPhase) func(*corev1.Pod) {
	return func(pod *corev1.Pod) { pod.Status.Phase = phase }
}

var succeeded, failed = inPhase(corev1.PodSucceeded), inPhase(corev1.PodFailed)

func ready(pod *corev1.Pod) {
	pod.Status.Conditions = append(pod.Status.Conditions, corev1.PodCondition{Type: corev1.PodReady, Status: corev1.ConditionTrue})
}

func leaving(pod *corev1.Pod) {
	pod.DeletionTimestamp = &metav1.Time{Time: start}
	pod.DeletionGracePeriodSeconds = ptr.To[int64](30)
}

func untracked(pod *corev1.Pod) { pod.Finalizers = nil }

func alone(pod *corev1.Pod) { pod.OwnerReferences = nil }

func atIndex(i int) func(*corev1.Pod) {
	return func(pod *corev1.Pod) {
		annotate(pod, batchv1.JobCompletionIndexAnnotation, strconv.Itoa(i))
	}
}

func annotate(pod *corev1.Pod, name, text string) {
	if pod.Annotations == nil {
		pod.Annotations = map[string]string{}
	}
	pod.Annotations[name] = text
}

func failedBefore(times int) func(*corev1.Pod) {
	return func(pod *corev1.Pod) { annotate(pod, failureCount, strconv.Itoa(times)) }
}

// exited is a failed pod whose container ended so long before start.
func exited(code int32, ago time.Duration) func(*corev1.Pod) {
	return func(pod *corev1.Pod) {
		pod.Status.Phase = corev1.PodFailed
		pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "c", State: corev1.ContainerState{
			Terminated: &corev1.ContainerStateTerminated{ExitCode: code, FinishedAt: metav1.NewTime(start.Add(-ago))},
		}}}
	}
}

// endedAgo is a succeeded pod whose container ended so long before start.
func endedAgo(ago time.Duration) func(*corev1.Pod) {
	return func(pod *corev1.Pod) {
		exited(0, ago)(pod)
		pod.Status.Phase = corev1.PodSucceeded
	}
}

func namesOf(all []*corev1.Pod) []string {
	names := []string{}
	for _, pod := range all {
		names = append(names, pod.Name)
	}
	slices.Sort(names)
	return names
}

// look observes a Job as if all its finalizers were as the cache shows.
func look(job *batchv1.Job, all ...*corev1.Pod) *observation {
	o := observe(job, replacementOf(job, true), all, sets.New[types.UID](), backoffRecord{}, start)
	o.settled = true
	return o
}

// fixture is a controller whose caches hold exactly what the test puts there.
type fixture struct {
	*jobController
	env     *controllertest.Env
	jobsIn  cache.Store
	podsIn  cache.Store
	queued  *recorder[types.NamespacedName]
	orphans *recorder[orphan]
}

// recorder records what was queued.
type recorder[K comparable] struct{ keys []string }

func (r *recorder[K]) Enqueue(lane reconcile.Lane, key K) {
	r.keys = append(r.keys, map[reconcile.Lane]string{reconcile.Fresh: "", reconcile.Backlog: "backlog "}[lane]+fmt.Sprint(key))
}

func (r *recorder[K]) AddAfter(key K, delay time.Duration) {
	r.keys = append(r.keys, fmt.Sprintf("%v in %v", key, delay))
}

func (r *recorder[K]) take() string {
	keys := r.keys
	r.keys = nil
	return strings.Join(keys, ", ")
}

// newFixture makes a controller over the objects, which are both stored and cached.
func newFixture(t testing.TB, v value, objects ...runtime.Object) *fixture {
	t.Helper()
	env := controllertest.New(t, objects...)
	nameCreatedPods(env)
	c, err := build(env.Env, v)
	if err != nil {
		t.Fatal(err)
	}
	f := &fixture{
		jobController: c,
		env:           env,
		jobsIn:        env.Informers.Batch().V1().Jobs().Informer().GetStore(),
		podsIn:        env.Informers.Core().V1().Pods().Informer().GetStore(),
		queued:        &recorder[types.NamespacedName]{},
		orphans:       &recorder[orphan]{},
	}
	f.queue, f.orphanQueue = f.queued, f.orphans
	f.cache(t, objects...)
	return f
}

// cache puts objects into the informer stores.
func (f *fixture) cache(t testing.TB, objects ...runtime.Object) {
	t.Helper()
	for _, object := range objects {
		var store cache.Store
		switch object.(type) {
		case *batchv1.Job:
			store = f.jobsIn
		case *corev1.Pod:
			store = f.podsIn
		default:
			continue
		}
		if err := store.Add(object); err != nil {
			t.Fatal(err)
		}
	}
}

// catchUp makes the caches show what the API server has.
func (f *fixture) catchUp(t testing.TB) {
	t.Helper()
	stored, err := f.env.Fake.CoreV1().Pods("ns").List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	var podItems []any
	for i := range stored.Items {
		podItems = append(podItems, &stored.Items[i])
	}
	jobs, err := f.env.Fake.BatchV1().Jobs("ns").List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	var jobItems []any
	for i := range jobs.Items {
		jobItems = append(jobItems, &jobs.Items[i])
	}
	if err := f.podsIn.Replace(podItems, "1000000"); err != nil {
		t.Fatal(err)
	}
	if err := f.jobsIn.Replace(jobItems, "1000000"); err != nil {
		t.Fatal(err)
	}
	f.env.Fake.ClearActions()
}

// nameCreatedPods makes the fake API server generate names and UIDs.
func nameCreatedPods(env *controllertest.Env) {
	var count atomic.Int64
	env.Fake.PrependReactor("create", "pods", func(action ktesting.Action) (bool, runtime.Object, error) {
		pod := action.(ktesting.CreateAction).GetObject().(*corev1.Pod)
		n := strconv.Itoa(int(count.Add(1)))
		pod.Namespace = action.GetNamespace()
		pod.Name, pod.UID, pod.ResourceVersion = pod.GenerateName+n, types.UID("new-"+n), "100"+n
		return false, nil, nil
	})
}

// failing makes every request of a kind for an object fail, for all objects if it has no
// name, as long as it is not told otherwise.
func (f *fixture) failing(verb, resource, name string, err error) (works func()) {
	var off atomic.Bool
	f.env.Fake.PrependReactor(verb, resource, func(action ktesting.Action) (bool, runtime.Object, error) {
		named, ok := action.(interface{ GetName() string })
		if off.Load() || name != "" && (!ok || named.GetName() != name) {
			return false, nil, nil
		}
		return true, nil, err
	})
	return func() { off.Store(true) }
}

// requests returns the requests since the last call, as "verb resource[/subresource] [name]".
func (f *fixture) requests() string {
	var all []string
	for _, action := range f.env.Fake.Actions() {
		request := action.GetVerb() + " " + action.GetResource().Resource
		if action.GetSubresource() != "" {
			request += "/" + action.GetSubresource()
		}
		if named, ok := action.(interface{ GetName() string }); ok && named.GetName() != "" {
			request += " " + named.GetName()
		}
		all = append(all, request)
	}
	f.env.Fake.ClearActions()
	return strings.Join(all, ", ")
}

func (f *fixture) stored(t testing.TB) *batchv1.Job {
	t.Helper()
	stored, err := f.env.Fake.Tracker().Get(batchv1.SchemeGroupVersion.WithResource("jobs"), "ns", "pi")
	if err != nil {
		t.Fatal(err)
	}
	return stored.(*batchv1.Job)
}

func (f *fixture) storedPods(t testing.TB) []corev1.Pod {
	t.Helper()
	list, err := f.env.Fake.CoreV1().Pods("ns").List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	f.env.Fake.ClearActions()
	return list.Items
}

// setPod changes a pod on the API server.
func (f *fixture) setPod(t testing.TB, name string, change func(*corev1.Pod)) {
	t.Helper()
	pod, err := f.env.Fake.CoreV1().Pods("ns").Get(t.Context(), name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	change(pod)
	if _, err := f.env.Fake.CoreV1().Pods("ns").Update(t.Context(), pod, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
}

// setJob changes the Job on the API server.
func (f *fixture) setJob(t testing.TB, change func(*batchv1.Job)) {
	t.Helper()
	job := f.stored(t).DeepCopy()
	change(job)
	if _, err := f.env.Fake.BatchV1().Jobs("ns").Update(t.Context(), job, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
}

func (f *fixture) mustReconcile(t testing.TB) {
	t.Helper()
	if err := f.reconcile(f.env.Context(), key); err != nil {
		t.Fatalf("reconcile: %v", err)
	}
}

func (f *fixture) wantRequests(t testing.TB, want string) {
	t.Helper()
	if got := f.requests(); got != want {
		t.Errorf("requests %q, want %q", got, want)
	}
}

func (f *fixture) wantEvents(t testing.TB, want ...string) {
	t.Helper()
	if got := f.env.RecordedEvents(); !slices.Equal(got, want) {
		t.Errorf("events %q, want %q", got, want)
	}
}

// conditionsOf are the conditions of a Job as "Type=Status Reason".
func conditionsOf(job *batchv1.Job) string {
	var all []string
	for _, c := range job.Status.Conditions {
		all = append(all, fmt.Sprintf("%s=%s %s", c.Type, c.Status, c.Reason))
	}
	return strings.Join(all, ", ")
}

func conditionText(c *batchv1.JobCondition) string {
	if c == nil {
		return ""
	}
	return fmt.Sprintf("%s %s: %s", c.Type, c.Reason, c.Message)
}
