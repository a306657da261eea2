package resourcequota

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"kcmd.dev/pkg/controllers/kit/writes"
	"kcmd.dev/test/controllertest"
)

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
