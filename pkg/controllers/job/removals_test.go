package job

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	ktesting "k8s.io/client-go/testing"

	"kcmd.dev/pkg/controllers/kit/reconcile"
	"kcmd.dev/pkg/controllers/kit/writes"
)

// Pins JOB-44, JOB-51, JOB-52 and JOB-85.
func TestStatusIsWrittenBeforeFinalizersGo(t *testing.T) {
	f := newFixture(t, defaults, newJob(sized(2, 2), started), newPod("a", succeeded), newPod("b", succeeded))
	works := f.Refuse("update jobs/status", errBoom)
	err := f.Reconcile()
	if err == nil || err.Error() != "tracking status: adding uncounted pods to status: boom" {
		t.Errorf("the error is %v", err)
	}
	f.WantRequests(t, "update jobs/status")
	works()
	f.Refuse("patch pods b", errBoom)
	if err = f.Reconcile(); !errors.Is(err, errBoom) {
		t.Errorf("the error is %v", err)
	}
	s := f.stored(t).Status
	if s.Succeeded != 1 || len(s.UncountedTerminatedPods.Succeeded) != 1 || s.UncountedTerminatedPods.Succeeded[0] != "b" {
		t.Errorf("the status is %+v", s)
	}
	if conditionsOf(f.stored(t)) != "SuccessCriteriaMet=True CompletionsReached" {
		t.Errorf("conditions %s", conditionsOf(f.stored(t)))
	}
}

// The event is for the first write that says so, and not for those that follow. Pins JOB-82.
func TestASuspensionIsRecordedOnce(t *testing.T) {
	f := newFixture(t, defaults, newJob(sized(2, 2), started, suspended), newPod("a", failed))
	f.MustReconcile(t)
	f.WantRequests(t, "update jobs/status", "patch pods a", "update jobs/status")
	if got := f.RecordedEvents(); len(got) != 1 || !strings.Contains(got[0], "Suspended") {
		t.Errorf("events are %q", got)
	}
}

// Pins JOB-46 and JOB-104.
func TestAStaleCacheCountsNothingTwice(t *testing.T) {
	cfg := defaults
	cfg.requireFresh = false
	f := newFixture(t, cfg, newJob(sized(3, 3), started), newPod("a", succeeded), newPod("b"), newPod("c"))
	f.MustReconcile(t)
	f.Requests()
	// The Job is seen, the pods are not.
	f.Cache(t, f.stored(t))
	f.MustReconcile(t)
	if s := f.stored(t).Status; s.Succeeded != 1 || len(s.UncountedTerminatedPods.Succeeded) != 0 {
		t.Errorf("the status is %+v", s)
	}
	if got := strings.Join(f.Requests(), ", "); strings.Contains(got, "patch") {
		t.Errorf("requests %s", got)
	}
	f.CatchUp(t)
	f.MustReconcile(t)
	if f.c.memory.removals.knows(key) {
		t.Error("a removal that was seen is remembered")
	}
}

// A removal is not forgotten because the cache shows it after the pods were listed: the list still has the pod with its
// finalizer.
func TestARemovalThatIsSeenAfterThePodsWereListedIsNotCountedAgain(t *testing.T) {
	cfg := defaults
	cfg.requireFresh = false
	f := newFixture(t, cfg, newJob(sized(3, 3), started, func(j *batchv1.Job) { j.Status.Succeeded = 1 }),
		newPod("counted", succeeded), newPod("orphan", alone))
	f.c.memory.removals.add(key, []*corev1.Pod{newPod("counted")})
	f.Fake.PrependReactor("patch", "pods", func(action ktesting.Action) (bool, runtime.Object, error) {
		if action.(ktesting.PatchAction).GetName() == "orphan" { // adopted, between the list and the count
			f.Cache(t, newPod("counted", succeeded, untracked))
		}
		return false, nil, nil
	})
	f.MustReconcile(t)
	if s := f.stored(t).Status; s.Succeeded != 1 || len(s.UncountedTerminatedPods.Succeeded) != 0 {
		t.Errorf("the status is %+v", s)
	}
}

// A pod that was not reached before the instance ended still has its finalizer. Pins JOB-107.
func TestOnlyPodsWhoseFinalizerWasRemovedAreRemembered(t *testing.T) {
	f := newFixture(t, defaults, newJob(started, suspended), newPod("a"), newPod("b"))
	ctx, end := context.WithCancel(f.Context())
	end()
	if err := f.c.owners.Reconcile(ctx, key); !errors.Is(err, context.Canceled) {
		t.Fatalf("the error is %v", err)
	}
	if left := f.c.memory.removals.jobs[key]; len(left) != 0 {
		t.Errorf("remembered are %v", left)
	}
}

// Pins JOB-70.
func TestVictimsAreNotReadyOnceTheyLostTheirFinalizer(t *testing.T) {
	for _, test := range []struct {
		name, verb string
		ready      int32
	}{
		{"the deletion fails (E3)", "delete", 0},
		{"the patch fails (E3)", "patch", 1},
	} {
		f := newFixture(t, defaults, newJob(started, suspended), newPod("a", ready))
		f.Refuse(test.verb+" pods a", errBoom)
		if err := f.Reconcile(); !errors.Is(err, errBoom) {
			t.Errorf("%s: the error is %v", test.name, err)
		}
		if s := f.stored(t).Status; s.Active != 1 || *s.Ready != test.ready || *s.Terminating != 0 {
			t.Errorf("%s: active %d, ready %d, terminating %d", test.name, s.Active, *s.Ready, *s.Terminating)
		}
	}
}

// Pins JOB-33.
func TestAnAdoptedFinishedPodIsCounted(t *testing.T) {
	f := newFixture(t, defaults, newJob(started), newPod("orphan", alone, untracked, succeeded))
	f.MustReconcile(t)
	if s := f.stored(t).Status; s.Succeeded != 1 {
		t.Errorf("the status is %+v", s)
	}
}

// Pins JOB-104.
func TestARemovalThatIsNotSeenForLongIsLookedUp(t *testing.T) {
	for _, test := range []struct {
		name string
		live *corev1.Pod // nil: the pod is gone
		want string
	}{
		{"it is gone", nil, "list pods"},
		{"it lost the finalizer", newPod("p", succeeded, untracked), "list pods"},
		{"another pod has the name", newPod("p", succeeded, func(p *corev1.Pod) { p.UID = "new" }), "list pods"},
		{"it has the finalizer again", newPod("p", succeeded), "list pods, update jobs/status, patch pods p, update jobs/status"},
	} {
		t.Run(test.name, func(t *testing.T) {
			f := newFixture(t, defaults, newJob(sized(2, 1), started, func(j *batchv1.Job) { j.Status.Active = 1 }), newPod("r"))
			f.Cache(t, newPod("p", succeeded))
			if test.live != nil {
				if err := f.Fake.Tracker().Add(test.live); err != nil {
					t.Fatal(err)
				}
			}
			f.c.memory.removals.add(key, []*corev1.Pod{newPod("p")})
			f.Clock.Step(writes.Timeout - time.Second)
			f.MustReconcile(t)
			f.WantRequests(t)
			f.Clock.Step(time.Second)
			f.MustReconcile(t)
			f.WantRequests(t, listed(test.want)...)
			f.Clock.Step(time.Minute)
			f.MustReconcile(t)
			f.WantRequests(t) // not with every reconcile
		})
	}
}

// An admission webhook has a pod keep its finalizer. The pod would be counted again after five minutes.
func TestAFinalizerThatStaysIsNotRemoved(t *testing.T) {
	for name, answer := range map[string]struct {
		pod *corev1.Pod
		err error
	}{
		"JOB-85, JOB-121: it answers with NotFound": {nil, apierrors.NewNotFound(corev1.Resource("pods"), "p")},
		"JOB-140: it puts the finalizer back":       {newPod("p", succeeded), nil},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, defaults, newJob(sized(2, 1), started), newPod("p", succeeded))
			keeps := true
			f.Fake.PrependReactor("patch", "pods", func(ktesting.Action) (bool, runtime.Object, error) {
				return keeps, answer.pod, answer.err
			})
			for range 2 {
				if err := f.Reconcile(); !reconcile.IsRequeue(err) {
					t.Errorf("the error is %v", err)
				}
				f.CatchUp(t)
				if s := f.stored(t).Status; s.Succeeded != 0 || !slices.Equal(s.UncountedTerminatedPods.Succeeded, []types.UID{"p"}) {
					t.Errorf("the status is %+v", s)
				}
				f.Clock.Step(writes.Timeout)
			}
			keeps = false
			f.MustReconcile(t)
			if job := f.stored(t); job.Status.Succeeded != 1 || conditionsOf(job) != "" {
				t.Errorf("the status is %+v", job.Status)
			}
		})
	}
}

// Pins JOB-52 and JOB-121.
func TestAPodThatIsGoneIsCountedOnceTheCacheShowsIt(t *testing.T) {
	f := newFixture(t, defaults, newJob(started), newPod("p", succeeded))
	f.Refuse("patch pods p", apierrors.NewNotFound(corev1.Resource("pods"), "p"))
	if err := f.Reconcile(); !reconcile.IsRequeue(err) {
		t.Errorf("the error is %v", err)
	}
	f.Remove(t, newPod("p"))
	f.CatchUp(t)
	f.MustReconcile(t)
	if got, want := conditionsOf(f.stored(t)), "SuccessCriteriaMet=True CompletionsReached, Complete=True CompletionsReached"; got != want {
		t.Errorf("conditions %s, want %s", got, want)
	}
}
