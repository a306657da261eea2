package resourcequota

import (
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/discovery"

	"kcmd.dev/pkg/config/v1beta1"
	"kcmd.dev/test/controllertest"
	"kcmd.dev/test/must"
)

// Pins QUOTA-1, QUOTA-2, QUOTA-6 and QUOTA-7.
func TestDescriptor(t *testing.T) {
	d := Descriptor()
	if d.Name != "resourcequota-controller" || !slices.Equal(d.Aliases, []string{"resourcequota"}) || d.ServiceAccount != "resourcequota-controller" || d.Gate != "" {
		t.Errorf("got %+v", d)
	}
	cfg := v1beta1.NewDefault()
	if ok, _ := d.Enabled(cfg); !ok {
		t.Error("is not enabled by default")
	}
	if got, want := configOf(cfg), (config{workers: 5, period: 5 * time.Minute, features: everything}); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

// Pins QUOTA-5 and QUOTA-96.
func TestGates(t *testing.T) {
	cfg := v1beta1.NewDefault()
	cfg.FeatureGates = map[string]bool{"PodLevelResources": false, "InPlacePodLevelResourcesVerticalScaling": false, "DRAExtendedResource": false}
	want := everything
	want.podLevel, want.extendedResources = false, false
	if got := configOf(cfg).features; got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	cfg.EmulatedVersion = "1.33"
	cfg.FeatureGates = map[string]bool{"PodLevelResources": true, "InPlacePodVerticalScaling": false, "RecoverVolumeExpansionFailure": false}
	if got, want := configOf(cfg).features, (features{podLevel: true}); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

// discovered is a discovery with a fixed result.
type discovered struct {
	discovery.DiscoveryInterface
	lists []*metav1.APIResourceList
	err   error
	asked atomic.Int32
}

func (d *discovered) ServerPreferredNamespacedResources() ([]*metav1.APIResourceList, error) {
	d.asked.Add(1)
	return d.lists, d.err
}

var key = types.NamespacedName{Namespace: "ns", Name: "quota"}

// subject is a controller whose keys are reconciled by calls, on informers that run.
type subject struct {
	*controllertest.Env
	c         *quotaController
	discovery *discovered
}

// served are resources that a fake API server serves whole, so that counters can be tested.
func served() []*metav1.APIResourceList {
	verbs := []string{"create", "list", "watch", "delete"}
	return []*metav1.APIResourceList{
		resourceList("v1", true, "configmaps", verbs...),
		resourceList("v1", true, "resourcequotas", verbs...),
		resourceList("v1", true, "pods", verbs...),
		resourceList("resource.k8s.io/v1", true, "resourceclaims", verbs...),
	}
}

func newSubject(t testing.TB, objects ...runtime.Object) *subject {
	t.Helper()
	s := build(t, objects...)
	s.Start(t)
	s.Fake.ClearActions()
	return s
}

// build makes a subject whose informers do not run yet.
func build(t testing.TB, objects ...runtime.Object) *subject {
	t.Helper()
	env := controllertest.New(t, objects...)
	env.CompleteWrites("resourcequotas")
	env.CheckWrites("resourcequotas")
	s := &subject{Env: env, discovery: &discovered{lists: served()}}
	env.Served = func() []*metav1.APIResourceList { return s.discovery.lists }
	env.Discovery = s.discovery
	env.Informers.Core().V1().ConfigMaps().Informer() // so that the kind is cached whole
	c := must.Get(newController(env.Env, config{workers: 1, period: 5 * time.Minute, features: everything}))(t)
	s.c = c
	return s
}

// recorded are the queues of a subject whose loops do not work: what is queued is recorded.
type recorded struct {
	primary, priority controllertest.Queue[types.NamespacedName]
	changes           changes
}

// changes records changes.
type changes struct{ controllertest.Queue[change] }

// newRecorded makes a subject whose handlers have been shown all objects, and its queues, which
// are empty. The usage of the quota was asked for.
func newRecorded(t *testing.T, objects ...runtime.Object) (*subject, *recorded) {
	t.Helper()
	s, r := build(t, objects...), &recorded{}
	s.c.primary, s.c.priority, s.c.changes = &r.primary, &r.priority, &r.changes
	s.Start(t)
	for _, quota := range s.c.allQuotas() {
		if _, err := s.c.statusOf(quota); err != nil {
			t.Fatal(err)
		}
	}
	r.primary.Clear()
	r.priority.Clear()
	r.changes.Clear()
	return s, r
}

// run runs the controller until nothing is to be done.
func (s *subject) run(t *testing.T) (stop func()) {
	t.Helper()
	stop = s.Run(t, s.c)
	s.AwaitIdle(t)
	return stop
}

func quota(hard string, changes ...func(*corev1.ResourceQuota)) *corev1.ResourceQuota {
	q := &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "quota", UID: "quota", ResourceVersion: "1"}, Spec: corev1.ResourceQuotaSpec{Hard: list(hard)}}
	return controllertest.Changed(q, changes...)
}

func status(hard, used string) func(*corev1.ResourceQuota) {
	return func(q *corev1.ResourceQuota) {
		q.Status = corev1.ResourceQuotaStatus{Hard: list(hard), Used: list(used)}
	}
}

func configMap(name string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: types.UID(name)}}
}

// Pins QUOTA-18, QUOTA-19 and QUOTA-60.
func TestQueuesHaveMetrics(t *testing.T) {
	s := newSubject(t)
	var queues []string
	for _, series := range s.Series(t, "workqueue_adds_total") {
		queues = append(queues, strings.TrimPrefix(strings.Fields(series)[0], "name="))
	}
	slices.Sort(queues)
	if want := []string{"resource_quota_controller_resource_changes", "resourcequota_primary", "resourcequota_priority"}; !slices.Equal(queues, want) {
		t.Errorf("queues are %q, want %q", queues, want)
	}
}
