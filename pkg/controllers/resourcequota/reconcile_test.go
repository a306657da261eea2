package resourcequota

import (
	"errors"
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/utils/clock"

	"kcmd.dev/pkg/controller"
	"kcmd.dev/pkg/controllers/kit/reconcile"
	"kcmd.dev/pkg/controllers/kit/writes"
	"kcmd.dev/test/controllertest"
)

func TestReconcile(t *testing.T) {
	const hard = "pods=5 configmaps=5"
	for name, test := range map[string]struct {
		quota      *corev1.ResourceQuota
		hard, used string // of the request; none if empty
	}{
		"QUOTA-17, QUOTA-28, QUOTA-33, QUOTA-76: a quota without status": {quota: quota(hard), hard: hard, used: "pods=1 configmaps=2"},
		"QUOTA-28, QUOTA-33: a quota with other limits":                  {quota: quota(hard, status("pods=5 configmaps=4", "pods=1 configmaps=2")), hard: hard, used: "pods=1 configmaps=2"},
		"QUOTA-32: a quota whose usage is another":                       {quota: quota(hard, status(hard, "pods=5 configmaps=5")), hard: hard, used: "pods=1 configmaps=2"},
		"QUOTA-31, QUOTA-69: usage that is not limited":                  {quota: quota("pods=5", status("pods=5", "pods=1 configmaps=2")), hard: "pods=5", used: "pods=1"},
		"QUOTA-67: usage of an object that is not cached yet":            {quota: quota(hard, status(hard, "pods=2 configmaps=2")), hard: hard, used: "pods=1 configmaps=2"},
		"QUOTA-32: a quota that is true":                                 {quota: quota(hard, status(hard, "pods=1 configmaps=2"))},
		"QUOTA-32: a quota that is true, in other formats":               {quota: quota("cpu=1 pods=1k", status("cpu=1000m pods=1000", "cpu=500m pods=1"))},
		"QUOTA-31: a name that nobody knows has no usage":                {quota: quota("pods=5 x=1"), hard: "pods=5 x=1", used: "pods=1"},
		"QUOTA-30: a name that nobody knows keeps it":                    {quota: quota("pods=5 x=1", status("pods=5 x=1", "pods=0 x=7")), hard: "pods=5 x=1", used: "pods=1 x=7"},
		"QUOTA-81: a quota without limits":                               {quota: quota("")},
		"QUOTA-81: only names that nobody knows":                         {quota: quota("x=1", status("x=1", ""))},
		"QUOTA-48: a scope that no object is in":                         {quota: quota("pods=5", func(q *corev1.ResourceQuota) { q.Spec.Scopes = []corev1.ResourceQuotaScope{"Terminating"} }), hard: "pods=5", used: "pods=0"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSubject(t, test.quota, named("a", "500m"), configMap("a"), configMap("b"))
			if err := s.c.reconcile(s.Context(), key); err != nil {
				t.Fatal(err)
			}
			if test.hard == "" {
				s.WantRequests(t)
				return
			}
			s.WantRequests(t, "update resourcequotas/status quota")
			stored := controllertest.MustStored[*corev1.ResourceQuota](t, s.Env, "ns", "quota")
			wantList(t, stored.Status.Hard, test.hard)
			wantList(t, stored.Status.Used, test.used)
		})
	}
}

// Pins QUOTA-27.
func TestAQuotaThatIsGone(t *testing.T) {
	s := newSubject(t)
	if err := s.c.reconcile(s.Context(), key); err != nil {
		t.Fatal(err)
	}
	s.WantRequests(t)
}

// What could be computed is written, and then the quota is tried again. Pins QUOTA-30, QUOTA-34,
// QUOTA-63 and QUOTA-88.
func TestAFailureConcernsOnlyWhatItHides(t *testing.T) {
	s := newSubject(t, quota("pods=5 configmaps=5", status("pods=5 configmaps=5", "pods=3 configmaps=4")), named("a", "1"), configMap("a"))
	s.c.evaluators.counters[schema.GroupResource{Resource: "configmaps"}].complete = func() bool { return false }
	err := s.c.reconcile(s.Context(), key)
	if err == nil || err.Error() != "computing the usage of resourcequota ns/quota: /v1, Resource=configmaps not yet synced" {
		t.Errorf("error is %v", err)
	}
	wantList(t, controllertest.MustStored[*corev1.ResourceQuota](t, s.Env, "ns", "quota").Status.Used, "pods=1 configmaps=4")
}

// Pins QUOTA-33, QUOTA-34 and QUOTA-66.
func TestErrorsOfWrites(t *testing.T) {
	boom := errors.New("boom")
	conflict := apierrors.NewConflict(schema.GroupResource{Resource: "resourcequotas"}, "quota", boom)
	for name, test := range map[string]struct {
		err   error
		quiet bool
	}{"failure": {boom, false}, "conflict": {conflict, true}} {
		t.Run(name, func(t *testing.T) {
			s := newSubject(t, quota("pods=5"))
			allow := s.Refuse("update resourcequotas/status quota", test.err)
			if err := s.c.reconcile(s.Context(), key); !errors.Is(err, test.err) || reconcile.IsExpected(err) != test.quiet {
				t.Errorf("error is %v", err)
			}
			allow()
			if err := s.c.reconcile(s.Context(), key); err != nil {
				t.Error(err)
			}
		})
	}
}

// The cache does not show what the API server has charged. Pins QUOTA-99.
func TestAfterTwoConflictsTheQuotaIsReadLive(t *testing.T) {
	s := newSubject(t, quota("pods=5"), named("a", "1"))
	cached := quota("pods=5")
	live := quota("pods=5", status("pods=5", "pods=3"), func(q *corev1.ResourceQuota) { q.ResourceVersion = "9" })
	s.Fake.PrependReactor("list", "resourcequotas", func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, &corev1.ResourceQuotaList{Items: []corev1.ResourceQuota{*live}}, nil
	})
	allow := s.Refuse("update resourcequotas/status quota", apierrors.NewConflict(schema.GroupResource{Resource: "resourcequotas"}, "quota", nil))
	for range 2 {
		if err := s.c.reconcile(s.Context(), key); !reconcile.IsExpected(err) {
			t.Fatalf("error is %v", err)
		}
	}
	s.WantRequests(t, "update resourcequotas/status quota", "update resourcequotas/status quota", "list resourcequotas")
	if got := s.c.written.Newest(cached, cached); got.ResourceVersion != "9" {
		t.Errorf("goes on with version %s", got.ResourceVersion)
	}
	allow()
}

// So it is if something cannot be computed, which is the failure that is reported. Pins QUOTA-99.
func TestAfterTwoConflictsAQuotaThatIsNotKnownWhollyIsReadLive(t *testing.T) {
	s := newSubject(t, quota("pods=5 configmaps=5"), named("a", "1"))
	s.c.evaluators.counters[schema.GroupResource{Resource: "configmaps"}].complete = func() bool { return false }
	s.Refuse("update resourcequotas/status quota", apierrors.NewConflict(schema.GroupResource{Resource: "resourcequotas"}, "quota", nil))
	for range 2 {
		if err := s.c.reconcile(s.Context(), key); err == nil || reconcile.IsExpected(err) {
			t.Fatalf("error is %v", err)
		}
	}
	s.WantRequests(t, "update resourcequotas/status quota", "update resourcequotas/status quota", "list resourcequotas")
}

// What fails is tried again by the workers that had it, until it succeeds. Pins QUOTA-21.
func TestFailuresStayInTheirQueue(t *testing.T) {
	for name, test := range map[string]struct {
		quota  *corev1.ResourceQuota
		failed func(loops) controller.LoopStatus
		idle   func(loops) controller.LoopStatus
	}{
		"without usage": {quota("pods=5"), priorityStatus, primaryStatus},
		"with usage":    {quota("pods=5", status("pods=5", "pods=3")), primaryStatus, priorityStatus},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSubject(t, test.quota)
			s.c.period = 0
			s.RefuseIf("update resourcequotas/status quota", errors.New("boom"), func(n int) bool { return n <= 2 })
			s.run(t)
			s.wantUsed(t, "pods=0")
			s.AwaitIdle(t)
			if got := test.failed(s.c.loops); got.Reconciled != 3 || got.Failed != 2 {
				t.Errorf("%d reconciles, of which %d failed, want 3 and 2", got.Reconciled, got.Failed)
			}
			if got := test.idle(s.c.loops); got.Reconciled != 0 {
				t.Errorf("the other queue had %d keys", got.Reconciled)
			}
		})
	}
}

func primaryStatus(l loops) controller.LoopStatus  { return l.primary.Inspect() }
func priorityStatus(l loops) controller.LoopStatus { return l.priority.Inspect() }

// A key that the other queue has is tried again. Pins QUOTA-83.
func TestAKeyIsReconciledOnceAtATime(t *testing.T) {
	s := newSubject(t, quota("pods=5"))
	s.c.inProgress.Store(key, true)
	if err := s.c.reconcile(s.Context(), key); !reconcile.IsExpected(err) {
		t.Errorf("error is %v", err)
	}
	s.WantRequests(t)
}

// A burst of deletions is one write at once, and one for each tenth of a second. Pins QUOTA-82.
func TestBurstsAreFewWrites(t *testing.T) {
	s := newSubject(t, quota("pods=5", status("pods=5", "pods=5")), named("a", "1"), named("b", "1"), named("c", "1"))
	s.run(t)
	s.WantRequests(t, "update resourcequotas/status quota")
	s.Remove(t, named("a", "1"))
	controllertest.Eventually(t, "the deletion is seen", func() bool { return s.c.loops.changes.Inspect().Reconciled == 1 })
	s.AwaitIdle(t)
	s.WantRequests(t)
	s.Remove(t, named("b", "1"))
	s.EventuallyAsTimePasses(t, "the usage is written", 10*time.Millisecond, func() bool {
		return same(controllertest.MustStored[*corev1.ResourceQuota](t, s.Env, "ns", "quota").Status.Used, list("pods=1"))
	})
}

// Usage that cannot be computed is no reason to write the rest at once. Pins QUOTA-82.
func TestBurstsInAQuotaThatIsNotKnownWholly(t *testing.T) {
	s := newSubject(t, quota("pods=5 configmaps=5", status("pods=5 configmaps=5", "pods=5")), named("a", "1"), named("b", "1"))
	s.c.evaluators.counters[schema.GroupResource{Resource: "configmaps"}].complete = func() bool { return false }
	reconciled := func() {
		t.Helper()
		if err := s.c.reconcile(s.Context(), key); err == nil {
			t.Fatal("configmaps are known")
		}
	}
	reconciled()
	s.Remove(t, named("a", "1"))
	controllertest.Eventually(t, "the deletion is seen", func() bool {
		used, err := s.c.pods.usage("ns", selected{})
		return err == nil && same(corev1.ResourceList{"pods": used["pods"]}, list("pods=1"))
	})
	reconciled()
	s.WantRequests(t, "update resourcequotas/status quota")
	s.Clock.Step(roomyWindow)
	reconciled()
	wantList(t, controllertest.MustStored[*corev1.ResourceQuota](t, s.Env, "ns", "quota").Status.Used, "pods=1")
}

// Pins QUOTA-82.
func TestAQuotaThatHasRoomIsWrittenLessOften(t *testing.T) {
	for name, tc := range map[string]struct {
		hard, used string
		want       time.Duration
	}{
		"nothing is used":                {"pods=4 services=4", "pods=0 services=0", roomyWindow},
		"half is used":                   {"pods=4 services=4", "pods=2 services=2", roomyWindow},
		"of one resource more than half": {"pods=4 services=4", "pods=0 services=3", writes.Window},
		"it is used up":                  {"pods=4", "pods=4", writes.Window},
		"what is used is not known":      {"pods=4", "", roomyWindow},
		"a number that is no int64":      {"pods=100000000000000000000", "pods=60000000000000000000", writes.Window},
	} {
		t.Run(name, func(t *testing.T) {
			q := quota(tc.hard, status(tc.hard, tc.used))
			if got := windowOf(q); got != tc.want {
				t.Errorf("got %s", got)
			}
			if used := list(tc.used); !same(q.Status.Used, used) {
				t.Errorf("the quota was changed: %v", q.Status.Used)
			}
		})
	}
}

// A burst of deletions is one write at once, and then one for each half of a second. Pins QUOTA-82.
func TestBurstsInAQuotaThatHasRoom(t *testing.T) {
	s := newSubject(t, quota("pods=50", status("pods=50", "pods=5")), named("a", "1"), named("b", "1"))
	s.run(t)
	s.WantRequests(t, "update resourcequotas/status quota")
	wrote := s.Clock.Now()
	s.Remove(t, named("a", "1"))
	controllertest.Eventually(t, "the deletion is seen", func() bool { return s.c.loops.changes.Inspect().Reconciled == 1 })
	s.EventuallyAsTimePasses(t, "the usage is written", 10*time.Millisecond, func() bool {
		return same(controllertest.MustStored[*corev1.ResourceQuota](t, s.Env, "ns", "quota").Status.Used, list("pods=1"))
	})
	if after := s.Clock.Since(wrote); after < roomyWindow {
		t.Errorf("written again after %s", after)
	}
}

// A ConfigMap that is cached after the usage was computed. The API server did not charge its creation, since it did not
// know of the limits, or did, and the write took that back. Pins QUOTA-98.
func TestWhatIsWrittenIsCountedTwice(t *testing.T) {
	for name, q := range map[string]*corev1.ResourceQuota{
		"a new quota":      quota("configmaps=5"),
		"a quota's limits": quota("configmaps=5", status("configmaps=4", "configmaps=0")),
		"usage":            quota("configmaps=5", status("configmaps=5", "configmaps=1")),
	} {
		t.Run(name, func(t *testing.T) {
			s := newSubject(t, q)
			s.run(t)
			s.wantUsed(t, "configmaps=0")
			counted := s.Clock.Now()
			s.Store(t, configMap("late"))
			s.EventuallyAsTimePasses(t, "the ConfigMap is counted", time.Second, func() bool {
				return same(controllertest.MustStored[*corev1.ResourceQuota](t, s.Env, "ns", "quota").Status.Used, list("configmaps=1"))
			})
			if after := s.Clock.Since(counted); after > 2*recountAfter {
				t.Errorf("counted after %s", after)
			}
		})
	}
}

// A write is executed, and fails: the charge that it has taken back was for a ConfigMap that is cached later.
// Pins QUOTA-98.
func TestAWriteWithoutAnswerIsCountedTwice(t *testing.T) {
	s := newSubject(t, quota("configmaps=5", status("configmaps=5", "configmaps=1")))
	s.c.period = 0
	failed := false
	s.Fake.PrependReactor("update", "resourcequotas", func(action clienttesting.Action) (bool, runtime.Object, error) {
		if failed {
			return false, nil, nil
		}
		failed = true
		written := action.(clienttesting.UpdateAction).GetObject().(*corev1.ResourceQuota).DeepCopy()
		written.ResourceVersion = s.NextVersion()
		if err := s.Fake.Tracker().Update(action.GetResource(), written, written.Namespace); err != nil {
			t.Error(err)
		}
		return true, nil, apierrors.NewInternalError(errors.New("lost"))
	})
	s.run(t)
	s.wantUsed(t, "configmaps=0")
	s.Store(t, configMap("late"))
	s.EventuallyAsTimePasses(t, "the ConfigMap is counted", time.Second, func() bool {
		return same(controllertest.MustStored[*corev1.ResourceQuota](t, s.Env, "ns", "quota").Status.Used, list("configmaps=1"))
	})
}

// An object is created and deleted before the charge for it is cached: then the usage is as it was, and nothing is
// written. Pins QUOTA-98.
func TestAChargeThatIsCachedAfterItsObjectHasGoneIsTakenBack(t *testing.T) {
	s := newSubject(t, quota("pods=5", status("pods=5", "pods=0")))
	s.c.period = 0
	s.run(t)
	s.AwaitIdle(t)
	s.Store(t, named("a", "1"))
	s.Remove(t, named("a", "1"))
	controllertest.Eventually(t, "the deletion is seen", func() bool { return s.c.loops.changes.Inspect().Reconciled == 1 })
	s.AwaitIdle(t)
	s.WantRequests(t)
	controllertest.Change(t, s.Env, "ns", "quota", func(q *corev1.ResourceQuota) { q.Status.Used = list("pods=1") })
	s.EventuallyAsTimePasses(t, "the charge is taken back", time.Second, func() bool {
		return same(controllertest.MustStored[*corev1.ResourceQuota](t, s.Env, "ns", "quota").Status.Used, list("pods=0"))
	})
}

// Two objects are in the new scopes, and one is cached: then the usage is as it was, and nothing is written. Pins
// QUOTA-103.
func TestTheUsageOfOtherScopesIsCountedTwice(t *testing.T) {
	s := newSubject(t, quota("pods=5", status("pods=5", "pods=1")), named("a", "1"))
	s.c.period = 0
	s.run(t)
	before := s.c.loops.primary.Inspect().Reconciled
	controllertest.Change(t, s.Env, "ns", "quota", func(q *corev1.ResourceQuota) {
		q.Spec.ScopeSelector = where("NotTerminating", "Exists")
	})
	controllertest.Eventually(t, "the edit is seen", func() bool { return s.c.loops.primary.Inspect().Reconciled > before })
	s.AwaitIdle(t)
	s.WantRequests(t)
	s.Store(t, named("b", "1"))
	s.EventuallyAsTimePasses(t, "both are counted", time.Second, func() bool {
		return same(controllertest.MustStored[*corev1.ResourceQuota](t, s.Env, "ns", "quota").Status.Used, list("pods=2"))
	})
}

// A quota is edited before its controller takes over: its own time is the later one. Pins QUOTA-103.
func TestTheSuccessorKeepsALaterRecount(t *testing.T) {
	s := newSubject(t, quota("pods=5"))
	key, later := types.NamespacedName{Namespace: "ns", Name: "quota"}, s.Clock.Now().Add(recountAfter)
	for name, left := range map[string]time.Duration{"passed": -time.Second, "earlier": time.Second} {
		s.c.recounts.Store(key, later)
		s.c.takeOver(handover{recounts: map[types.NamespacedName]time.Time{key: s.Clock.Now().Add(left)}})
		if is, ok := s.c.recounts.Load(key); !ok || is != later {
			t.Errorf("%s: the recount is at %v, want %v", name, is, later)
		}
	}
}

// An edit restarts the controller between a write and the time at which it would have been counted once more. Pins
// QUOTA-101.
func TestTheSuccessorCountsOnceMore(t *testing.T) {
	s := newSubject(t, quota("configmaps=5", status("configmaps=5", "configmaps=1")))
	s.c.period = 0
	stop := s.run(t)
	s.wantUsed(t, "configmaps=0")
	stop()
	s.WantRequests(t, "update resourcequotas/status quota")
	s.Succeed(s.c.HandOver())
	next, err := newController(s.Env.Env, s.c.config)
	if err != nil {
		t.Fatal(err)
	}
	s.c = next
	s.run(t)
	controllertest.Eventually(t, "the quota was reconciled", func() bool { return next.loops.primary.Inspect().Reconciled > 0 })
	s.AwaitIdle(t)
	s.WantRequests(t)
	s.Store(t, configMap("late"))
	s.EventuallyAsTimePasses(t, "the ConfigMap is counted", time.Second, func() bool {
		return same(controllertest.MustStored[*corev1.ResourceQuota](t, s.Env, "ns", "quota").Status.Used, list("configmaps=1"))
	})
}

// clockWith calls a function whenever it is read.
type clockWith struct {
	clock.WithTicker
	read func()
}

func (c clockWith) Now() time.Time {
	c.read()
	return c.WithTicker.Now()
}

// Something is released while a quota begins to be counted once more. Pins QUOTA-98.
func TestWhatIsReleasedDuringARecountIsCountedOnceMore(t *testing.T) {
	s := newSubject(t, quota("pods=5"))
	s.c.recounts.Store(key, s.Clock.Now().Add(-time.Second))
	later := s.Clock.Now().Add(recountAfter)
	s.c.Clock = clockWith{s.c.Clock, func() { s.c.recounts.Store(key, later) }}
	s.c.recountLater(key)
	if at, ok := s.c.recounts.Load(key); !ok || !at.(time.Time).Equal(later) {
		t.Errorf("it is counted again at %v", at)
	}
}

// A conflict drops what the last write returned, and the cache shows what is true of an older state. Pins QUOTA-98.
func TestAfterAConflictAQuotaIsCountedAgain(t *testing.T) {
	s := newSubject(t, quota("pods=5", status("pods=5", "pods=0")))
	newer := quota("pods=5", status("pods=5", "pods=1"), func(q *corev1.ResourceQuota) { q.ResourceVersion = "8" })
	s.c.written.Wrote(newer, newer)
	s.Refuse("update resourcequotas/status quota", apierrors.NewConflict(schema.GroupResource{Resource: "resourcequotas"}, "quota", nil))
	if err := s.c.reconcile(s.Context(), key); !reconcile.IsExpected(err) {
		t.Fatalf("error is %v", err)
	}
	if at, ok := s.c.recounts.Load(key); !ok || !at.(time.Time).Equal(s.Clock.Now().Add(recountAfter)) {
		t.Errorf("it is counted again at %v", at)
	}
}

// The state that the last write returned is what the next one is based on. Pins QUOTA-82.
func TestTheCacheIsBehindTheLastWrite(t *testing.T) {
	s := newSubject(t, quota("pods=5"), named("a", "1"))
	cached := quota("pods=5")
	if err := s.c.reconcile(s.Context(), key); err != nil {
		t.Fatal(err)
	}
	written := controllertest.MustStored[*corev1.ResourceQuota](t, s.Env, "ns", "quota")
	if got := s.c.written.Newest(cached, cached); got.ResourceVersion != written.ResourceVersion {
		t.Errorf("got version %s, want %s", got.ResourceVersion, written.ResourceVersion)
	}
	if _, ok := s.c.HandOver().writes[key]; !ok {
		t.Error("the write is not handed over")
	}
}

// A status that somebody else has changed is set right by the next recalculation, unless something
// of the start is still to be reconciled. Pins QUOTA-22 and QUOTA-62.
func TestAllQuotasAreRecalculatedPeriodically(t *testing.T) {
	s := newSubject(t, quota("pods=5"))
	s.run(t)
	s.wantUsed(t, "pods=0")
	for range 5 {
		counted := s.Clock.Now()
		s.EventuallyAsTimePasses(t, "new limits are counted twice", time.Second, func() bool { return s.Clock.Since(counted) > 2*recountAfter })
		began := s.Clock.Now()
		controllertest.Change(t, s.Env, "ns", "quota", status("pods=99", "pods=98"))
		s.EventuallyAsTimePasses(t, "the status is true again", 10*time.Second, func() bool {
			q := controllertest.MustStored[*corev1.ResourceQuota](t, s.Env, "ns", "quota")
			return same(q.Status.Hard, list("pods=5")) && same(q.Status.Used, list("pods=0"))
		})
		if s.Clock.Since(began) > 4*time.Minute {
			return
		}
	}
	t.Error("it never took until the next recalculation")
}

// Pins QUOTA-7.
func TestWithoutAPeriodNothingIsRecalculated(t *testing.T) {
	s := newSubject(t, quota("pods=5", status("pods=5", "pods=0")))
	s.c.period = 0
	s.run(t)
	controllertest.Eventually(t, "the first reconcile", func() bool { return s.c.loops.primary.Inspect().Reconciled == 1 })
	for range 30 {
		s.Clock.Step(time.Minute)
	}
	s.AwaitIdle(t)
	if got := s.c.loops.primary.Inspect().Reconciled; got != 1 {
		t.Errorf("%d reconciles, want one", got)
	}
}

// What was computed for a namespace is forgotten with its last quota.
func TestNamespacesWithoutQuotasAreForgotten(t *testing.T) {
	s := newSubject(t, quota("pods=5"), named("a", "1"))
	s.run(t)
	s.wantUsed(t, "pods=1")
	s.Remove(t, quota(""))
	controllertest.Eventually(t, "the namespace is forgotten", func() bool {
		account, _ := s.c.pods.existing("ns")
		return account == nil
	})
}

// A quota that changed nothing while the controller was stopped is reconciled when it starts. Pins
// QUOTA-22, QUOTA-72 and QUOTA-73.
func TestMissedDeletionsAreMadeUpFor(t *testing.T) {
	s := newSubject(t, quota("pods=5", status("pods=5", "pods=3")), named("a", "1"))
	s.run(t)
	s.wantUsed(t, "pods=1")
}

// What is shared with the cache is not changed. Pins QUOTA-29.
func TestTheCachedQuotaIsNotChanged(t *testing.T) {
	s := newSubject(t, quota("pods=5", status("pods=5", "pods=3")), named("a", "1"))
	cached, err := s.c.quotas.ResourceQuotas("ns").Get("quota")
	if err != nil {
		t.Fatal(err)
	}
	if status, err := s.c.statusOf(cached); err != nil || !same(status.Used, list("pods=1")) {
		t.Errorf("got %v, %v", status, err)
	}
	wantList(t, cached.Status.Used, "pods=3")
}

// BenchmarkReconcile is a quota of 20 resources whose status is true, in a namespace with 1,000
// pods.
func BenchmarkReconcile(b *testing.B) {
	var objects []runtime.Object
	for i := range 1000 {
		objects = append(objects, named(fmt.Sprint(i), "1"))
	}
	hard := "pods=2k count/pods=2k cpu=2k memory=1 ephemeral-storage=1 requests.cpu=2k requests.memory=1 limits.cpu=1 limits.memory=1 " +
		"services=1 services.nodeports=1 services.loadbalancers=1 persistentvolumeclaims=1 requests.storage=1 gold.storageclass.storage.k8s.io/requests.storage=1 " +
		"configmaps=1 count/configmaps=1 resourcequotas=1 count/resourceclaims.resource.k8s.io=1 requests.example.com/gpu=1"
	s := newSubject(b, append(objects, quota(hard))...)
	if err := s.c.reconcile(s.Context(), key); err != nil {
		b.Fatal(err)
	}
	s.c.memory = writes.New(s.Env.Env.Clock, nil) // as if the write was long ago
	controllertest.Eventually(b, "the cache shows the status", func() bool {
		cached, err := s.c.quotas.ResourceQuotas("ns").Get("quota")
		return err == nil && len(cached.Status.Used) > 0
	})
	s.Fake.ClearActions()
	b.ReportAllocs()
	for b.Loop() {
		if err := s.c.reconcile(s.Context(), key); err != nil {
			b.Fatal(err)
		}
	}
	s.WantRequests(b)
}
