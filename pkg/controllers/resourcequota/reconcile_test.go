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
	clienttesting "k8s.io/client-go/testing"

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
