package job

import (
	"strings"
	"sync"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	ktesting "k8s.io/client-go/testing"
)

// Pins JOB-39 and JOB-64.
func TestBackoffIsRememberedOnceReported(t *testing.T) {
	f := newFixture(t, defaults, newJob(started), newPod("f", exited(1, 4*time.Second)))
	works := f.Refuse("update jobs/status", errBoom)
	if err := f.Reconcile(); err == nil || f.c.memory.backoffs.knows(key) {
		t.Errorf("error %v, remembered %t", err, f.c.memory.backoffs.knows(key))
	}
	works()
	f.Queued.Take()
	f.MustReconcile(t)
	if got, _ := f.c.memory.backoffs.get(key, "job-uid"); got.failures != 1 {
		t.Errorf("remembered %+v", got)
	}
	f.Queued.Want(t, "ns/pi in 6s")
	f.CatchUp(t)
	f.MustReconcile(t)
	f.WantRequests(t)
	f.Clock.Step(7 * time.Second)
	f.MustReconcile(t)
	f.WantRequests(t, "create pods", "update jobs/status")
}

// Pins JOB-64.
func TestBackoffIsRememberedWithTheFirstWriteOnly(t *testing.T) {
	// The status knows one pod already, so there is nothing to write before its finalizer goes.
	f := newFixture(t, defaults, newJob(sized(2, 2), started, withFailurePolicy(onExit(batchv1.PodFailurePolicyActionIgnore, 6)), func(j *batchv1.Job) {
		j.Status.Active = 1
		j.Status.UncountedTerminatedPods.Succeeded = []types.UID{"s"}
	}), newPod("s", succeeded), newPod("r"), newPod("i", exited(6, 0)))
	f.MustReconcile(t)
	if got := strings.Join(f.Requests(), ", "); !strings.HasPrefix(got, "patch pods") || f.c.memory.backoffs.knows(key) {
		t.Errorf("D1: requests %s, remembered %t", got, f.c.memory.backoffs.knows(key))
	}
}

func TestBackoffBelongsToOneJobOfItsName(t *testing.T) {
	f := newFixture(t, defaults, newJob(started), newPod("f", exited(1, 4*time.Second)))
	var once sync.Once
	f.Fake.PrependReactor("update", "jobs", func(ktesting.Action) (bool, runtime.Object, error) {
		once.Do(func() { f.c.jobDeleted(newJob()) }) // while a reconcile is under way
		return false, nil, nil
	})
	f.MustReconcile(t)
	f.Requests()
	recreated := newJob(func(j *batchv1.Job) { j.UID, j.ResourceVersion = "new", "2000" })
	if err := f.CacheOf(t, recreated).Replace([]any{recreated}, "2000000"); err != nil {
		t.Fatal(err)
	}
	f.EmptyCache(t, &corev1.Pod{}, "2000000")
	f.MustReconcile(t)
	if got := strings.Join(f.Requests(), ", "); !strings.HasPrefix(got, "create pods") {
		t.Errorf("requests %q: the failures of an earlier Job delay the pods of this one", got)
	}
}

// Pins JOB-86.
func TestPodsThatRunAreCountedWhileAFailedOneBacksOff(t *testing.T) {
	f := newFixture(t, defaults, newJob(sized(2, 2), started), newPod("f", exited(1, 4*time.Second)), newPod("r", ready))
	for range 2 {
		f.MustReconcile(t)
		if s := f.stored(t).Status; s.Active != 1 || *s.Ready != 1 || s.Failed != 1 {
			t.Errorf("the status is %+v", s)
		}
		if got := strings.Join(f.Requests(), ", "); strings.Contains(got, "create") {
			t.Errorf("requests %s", got)
		}
		f.CatchUp(t)
	}
}

// The clock of a node does not put off the replacement of its pods. Pins JOB-116.
func TestAClockThatIsAhead(t *testing.T) {
	ahead := exited(1, -24*time.Hour)
	for name, test := range map[string]struct {
		job *batchv1.Job
		pod *corev1.Pod
	}{
		"Job":   {newJob(started), newPod("f", ahead)},
		"index": {newJob(started, perIndex(5)), newPod("f", ahead, atIndex(0))},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, defaults, test.job, test.pod)
			f.MustReconcile(t)
			f.Queued.Want(t, "ns/pi in 10s")
			f.CatchUp(t)
			f.Clock.Step(4 * time.Second)
			f.MustReconcile(t)
			f.Requests()
			f.Queued.Want(t, "ns/pi in 6s")
			f.Clock.Step(6 * time.Second)
			f.MustReconcile(t)
			if got := strings.Join(f.Requests(), ", "); !strings.HasPrefix(got, "create pods") {
				t.Errorf("after the delay: %q", got)
			}
		})
	}
}

// Pins JOB-123.
func TestAClockThatIsSetBack(t *testing.T) {
	failed := exited(1, 0)
	for name, test := range map[string]struct {
		job *batchv1.Job
		pod *corev1.Pod
	}{
		"Job":   {newJob(started), newPod("f", failed)},
		"index": {newJob(started, perIndex(5)), newPod("f", failed, atIndex(0))},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, defaults, test.job, test.pod)
			f.MustReconcile(t)
			f.Queued.Want(t, "ns/pi in 10s")
			f.CatchUp(t)
			f.Clock.Step(-24 * time.Hour)
			for _, wait := range []string{"10s", "6s"} {
				f.MustReconcile(t)
				f.Queued.Want(t, "ns/pi in "+wait)
				f.Clock.Step(4 * time.Second)
			}
			f.Clock.Step(2 * time.Second)
			f.Requests()
			f.MustReconcile(t)
			if got := strings.Join(f.Requests(), ", "); !strings.HasPrefix(got, "create pods") {
				t.Errorf("after the delay: %q", got)
			}
		})
	}
}

// Pins JOB-116.
func TestSightingsEndWithTheirPods(t *testing.T) {
	f := newFixture(t, defaults, newJob(started, perIndex(5)), newPod("f", exited(1, -24*time.Hour), atIndex(0)))
	f.MustReconcile(t)
	if got, _ := f.c.memory.sightings.get(key, "job-uid"); len(got) != 1 {
		t.Errorf("sighted %v", got)
	}
	f.CatchUp(t)
	f.Uncache(t, newPod("f"))
	f.MustReconcile(t)
	if f.c.memory.sightings.knows(key) {
		t.Error("the sighting is remembered")
	}
}
