package resourcequota

import (
	"errors"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/utils/clock"

	"kcmd.dev/pkg/controllers/kit/reconcile"
	"kcmd.dev/test/controllertest"
	"kcmd.dev/test/must"
)

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
			s.Store(t, configMap("late"))
			controllertest.Eventually(t, "the cache shows the ConfigMap", func() bool {
				status, err := s.c.statusOf(quota("configmaps=5"))
				return err == nil && same(status.Used, list("configmaps=1"))
			})
			s.Clock.Step(2 * recountAfter)
			controllertest.Eventually(t, "the ConfigMap is counted", func() bool {
				return same(controllertest.MustStored[*corev1.ResourceQuota](t, s.Env, "ns", "quota").Status.Used, list("configmaps=1"))
			})
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
	next := must.Get(newController(s.Env.Env, s.c.config))(t)
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
