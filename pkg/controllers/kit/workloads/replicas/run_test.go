package replicas

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"kcmd.dev/pkg/controllers/kit/reconcile"
	"kcmd.dev/pkg/controllers/kit/writes"
	"kcmd.dev/test/controllertest"
)

// Only the error brings the key back: the owner does not change, and the event of its own status write is skipped.
// Pins RS-10 and RS-44.
func TestAFailureIsRetriedWithoutEnd(t *testing.T) {
	f := newFixture(t, lax, replicaSet(1))
	f.RefuseIf("create pods", refusal("boom"), func(n int) bool { return n <= 20 })
	f.engine.owners.Queue = f.engine.owners.Loop
	f.Start(t)
	f.Run(t, f.engine)
	f.EventuallyAsTimePasses(t, "there is a pod", 1000*time.Second, func() bool {
		return len(controllertest.AllStored[*corev1.Pod](t, f.Env, "ns")) == 1
	})
}

// Pins RS-33.
func TestTheFirstRetryIsSoon(t *testing.T) {
	f := newFixture(t, nil, replicaSet(1))
	f.engine.owners.Loop.AddRateLimited(key)
	keys := f.engine.owners.Loop.Keys(func(string) bool { return true })
	if len(keys) != 1 || keys[0].Key != "ns/rs" || keys[0].Until.Sub(start) != 5*time.Millisecond {
		t.Errorf("keys are %+v", keys)
	}
}

// Pins RS-33.
func TestWhatTheCacheNeverShowsIsGivenUpAfterFiveMinutes(t *testing.T) {
	f := newFixture(t, lax, replicaSet(2))
	f.EmptyCache(t, &corev1.Pod{}, "50")
	f.MustReconcile(t)
	f.WantRequestsInAnyOrder(t, "create pods", "create pods")
	f.Clock.Step(5*time.Minute - time.Millisecond)
	f.MustReconcile(t)
	if got := f.podWrites(); len(got) != 0 {
		t.Errorf("requests are %q", got)
	}
	f.Clock.Step(time.Millisecond)
	f.MustReconcile(t)
	if got := f.podWrites(); len(got) != 2 {
		t.Errorf("requests are %q, want two creations", got)
	}
}

// The watch of pods fails for long. Pins WL-123.
func TestNoPodsAreCreatedAgainWhileTheCacheIsBehind(t *testing.T) {
	f := newFixture(t, nil, replicaSet(2))
	f.EmptyCache(t, &corev1.Pod{}, "50")
	f.MustReconcile(t)
	f.WantRequestsInAnyOrder(t, "create pods", "create pods")
	for range 3 {
		f.Clock.Step(writes.Timeout)
		if err := f.engine.owners.Reconcile(f.Context(), key); !reconcile.IsRequeue(err) {
			t.Errorf("got %v, want to wait for the cache", err)
		}
		if got := f.podWrites(); len(got) != 0 {
			t.Errorf("requests are %q", got)
		}
	}
}

// Pins RS-8.
func TestTheOnlyRequests(t *testing.T) {
	f := newFixture(t, lax, replicaSet(3), replicaPod("p1"), replicaPod("orphan", orphan), replicaPod("stray", labeled("b")))
	f.RefuseIf("update replicasets/status", refusal("boom"), func(n int) bool { return n == 1 })
	sent := map[string]bool{}
	for _, replicas := range []int32{3, 1} {
		controllertest.Change(t, f.Env, "ns", "rs", func(rs *appsv1.ReplicaSet) { rs.Spec.Replicas = &replicas })
		for range 2 {
			f.CatchUp(t)
			f.MustReconcile(t)
			for _, request := range f.Requests() {
				verb, rest, _ := strings.Cut(request, " ")
				resource, _, _ := strings.Cut(rest, " ")
				sent[verb+" "+resource] = true
			}
			f.Clock.Step(writes.CountsWindow)
		}
	}
	want := []string{"create pods", "delete pods", "get replicasets", "patch pods", "update replicasets/status"}
	if got := slices.Sorted(maps.Keys(sent)); !slices.Equal(got, want) {
		t.Errorf("requests are %q, want %q", got, want)
	}
}

// Nothing is read, and the status is written at most once for each pod that is created and for each that becomes ready.
// Pins RS-46.
func TestTheCostOfScalingUp(t *testing.T) {
	const n = 10
	f := newFixture(t, nil, replicaSet(n))
	created, written := 0, 0
	reconcile := func() {
		f.CatchUp(t)
		f.MustReconcile(t)
		for _, request := range f.Requests() {
			switch {
			case strings.HasPrefix(request, "create pods "):
				created++
			case request == "update replicasets/status rs":
				written++
			default:
				t.Errorf("also sent %s", request)
			}
		}
		f.Clock.Step(writes.CountsWindow)
	}
	reconcile()
	reconcile()
	for _, pod := range controllertest.AllStored[*corev1.Pod](t, f.Env, "ns") {
		controllertest.Change(t, f.Env, "ns", pod.Name, readySince(start))
		reconcile()
	}
	if created != n || written > 2*n || f.status(t).AvailableReplicas != n {
		t.Errorf("%d creations and %d status writes, status %+v", created, written, f.status(t))
	}
}
