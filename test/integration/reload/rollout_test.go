package reload

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"kcmd.dev/test/integration/harness"
	"kcmd.dev/test/manager"
)

// TestReloadsUnderARollout covers promises 3 and 10: while a Deployment rolls
// from template to template, its controllers are restarted again and again. No
// ReplicaSet is ever asked for more than the surge allows, none has a pod more or less
// than it was asked for, availability stays within the rollout's bounds, and what the
// process holds is the same afterwards.
func TestReloadsUnderARollout(t *testing.T) {
	const replicas, surge, unavailable = 40, 10, 10
	reloads := harness.Size(t, "KCMD_RELOADS", 150)
	m := manager.Start(t, plane, quick)
	namespace := harness.NamespaceForPods(t, plane)
	d := deployment(t, namespace, "web", replicas)
	waitAvailable(t, d, replicas, 30*time.Second)

	restart := func(n int) {
		t.Helper()
		workers := ptr.To(int32(3 + n%2))
		if err := m.Edit(t.Context(), func(c *manager.Config) {
			c.Controllers.ReplicaSet.ConcurrentSyncs = workers
			c.Controllers.Deployment.ConcurrentSyncs = workers
		}); err != nil {
			t.Fatal(err)
		}
	}
	for n := range 20 {
		restart(n)
	}
	goroutines, heap := settledUse(t, func(int) bool { return true })

	recording := record(t, namespace)
	stopRolling := roll(t, d)
	began := time.Now()
	for n := range reloads {
		restart(n)
	}
	took := time.Since(began)
	rollouts := stopRolling()
	waitAvailable(t, d, replicas, 60*time.Second)
	seen := recording.replay(t)
	for n, v := range seen.violations {
		if n < 10 {
			t.Error(v)
		}
	}
	if seen.spec > replicas+surge || seen.available < replicas-unavailable {
		t.Errorf("up to %d replicas were asked for and as few as %d available, want %d and %d", seen.spec, seen.available, replicas+surge, replicas-unavailable)
	}
	if rollouts == 0 {
		t.Error("nothing was rolled out meanwhile")
	}

	after, heapAfter := settledUse(t, func(n int) bool { return n <= goroutines })
	t.Logf("%d reloads in %v during %d template changes; goroutines %d, then %d; heap %d KiB, then %d KiB; %d pods created, %d more or less than asked for; available at least %d of %d",
		reloads, took.Round(time.Millisecond), rollouts, goroutines, after, heap>>10, heapAfter>>10, seen.created, len(seen.violations), seen.available, replicas-unavailable)
	if after > goroutines {
		t.Errorf("goroutines: %d before, %d after", goroutines, after)
	}
	if limit := heap + heap/4 + 4<<20; heapAfter > limit {
		t.Errorf("heap: %d before, %d after", heap, heapAfter)
	}
}

// settledUse returns the number of goroutines and the live heap once the number is
// acceptable, or at the end of a grace period.
func settledUse(t *testing.T, acceptable func(goroutines int) bool) (goroutines int, heap uint64) {
	t.Helper()
	deadline := time.Now().Add(20 * time.Second)
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for stable := 0; stable < 10; {
		<-tick.C
		now := runtime.NumGoroutine()
		if now == goroutines && acceptable(now) {
			stable++
		} else {
			stable = 0
		}
		goroutines = now
		if time.Now().After(deadline) {
			break
		}
	}
	runtime.GC()
	runtime.GC()
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return goroutines, stats.HeapAlloc
}

// roll changes the template again and again, each time once the last change is out.
func roll(t *testing.T, d *appsv1.Deployment) (stop func() (changes int)) {
	ctx, cancel := context.WithCancel(context.Background())
	deployments := plane.AdminClient().AppsV1().Deployments(d.Namespace)
	var done sync.WaitGroup
	changes := 0
	done.Go(func() {
		tick := time.NewTicker(50 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
			case <-ctx.Done():
				return
			}
			now, err := deployments.Get(ctx, d.Name, metav1.GetOptions{})
			if err != nil || now.Status.ObservedGeneration < now.Generation || now.Status.UpdatedReplicas != *now.Spec.Replicas {
				continue
			}
			patch := fmt.Sprintf(`{"spec":{"template":{"metadata":{"annotations":{"change":"%d"}}}}}`, changes)
			if _, err := deployments.Patch(ctx, d.Name, types.MergePatchType, []byte(patch), metav1.PatchOptions{}); err == nil {
				changes++
			}
		}
	})
	return func() int {
		cancel()
		done.Wait()
		return changes
	}
}
