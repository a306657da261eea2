package resourcequota

import (
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"kcmd.dev/test/controllertest"
)

// wantUsed waits for the usage of the quota, while time passes.
func (s *subject) wantUsed(t *testing.T, want string) {
	t.Helper()
	s.EventuallyAsTimePasses(t, "usage "+want, 20*time.Millisecond, func() bool {
		return same(controllertest.MustStored[*corev1.ResourceQuota](t, s.Env, "ns", "quota").Status.Used, list(want))
	})
}

func TestReplenishment(t *testing.T) {
	older := func(c *corev1.PersistentVolumeClaim) { c.ResourceVersion = "1" }
	for name, test := range map[string]struct {
		hard, before, after string
		objects             []runtime.Object
		change              func(*testing.T, *subject)
	}{
		"QUOTA-9, QUOTA-24, QUOTA-25, QUOTA-26: a counted object is deleted": {
			hard: "configmaps=5", before: "configmaps=2", after: "configmaps=1",
			objects: []runtime.Object{configMap("a"), configMap("b")},
			change:  func(t *testing.T, s *subject) { s.Remove(t, configMap("a")) },
		},
		"QUOTA-9: a pod is deleted": {
			hard: "cpu=5", before: "cpu=3", after: "cpu=2",
			objects: []runtime.Object{named("a", "1"), named("b", "2")},
			change:  func(t *testing.T, s *subject) { s.Remove(t, named("a", "1")) },
		},
		"QUOTA-13: a pod ends": {
			hard: "pods=5 count/pods=5", before: "pods=2 count/pods=2", after: "pods=1 count/pods=2",
			objects: []runtime.Object{named("a", "1"), named("b", "2")},
			change: func(t *testing.T, s *subject) {
				controllertest.Change(t, s.Env, "ns", "a", controllertest.InPhase(corev1.PodSucceeded))
			},
		},
		"QUOTA-14: a Service has another type": {
			hard: "services.nodeports=5", before: "services.nodeports=1", after: "services.nodeports=0",
			objects: []runtime.Object{service("NodePort", 30000)},
			change: func(t *testing.T, s *subject) {
				controllertest.Change(t, s.Env, "ns", "service", func(s *corev1.Service) { s.Spec.Type = corev1.ServiceTypeClusterIP })
			},
		},
		"QUOTA-15, QUOTA-80: a claim asks for less": {
			hard: "requests.storage=5Gi", before: "requests.storage=2Gi", after: "requests.storage=1Gi",
			objects: []runtime.Object{volumeClaim(storage("2Gi"), older)},
			change: func(t *testing.T, s *subject) {
				controllertest.Change(t, s.Env, "ns", "claim", storage("1Gi"))
			},
		},
		"QUOTA-9: a device claim is deleted": {
			hard: "gpu.deviceclass.resource.k8s.io/devices=5", before: "gpu.deviceclass.resource.k8s.io/devices=3", after: "gpu.deviceclass.resource.k8s.io/devices=2",
			objects: []runtime.Object{claim("a", devices("gpu", exactly, 1)), claim("b", devices("gpu", exactly, 2))},
			change:  func(t *testing.T, s *subject) { s.Remove(t, claim("a")) },
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSubject(t, append(test.objects, quota(test.hard))...)
			s.run(t)
			s.wantUsed(t, test.before)
			test.change(t, s)
			s.wantUsed(t, test.after)
		})
	}
}

// What was admitted was charged, and statuses are the controller's own.
func TestChangesOfObjects(t *testing.T) {
	const pods, configMaps = "ns pods", "ns configmaps"
	for name, test := range map[string]struct {
		change func(*testing.T, *subject)
		want   []string
	}{
		"QUOTA-9: an object is created": {change: func(t *testing.T, s *subject) { s.Store(t, configMap("new")) }},
		"QUOTA-16: an object is changed": {change: func(t *testing.T, s *subject) {
			controllertest.Change(t, s.Env, "ns", "a", func(m *corev1.ConfigMap) { m.Data = map[string]string{"a": "b"} })
		}},
		"QUOTA-9: an object is deleted": {change: func(t *testing.T, s *subject) { s.Remove(t, configMap("a")) }, want: []string{configMaps}},
		"QUOTA-93: an object is another one": {change: func(t *testing.T, s *subject) {
			controllertest.Change(t, s.Env, "ns", "a", func(m *corev1.ConfigMap) { m.UID = "another" })
		}, want: []string{configMaps}},
		"QUOTA-9: a pod is created": {change: func(t *testing.T, s *subject) { s.Store(t, named("new", "1")) }},
		"QUOTA-13: a pod is changed": {change: func(t *testing.T, s *subject) {
			controllertest.Change(t, s.Env, "ns", "pod", controllertest.NotReady)
		}},
		"QUOTA-13: a pod ends": {change: func(t *testing.T, s *subject) {
			controllertest.Change(t, s.Env, "ns", "pod", controllertest.InPhase(corev1.PodFailed))
		}, want: []string{pods}},
		"QUOTA-9: a pod is deleted": {change: func(t *testing.T, s *subject) { s.Remove(t, named("pod", "1")) }, want: []string{pods}},
		"QUOTA-93: a pod is another one": {change: func(t *testing.T, s *subject) {
			controllertest.Change(t, s.Env, "ns", "pod", func(p *corev1.Pod) { p.UID = "another" })
		}, want: []string{pods}},
		"QUOTA-25, QUOTA-90: a namespace without a quota": {change: func(t *testing.T, s *subject) { s.Remove(t, controllertest.Pod("other", "pod")) }},
		"QUOTA-90: objects that no quota has asked for":   {change: func(t *testing.T, s *subject) { s.Remove(t, service("ClusterIP")) }},
	} {
		t.Run(name, func(t *testing.T) {
			s, queued := newRecorded(t, quota("pods=5 configmaps=5"), configMap("a"), named("pod", "1"), controllertest.Pod("other", "pod"), service("ClusterIP"))
			test.change(t, s)
			// What comes after it in each informer has been seen, so it has been seen too.
			s.Store(t, quota("count/pods=1 services=1", func(q *corev1.ResourceQuota) { q.Namespace = "marked" }))
			marks := []runtime.Object{
				controllertest.Pod("marked", "mark"), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "marked", Name: "mark"}},
				&corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "marked", Name: "mark"}},
			}
			s.Store(t, marks...)
			controllertest.Eventually(t, "the marks are seen", func() bool {
				quotas := s.c.quotasOf("marked")
				if len(quotas) == 0 {
					return false
				}
				status, err := s.c.statusOf(quotas[0])
				return err == nil && same(status.Used, list("count/pods=1 services=1")) && numberOf(t, s, "marked") == 1
			})
			s.Remove(t, marks...)
			var got []string
			controllertest.Eventually(t, "the end of the marks is seen", func() bool {
				got = append(got, queued.changes.Take()...)
				return slices.Contains(got, "marked pods") && slices.Contains(got, "marked configmaps") && slices.Contains(got, "marked services")
			})
			got = slices.DeleteFunc(got, func(change string) bool { return strings.HasPrefix(change, "marked ") })
			if !slices.Equal(got, test.want) {
				t.Errorf("queued %q, want %q", got, test.want)
			}
		})
	}
}

// numberOf returns how many ConfigMaps of a namespace are counted.
func numberOf(t *testing.T, s *subject, namespace string) int64 {
	t.Helper()
	used, err := s.c.evaluators.of(schema.GroupResource{Resource: "configmaps"}).usage(namespace, selected{})
	if err != nil {
		t.Fatal(err)
	}
	count := used["configmaps"]
	return count.Value()
}

func TestChangesOfQuotas(t *testing.T) {
	for name, test := range map[string]struct {
		is       *corev1.ResourceQuota
		change   func(*corev1.ResourceQuota)
		primary  []string
		priority []string
	}{
		"QUOTA-8a, QUOTA-20: other limits":   {is: quota("pods=5"), change: func(q *corev1.ResourceQuota) { q.Spec.Hard = list("pods=6") }, priority: []string{"ns/quota"}},
		"QUOTA-8a: limits in another format": {is: quota("cpu=1"), change: func(q *corev1.ResourceQuota) { q.Spec.Hard = list("cpu=1000m") }},
		"QUOTA-8a, QUOTA-62: another status": {is: quota("pods=5"), change: status("pods=9", "pods=9")},
		"QUOTA-102: other scopes": {
			is: quota("pods=5", status("pods=5", "pods=1")), change: func(q *corev1.ResourceQuota) { q.Spec.ScopeSelector = where("Terminating", "Exists") }, primary: []string{"ns/quota"},
		},
		"QUOTA-102: the same scopes in another form": {
			is: quota("pods=5", func(q *corev1.ResourceQuota) { q.Spec.ScopeSelector = where("Terminating", "Exists") }),
			change: func(q *corev1.ResourceQuota) {
				q.Spec.ScopeSelector = where("Terminating", "Exists")
				q.Spec.ScopeSelector.MatchExpressions[0].Values = []string{}
			},
		},
		"QUOTA-8a: other labels":  {is: quota("pods=5"), change: func(q *corev1.ResourceQuota) { q.Labels = map[string]string{"a": "b"} }},
		"QUOTA-93: another quota": {is: quota("pods=5"), change: func(q *corev1.ResourceQuota) { q.UID = "another" }, priority: []string{"ns/quota"}},
		"QUOTA-20: limits that the status has": {
			is: quota("pods=5", status("pods=6", "pods=0")), change: func(q *corev1.ResourceQuota) { q.Spec.Hard = list("pods=6") }, primary: []string{"ns/quota"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			s, queued := newRecorded(t, test.is)
			controllertest.Change(t, s.Env, "ns", "quota", test.change)
			// What comes after it has been seen, so it has been seen too.
			s.Store(t, quota("pods=1", func(q *corev1.ResourceQuota) { q.Name = "mark" }))
			var priority []string
			controllertest.Eventually(t, "the mark is seen", func() bool {
				priority = append(priority, queued.priority.Take()...)
				return slices.Contains(priority, "ns/mark")
			})
			queued.primary.Want(t, test.primary...)
			if want := append(test.priority, "ns/mark"); !slices.Equal(priority, want) {
				t.Errorf("queued with priority %q, want %q", priority, want)
			}
		})
	}
}

// Pins QUOTA-8, QUOTA-18 and QUOTA-20.
func TestQuotasThatAreReplayed(t *testing.T) {
	s, r := build(t, quota("pods=1"), quota("pods=1", status("pods=1", "pods=0"), func(q *corev1.ResourceQuota) { q.Name = "true" })), &recorded{}
	s.c.primary, s.c.priority = &r.primary, &r.priority
	s.Start(t)
	r.primary.Want(t, "backlog ns/true")
	r.priority.Want(t, "backlog ns/quota")
	s.Remove(t, quota(""))
	controllertest.Eventually(t, "the deletion is seen", func() bool { return len(s.c.quotasOf("ns")) == 1 })
	controllertest.Eventually(t, "the deletion is queued", func() bool { return slices.Equal(r.primary.Take(), []string{"ns/quota"}) })
}

// Pins QUOTA-97.
func TestHandlersHaveNoResyncPeriod(t *testing.T) {
	s := newSubject(t)
	for name, add := range map[string]func(*controllertest.Captured) error{
		"quotas": func(informer *controllertest.Captured) error {
			s.c.watchQuotas(informer)
			return nil
		},
		"accounts": func(informer *controllertest.Captured) error {
			_, err := follow(informer, func(*corev1.Pod) bool { return false }, nil, nil)
			return err
		},
		"monitors": func(informer *controllertest.Captured) error { return (&monitor{}).add(informer, nil) },
	} {
		informer := &controllertest.Captured{Resync: time.Hour}
		if err := add(informer); err != nil {
			t.Fatal(err)
		}
		if informer.Resync != 0 {
			t.Errorf("the handler of %s has the resync period %v", name, informer.Resync)
		}
	}
}

// The index of ResourceClaims outlives an instance. Pins QUOTA-74.
func TestASuccessorFindsTheIndex(t *testing.T) {
	s := newSubject(t)
	s.Succeed(s.c.HandOver())
	if _, err := newController(s.Env.Env, s.c.config); err != nil {
		t.Fatal(err)
	}
	if err := s.Informers.Err(); err != nil {
		t.Fatal(err)
	}
	claims := s.Informers.Resource().V1().ResourceClaims().Informer()
	if claims.GetIndexer().GetIndexers()[claimsByPod] == nil {
		t.Error("there is no index")
	}
}

// Pins QUOTA-26 and QUOTA-92.
func TestChangesQueueTheQuotasThatLimitTheObjects(t *testing.T) {
	called := func(name string) func(*corev1.ResourceQuota) { return func(q *corev1.ResourceQuota) { q.Name = name } }
	s, queued := newRecorded(t,
		quota("cpu=1", status("cpu=1", "cpu=0"), called("limits")),
		quota("configmaps=1", status("configmaps=1", ""), called("limits-others")),
		quota("cpu=1", called("does-not-limit-yet")),
		quota("configmaps=1", status("pods=1", ""), called("still-limits")),
		quota("pods=1", status("pods=1", ""), called("limits-elsewhere"), func(q *corev1.ResourceQuota) { q.Namespace = "other" }),
		quota("pods=1", status("pods=1", ""), called("scoped"), func(q *corev1.ResourceQuota) { q.Spec.Scopes = []corev1.ResourceQuotaScope{"Terminating"} }),
	)
	if err := s.c.replenish(s.Context(), change{schema.GroupResource{Resource: "pods"}, "ns"}); err != nil {
		t.Fatal(err)
	}
	queued.primary.WantInAnyOrder(t, "ns/limits", "ns/still-limits", "ns/scoped")

	written := quota("cpu=1", status("cpu=1", "cpu=0"), called("does-not-limit-yet"))
	written.ResourceVersion = "2"
	s.c.written.Wrote(written, written)
	if err := s.c.replenish(s.Context(), change{schema.GroupResource{Resource: "pods"}, "ns"}); err != nil {
		t.Fatal(err)
	}
	queued.primary.WantInAnyOrder(t, "ns/limits", "ns/still-limits", "ns/scoped", "ns/does-not-limit-yet")
	if err := s.c.replenish(s.Context(), change{schema.GroupResource{Resource: "unknown"}, "ns"}); err != nil {
		t.Fatal(err)
	}
	queued.primary.Want(t)
}
