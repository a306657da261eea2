package endpoints

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/leaderelection/resourcelock"

	"kcmd.dev/pkg/controllers/kit/reconcile"
	"kcmd.dev/test/controllertest"
)

// run runs the controller until the test ends.
func (b *bench) run(t *testing.T) {
	t.Helper()
	b.Start(t)
	b.Run(t, b.c)
}

// listed is how many addresses are stored, -1 without Endpoints.
func (b *bench) listed(t *testing.T) int {
	stored := b.stored(t)
	if stored == nil {
		return -1
	}
	n := 0
	for _, s := range stored.Subsets {
		n += len(s.Addresses)
	}
	return n
}

// Pins EP-11 and EP-65.
func TestOnlyDeletedEndpointsAreWatched(t *testing.T) {
	b := newBench(t, defaults, testService()).begin(t)
	funcs := b.c.endpointsFuncs()
	if funcs.UpdateIf(testEndpoints(nil), testEndpoints(nil)) {
		t.Error("other changes are watched")
	}
	controllertest.Eventually(t, "the Service is queued", func() bool { return b.c.serviceLoop.Inspect().Backlog == 1 })
	funcs.Delete(testEndpoints(nil))
	if s := b.c.serviceLoop.Inspect(); s.Depth != 1 || s.Backlog != 0 {
		t.Errorf("deleted: %+v, want the key of the Service to be fresh", s)
	}
	funcs.Delete(testEndpoints(nil, func(e *corev1.Endpoints) { e.Name = "gone" }))
	if s := b.c.serviceLoop.Inspect(); s.Depth != 1 {
		t.Errorf("deleted with their Service: %+v, want no further key", s)
	}
}

// Pins EP-81.
func TestEndpointsThatAppearMayBeLeftovers(t *testing.T) {
	for name, tc := range map[string]struct {
		lane   reconcile.Lane
		change func(*corev1.Endpoints)
		queued bool
	}{
		"their Service is gone":           {reconcile.Fresh, named("left"), true},
		"they have a Service":             {reconcile.Fresh, named("web"), false},
		"they were there at the start":    {reconcile.Backlog, named("left"), false},
		"EP-46: somebody else wrote them": {reconcile.Fresh, unmanaged("left"), false},
		"EP-26: they are a lock": {reconcile.Fresh, func(e *corev1.Endpoints) {
			e.Name, e.Annotations[resourcelock.LeaderElectionRecordAnnotationKey] = "left", "{}"
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, defaults, testService()).begin(t)
			b.c.serviceQueue = b.Queued
			b.c.endpointsFuncs().Add(tc.lane, testEndpoints(nil, tc.change))
			want := time.Duration(0)
			if tc.queued {
				want = leftoverAfter
			}
			if delay := b.Queued.TakeDelay(types.NamespacedName{Namespace: "n", Name: "left"}); delay != want {
				t.Errorf("queued after %v, want %v", delay, want)
			}
		})
	}
}

// The list that filled the cache lacked Endpoints whose Service had gone before. Pins EP-81.
func TestRunDeletesLeftoversThatAppear(t *testing.T) {
	b := newBench(t, defaults, testService())
	b.run(t)
	b.AwaitIdle(t)
	b.Store(t, testEndpoints(nil, named("left")))
	b.EventuallyAsTimePasses(t, "they are deleted", time.Minute, func() bool {
		return slices.Contains(b.WriteVerbs(), "delete")
	})
}

// Pins EP-10.
func TestRunFollowsPods(t *testing.T) {
	b := newBench(t, defaults, testService(), testPod(1))
	b.run(t)
	controllertest.Eventually(t, "there is an address", func() bool { return b.listed(t) == 1 })
	if err := b.Fake.Tracker().Add(testPod(2)); err != nil {
		t.Fatal(err)
	}
	b.EventuallyAsTimePasses(t, "there are two addresses", time.Second, func() bool {
		return b.listed(t) == 2
	})
}

// Pins EP-11.
func TestRunMakesDeletedEndpointsAgain(t *testing.T) {
	b := newBench(t, defaults, testService(), testPod(1))
	b.run(t)
	controllertest.Eventually(t, "the cache shows the Endpoints", func() bool {
		_, err := b.c.endpoints.Endpoints("n").Get("web")
		return err == nil
	})
	if err := b.Fake.Tracker().Delete(corev1.SchemeGroupVersion.WithResource("endpoints"), "n", "web"); err != nil {
		t.Fatal(err)
	}
	controllertest.Eventually(t, "they are back", func() bool { return b.listed(t) == 1 })
}

// A deletion and a creation by somebody else that the watch misses are seen as one update. Pins EP-72.
func TestRunRepairsRecreatedEndpoints(t *testing.T) {
	b := newBench(t, defaults, testService(), testPod(1))
	b.run(t)
	controllertest.Eventually(t, "the cache shows the Endpoints", func() bool {
		_, err := b.c.endpoints.Endpoints("n").Get("web")
		return err == nil
	})
	another := testEndpoints(nil, func(e *corev1.Endpoints) { e.UID, e.ResourceVersion = "another", "1000000" })
	if err := b.Fake.Tracker().Update(corev1.SchemeGroupVersion.WithResource("endpoints"), another, "n"); err != nil {
		t.Fatal(err)
	}
	controllertest.Eventually(t, "they hold the address", func() bool { return b.listed(t) == 1 })
}

func named(name string) func(*corev1.Endpoints) {
	return func(e *corev1.Endpoints) { e.Name = name }
}

// unmanaged are Endpoints that somebody else wrote.
func unmanaged(name string) func(*corev1.Endpoints) {
	return func(e *corev1.Endpoints) {
		e.Name = name
		delete(e.Labels, managedByLabel)
	}
}

// Pins EP-26 and EP-46.
func TestRunDeletesLeftovers(t *testing.T) {
	lock := func(e *corev1.Endpoints) {
		e.Name = "lock"
		e.Annotations[resourcelock.LeaderElectionRecordAnnotationKey] = "{}"
	}
	b := newBench(t, defaults, testService(func(s *corev1.Service) { s.Spec.Selector = nil }),
		testEndpoints(nil), testEndpoints(nil, named("left")), testEndpoints(nil, lock))
	b.run(t)
	controllertest.Eventually(t, "the leftovers are deleted", func() bool {
		return len(b.WriteVerbs()) == 1 && b.Idle()
	})
	list, err := b.Fake.CoreV1().Endpoints("n").List(t.Context(), metav1.ListOptions{})
	if err != nil || len(list.Items) != 2 {
		t.Errorf("%d Endpoints are left (%v), want the lock and the Service's", len(list.Items), err)
	}
}

// Nobody sees the deletion of a Service between two instances. Pins EP-54.
func TestSuccessorLooksForLeftoversOnce(t *testing.T) {
	b := newBench(t, defaults).begin(t)
	next := newBench(t, defaults, testEndpoints(nil, named("left")))
	next.Succession.Leave(b.Succession.HandOver())
	next.run(t)
	controllertest.Eventually(t, "the leftovers are deleted", func() bool {
		return len(next.WriteVerbs()) == 1 && next.Idle()
	})
	next.Store(t, testEndpoints(nil, unmanaged("later")))
	controllertest.Eventually(t, "the cache shows another", func() bool {
		_, err := next.c.endpoints.Endpoints("n").Get("later")
		return err == nil
	})
	next.Clock.Step(time.Hour)
	next.AwaitIdle(t)
	if got := next.WriteVerbs(); !slices.Equal(got, []string{"delete"}) {
		t.Errorf("writes are %v", got)
	}
}

// A Service costs one request for each change, and two when it goes: whether it is gone is asked for. Pins EP-56 and
// EP-77.
func TestRunSendsOneRequestForEachChange(t *testing.T) {
	b := newBench(t, defaults, testService())
	b.Start(t)
	b.Requests()
	b.Run(t, b.c)
	shown := func(addresses int) {
		t.Helper()
		controllertest.Eventually(t, "it is written", func() bool { return b.listed(t) == addresses && b.Idle() })
		b.observed(t)
	}
	shown(0)
	b.WantRequests(t, "create endpoints web")
	b.Store(t, testPod(1))
	shown(1)
	b.WantRequests(t, "update endpoints web")
	before := b.c.serviceLoop.Inspect().Reconciled
	b.EventuallyAsTimePasses(t, "the Endpoints are looked for", time.Second, func() bool {
		return b.c.serviceLoop.Inspect().Reconciled > before && b.Idle()
	})
	b.WantRequests(t)
	b.Remove(t, testService())
	controllertest.Eventually(t, "the Endpoints are gone", func() bool { return b.listed(t) < 0 })
	controllertest.Eventually(t, "the cache shows it", func() bool {
		_, err := b.c.endpoints.Endpoints("n").Get("web")
		return apierrors.IsNotFound(err) && b.Idle()
	})
	b.Clock.Step(time.Hour)
	b.AwaitIdle(t)
	b.WantRequests(t, "get services web", "delete endpoints web")
}

// Pins EP-40.
func TestTheOnlyMetricsAreThoseOfTheQueues(t *testing.T) {
	b := newBench(t, defaults, testService(), testPod(1)).begin(t)
	b.MustReconcile(t)
	b.WantOnlyQueueMetrics(t)
	want := []string{"name=endpoint 1", "name=endpoint_pods 0"}
	if got := b.Series(t, "workqueue_adds_total"); !slices.Equal(got, want) {
		t.Errorf("queues are %q, want %q", got, want)
	}
}

// Pins EP-41.
func TestRetriesWaitForTheirTurn(t *testing.T) {
	b := newBench(t, defaults)
	delay := func(i int) time.Duration {
		t.Helper()
		key := types.NamespacedName{Namespace: "n", Name: strconv.Itoa(i)}
		b.c.serviceLoop.AddRateLimited(key)
		keys := b.c.serviceLoop.Keys(func(k string) bool { return k == key.String() })
		if len(keys) != 1 {
			t.Fatalf("%d keys wait", len(keys))
		}
		return keys[0].Until.Sub(b.Clock.Now())
	}
	for i := range 100 {
		if got := delay(i); got != 5*time.Millisecond {
			t.Fatalf("the first retry of Service %d waits %v", i, got)
		}
	}
	var last time.Duration
	for i := range 100 {
		last = delay(100 + i)
	}
	if last <= 5*time.Second || last > 10*time.Second {
		t.Errorf("the retry waits %v after 200 others", last)
	}
}

// Pins EP-7 and EP-24.
func TestRunGathersPodChangesForTheBatchPeriod(t *testing.T) {
	batched := config{concurrentSyncs: 5, batchPeriod: time.Hour}
	b := newBench(t, batched, testService())
	b.run(t)
	controllertest.Eventually(t, "the Service is reconciled", func() bool {
		_, err := b.c.endpoints.Endpoints("n").Get("web")
		return err == nil && b.c.serviceLoop.Inspect().Reconciled == 1
	})
	for i := range 3 {
		if err := b.Fake.Tracker().Add(testPod(i)); err != nil {
			t.Fatal(err)
		}
	}
	controllertest.Eventually(t, "the changes are mapped", func() bool {
		found, err := b.c.selected.By("n", map[string]string{"app": "web"})
		return err == nil && len(found) == 3 && b.c.podLoop.Inspect().Reconciled > 0 && b.Idle()
	})
	if n := b.c.serviceLoop.Inspect().Reconciled; n != 1 {
		t.Fatalf("the Service was reconciled %d times before the batch period was over", n)
	}
	b.EventuallyAsTimePasses(t, "all pods are written at once", batched.batchPeriod, func() bool {
		return b.listed(t) == 3
	})
	if got := b.WriteVerbs(); len(got) != 2 {
		t.Errorf("writes are %v, want the create and one update", got)
	}
}

// Pins EP-22 and EP-41.
func TestRunDropsAServiceThatFailsTooOften(t *testing.T) {
	b := newBench(t, defaults, testService())
	b.Refuse("create endpoints", errors.New("no"))
	b.run(t)
	for n := range uint64(maxRetries) {
		controllertest.Eventually(t, "it fails", func() bool { return b.c.serviceLoop.Inspect().Reconciled > n })
		b.Clock.Step(time.Hour) // not more often, since what is dropped is tried again later
	}
	controllertest.Eventually(t, "the Service is dropped after its last retry", func() bool {
		return b.c.serviceLoop.Inspect().Failed == maxRetries+1 && b.c.serviceLoop.Retries(web) == 0
	})
}

// Nobody watches updates of Endpoints: a Service that is dropped while it waits for the cache to show one would
// lack what changed since. Pins EP-67.
func TestAServiceThatWaitsForTheCacheIsNotDropped(t *testing.T) {
	controllertest.InBubble(func(t *testing.T) {
		b := newBench(t, defaults, testService(), testPod(0), testEndpoints(nil))
		b.Start(t)
		b.c.memory.noteUpdate(web, "1", "2", b.Clock.Now())
		b.Run(t, b.c)
		for i := 1; i < maxRetries; i++ {
			synctest.Wait()
			b.Store(t, testPod(i))
		}
		synctest.Wait()
		b.Clock.Step(reconcile.RecheckAfter)
		synctest.Wait()
		if times := b.c.serviceLoop.Inspect().Reconciled; times <= maxRetries {
			t.Errorf("the Service is reconciled %d times", times)
		}
		if writes := b.WriteVerbs(); len(writes) != 0 {
			t.Errorf("writes are %v", writes)
		}
		b.Cache(t, testEndpoints(nil, func(e *corev1.Endpoints) { e.ResourceVersion = "2" }))
		b.Clock.Step(reconcile.RecheckAfter)
		synctest.Wait()
		if listed := b.listed(t); listed != maxRetries {
			t.Errorf("%d pods are written", listed)
		}
	})(t)
}

// The same if the API server says that the cache is behind, since an update may have been executed. Pins EP-66, EP-67
// and EP-75.
func TestAServiceWhoseDoubtfulWriteConflictsIsNotDropped(t *testing.T) {
	controllertest.InBubble(func(t *testing.T) {
		b := newBench(t, defaults, testService(), testPod(0), testEndpoints(nil))
		b.Start(t)
		b.c.memory.noteUnanswered(web, "1")
		allow := b.Refuse("update endpoints web", apierrors.NewConflict(corev1.Resource("endpoints"), "web", errors.New("old")))
		b.Run(t, b.c)
		for i := 1; i <= maxRetries+1; i++ {
			synctest.Wait()
			b.Store(t, testPod(i))
		}
		synctest.Wait()
		if times := b.c.serviceLoop.Inspect().Reconciled; times <= maxRetries+1 {
			t.Errorf("the Service is reconciled %d times", times)
		}
		b.WantEvents(t)
		allow()
		b.Cache(t, testEndpoints(nil, func(e *corev1.Endpoints) { e.ResourceVersion = "2" }))
		b.Clock.Step(reconcile.RecheckAfter)
		synctest.Wait()
		if listed := b.listed(t); listed != maxRetries+2 {
			t.Errorf("%d pods are written", listed)
		}
	})(t)
}

// Pins EP-63.
func TestSuccessorRemembersWrites(t *testing.T) {
	b := newBench(t, defaults, testService(), testPod(1)).begin(t)
	b.c.memory.noteUpdate(web, "1", "2", b.Clock.Now())
	b.c.memory.triggers.ComputeEndpointLastChangeTriggerTime("n", testService(), nil)
	unbegun := newBench(t, defaults)
	unbegun.Succession.Leave(b.Succession.HandOver())

	next := newBench(t, defaults, testService(), testPod(1), testEndpoints(nil))
	next.Succession.Leave(unbegun.Succession.HandOver())
	next.begin(t)
	if err := next.Reconcile(); !reconcile.IsExpected(err) {
		t.Errorf("error is %v, want an outdated cache", err)
	}
	next.Cache(t, testEndpoints(nil, func(e *corev1.Endpoints) { e.ResourceVersion = "2" }))
	next.MustReconcile(t)
	if got, ok := next.stored(t).Annotations[corev1.EndpointsLastChangeTriggerTime]; ok {
		t.Errorf("trigger time is %q: the Service seems new", got)
	}
}

// Nobody sees the deletion of a Service between two instances. Pins EP-69.
func TestSuccessorForgetsServicesThatAreGone(t *testing.T) {
	for kind, remember := range map[string]func(*memory){
		"trigger time": func(m *memory) { m.triggers.ComputeEndpointLastChangeTriggerTime("n", testService(), nil) },
		"pending":      func(m *memory) { m.pending[web] = time.Unix(1, 0) },
		"update":       func(m *memory) { m.noteUpdate(web, "1", "2", time.Unix(1, 0)) },
		"create":       func(m *memory) { m.noteCreate(web) },
	} {
		t.Run(kind, func(t *testing.T) {
			b := newBench(t, defaults).begin(t)
			remember(b.c.memory)
			if keys := b.c.memory.keys(); !keys.Equal(sets.New(web)) {
				t.Fatalf("%v are known", keys)
			}
			next := newBench(t, defaults)
			next.Succession.Leave(b.Succession.HandOver())
			next.run(t)
			controllertest.Eventually(t, "the Service is reconciled", func() bool { return next.c.serviceLoop.Inspect().Reconciled == 1 })
			next.AwaitIdle(t)
			if keys := next.c.memory.keys(); len(keys) != 0 {
				t.Errorf("%v are remembered", keys)
			}
		})
	}
}

// What is remembered of a Service that only the cache lacks is kept. Pins EP-69.
func TestSuccessorForgetsNoServiceThatExists(t *testing.T) {
	b := newBench(t, defaults).begin(t)
	b.c.memory.noteCreate(web)
	next := newBench(t, defaults)
	next.Succession.Leave(b.Succession.HandOver())
	next.begin(t)
	next.Fake.PrependReactor("get", "services", func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, testService(), nil
	})
	next.MustReconcile(t)
	if !next.c.memory.keys().Has(web) {
		t.Error("it is forgotten")
	}
}

func TestSuccessorIgnoresWhatItDoesNotKnow(t *testing.T) {
	b := newBench(t, defaults, testService())
	b.Succession.Leave("something else")
	b.begin(t).MustReconcile(t)
	if b.stored(t) == nil {
		t.Error("there are no Endpoints")
	}
}

func TestRunThatNeverSyncsEnds(t *testing.T) {
	b := newBench(t, defaults)
	ctx, cancel := context.WithCancel(b.Context())
	cancel()
	if err := b.c.Run(ctx); err != nil {
		t.Errorf("Run returned %v", err)
	}
	if b.Succession.HandOver() != nil {
		t.Error("an instance that never began has something to hand over")
	}
}
