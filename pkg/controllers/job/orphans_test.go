package job

import (
	"errors"
	"slices"
	"strings"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	ktesting "k8s.io/client-go/testing"
	"k8s.io/utils/ptr"

	"kcmd.dev/pkg/controller"
	"kcmd.dev/pkg/controllers/kit/reconcile"
)

func TestOrphans(t *testing.T) {
	finished := withStatusCondition(batchv1.JobFailed, "True", "X")
	external := func(j *batchv1.Job) { j.Spec.ManagedBy = ptr.To("example.com/other") }
	refer := func(apiVersion, kind string) func(*corev1.Pod) {
		return func(p *corev1.Pod) { p.OwnerReferences[0].APIVersion, p.OwnerReferences[0].Kind = apiVersion, kind }
	}
	gone := func(p *corev1.Pod) { p.OwnerReferences[0].UID = "old" }
	for _, test := range []struct {
		name string
		job  *batchv1.Job
		pod  *corev1.Pod
		want string
	}{
		{"JOB-23: of a running job", newJob(), newPod("p"), ""},
		{"JOB-23: of a finished job", newJob(finished), newPod("p"), "patch pods p"},
		{"JOB-23: of a finished job that is managed elsewhere", newJob(finished, external), newPod("p"), ""},
		{"JOB-103: of a job that is gone", newJob(), newPod("p", gone), "get jobs pi, patch pods p"},
		{"JOB-23: of nobody", newJob(), newPod("p", alone), "patch pods p"},
		{"JOB-23: of another kind", newJob(), newPod("p", gone, refer("batch/v1", "Task")), ""},
		{"JOB-23: of another group", newJob(), newPod("p", gone, refer("example.com/v1", "Job")), ""},
		{"JOB-23: without the finalizer", newJob(finished), newPod("p", untracked), ""},
		{"JOB-22: not matched by the selector", newJob(finished), newPod("q", func(p *corev1.Pod) { p.Labels = nil }), ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			f := newFixture(t, defaults, test.job, test.pod)
			for _, k := range []orphan{{orphanPod, "ns", "p"}, {orphanSelector, "ns", "batch.kubernetes.io/controller-uid=job-uid"}} {
				if err := f.c.reconcileOrphan(f.Context(), k); err != nil {
					t.Errorf("%v: %v", k, err)
				}
				f.WantRequests(t, listed(test.want)...)
			}
		})
	}
}

// A Job that the cache lacks may exist: the pods of a Job that runs must stay until they are
// counted.
// Pins JOB-103.
func TestPodsOfAJobThatIsNotCachedYet(t *testing.T) {
	finished := withStatusCondition(batchv1.JobFailed, "True", "X")
	recreated := func(j *batchv1.Job) { j.UID = "new" }
	external := func(j *batchv1.Job) { j.Spec.ManagedBy = ptr.To("example.com/other") }
	for _, test := range []struct {
		name           string
		cached, stored *batchv1.Job
		want           string
		again          bool
	}{
		{"it runs", nil, newJob(), "get jobs pi", true},
		{"it runs, and the cache shows its predecessor", newJob(recreated), newJob(), "get jobs pi", true},
		{"it is managed elsewhere", nil, newJob(finished, external), "get jobs pi", true},
		{"it runs, and the cache shows it", newJob(), newJob(), "", false},
		{"it has finished", nil, newJob(finished), "get jobs pi, patch pods p", false},
		{"it is gone", nil, nil, "get jobs pi, patch pods p", false},
		{"it was recreated", nil, newJob(recreated), "get jobs pi, patch pods p", false},
	} {
		t.Run(test.name, func(t *testing.T) {
			f := newFixture(t, defaults, newPod("p"))
			if test.cached != nil {
				f.Cache(t, test.cached)
			}
			if test.stored != nil {
				if err := f.Fake.Tracker().Add(test.stored); err != nil {
					t.Fatal(err)
				}
			}
			for _, k := range []orphan{{orphanPod, "ns", "p"}, {orphanSelector, "ns", "batch.kubernetes.io/controller-uid=job-uid"}} {
				if err := f.c.reconcileOrphan(f.Context(), k); err != nil {
					t.Errorf("%v: %v", k, err)
				}
				f.WantRequests(t, listed(test.want)...)
				if test.again {
					f.orphans.Want(t, k.String()+" in 10s")
				} else {
					f.orphans.Want(t)
				}
			}
		})
	}
}

// Pins JOB-103.
func TestASweepAsksForAJobOnce(t *testing.T) {
	f := newFixture(t, defaults, newPod("a"), newPod("b"), newPod("c"))
	if err := f.c.reconcileOrphan(f.Context(), orphan{orphanSelector, "ns", "app=pi"}); err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(f.Requests(), ", "); strings.Count(got, "get jobs") != 1 || strings.Count(got, "patch pods") != 3 {
		t.Errorf("requests %s", got)
	}
}

// Pins JOB-103.
func TestPodsKeepTheirFinalizerWhileTheirJobCannotBeRead(t *testing.T) {
	f := newFixture(t, defaults, newPod("p"))
	f.Refuse("get jobs pi", errBoom)
	if err := f.c.reconcileOrphan(f.Context(), orphan{orphanPod, "ns", "p"}); !errors.Is(err, errBoom) {
		t.Errorf("the error is %v", err)
	}
	f.WantRequests(t, "get jobs pi")
}

// Pins JOB-22, JOB-23 and JOB-113.
func TestOrphanFailures(t *testing.T) {
	f := newFixture(t, defaults, newPod("p", alone), newPod("q", alone), newPod("r", alone))
	f.Refuse("patch pods p", errBoom)
	f.Refuse("patch pods q", &controller.PausedError{Namespace: "ns"})
	if err := f.c.reconcileOrphan(f.Context(), orphan{orphanPod, "ns", "p"}); err == nil {
		t.Error("a pod that keeps its finalizer is no error")
	}
	f.WantRequests(t, "patch pods p")
	err := f.c.reconcileOrphan(f.Context(), orphan{orphanSelector, "ns", "app=pi"})
	if !errors.Is(err, errBoom) || !slices.Equal(controller.PausedIn(err), []string{"ns"}) {
		t.Errorf("the search does not tell of all pods that keep their finalizer: %v", err)
	}
	f.WantRequestsInAnyOrder(t, "patch pods p", "patch pods q", "patch pods r")
	if err := f.c.reconcileOrphan(f.Context(), orphan{orphanSelector, "ns", "="}); err == nil {
		t.Error("a bad selector is no error")
	}
}

// A pod that has finished and is being deleted has no further event. Pins JOB-125.
func TestAPodOfAJobThatIsDeletedMeanwhileIsFreedInTheEnd(t *testing.T) {
	job := newJob(started)
	f := newFixture(t, defaults, job, newPod("p", succeeded, leaving))
	var deleted bool
	f.Intercept("patch pods p", func(ktesting.Action) error {
		if deleted {
			return nil
		}
		deleted = true
		jobs := batchv1.SchemeGroupVersion.WithResource("jobs")
		if err := f.Fake.Tracker().Delete(jobs, job.Namespace, job.Name); err != nil {
			return err
		}
		f.Uncache(t, job)
		f.c.jobDeleted(job)
		return errBoom
	})
	if err := f.Reconcile(); !errors.Is(err, errBoom) {
		t.Errorf("the error is %v", err)
	}
	f.orphans.Want(t, "ns/name p")
	err := f.c.reconcileOrphan(f.Context(), orphan{orphanPod, "ns", "p"})
	if err != nil || isTracked(f.storedPods(t)[0]) {
		t.Errorf("it keeps its finalizer: %v", err)
	}
}

// Pins JOB-124.
func TestAPodThatAJobHasAdoptedMeanwhileKeepsItsFinalizer(t *testing.T) {
	adopted := newPod("p", func(p *corev1.Pod) { p.ResourceVersion = "21" })
	f := newFixture(t, defaults, newJob(started), adopted)
	f.Cache(t, newPod("p", alone))
	f.checkVersion(t, "p")
	if err := f.c.reconcileOrphan(f.Context(), orphan{orphanPod, "ns", "p"}); !reconcile.IsExpected(err) {
		t.Errorf("the error is %v", err)
	}
	if !isTracked(f.storedPods(t)[0]) {
		t.Error("it will never be counted")
	}
	f.Cache(t, adopted)
	f.Requests()
	if err := f.c.reconcileOrphan(f.Context(), orphan{orphanPod, "ns", "p"}); err != nil {
		t.Errorf("the error is %v", err)
	}
	f.WantRequests(t)
}

// An admission webhook answers with NotFound, and no event of the pod follows. Pins JOB-121.
func TestAnOrphanThatIsNotFoundIsTriedAgain(t *testing.T) {
	f := newFixture(t, defaults, newPod("p", alone))
	f.Refuse("patch pods p", apierrors.NewNotFound(corev1.Resource("pods"), "p"))
	for _, k := range []orphan{{orphanPod, "ns", "p"}, {orphanSelector, "ns", "app=pi"}} {
		if err := f.c.reconcileOrphan(f.Context(), k); !reconcile.IsRequeue(err) {
			t.Errorf("%v: the error is %v", k, err)
		}
	}
	f.Uncache(t, newPod("p"))
	for _, k := range []orphan{{orphanPod, "ns", "p"}, {orphanSelector, "ns", "app=pi"}} {
		if err := f.c.reconcileOrphan(f.Context(), k); err != nil {
			t.Errorf("%v: the error is %v", k, err)
		}
	}
}

// It was created without an answer, and a list lacked it while its Job finished. Pins JOB-133.
func TestAPodThatShowsUpAfterItsJobHasFinishedIsFreed(t *testing.T) {
	f := newFixture(t, defaults, newJob(withStatusCondition(batchv1.JobComplete, "True", "X")))
	f.MustReconcile(t)
	f.orphans.Want(t)
	f.Cache(t, newPod("late", succeeded))
	f.MustReconcile(t)
	f.orphans.Want(t, orphan{orphanSelector, "ns", "batch.kubernetes.io/controller-uid=job-uid"}.String())
}

// Pins JOB-23 and JOB-106.
func TestFinalizerPatch(t *testing.T) {
	patch, err := finalizerPatch("u", anyVersion)
	if want := `{"metadata":{"uid":"u","$deleteFromPrimitiveList/finalizers":["batch.kubernetes.io/job-tracking"]}}`; err != nil || string(patch) != want {
		t.Errorf("%s, %v", patch, err)
	}
}
