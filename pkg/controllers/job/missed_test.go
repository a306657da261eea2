package job

import (
	"errors"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"

	"kcmd.dev/pkg/controllers/kit/writes"
	"kcmd.dev/test/controllertest"
)

// runs is a Job whose status shows that pods are active.
func runs(pods int32) func(*batchv1.Job) {
	return func(job *batchv1.Job) {
		started(job)
		job.Status.Active = pods
	}
}

// counts is a Job whose status is about to count a pod that has succeeded.
func counts(pod types.UID) func(*batchv1.Job) {
	return func(job *batchv1.Job) {
		started(job)
		job.Status.UncountedTerminatedPods.Succeeded = []types.UID{pod}
	}
}

// A list after a break of the watch lacks the pod p, which exists or is gone.
func TestPodsThatAListLacks(t *testing.T) {
	for name, test := range map[string]struct {
		job    *batchv1.Job
		cached []runtime.Object
		pod    *corev1.Pod // as it was seen last, nil if it never was or its handler was not called yet
		live   *corev1.Pod // nil if it is gone
		want   string
	}{
		"JOB-129: a pod in the status has the finalizer": {
			newJob(counts("p"), sized(2, 1)), nil, nil, newPod("p", succeeded),
			"list pods, create pods, update jobs/status, patch pods p, update jobs/status",
		},
		"JOB-129: a pod in the status is gone": {
			newJob(counts("p"), sized(2, 1)), nil, nil, nil, "list pods, create pods, update jobs/status",
		},
		"JOB-129: a pod in the status is shown": {
			newJob(counts("p"), sized(2, 1)), []runtime.Object{newPod("p", succeeded, untracked)}, nil, nil,
			"create pods, update jobs/status",
		},
		"JOB-129: an active pod exists": {
			newJob(runs(2), sized(2, 2)), []runtime.Object{newPod("a")}, nil, newPod("p"), "list pods",
		},
		"JOB-129: an active pod exists, and the Job would end": {
			newJob(runs(2), sized(-1, 2)), []runtime.Object{newPod("a", succeeded)}, nil, newPod("p"),
			"list pods, update jobs/status, patch pods a, update jobs/status",
		},
		"JOB-129: an active pod is gone": {
			newJob(runs(2), sized(2, 2)), []runtime.Object{newPod("a")}, nil, nil, "list pods, create pods",
		},
		"JOB-129: the Job is being deleted": {
			newJob(runs(2), sized(2, 2), func(j *batchv1.Job) { j.DeletionTimestamp = &metav1.Time{Time: start} }),
			[]runtime.Object{newPod("a", untracked)}, nil, newPod("p"), "update jobs/status",
		},
		"JOB-129: another pod has the name": {
			newJob(runs(1)), nil, newPod("p"), newPod("p", func(p *corev1.Pod) { p.UID, p.OwnerReferences[0].UID = "new", "other" }),
			"list pods, create pods",
		},
		"JOB-129: a terminating pod exists": {
			newJob(started, replacesFailed, func(j *batchv1.Job) { *j.Status.Terminating = 1 }), nil,
			newPod("p", leaving), newPod("p", leaving), "list pods",
		},
		"JOB-129: a terminating pod is gone": {
			newJob(started, replacesFailed), nil, newPod("p", leaving), nil, "list pods, create pods, update jobs/status",
		},
		"JOB-129: a missed pod was counted in the status": {
			newJob(started, sized(2, 2), func(j *batchv1.Job) { j.Status.Succeeded, j.Status.Active = 1, 1 }),
			[]runtime.Object{newPod("a")}, newPod("p", succeeded, untracked), newPod("p", succeeded, untracked), "",
		},
		"JOB-129: the failures of an index": {
			newJob(perIndex(1), sized(1, 1), started), nil, newPod("p", failed, atIndex(0)), newPod("p", failed, atIndex(0)),
			"list pods, create pods, update jobs/status",
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, defaults, append(test.cached, test.job)...)
			if test.live != nil {
				if err := f.Fake.Tracker().Add(test.live); err != nil {
					t.Fatal(err)
				}
			}
			if test.pod != nil {
				f.c.podMissed(test.pod)
			}
			f.MustReconcile(t)
			f.WantRequests(t, listed(test.want)...)
			if isFinished(f.stored(t)) {
				t.Error("the Job has ended")
			}
		})
	}
}

// While the cache does not show what this process wrote, it may well lack pods, and nothing follows from that: no pods
// are listed, and the Job does not end. Pins JOB-129 and JOB-130.
func TestNothingFollowsFromACacheThatIsBehind(t *testing.T) {
	cfg := defaults
	cfg.requireFresh = false
	f := newFixture(t, cfg, newJob(runs(2), sized(-1, 2)), newPod("a", succeeded))
	f.EmptyCache(t, &corev1.Pod{}, "30")
	f.Cache(t, newPod("a", succeeded))
	f.c.owners.Writes.Wrote(newJob(), corev1.Resource("pods"), "31")
	f.MustReconcile(t)
	f.WantRequests(t, "update jobs/status", "patch pods a", "update jobs/status")
	if got := conditionsOf(f.stored(t)); got != "" {
		t.Errorf("conditions %s", got)
	}
}

// A pod stays in doubt until the cache shows it, or a list shows that it is gone. Pins JOB-129.
func TestHowLongAPodIsMissed(t *testing.T) {
	f := newFixture(t, defaults, newJob(runs(1)))
	if err := f.Fake.Tracker().Add(newPod("p")); err != nil {
		t.Fatal(err)
	}
	f.c.podMissed(newPod("p"))
	f.Queued.Want(t, "ns/pi in 1s")
	stop := f.Refuse("list pods", errors.New("unavailable"))
	if err := f.Reconcile(); err == nil || !f.c.memory.missed.knows(key) {
		t.Errorf("the list fails: error %v", err)
	}
	stop()
	for range 2 {
		f.Queued.Take()
		f.MustReconcile(t)
		f.Queued.Want(t, "ns/pi in 10s")
	}
	f.Requests()
	f.Cache(t, newPod("p"))
	f.MustReconcile(t)
	f.MustReconcile(t)
	f.WantRequests(t, "list pods") // not with every reconcile
	if f.c.memory.knows(key) {
		t.Error("a pod that the cache shows is missed")
	}
	missed := f.c.memory.missed
	missed.add(key, "p")
	known := missed.of(key)
	f.Clock.Step(time.Second)
	missed.add(key, "p")
	if missed.found(key, known); !missed.knows(key) {
		t.Error("what was missed again is forgotten")
	}
}

// Whether a pod was deleted is known from an event, and not from a list. Pins JOB-129.
func TestATombstoneIsNoDeletion(t *testing.T) {
	pods := &controllertest.Captured{}
	for name, test := range map[string]struct {
		job   *batchv1.Job
		event any
		want  bool
	}{
		"deleted":              {newJob(), newPod("p"), false},
		"missed":               {newJob(), cache.DeletedFinalStateUnknown{Obj: newPod("p")}, true},
		"missed, Job finished": {newJob(withStatusCondition(batchv1.JobFailed, "True", "X")), cache.DeletedFinalStateUnknown{Obj: newPod("p")}, false},
	} {
		f := newFixture(t, defaults, test.job)
		f.c.watch(&controllertest.Captured{}, pods)
		pods.Handler.OnDelete(test.event)
		if f.c.memory.missed.knows(key) != test.want {
			t.Errorf("%s: is missed, want %v", name, test.want)
		}
	}
}

// Lists lack a Job, and then its pod, which its status does not tell of. The Job is shown again first. Pins JOB-138.
func TestAPodOfAMissedJobIsMissed(t *testing.T) {
	job := newJob(started)
	f := newFixture(t, defaults, job)
	if err := f.Fake.Tracker().Add(newPod("p")); err != nil {
		t.Fatal(err)
	}
	f.Uncache(t, job)
	f.c.podMissed(newPod("q"))
	if f.c.memory.knows(key) {
		t.Error("the pod of a Job that was deleted is missed")
	}
	f.c.jobMissed(job)
	f.c.podMissed(newPod("p"))
	f.Cache(t, job)
	f.MustReconcile(t)
	f.WantRequests(t, "list pods", "update jobs/status")
	f.Uncache(t, job)
	f.c.jobMissed(job)
	f.c.podMissed(newPod("p"))
	f.Clock.Step(writes.Timeout)
	f.MustReconcile(t)
	if f.c.memory.knows(key) {
		t.Error("the pod of a Job that is gone is missed")
	}
}

// A list lacks a pod whose finalizer was removed, and is older than the removal: what the watch shows next is the pod
// with the finalizer. Pins JOB-131.
func TestARemovalIsNotSeenInAnOlderList(t *testing.T) {
	cfg := defaults
	cfg.requireFresh = false
	at := func(version string) func(*corev1.Pod) { return func(p *corev1.Pod) { p.ResourceVersion = version } }
	f := newFixture(t, cfg, newJob(sized(3, 3), started), newPod("a", succeeded, at("25")), newPod("b"), newPod("c"))
	f.MustReconcile(t)
	f.EmptyCache(t, &corev1.Pod{}, "20")
	f.Cache(t, f.stored(t), newPod("b"), newPod("c"))
	f.MustReconcile(t)
	f.Cache(t, f.stored(t), newPod("a", succeeded, at("22")))
	f.MustReconcile(t)
	if s := f.stored(t).Status; s.Succeeded != 1 || len(s.UncountedTerminatedPods.Succeeded) != 0 {
		t.Errorf("the status is %+v", s)
	}
	f.EmptyCache(t, &corev1.Pod{}, "25")
	if unseen, _ := f.c.memory.removals.of(key); len(unseen) > 0 || f.c.memory.removals.knows(key) {
		t.Errorf("remembers %v, which is gone", unseen)
	}
}
