package job

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	ktesting "k8s.io/client-go/testing"

	"kcmd.dev/pkg/controllers/kit/reconcile"
)

// Pins JOB-24.
func TestStaleCachesAreWaitedFor(t *testing.T) {
	f := newFixture(t, defaults, newJob())
	f.EmptyCache(t, &corev1.Pod{}, "5")
	f.MustReconcile(t)
	f.Requests()
	err := f.Reconcile()
	if !reconcile.IsExpected(err) || !strings.Contains(err.Error(), "read version: 5 is not as new as written version: 1001 for group resource pods") {
		t.Errorf("the error is %v", err)
	}
	f.WantRequests(t)
	if got := f.metric(t, "job_controller_stale_sync_skips_total"); got != "group= resource=pods 1" {
		t.Errorf("counted %q", got)
	}
	f.CatchUp(t)
	f.MustReconcile(t)
}

// Pins JOB-104.
func TestUnseenPodsKeepAJobFromActing(t *testing.T) {
	cfg := defaults
	cfg.requireFresh = false
	f := newFixture(t, cfg, newJob())
	f.EmptyCache(t, &corev1.Pod{}, "5")
	f.MustReconcile(t)
	f.Requests()
	f.Cache(t, f.stored(t))
	f.Queued.Take()
	f.MustReconcile(t)
	if got := strings.Join(f.Requests(), ", "); strings.Contains(got, "create") {
		t.Errorf("requests %s", got)
	}
	f.Queued.Want(t, "ns/pi in 1s")
}

// What the caches learn after the pods were listed does not make the list complete.
// Pins JOB-32.
func TestPodsThatAreSeenAfterTheListAreNotMissing(t *testing.T) {
	cfg := defaults
	cfg.requireFresh = false
	f := newFixture(t, cfg, newJob(sized(3, 3)))
	f.EmptyCache(t, &corev1.Pod{}, "5")
	f.MustReconcile(t)
	created := f.storedPods(t)
	f.Cache(t, f.stored(t))
	f.Cache(t, newPod("orphan", alone))
	f.Requests()
	f.Intercept("patch pods orphan", func(ktesting.Action) error { // between the list and the plan
		for _, pod := range created {
			f.Cache(t, pod)
		}
		return apierrors.NewNotFound(corev1.Resource("pods"), "orphan")
	})
	f.MustReconcile(t)
	if got := strings.Join(f.Requests(), ", "); !strings.HasPrefix(got, "get jobs pi, patch pods orphan") || strings.Contains(got, "create") {
		t.Errorf("requests %s", got)
	}
}
