package resourcequota

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/utils/ptr"

	"kcmd.dev/pkg/controller"
	"kcmd.dev/test/must"
	"kcmd.dev/test/simulation"
)

var (
	configMaps    = corev1.SchemeGroupVersion.WithResource("configmaps")
	cronJobs      = batchv1.SchemeGroupVersion.WithResource("cronjobs")
	laterCronJobs = schema.GroupVersionResource{Group: "batch", Version: "v2", Resource: "cronjobs"}
)

// model is a world with quotas in two namespaces. CronJobs are of a kind that comes and goes, in two versions.
type model struct {
	*simulation.World
	t        *testing.T
	c        *quotaController
	metadata *simulation.Metadata
	kubelet  simulation.Kubelet
	features features
	served   *catalogue
	queues   []interface{ Work() bool }
	// charged are objects that the API server has charged and does not show yet.
	charged []runtime.Object
	// calm is whether nothing happens that only the periodic recalculation corrects.
	calm bool
}

// catalogue is the discovery of a model.
type catalogue struct {
	discovery.DiscoveryInterface
	m *model
}

func (s *catalogue) ServerPreferredNamespacedResources() ([]*metav1.APIResourceList, error) {
	if s.m.Faulty && s.m.OneIn(4) {
		return nil, errors.New("timeout")
	}
	lists := s.m.preferred()
	if s.m.Faulty && s.m.OneIn(4) {
		failed := map[schema.GroupVersion]error{
			{Group: "batch", Version: "v1"}: errors.New("stale"), {Group: "batch", Version: "v2"}: errors.New("stale"),
		}
		return lists[:1], &discovery.ErrGroupDiscoveryFailed{Groups: failed}
	}
	return lists, nil
}

func (m *model) preferred() []*metav1.APIResourceList {
	verbs := []string{"create", "list", "watch", "delete"}
	lists := []*metav1.APIResourceList{resourceList("v1", true, "pods", verbs...)}
	for _, r := range []schema.GroupVersionResource{configMaps, claims, cronJobs, laterCronJobs} {
		if m.metadata.IsServed(r) && !(r == cronJobs && m.metadata.IsServed(laterCronJobs)) {
			lists = append(lists, resourceList(r.GroupVersion().String(), true, r.Resource, verbs...))
		}
	}
	return lists
}

func (m *model) start(env controller.Env, left any) simulation.Instance {
	env.Discovery, env.Served = m.served, m.preferred
	m.c = must.Get(newController(env, config{workers: 1, period: 5 * time.Minute, features: m.features}))(m.t)
	c := m.c
	primary, priority := simulation.NewQueue(m.World, c.reconcile), simulation.NewQueue(m.World, c.reconcile)
	changes := simulation.NewQueue(m.World, c.replenish)
	c.primary, c.priority, c.changes = primary, priority, changes
	m.queues = []interface{ Work() bool }{primary, priority, changes}
	if left != nil {
		c.takeOver(left.(handover))
	}
	passes := simulation.NewPasses(m.World, 0, c.period, func(ctx context.Context) { c.recalculate(ctx, ctx) })
	var resyncs *simulation.Queue[string]
	var added []*monitor
	var until time.Time
	resyncs = simulation.NewQueue(m.World, func(ctx context.Context, _ string) error {
		if len(added) == 0 {
			added, until = c.watchServed(ctx), m.Clock.Now().Add(syncTimeout)
		}
		for _, a := range added {
			if !a.complete() && m.Clock.Now().Before(until) {
				resyncs.AddAfter("discovery", time.Second)
				return nil
			}
		}
		c.reconcileLimiting(added)
		added = nil
		resyncs.AddAfter("discovery", discoveryPeriod)
		return nil
	})
	resyncs.Add("discovery")
	return simulation.Instance{
		Runners:  []simulation.Runner{primary, priority, changes, passes, resyncs},
		HandOver: func() any { return c.HandOver() },
	}
}

// others is what the kubelets and the API server do.
func (m *model) others(all bool) bool {
	if (all || m.OneIn(2)) && m.arrive() {
		return true
	}
	return m.kubelet.Act(all)
}

// check compares all quotas with what is there.
func (m *model) check() {
	m.t.Helper()
	for _, q := range simulation.All[*corev1.ResourceQuota](m.World) {
		want, used := m.usage(q, func(object) bool { return true }), q.Status.Used.DeepCopy()
		if delete(used, "x"); !same(used, want) || !same(q.Spec.Hard, q.Status.Hard) {
			m.Note("%s/%s is wrong", q.Namespace, q.Name)
			m.t.Errorf("%s/%s with limits %s, as published %s, has usage %s, want %s",
				q.Namespace, q.Name, text(q.Spec.Hard), text(q.Status.Hard), text(used), text(want))
		}
	}
}

func text(list corev1.ResourceList) (all []string) {
	for _, name := range slices.Sorted(maps.Keys(list)) {
		all = append(all, fmt.Sprintf("%s=%s", name, ptr.To(list[name]).String()))
	}
	return all
}

// TestWhateverHappensUsageIsWhatIsThere has objects admitted, changed and deleted, quotas edited and deleted, kinds
// come and go, requests fail and the controller restarted, while the caches are behind or incomplete. Nothing that is
// there all the time is ever missing in what is published. In the end everything is right, and after that it becomes
// right again without a recalculation of all quotas, as long as no cache is behind for seconds.
func TestWhateverHappensUsageIsWhatIsThere(t *testing.T) {
	simulation.Run(t, 40, func(t *testing.T, w *simulation.World) { (&model{World: w, t: t}).run() })
}

func (m *model) run() {
	m.metadata = simulation.ServeMetadata(m.World)
	m.metadata.Version(laterCronJobs, cronJobs)
	m.metadata.Serve(laterCronJobs, m.OneIn(2))
	m.served, m.features = &catalogue{m: m}, everything
	m.features.extendedResources = m.OneIn(2)
	m.features.deviceClaims = m.features.extendedResources || m.OneIn(2)
	isKept := func(o metav1.Object) bool { return o.GetLabels()["kept"] != "" }
	m.kubelet = simulation.Kubelet{World: m.World, Unready: 3, Waits: func(pod *corev1.Pod) bool { return isKept(pod) }}
	m.keepSome()
	m.Start, m.Validate, m.Late = m.start, m.validate, true
	m.MayBeLossy(2)
	if m.Lossy != nil {
		m.Lossy = func(o runtime.Object) bool { return !isKept(o.(metav1.Object)) }
	}
	m.MayComeLate = simulation.AnyWrite
	m.Begin()
	m.Hasty = []int{0, 3}[m.Rand.IntN(2)]
	m.Play(func() { m.others(false) }, m.user)
	for _, resource := range []schema.GroupVersionResource{configMaps, claims, cronJobs} {
		m.metadata.Serve(resource, true)
	}
	m.Settle(7*time.Minute, func() bool { return m.others(true) })
	m.check()
	m.calm = true
	for range 6 {
		m.Faulty = m.OneIn(3)
		for range 20 + m.Rand.IntN(60) {
			m.burst()
		}
		m.Settle(20*time.Second, func() bool { return m.others(true) })
		m.check()
	}
}

// burst is one of the things that happen within a moment.
func (m *model) burst() {
	switch n := m.Rand.IntN(100); {
	case n < 65:
		m.Event()
	case n < 85:
		m.queues[m.Rand.IntN(len(m.queues))].Work()
	case n < 88:
		m.others(false)
	default:
		m.user()
	}
}

// keepSome creates objects that stay, and others in between so that every list shows them.
func (m *model) keepSome() {
	for range 40 {
		if o := m.randomObject(); m.OneIn(2) {
			if _, isClaim := o.(*resourcev1.ResourceClaim); !isClaim {
				o.SetLabels(map[string]string{"kept": "1"})
			}
			m.Create(o)
		}
	}
	for range 12 {
		for _, o := range []object{&corev1.ConfigMap{ObjectMeta: m.meta()}, &batchv1.CronJob{ObjectMeta: m.meta()}} {
			m.Delete(m.Create(o), nil)
		}
	}
}
