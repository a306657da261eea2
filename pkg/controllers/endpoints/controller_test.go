package endpoints

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/utils/ptr"

	"kcmd.dev/pkg/config/v1beta1"
	"kcmd.dev/pkg/controllers/kit/reconcile"
	"kcmd.dev/pkg/controllers/kit/requests"
	"kcmd.dev/test/controllertest"
	"kcmd.dev/test/must"
)

func TestDescriptor(t *testing.T) {
	d := Descriptor()
	if d.Name != "endpoints-controller" || !slices.Equal(d.Aliases, []string{"endpoint"}) ||
		d.ServiceAccount != "endpoint-controller" || d.EventSource != "endpoint-controller" {
		t.Errorf("descriptor is %+v", d)
	}
	cfg := v1beta1.NewDefault()
	if got := d.Value(cfg); got != defaults {
		t.Errorf("default value is %+v, want %+v", got, defaults)
	}
	cfg.Controllers.Endpoints.ConcurrentSyncs = ptr.To[int32](7)
	cfg.Controllers.Endpoints.EndpointUpdatesBatchPeriod = &metav1.Duration{Duration: time.Second}
	if got, want := d.Value(cfg), (config{7, time.Second}); got != want {
		t.Errorf("value is %+v, want %+v", got, want)
	}
	if _, err := d.New(controllertest.New(t).Env, d.Value(cfg)); err != nil {
		t.Fatal(err)
	}
}

// Pins EP-17 and EP-34.
func TestEndpointsAreCreated(t *testing.T) {
	b := newBench(t, defaults, testService(), testPod(1), testPod(2, notReady),
		testPod(3, func(p *corev1.Pod) { p.Labels["app"] = "other" })).begin(t)
	b.Requests()
	b.MustReconcile(t)
	b.WantRequests(t, "create endpoints web")
	stored := b.stored(t)
	if got, want := fmt.Sprint(addresses(stored.Subsets)), "[[http:8080/TCP] [web-1] [web-2]]"; got != want {
		t.Errorf("subsets are %s, want %s", got, want)
	}
	if got := stored.Annotations[corev1.EndpointsLastChangeTriggerTime]; got != "2026-01-01T00:00:00Z" {
		t.Errorf("trigger time is %q, want the creation of the Service", got)
	}
	b.observed(t)
	b.MustReconcile(t)
	b.WantRequests(t)
}

// What is not there is made even if there is nothing to write into it, and only then. Pins EP-35.
func TestServiceWithoutPodsHasEmptyEndpoints(t *testing.T) {
	b := newBench(t, defaults, testService()).begin(t)
	b.Requests()
	b.MustReconcile(t)
	b.WantRequests(t, "create endpoints web")
	if stored := b.stored(t); stored == nil || len(stored.Subsets) != 0 {
		t.Errorf("stored are %+v", stored)
	}
	b.observed(t)
	b.MustReconcile(t)
	b.WantRequests(t)
}

// Pins EP-28.
func TestEmptySelectorSelectsEverything(t *testing.T) {
	b := newBench(t, defaults, testService(func(s *corev1.Service) { s.Spec.Selector = map[string]string{} }),
		testPod(1), testPod(2, func(p *corev1.Pod) { p.Labels = nil })).begin(t)
	b.MustReconcile(t)
	if got, want := fmt.Sprint(addresses(b.stored(t).Subsets)), "[[http:8080/TCP] [web-1 web-2] []]"; got != want {
		t.Errorf("subsets are %s, want %s", got, want)
	}
}

// Pins EP-28.
func TestServicesThatAreLeftAlone(t *testing.T) {
	for name, change := range map[string]func(*corev1.Service){
		"ExternalName": func(s *corev1.Service) { s.Spec.Type = corev1.ServiceTypeExternalName },
		"no selector":  func(s *corev1.Service) { s.Spec.Selector = nil },
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, defaults, testService(change), testPod(1), testEndpoints(nil)).begin(t)
			b.MustReconcile(t)
			if got := b.WriteVerbs(); len(got) != 0 {
				t.Errorf("writes are %v, want none", got)
			}
		})
	}
}

// Pins EP-18, EP-36 and EP-45.
func TestExistingEndpointsAreAdopted(t *testing.T) {
	foreign := &corev1.Endpoints{
		ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "web", ResourceVersion: "1", Labels: map[string]string{"old": "label"}, Annotations: map[string]string{"kept": "yes"}},
		Subsets:    []corev1.EndpointSubset{{Addresses: []corev1.EndpointAddress{{IP: "1.2.3.4"}}}},
	}
	b := newBench(t, defaults, testService(), testPod(1), foreign).begin(t)
	b.Intercept("update endpoints web", func(action clienttesting.Action) error {
		if sent := action.(clienttesting.UpdateActionImpl).Object.(*corev1.Endpoints); sent.ResourceVersion != "1" {
			t.Errorf("the update is of version %q, want that of the cache", sent.ResourceVersion)
		}
		return nil
	})
	b.MustReconcile(t)
	stored := b.stored(t)
	if fmt.Sprint(addresses(stored.Subsets)) != "[[http:8080/TCP] [web-1] []]" || stored.Annotations["kept"] != "yes" ||
		stored.Labels["old"] != "" || stored.Labels["team"] != "a" {
		t.Errorf("stored are %+v", stored)
	}
}

// Pins EP-29 and EP-36a.
func TestTriggerTimeOfAPod(t *testing.T) {
	b := newBench(t, defaults, testService(), testPod(1)).begin(t)
	b.MustReconcile(t)
	b.observed(t)
	readyAt := metav1.NewTime(created.Add(time.Hour))
	b.Cache(t, testPod(2, func(p *corev1.Pod) { p.Status.Conditions[0].LastTransitionTime = readyAt }))
	b.MustReconcile(t)
	if got := b.stored(t).Annotations[corev1.EndpointsLastChangeTriggerTime]; got != "2026-01-01T01:00:00Z" {
		t.Errorf("trigger time is %q", got)
	}
	b.observed(t)
	b.Cache(t, testService(func(s *corev1.Service) { s.Spec.Ports[0].Name = "other" }))
	b.MustReconcile(t)
	if got, ok := b.stored(t).Annotations[corev1.EndpointsLastChangeTriggerTime]; ok {
		t.Errorf("trigger time is %q although nothing has one", got)
	}
}

// A reconcile that waits for an outdated cache does not lose the time of the change. Pins EP-64.
func TestTheTriggerTimeIsKeptUntilItIsWritten(t *testing.T) {
	b := newBench(t, defaults, testService(), testPod(1)).begin(t)
	b.MustReconcile(t)
	b.observed(t)
	b.c.memory.noteUpdate(web, b.stored(t).ResourceVersion, "newer", b.Clock.Now())
	readyAt := metav1.NewTime(created.Add(time.Hour))
	b.Cache(t, testPod(2, func(p *corev1.Pod) { p.Status.Conditions[0].LastTransitionTime = readyAt }))
	if err := b.Reconcile(); !reconcile.IsExpected(err) {
		t.Fatalf("error is %v, want an outdated cache", err)
	}
	b.Clock.Step(outdatedFor)
	b.MustReconcile(t)
	if got := b.stored(t).Annotations[corev1.EndpointsLastChangeTriggerTime]; got != "2026-01-01T01:00:00Z" {
		t.Errorf("trigger time is %q", got)
	}
}

// TestReadinessThatFlipsBack is kubernetes#125638: the cache still shows what was there
// before the pod became unready, so all seems well when it is ready again.
// Pins EP-34 and EP-42.
func TestReadinessThatFlipsBack(t *testing.T) {
	b := newBench(t, defaults, testService(), testPod(1), testEndpoints(pods(2)[1:])).begin(t)
	b.Cache(t, testPod(1, notReady))
	b.MustReconcile(t)
	b.observed(t)
	b.Cache(t, testEndpoints(pods(2)[1:])) // it lags
	b.Cache(t, testPod(1))
	err := b.Reconcile()
	want := "endpoints informer cache is out of date, resource version 1 already processed for endpoints n/web"
	if err == nil || err.Error() != want || !reconcile.IsExpected(err) {
		t.Fatalf("error is %v, want %s", err, want)
	}
	if events := b.RecordedEvents(); len(events) != 0 {
		t.Errorf("events are %q", events)
	}
	b.Cache(t, b.stored(t))
	b.MustReconcile(t)
	if got := fmt.Sprint(addresses(b.stored(t).Subsets)); got != "[[http:8080/TCP] [web-1] []]" {
		t.Errorf("subsets are %s", got)
	}
}

// TestUpdateWithoutEffect is kubernetes#127370: a webhook undoes the update, so the resource
// version stays. The Service must not be stuck.
// Pins EP-38 and EP-42.
func TestUpdateWithoutEffect(t *testing.T) {
	b := newBench(t, defaults, testService(), testPod(1), testEndpoints(nil)).begin(t)
	b.Fake.PrependReactor("update", "endpoints", func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, testEndpoints(nil), nil
	})
	b.MustReconcile(t)
	b.MustReconcile(t)
	if got := b.WriteVerbs(); len(got) != 2 {
		t.Errorf("writes are %v, want two updates", got)
	}
}

// An update without an answer may have been executed, which the cache does not show yet when the pod is ready again.
// What is as wanted in the cache is written all the same: the API server knows, and answers with a conflict if it was.
// Pins EP-66.
func TestReadinessThatFlipsBackAfterAnUpdateWithoutAnswer(t *testing.T) {
	for name, test := range map[string]struct {
		failure  error
		executed bool
		expired  bool     // the cache shows the same for long
		want     []string // the requests once the pod is ready again
	}{
		"EP-66: executed":     {failure: errors.New("connection lost"), executed: true, want: []string{"update endpoints web"}},
		"EP-66: not executed": {failure: apierrors.NewTimeoutError("later", 1), want: []string{"update endpoints web"}},
		"EP-66: refused":      {failure: apierrors.NewForbidden(corev1.Resource("endpoints"), "web", errors.New("no"))},
		"EP-66, EP-75: executed, and not shown for long": {
			failure: errors.New("connection lost"), executed: true, expired: true, want: []string{"update endpoints web"}},
		"EP-66, EP-75: not executed, long ago": {
			failure: errors.New("connection lost"), expired: true, want: []string{"update endpoints web"}},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, defaults, testService(), testPod(1), testEndpoints(pods(2)[1:])).begin(t)
			allow := b.serveEndpoints(t, test.failure, test.executed)
			b.Cache(t, testPod(1, notReady))
			if err := b.Reconcile(); !errors.Is(err, test.failure) {
				t.Fatalf("error is %v", err)
			}
			allow()
			b.observed(t)
			b.Cache(t, testEndpoints(pods(2)[1:]), testPod(1)) // the first lags
			if test.expired {
				b.Clock.Step(outdatedFor)
			}
			b.Requests()
			if err := b.Reconcile(); apierrors.IsConflict(err) != test.executed || (err != nil) != test.executed {
				t.Errorf("error is %v, want a conflict: %t", err, test.executed)
			}
			b.WantRequests(t, test.want...)
			b.Cache(t, b.stored(t))
			b.MustReconcile(t)
			if got := fmt.Sprint(addresses(b.stored(t).Subsets)); got != "[[http:8080/TCP] [web-1] []]" {
				t.Errorf("subsets are %s", got)
			}
			b.Cache(t, b.stored(t))
			b.Requests()
			b.MustReconcile(t) // nothing is in doubt any longer
			b.WantRequests(t)
		})
	}
}

// The API server cannot be reached for longer than the cache is waited for, after a pod became unready and ready again.
// Nobody watches what the cache comes to show. Pins EP-75.
func TestReadinessThatFlipsBackBeforeAnOutage(t *testing.T) {
	ready := testEndpoints(pods(2)[1:])
	b := newBench(t, defaults, testService(), testPod(1), ready).begin(t)
	b.serveEndpoints(t, nil, true)()
	b.Cache(t, testPod(1, notReady))
	b.MustReconcile(t)
	b.observed(t)
	b.Cache(t, ready, testPod(1)) // the first lags
	b.Clock.Step(outdatedFor)
	if err := b.Reconcile(); !apierrors.IsConflict(err) {
		t.Errorf("error is %v, want a conflict", err)
	}
	b.Cache(t, b.stored(t))
	b.MustReconcile(t)
	if got := fmt.Sprint(addresses(b.stored(t).Subsets)); got != "[[http:8080/TCP] [web-1] []]" {
		t.Errorf("subsets are %s", got)
	}
	b.observed(t)
	b.Requests()
	b.MustReconcile(t) // nothing is in doubt any longer
	b.WantRequests(t)
}

// Pins EP-59.
func TestTruncatedEndpointsAreWrittenOnce(t *testing.T) {
	b := newBench(t, defaults, testService()).begin(t)
	for _, pod := range pods(1200) {
		b.Cache(t, pod)
	}
	b.MustReconcile(t)
	b.observed(t)
	b.MustReconcile(t)
	if got := b.WriteVerbs(); !slices.Equal(got, []string{"create"}) || len(b.stored(t).Subsets[0].Addresses) != maxAddresses {
		t.Errorf("writes are %v, addresses %d", got, len(b.stored(t).Subsets[0].Addresses))
	}
}

// Pins EP-27.
func TestEndpointsOfAServiceThatIsGone(t *testing.T) {
	b := newBench(t, defaults, testEndpoints(pods(1))).begin(t)
	b.c.memory.triggers.ComputeEndpointLastChangeTriggerTime("n", testService(), nil)
	b.c.memory.noteUpdate(web, "1", "2", b.Clock.Now())
	b.MustReconcile(t)
	if b.stored(t) != nil {
		t.Error("the Endpoints are still there")
	}
	b.MustReconcile(t) // the cache shows them still: the answer is 404
	if len(b.c.memory.triggers.ServiceStates)+len(b.c.memory.replaced)+len(b.c.memory.created) != 0 {
		t.Error("something is still remembered of the Service")
	}
}

// The cache may not show yet what another process created just before it lost the lease.
// Pins EP-27.
func TestEndpointsThatTheCacheDoesNotShowAreDeleted(t *testing.T) {
	b := newBench(t, defaults).begin(t)
	if err := b.Fake.Tracker().Add(testEndpoints(nil)); err != nil {
		t.Fatal(err)
	}
	if err := b.Informers.Core().V1().Endpoints().Informer().GetIndexer().Replace(nil, "1"); err != nil {
		t.Fatal(err)
	}
	b.MustReconcile(t)
	if b.stored(t) != nil {
		t.Error("the Endpoints are still there")
	}
	b.MustReconcile(t) // there is nothing to delete: the answer is 404
}

// Others may have come before they are deleted, of a Service of that name that has come since. Pins EP-79.
func TestOnlyEndpointsThatWereReadAreDeleted(t *testing.T) {
	b := newBench(t, defaults).begin(t)
	b.boundDeletes()
	must.Succeed(t, b.Fake.Tracker().Add(testEndpoints(nil)))
	must.Succeed(t, b.Informers.Core().V1().Endpoints().Informer().GetIndexer().Replace(nil, "1"))
	b.Intercept("delete endpoints web", func(clienttesting.Action) error {
		b.Store(t, testEndpoints(nil, func(e *corev1.Endpoints) { e.UID, e.ResourceVersion = "other", "2" }))
		return nil
	})
	if err := b.Reconcile(); !apierrors.IsConflict(err) || !reconcile.IsExpected(err) {
		t.Errorf("error is %v, want another try", err)
	}
	if stored := b.stored(t); stored == nil || stored.UID != "other" {
		t.Errorf("stored are %v", stored)
	}
}

// Pins EP-79.
func TestEndpointsThatDoNotExistAreNotDeleted(t *testing.T) {
	b := newBench(t, defaults).begin(t)
	b.c.memory.noteUpdate(web, "1", "2", b.Clock.Now())
	b.MustReconcile(t)
	if got := b.WriteVerbs(); len(got) > 0 || len(b.c.memory.replaced) > 0 {
		t.Errorf("writes are %v, remembered is %v", got, b.c.memory.replaced)
	}
	b.Refuse("get endpoints web", apierrors.NewServiceUnavailable("boom"))
	if err := b.Reconcile(); !apierrors.IsServiceUnavailable(err) {
		t.Errorf("error is %v", err)
	}
}

// Nobody watches what a late write does: it creates Endpoints after their Service is gone, or brings back an older
// content after a PUT that changed nothing. Pins EP-80.
func TestAServiceIsReconciledAgainAfterAWriteThatMayBeLate(t *testing.T) {
	timeout := apierrors.NewTimeoutError("late", 0)
	for name, tc := range map[string]struct {
		stored  []runtime.Object
		request string
		answer  error
		want    bool
	}{
		"create":            {[]runtime.Object{testService(), testPod(1)}, "create endpoints web", timeout, true},
		"update":            {[]runtime.Object{testService(), testPod(1), testEndpoints(nil)}, "update endpoints web", timeout, true},
		"refused, a create": {[]runtime.Object{testService(), testPod(1)}, "create endpoints web", apierrors.NewBadRequest("no"), false},
		"a webhook cannot be called": {[]runtime.Object{testService(), testPod(1), testEndpoints(nil)}, "update endpoints web",
			apierrors.NewInternalError(errors.New("failed calling webhook")), false},
		"refused, an update": {[]runtime.Object{testService(), testPod(1), testEndpoints(nil)}, "update endpoints web",
			apierrors.NewBadRequest("no"), false},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, defaults, tc.stored...).begin(t)
			b.c.serviceQueue = b.Queued
			b.Refuse(tc.request, tc.answer)
			for range 2 {
				if err := b.Reconcile(); err == nil {
					t.Fatal("there is no error")
				}
			}
			if delay := b.Queued.TakeDelay(web); delay > 0 { // which would end the retries of a failure too early
				t.Errorf("it is reconciled again in %v besides the retry", delay)
			}
			next := newBench(t, defaults, tc.stored...)
			next.Succession.Leave(b.Succession.HandOver())
			next.begin(t)
			next.c.serviceQueue = next.Queued
			next.MustReconcile(t)
			next.Env.CatchUp(t, &corev1.Endpoints{})
			next.Queued.TakeDelay(web) // see EP-77
			next.MustReconcile(t)
			if delay := next.Queued.TakeDelay(web); (delay > 0) != tc.want {
				t.Errorf("the next instance reconciles it again in %v", delay)
			}
			next.Clock.Step(requests.LateWithin)
			next.MustReconcile(t)
			if delay := next.Queued.TakeDelay(web); delay > 0 {
				t.Errorf("a minute later it is still reconciled again in %v", delay)
			}
		})
	}
}

// A Service that comes after its absence was read may have made the Endpoints its own, and another process may have
// created others. Pins EP-68.
func TestOnlyEndpointsAsTheCacheShowsThemAreDeleted(t *testing.T) {
	version := func(uid types.UID, version string) func(*corev1.Endpoints) {
		return func(e *corev1.Endpoints) { e.UID, e.ResourceVersion = uid, version }
	}
	for name, live := range map[string]func(*corev1.Endpoints){
		"EP-19, EP-68: changed since": version("endpoints", "2"),
		"EP-68: recreated since":      version("other", "2"),
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, defaults, testEndpoints(nil)).begin(t)
			b.boundDeletes()
			b.Store(t, testEndpoints(nil, live))
			b.observed(t)
			b.Cache(t, testEndpoints(nil)) // it lags
			b.c.memory.noteUpdate(web, "0", "1", b.Clock.Now())
			if err := b.Reconcile(); !apierrors.IsConflict(err) || !reconcile.IsExpected(err) {
				t.Fatalf("error is %v, want another try", err)
			}
			if b.stored(t) == nil || len(b.c.memory.replaced) == 0 {
				t.Error("the Endpoints are gone, or forgotten")
			}
			b.Cache(t, b.stored(t))
			b.MustReconcile(t)
			if b.stored(t) != nil {
				t.Error("the Endpoints are still there")
			}
		})
	}
}

// The cache may not show yet a Service that has Endpoints.
// Pins EP-58.
func TestEndpointsOfAServiceThatTheCacheDoesNotShowStay(t *testing.T) {
	b := newBench(t, defaults, testEndpoints(nil)).begin(t)
	b.Fake.PrependReactor("get", "services", func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, testService(), nil
	})
	b.MustReconcile(t)
	if got := b.WriteVerbs(); len(got) != 0 {
		t.Errorf("writes are %v", got)
	}
}

// The Service may be gone before the cache has shown it, and then no event says so. Pins EP-58.
func TestEndpointsOfAServiceThatTheCacheNeverShowsGo(t *testing.T) {
	b := newBench(t, defaults, testEndpoints(nil))
	var gone atomic.Bool
	b.Fake.PrependReactor("get", "services", func(clienttesting.Action) (bool, runtime.Object, error) {
		return !gone.Load(), testService(), nil
	})
	b.run(t)
	b.AwaitIdle(t)
	if b.stored(t) == nil {
		t.Fatal("the Endpoints are gone")
	}
	gone.Store(true)
	b.EventuallyAsTimePasses(t, "the Endpoints are gone", reconcile.RecheckAfter, func() bool { return b.stored(t) == nil })
}

// Pins EP-58.
func TestEndpointsStayWhileTheirServiceCannotBeRead(t *testing.T) {
	b := newBench(t, defaults, testEndpoints(nil)).begin(t)
	boom := errors.New("boom")
	b.Refuse("get services", boom)
	if err := b.Reconcile(); !errors.Is(err, boom) {
		t.Errorf("error is %v", err)
	}
	if got := b.WriteVerbs(); len(got) != 0 {
		t.Errorf("writes are %v", got)
	}
}

// An API server that was restored from a backup may show for good what an update replaced.
// Pins EP-61.
func TestAnOutdatedCacheIsWaitedForOnlyForATime(t *testing.T) {
	b := newBench(t, defaults, testService(), testPod(1), testEndpoints(nil)).begin(t)
	b.c.memory.noteUpdate(web, "1", "2", b.Clock.Now())
	b.Clock.Step(outdatedFor - time.Second)
	if err := b.Reconcile(); !reconcile.IsExpected(err) {
		t.Errorf("error is %v, want an outdated cache", err)
	}
	b.Clock.Step(time.Second)
	b.MustReconcile(t)
	if got := b.WriteVerbs(); !slices.Equal(got, []string{"update"}) {
		t.Errorf("writes are %v", got)
	}
}

// TestUnseenCreateIsNoFailure: creating it again tells nobody anything.
// Pins EP-61.
func TestUnseenCreateIsNoFailure(t *testing.T) {
	b := newBench(t, defaults, testService()).begin(t)
	b.Refuse("create endpoints", apierrors.NewAlreadyExists(corev1.Resource("endpoints"), "web"))
	if err := b.Reconcile(); !apierrors.IsAlreadyExists(err) || reconcile.IsExpected(err) || len(b.RecordedEvents()) != 1 {
		t.Errorf("what somebody else created: %v, want a failure and an event", err)
	}
	if err := b.Reconcile(); !reconcile.IsExpected(err) || len(b.RecordedEvents()) != 0 {
		t.Errorf("what the cache has to show: %v, want another try", err)
	}
}

// The instance ends, which says nothing about the Endpoints. Pins EP-37.
func TestAWriteThatIsCutOffIsNotReported(t *testing.T) {
	for verb, objects := range map[string][]runtime.Object{
		"create": {testService(), testPod(1)},
		"update": {testService(), testPod(1), testEndpoints(nil)},
	} {
		b := newBench(t, defaults, objects...).begin(t)
		ctx, end := context.WithCancel(b.Context())
		b.Intercept(verb+" endpoints", func(clienttesting.Action) error {
			end()
			return context.Canceled
		})
		if err := b.Work(ctx, web); !errors.Is(err, context.Canceled) {
			t.Errorf("%s: error is %v", verb, err)
		}
		b.WantEvents(t)
	}
}

// Events report the writes that failed, and nothing else. Pins EP-20.
func TestFailures(t *testing.T) {
	terminating := apierrors.NewForbidden(corev1.Resource("endpoints"), "web", errors.New("going"))
	terminating.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: corev1.NamespaceTerminatingCause}}
	ofAProxy := apierrors.NewGenericServerResponse(
		http.StatusNotFound, "delete", corev1.Resource("endpoints"), "web", "404 page not found", 0, true)
	for name, tc := range map[string]struct {
		verb  string
		err   error
		fails bool
		event string
	}{
		"EP-37, EP-39: create":               {"create", errors.New("boom"), true, "Warning FailedToCreateEndpoint Failed to create endpoint for service n/web: boom"},
		"EP-37: create in an ending one":     {"create", terminating, false, ""},
		"EP-37: create that is forbidden":    {"create", apierrors.NewForbidden(corev1.Resource("endpoints"), "web", errors.New("no")), true, `Warning FailedToCreateEndpoint Failed to create endpoint for service n/web: endpoints "web" is forbidden: no`},
		"EP-37, EP-39: update":               {"update", errors.New("boom"), true, "Warning FailedToUpdateEndpoint Failed to update endpoint n/web: boom"},
		"EP-37: update of something else":    {"update", apierrors.NewConflict(corev1.Resource("endpoints"), "web", errors.New("old")), true, `Warning FailedToUpdateEndpoint Failed to update endpoint n/web: Operation cannot be fulfilled on endpoints "web": old`},
		"EP-27: delete":                      {"delete", errors.New("boom"), true, ""},
		"EP-74: delete answered by a proxy":  {"delete", ofAProxy, true, ""},
		"EP-27: delete of what is not there": {"delete", apierrors.NewNotFound(corev1.Resource("endpoints"), "web"), false, ""},
	} {
		t.Run(name, func(t *testing.T) {
			var objects []runtime.Object
			if tc.verb != "delete" {
				objects = append(objects, testService(), testPod(1))
			}
			if tc.verb != "create" {
				objects = append(objects, testEndpoints(nil))
			}
			b := newBench(t, defaults, objects...).begin(t)
			b.Refuse(tc.verb+" endpoints", tc.err)
			if err := b.Reconcile(); (err != nil) != tc.fails || tc.fails && !errors.Is(err, tc.err) {
				t.Errorf("error is %v", err)
			}
			var want []string
			if tc.event != "" {
				want = []string{tc.event}
			}
			if got := b.RecordedEvents(); !slices.Equal(got, want) {
				t.Errorf("events are %q, want %q", got, want)
			}
		})
	}
}
