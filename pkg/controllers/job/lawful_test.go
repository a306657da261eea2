package job

import (
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/utils/ptr"

	"kcmd.dev/test/controllertest"
)

// faultsIn are the reasons for which the API server would refuse a status in place of the one that it has.
func faultsIn(old, job *batchv1.Job) []string {
	if old.UID != job.UID {
		return nil // a conflict
	}
	is := func(j *batchv1.Job, kind batchv1.JobConditionType) bool { return trueCondition(j, kind) != nil }
	s, was := &job.Status, &old.Status
	complete, failed := is(job, batchv1.JobComplete), is(job, batchv1.JobFailed)
	met, target := is(job, batchv1.JobSuccessCriteriaMet), is(job, batchv1.JobFailureTarget)
	finished, started := complete || failed, s.StartTime != nil
	pending := s.Active > 0 || ptr.Deref(s.Terminating, 0) > 0
	counted, uncounted := sets.New[types.UID](), 0
	if u := s.UncountedTerminatedPods; u != nil {
		uncounted = len(u.Succeeded) + len(u.Failed)
		pending = pending || uncounted > 0
		counted.Insert(u.Succeeded...).Insert(u.Failed...)
	}
	empty := job.Spec.Completions != nil && *job.Spec.Completions == 0
	resumed := is(old, batchv1.JobSuspended) && !is(job, batchv1.JobSuspended)
	elastic := isIndexed(job) && ptr.Equal(job.Spec.Completions, job.Spec.Parallelism)
	indexesBelow := func(end int) (completed, failed indexes) {
		return parseIndexes(s.CompletedIndexes, end), parseIndexes(ptr.Deref(s.FailedIndexes, ""), end)
	}
	completed, failedIndexes := indexesBelow(math.MaxInt)
	validCompleted, validFailed := indexesBelow(completionsOf(job))
	final := []batchv1.JobConditionType{batchv1.JobComplete, batchv1.JobFailed, batchv1.JobSuccessCriteriaMet, batchv1.JobFailureTarget}
	var faults []string
	for fault, found := range map[string]bool{
		"more pods are ready than active":         ptr.Deref(s.Ready, 0) > s.Active,
		"Complete without SuccessCriteriaMet":     complete && !met,
		"Complete without a time":                 complete && s.CompletionTime == nil,
		"completed before it started":             s.CompletionTime != nil && started && s.CompletionTime.Before(s.StartTime),
		"Failed without FailureTarget":            failed && !target,
		"both a success and a failure":            (complete || met) && (failed || target),
		"finished with pods":                      finished && pending,
		"finished without a start":                finished && !started && !(isSuspended(job) && empty),
		"the start has changed":                   was.StartTime != nil && !isSuspended(job) && !resumed && !was.StartTime.Equal(s.StartTime),
		"fewer have failed":                       s.Failed < was.Failed,
		"fewer have succeeded":                    s.Succeeded < was.Succeeded && !elastic,
		"a pod is counted twice":                  counted.Len() < uncounted,
		"an index has both failed and succeeded":  completed.overlap(failedIndexes) > 0,
		"an index is beyond the completions":      completed.count()+failedIndexes.count() > validCompleted.count()+validFailed.count(),
		"a condition that is final has gone back": slices.ContainsFunc(final, func(kind batchv1.JobConditionType) bool { return is(old, kind) && !is(job, kind) }),
	} {
		if found {
			faults = append(faults, fault)
		}
	}
	slices.Sort(faults)
	return faults
}

// Each fault is made in a status that has none. Pins JOB-56.
func TestFaultsInStatuses(t *testing.T) {
	yes := func(kinds ...batchv1.JobConditionType) func(*batchv1.Job) {
		return func(j *batchv1.Job) {
			for _, kind := range kinds {
				withStatusCondition(kind, corev1.ConditionTrue, "R")(j)
			}
		}
	}
	const met, target = batchv1.JobSuccessCriteriaMet, batchv1.JobFailureTarget
	counts := func(succeeded, failed int32) func(*batchv1.Job) {
		return func(j *batchv1.Job) { j.Status.Succeeded, j.Status.Failed = succeeded, failed }
	}
	indexes := func(completed, failed string) func(*batchv1.Job) {
		return func(j *batchv1.Job) { j.Status.CompletedIndexes, j.Status.FailedIndexes = completed, &failed }
	}
	completedAt := func(at time.Time) func(*batchv1.Job) {
		return func(j *batchv1.Job) { j.Status.CompletionTime = &metav1.Time{Time: at} }
	}
	complete := controllertest.All(yes(met, batchv1.JobComplete), completedAt(start))
	activePods := func(j *batchv1.Job) { j.Status.Active = 1 }
	terminatingPods := func(j *batchv1.Job) { j.Status.Terminating = ptr.To[int32](1) }
	uncounted := func(j *batchv1.Job) { j.Status.UncountedTerminatedPods.Succeeded = []types.UID{"a"} }
	twice := func(j *batchv1.Job) {
		uncounted(j)
		j.Status.UncountedTerminatedPods.Failed = []types.UID{"a"}
	}
	readyPods := func(j *batchv1.Job) { j.Status.Ready = ptr.To[int32](1) }
	startsNow := func(j *batchv1.Job) { j.Status.StartTime = &metav1.Time{Time: start} }
	neverStarted := func(j *batchv1.Job) { j.Status.StartTime = nil }
	empty := controllertest.All(sized(0, 0), suspended, neverStarted)
	type change = func(*batchv1.Job)
	for name, test := range map[string]struct {
		spec     change // of both
		was, now change
		want     string
	}{
		"complete":                                   {started, nil, complete, ""},
		"more ready than active":                     {started, nil, readyPods, "more pods are ready than active"},
		"complete without criteria":                  {started, nil, controllertest.All(yes(batchv1.JobComplete), completedAt(start)), "Complete without SuccessCriteriaMet"},
		"complete without a time":                    {started, nil, yes(met, batchv1.JobComplete), "Complete without a time"},
		"completed too early":                        {started, nil, controllertest.All(yes(met, batchv1.JobComplete), completedAt(start.Add(-2*time.Hour))), "completed before it started"},
		"failed without a target":                    {started, nil, yes(batchv1.JobFailed), "Failed without FailureTarget"},
		"success and failure":                        {started, nil, yes(met, target), "both a success and a failure"},
		"complete with active pods":                  {started, nil, controllertest.All(complete, activePods), "finished with pods"},
		"complete with terminating pods":             {started, nil, controllertest.All(complete, terminatingPods), "finished with pods"},
		"complete with uncounted pods":               {started, nil, controllertest.All(complete, uncounted), "finished with pods"},
		"failed with active pods":                    {started, nil, controllertest.All(yes(target, batchv1.JobFailed), activePods), "finished with pods"},
		"complete without a start":                   {neverStarted, nil, complete, "finished without a start"},
		"complete without a start, never was to run": {empty, nil, complete, ""},
		"another start":                              {started, nil, startsNow, "the start has changed"},
		"another start when resumed":                 {started, yes(batchv1.JobSuspended), startsNow, ""},
		"fewer failed":                               {started, counts(0, 2), counts(0, 1), "fewer have failed"},
		"fewer succeeded":                            {started, counts(2, 0), counts(1, 0), "fewer have succeeded"},
		"fewer succeeded, elastic":                   {controllertest.All(started, indexed, sized(2, 2)), counts(4, 0), counts(2, 0), ""},
		"a pod failed and succeeded":                 {started, nil, twice, "a pod is counted twice"},
		"an index failed and succeeded":              {controllertest.All(started, perIndex(0), sized(3, 3)), nil, indexes("0,1", "1"), "an index has both failed and succeeded"},
		"an index is too high":                       {controllertest.All(started, perIndex(0), sized(2, 2)), nil, indexes("0-2", ""), "an index is beyond the completions"},
		"a final condition goes back":                {started, yes(met), nil, "a condition that is final has gone back"},
	} {
		t.Run(name, func(t *testing.T) {
			made := func(changes ...change) *batchv1.Job {
				return newJob(slices.DeleteFunc(changes, func(c change) bool { return c == nil })...)
			}
			got := strings.Join(faultsIn(made(test.spec, test.was), made(test.spec, test.now)), ", ")
			if got != test.want {
				t.Errorf("faults are %q, want %q", got, test.want)
			}
		})
	}
}

// Every fixture checks the statuses that are written, see faultsIn. Pins JOB-56.
func TestStatusesThatTheAPIServerAccepts(t *testing.T) {
	ahead := func(j *batchv1.Job) { j.Status.StartTime.Time = start.Add(time.Hour) }
	neverStarted := func(j *batchv1.Job) { j.Status.StartTime = nil }
	counted := func(completed, failed string, succeeded, failures int32) func(*batchv1.Job) {
		return func(j *batchv1.Job) {
			j.Status.CompletedIndexes, j.Status.Succeeded, j.Status.Failed = completed, succeeded, failures
			if hasBackoffPerIndex(j) {
				j.Status.FailedIndexes = &failed
			}
		}
	}
	suspendedBefore := withStatusCondition(batchv1.JobSuspended, corev1.ConditionTrue, reasonSuspended)
	noRetries := func(j *batchv1.Job) { j.Spec.BackoffLimit = new(int32) }
	const (
		complete  = "SuccessCriteriaMet=True CompletionsReached, Complete=True CompletionsReached"
		failedAll = "FailureTarget=True FailedIndexes, Failed=True FailedIndexes"
	)
	for name, test := range map[string]struct {
		job  *batchv1.Job
		pods []*corev1.Pod
		want string
	}{
		"started by a clock that is ahead":        {newJob(started, ahead), []*corev1.Pod{newPod("a", succeeded)}, complete},
		"fails with ready pods":                   {newJob(sized(9, 9), started, noRetries), []*corev1.Pod{newPod("a", ready), newPod("f", failed)}, "FailureTarget=True BackoffLimitExceeded"},
		"is suspended with ready pods":            {newJob(sized(9, 9), started, suspended), []*corev1.Pod{newPod("a", ready), newPod("f", failed)}, "Suspended=True JobSuspended"},
		"resumes":                                 {newJob(started, suspendedBefore), nil, "Suspended=False JobResumed"},
		"is scaled down":                          {newJob(indexed, sized(2, 2), started, counted("0-3", "", 4, 0)), nil, complete},
		"is scaled down, and some failed":         {newJob(perIndex(0), sized(2, 2), started, counted("1,2", "0,3", 2, 2)), nil, failedAll},
		"JOB-119: is scaled down while suspended": {newJob(indexed, sized(2, 2), suspended, counted("0-3", "", 4, 0), suspendedBefore), nil, "Suspended=True JobSuspended, " + complete},
		"is scaled to 0 while suspended":          {newJob(indexed, sized(0, 0), suspended, neverStarted, suspendedBefore), nil, "Suspended=True JobSuspended, " + complete},
		"an index that failed has succeeded": {newJob(perIndex(0), sized(2, 2), started, counted("", "0", 0, 1)),
			[]*corev1.Pod{newPod("a", succeeded, atIndex(0)), newPod("b", succeeded, atIndex(1)), newPod("c", failed, atIndex(1))}, failedAll},
	} {
		t.Run(name, func(t *testing.T) {
			objects := []runtime.Object{test.job}
			for _, pod := range test.pods {
				objects = append(objects, pod)
			}
			f := newFixture(t, defaults, objects...)
			for range 3 {
				f.MustReconcile(t)
				f.CatchUp(t)
			}
			if got := conditionsOf(f.stored(t)); !strings.HasPrefix(got, test.want) {
				t.Errorf("conditions %s, want %s", got, test.want)
			}
		})
	}
}
