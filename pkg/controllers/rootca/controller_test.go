package rootca

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	corelisters "k8s.io/client-go/listers/core/v1"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/component-base/metrics/testutil"

	"kcmd.dev/pkg/config/v1beta1"
	"kcmd.dev/pkg/controller"
	"kcmd.dev/pkg/controllers/kit/reconcile"
	"kcmd.dev/test/controllertest"
)

func namespace(name string, phase corev1.NamespacePhase) *corev1.Namespace {
	return &corev1.Namespace{
		ObjectMeta: metav1.ObjectMeta{Name: name, ResourceVersion: "1"},
		Status:     corev1.NamespaceStatus{Phase: phase},
	}
}

func start(t testing.TB, objects ...runtime.Object) (*controllertest.Env, *publisher) {
	t.Helper()
	env := controllertest.New(t, objects...)
	env.ClusterCA = []byte("bundle")
	p, err := newPublisher(env.Env, config{})
	if err != nil {
		t.Fatal(err)
	}
	env.Start(t)
	env.Fake.ClearActions()
	return env, p
}

func TestReconcileWrites(t *testing.T) {
	wrong := configMap(func(cm *corev1.ConfigMap) { cm.Data[bundleKey] = "" })
	for name, tc := range map[string]struct {
		objects []runtime.Object
		verb    string
		want    *corev1.ConfigMap
	}{
		"ROOTCA-10, ROOTCA-15: missing in an active namespace": {[]runtime.Object{namespace("a", corev1.NamespaceActive)}, "create", newConfigMap("a", "bundle")},
		"ROOTCA-8: missing in a namespace to be":               {[]runtime.Object{namespace("a", "")}, "create", newConfigMap("a", "bundle")},
		"ROOTCA-36: missing in a leaving namespace":            {[]runtime.Object{namespace("a", corev1.NamespaceTerminating)}, "", nil},
		"ROOTCA-36: missing, namespace gone":                   {nil, "", nil},
		"ROOTCA-16: correct":                                   {[]runtime.Object{namespace("a", corev1.NamespaceActive), configMap(nil)}, "", nil},
		"ROOTCA-11, ROOTCA-17: wrong":                          {[]runtime.Object{namespace("a", corev1.NamespaceActive), wrong}, "update", configMap(nil)},
		"ROOTCA-17: wrong in a terminating namespace":          {[]runtime.Object{namespace("a", corev1.NamespaceTerminating), wrong}, "update", configMap(nil)},
	} {
		t.Run(name, func(t *testing.T) {
			env, p := start(t, tc.objects...)
			if err := p.reconcile(env.Context(), "a"); err != nil {
				t.Fatal(err)
			}
			got := env.Fake.Actions()
			if tc.verb == "" {
				if len(got) != 0 {
					t.Fatalf("unexpected requests: %v", got)
				}
				return
			}
			if len(got) != 1 || got[0].GetVerb() != tc.verb {
				t.Fatalf("got %v, want one %s", got, tc.verb)
			}
			if diff := cmp.Diff(tc.want, got[0].(clienttesting.UpdateAction).GetObject()); diff != "" {
				t.Errorf("%s (-want +got):\n%s", tc.verb, diff)
			}
		})
	}
}

// failingLister is a cache that cannot be read.
type failingLister struct {
	corelisters.ConfigMapLister
	corelisters.ConfigMapNamespaceLister
	err error
}

// ConfigMaps implements corelisters.ConfigMapLister.
func (l failingLister) ConfigMaps(string) corelisters.ConfigMapNamespaceLister { return l }

// List implements corelisters.ConfigMapLister.
func (l failingLister) List(labels.Selector) ([]*corev1.ConfigMap, error) { return nil, l.err }

// Get implements corelisters.ConfigMapNamespaceLister.
func (l failingLister) Get(string) (*corev1.ConfigMap, error) { return nil, l.err }

// Pins ROOTCA-14.
func TestACacheThatCannotBeReadIsReadAgain(t *testing.T) {
	env, p := start(t, namespace("a", corev1.NamespaceActive))
	p.configMaps = failingLister{err: errors.New("no such index")}
	if err := p.reconcile(env.Context(), "a"); err == nil || !strings.Contains(err.Error(), "no such index") {
		t.Errorf("reconcile = %v", err)
	}
	if got := env.Fake.Actions(); len(got) != 0 {
		t.Errorf("unexpected requests: %v", got)
	}
}

func TestReconcileRetries(t *testing.T) {
	resource := corev1.Resource("configmaps")
	for name, tc := range map[string]struct {
		verb    string
		refusal error
		retry   bool
	}{
		"ROOTCA-15: create in a terminating namespace":     {"create", terminatingRefusal(), false},
		"ROOTCA-15: create in a gone namespace":            {"create", apierrors.NewNotFound(corev1.Resource("namespaces"), "a"), false},
		"ROOTCA-15: create of what exists":                 {"create", apierrors.NewAlreadyExists(resource, configMapName), true},
		"ROOTCA-17, ROOTCA-27: update of a stale copy":     {"update", apierrors.NewConflict(resource, configMapName, errors.New("stale")), true},
		"ROOTCA-17, ROOTCA-29: update of an immutable map": {"update", apierrors.NewInvalid(corev1.SchemeGroupVersion.WithKind("ConfigMap").GroupKind(), configMapName, nil), true},
		"ROOTCA-17: update of a deleted map":               {"update", apierrors.NewNotFound(resource, configMapName), true},
	} {
		t.Run(name, func(t *testing.T) {
			objects := []runtime.Object{namespace("a", corev1.NamespaceActive)}
			if tc.verb == "update" {
				objects = append(objects, configMap(func(cm *corev1.ConfigMap) { cm.Data = nil }))
			}
			env, p := start(t, objects...)
			env.Fake.PrependReactor(tc.verb, "configmaps", func(clienttesting.Action) (bool, runtime.Object, error) {
				return true, nil, tc.refusal
			})
			if err := p.reconcile(env.Context(), "a"); (err != nil) != tc.retry {
				t.Errorf("reconcile = %v, want retry %v", err, tc.retry)
			}
		})
	}
}

// A ConfigMap that is created and deleted while the watch is interrupted causes no event.
// Pins ROOTCA-37.
func TestRunMakesAConfigMapAgainThatWentUnseen(t *testing.T) {
	env, p := start(t, namespace("a", corev1.NamespaceActive))
	var answered atomic.Bool
	env.Fake.PrependReactor("create", "configmaps", func(clienttesting.Action) (bool, runtime.Object, error) {
		return answered.CompareAndSwap(false, true), configMap(nil), nil
	})
	env.Run(t, p)
	env.EventuallyAsTimePasses(t, "there is a ConfigMap", time.Second, func() bool {
		_, err := env.Client.CoreV1().ConfigMaps("a").Get(t.Context(), configMapName, metav1.GetOptions{})
		return err == nil
	})
}

// However long the watch is interrupted: no pod starts without the ConfigMap. Pins ROOTCA-46.
func TestAConfigMapThatTheCacheDoesNotShowIsReconciledAgainSoon(t *testing.T) {
	env, p := start(t, namespace("a", corev1.NamespaceActive))
	env.Refuse("create configmaps", apierrors.NewAlreadyExists(corev1.Resource("configmaps"), configMapName))
	env.Run(t, p)
	var longest time.Duration
	env.EventuallyAsTimePasses(t, "the create is refused often", time.Second, func() bool {
		longest = max(longest, env.LongestDelay(p.loop.Keys(func(string) bool { return true })))
		return len(env.Writes()) >= 15
	})
	if longest > reconcile.RecheckAfter {
		t.Errorf("the namespace is reconciled again in %v", longest)
	}
}

// The API server may refuse because of a namespace that is gone, while the cache shows the one of the same name that
// was created since. Pins ROOTCA-42.
func TestRunTriesAgainInANamespaceThatIsActive(t *testing.T) {
	for name, refusal := range map[string]error{
		"terminating": terminatingRefusal(),
		"not found":   apierrors.NewNotFound(corev1.Resource("namespaces"), "a"),
	} {
		t.Run(name, func(t *testing.T) {
			env, p := start(t, namespace("a", corev1.NamespaceActive))
			env.RefuseIf("create configmaps", refusal, func(n int) bool { return n == 1 })
			env.Run(t, p)
			env.EventuallyAsTimePasses(t, "there is a ConfigMap", time.Second, func() bool {
				_, ok := controllertest.Stored[*corev1.ConfigMap](t, env, "a", configMapName)
				return ok
			})
		})
	}
}

// One that is new costs a create, one with another bundle an update, and one that is deleted nothing.
// Pins ROOTCA-32.
func TestWritesInTheLifeOfANamespace(t *testing.T) {
	env, p := start(t)
	env.CompleteWrites("configmaps")
	stop := env.Run(t, p)
	written := func(p *publisher, want ...string) {
		t.Helper()
		controllertest.Eventually(t, "the cache shows the bundle", func() bool {
			cm, err := p.configMaps.ConfigMaps("a").Get(configMapName)
			return err == nil && correct(cm, p.bundle)
		})
		env.AwaitIdle(t)
		before := p.loop.Inspect().Reconciled
		p.loop.Add("a")
		controllertest.Eventually(t, "the namespace is looked at again", func() bool { return p.loop.Inspect().Reconciled > before })
		if diff := cmp.Diff(want, env.WriteVerbs()); diff != "" {
			t.Errorf("writes (-want +got):\n%s", diff)
		}
	}
	env.Store(t, namespace("a", corev1.NamespaceActive))
	written(p, "create")

	stop()
	env.Succeed(nil)
	env.ClusterCA = []byte("another bundle")
	next, err := newPublisher(env.Env, config{})
	if err != nil {
		t.Fatal(err)
	}
	env.Start(t)
	env.Fake.ClearActions()
	env.Run(t, next)
	written(next, "update")

	env.Fake.ClearActions()
	env.Store(t, namespace("a", corev1.NamespaceTerminating))
	controllertest.Eventually(t, "the cache shows that it is deleted", func() bool {
		ns, err := next.namespaces.Get("a")
		return err == nil && leaving(ns)
	})
	before := next.loop.Inspect().Reconciled
	env.Remove(t, newConfigMap("a", ""))
	controllertest.Eventually(t, "the deletion of the ConfigMap is noticed", func() bool { return next.loop.Inspect().Reconciled > before })
	if got := env.Writes(); len(got) != 0 {
		t.Errorf("writes are %v in a namespace that is deleted", got)
	}
}

// Pins ROOTCA-38.
func TestThereAreFiveWorkers(t *testing.T) {
	if _, p := start(t); p.loop.Inspect().Workers != 5 {
		t.Errorf("the loop is %+v", p.loop.Inspect())
	}
}

// An instance that begins looks at every namespace, also at one that leaves, and each ConfigMap with another bundle costs one
// update. Pins ROOTCA-31 and ROOTCA-33.
func TestAnInstanceThatBeginsPublishesItsBundleEverywhere(t *testing.T) {
	old := func(namespace string) *corev1.ConfigMap {
		cm := newConfigMap(namespace, "old bundle")
		cm.ResourceVersion = "1"
		return cm
	}
	right := newConfigMap("d", "bundle")
	right.ResourceVersion = "1"
	env, p := start(t, namespace("a", corev1.NamespaceActive), namespace("b", corev1.NamespaceActive), namespace("c", corev1.NamespaceTerminating),
		namespace("d", corev1.NamespaceActive), old("a"), old("b"), old("c"), right)
	env.CompleteWrites("configmaps")
	env.Run(t, p)
	controllertest.Eventually(t, "the caches show the bundle", func() bool {
		for _, name := range []string{"a", "b", "c", "d"} {
			if cm, err := p.configMaps.ConfigMaps(name).Get(configMapName); err != nil || !correct(cm, "bundle") {
				return false
			}
		}
		return true
	})
	// Four namespaces, and the events of three ConfigMaps.
	controllertest.Eventually(t, "nothing is left to do", func() bool { return p.loop.Inspect().Reconciled >= 4 && env.Idle() })
	updated := map[string]int{}
	for _, action := range env.Fake.Actions() {
		updated[action.GetVerb()+" "+action.GetNamespace()]++
	}
	if diff := cmp.Diff(map[string]int{"update a": 1, "update b": 1, "update c": 1}, updated); diff != "" {
		t.Errorf("requests (-want +got):\n%s", diff)
	}
}

// Failures delay a key as they do by default, and it is tried as often as it takes.
// Pins ROOTCA-13, ROOTCA-23 and ROOTCA-24.
func TestARefusedUpdateIsRetriedWithoutLimit(t *testing.T) {
	env, p := start(t, namespace("a", corev1.NamespaceActive), configMap(func(cm *corev1.ConfigMap) { cm.Data = nil }))
	const refusals = 30
	conflict := apierrors.NewConflict(corev1.Resource("configmaps"), configMapName, errors.New("stale"))
	env.RefuseIf("update configmaps", conflict, func(n int) bool { return n <= refusals })
	env.Run(t, p)
	controllertest.Eventually(t, "the update is refused", func() bool { return len(env.Writes()) == 1 })
	for i, want := range []time.Duration{5 * time.Millisecond, 10 * time.Millisecond, 20 * time.Millisecond} {
		var key controller.LoopKey
		controllertest.Eventually(t, "the key waits for its time", func() bool {
			keys := p.loop.Keys(func(string) bool { return true })
			if len(keys) != 1 || keys[0].State != controller.KeyDelayed {
				return false
			}
			key = keys[0]
			return true
		})
		if got := key.Until.Sub(env.Clock.Now()); key.Key != "a" || got != want {
			t.Errorf("retry %d of %s comes after %v, want %v", i+1, key.Key, got, want)
		}
		env.Clock.Step(want)
		controllertest.Eventually(t, "the update is tried again", func() bool { return len(env.Writes()) == i+2 })
	}
	env.EventuallyAsTimePasses(t, "the ConfigMap is correct", 1000*time.Second, func() bool {
		return correct(controllertest.MustStored[*corev1.ConfigMap](t, env, "a", configMapName), "bundle")
	})
	if got := len(env.Writes()); got != refusals+1 {
		t.Errorf("the update was sent %d times, want %d", got, refusals+1)
	}
	controllertest.Eventually(t, "the failures are forgotten", func() bool { return p.loop.Retries("a") == 0 })
	if got, want := env.Series(t, "workqueue_retries_total"), []string{fmt.Sprint("name=root_ca_cert_publisher ", refusals)}; !slices.Equal(got, want) {
		t.Errorf("retries are %q, want %q", got, want)
	}
}

// A namespace that is not cached counts as gone, so nothing begins before both caches are complete. Pins ROOTCA-45.
func TestRunWaitsForBothCaches(t *testing.T) {
	for _, resource := range []string{"namespaces", "configmaps"} {
		t.Run(resource, func(t *testing.T) {
			t.Parallel()
			env := controllertest.New(t, namespace("a", corev1.NamespaceActive))
			p, err := newPublisher(env.Env, config{})
			if err != nil {
				t.Fatal(err)
			}
			env.WantWaitsFor(t, p, resource)
			// The ConfigMap cannot be read: the fake gives the one that it stores to a watch that begins later.
			controllertest.Eventually(t, "a ConfigMap is created", func() bool { return slices.Equal(env.WriteVerbs(), []string{"create"}) })
		})
	}
}

// Pins ROOTCA-6.
func TestResyncsFollowTheController(t *testing.T) {
	_, p := start(t)
	const untouched = time.Hour
	namespaces, configMaps := &controllertest.Captured{Resync: untouched}, &controllertest.Captured{Resync: untouched}
	p.watch(namespaces, configMaps)
	if namespaces.Resync != untouched || configMaps.Resync != untouched {
		t.Errorf("the handlers have periods of their own: %v and %v", namespaces.Resync, configMaps.Resync)
	}
	namespaces.Handler.OnUpdate(namespace("a", corev1.NamespaceActive), namespace("a", corev1.NamespaceActive))
	configMaps.Handler.OnUpdate(newConfigMap("b", "x"), newConfigMap("b", "x"))
	if depth := p.loop.Inspect().Depth; depth != 2 {
		t.Errorf("depth = %d after resyncs, want 2", depth)
	}
}

// Pins ROOTCA-6 and ROOTCA-40.
func TestOnlyConfigMapsOfThisNameAreCached(t *testing.T) {
	env := controllertest.New(t)
	if _, err := newPublisher(env.Env, config{}); err != nil {
		t.Fatal(err)
	}
	env.Start(t)
	got := map[string]string{}
	for _, action := range env.Fake.Actions() {
		if list, ok := action.(clienttesting.ListActionImpl); ok {
			got[list.Resource.Resource] = list.Namespace + list.ListOptions.FieldSelector
		}
	}
	if diff := cmp.Diff(map[string]string{"namespaces": "", "configmaps": "metadata.name=kube-root-ca.crt"}, got); diff != "" {
		t.Errorf("lists (-want +got):\n%s", diff)
	}
}

// Pins ROOTCA-19, ROOTCA-20, ROOTCA-21 and ROOTCA-22.
func TestMetricsCountEveryReconcileByCode(t *testing.T) {
	env, p := start(t, namespace("a", corev1.NamespaceActive), namespace("b", corev1.NamespaceActive))
	env.Fake.PrependReactor("create", "configmaps", func(action clienttesting.Action) (bool, runtime.Object, error) {
		if action.GetNamespace() == "b" {
			return true, nil, apierrors.NewAlreadyExists(corev1.Resource("configmaps"), configMapName)
		}
		env.Clock.Step(3 * time.Millisecond)
		return false, nil, nil
	})
	_ = p.measured(env.Context(), "a")
	_ = p.measured(env.Context(), "gone")
	if err := p.measured(env.Context(), "b"); err == nil {
		t.Error("measured hides the error")
	}
	env.WantEvents(t)
	want := `
# HELP root_ca_cert_publisher_sync_total [ALPHA] Number of namespace syncs happened in root ca cert publisher.
# TYPE root_ca_cert_publisher_sync_total counter
root_ca_cert_publisher_sync_total{code="200"} 2
root_ca_cert_publisher_sync_total{code="409"} 1
`
	if err := testutil.GatherAndCompare(env.Metrics, strings.NewReader(want), "root_ca_cert_publisher_sync_total"); err != nil {
		t.Error(err)
	}
	families, err := env.Metrics.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range families {
		if family.GetName() != "root_ca_cert_publisher_sync_duration_seconds" {
			continue
		}
		if help := family.GetHelp(); help != "[ALPHA] Number of namespace syncs happened in root ca cert publisher." {
			t.Errorf("the help is %q", help)
		}
		buckets := family.GetMetric()[0].GetHistogram().GetBucket()
		if first, last := buckets[0].GetUpperBound(), buckets[len(buckets)-1].GetUpperBound(); len(buckets) != 15 || first != 0.001 || last != 16.384 {
			t.Errorf("%d buckets from %v to %v, want 15 from 0.001 to 16.384", len(buckets), first, last)
		}
		if sum := family.GetMetric()[0].GetHistogram().GetSampleSum(); sum != 0.003 {
			t.Errorf("seconds of code 200 = %v, want 0.003", sum)
		}
		return
	}
	t.Error("no duration metric")
}

// Pins ROOTCA-7.
func TestRunRestoresTheConfigMap(t *testing.T) {
	env, p := start(t, namespace("a", corev1.NamespaceActive))
	env.Run(t, p)
	ctx := env.Context()
	configMaps := env.Client.CoreV1().ConfigMaps("a")
	restored := func() {
		t.Helper()
		controllertest.Eventually(t, "the ConfigMap is correct", func() bool {
			cm, err := configMaps.Get(ctx, configMapName, metav1.GetOptions{})
			return err == nil && correct(cm, "bundle")
		})
		controllertest.Eventually(t, "the cache shows it", func() bool {
			_, err := p.configMaps.ConfigMaps("a").Get(configMapName)
			return err == nil
		})
	}

	restored()
	if err := configMaps.Delete(ctx, configMapName, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	restored()

	broken, err := configMaps.Get(ctx, configMapName, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	broken.Data = map[string]string{bundleKey: ""}
	if _, err := configMaps.Update(ctx, broken, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	restored()
}

// Pins ROOTCA-7.
func TestOtherConfigMapsQueueNothing(t *testing.T) {
	_, p := start(t)
	other := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "other", ResourceVersion: "1"}}
	p.enqueueOwnerOf(reconcile.Fresh, other)
	if depth := p.loop.Inspect().Depth; depth != 0 {
		t.Errorf("depth = %d after an event of another ConfigMap", depth)
	}
	p.enqueueOwnerOf(reconcile.Fresh, newConfigMap("a", "x"))
	if depth := p.loop.Inspect().Depth; depth != 1 {
		t.Errorf("depth = %d after an event of the ConfigMap, want 1", depth)
	}
}

// Pins ROOTCA-8.
func TestUpdatesOfTerminatingNamespacesQueueNothing(t *testing.T) {
	var objects []runtime.Object
	for _, name := range []string{"a", "b"} {
		cm := newConfigMap(name, "bundle")
		cm.ResourceVersion = "1"
		objects = append(objects, namespace(name, corev1.NamespaceActive), cm)
	}
	env, p := start(t, objects...)
	env.Run(t, p)
	reconciled := func(want uint64) {
		t.Helper()
		controllertest.Eventually(t, "the namespaces are reconciled", func() bool { return p.loop.Inspect().Reconciled >= want })
	}
	reconciled(2)
	for _, ns := range []*corev1.Namespace{namespace("a", corev1.NamespaceTerminating), namespace("b", corev1.NamespaceActive)} {
		ns.ResourceVersion = "2"
		if _, err := env.Client.CoreV1().Namespaces().Update(env.Context(), ns, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	// Notifications arrive in order: once b has been reconciled, a was passed over.
	reconciled(3)
	if s := p.loop.Inspect(); s.Reconciled != 3 || s.Depth != 0 || len(s.InFlight) != 0 {
		t.Errorf("more than the update of b was queued: %+v", s)
	}
}

func TestDescriptor(t *testing.T) {
	d := Descriptor()
	cfg := v1beta1.NewDefault()
	if files := d.Files(d.Value(cfg)); len(files) != 0 {
		t.Errorf("files = %v without a root CA file", files)
	}
	missing := filepath.Join(t.TempDir(), "ca.crt")
	cfg.ServiceAccounts.RootCAFile = missing
	value := d.Value(cfg)
	if diff := cmp.Diff([]string{missing}, d.Files(value)); diff != "" {
		t.Errorf("files (-want +got):\n%s", diff)
	}
	env := controllertest.New(t)
	if c, err := d.New(env.Env, value); err == nil || c != nil {
		t.Errorf("New = %v, %v with an unreadable file", c, err)
	}
	if err := os.WriteFile(missing, certificate(t), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := d.New(env.Env, value); err != nil {
		t.Errorf("New = %v", err)
	}
}

func BenchmarkReconcile(b *testing.B) {
	for _, namespaces := range []int{10, 10_000} {
		b.Run(fmt.Sprintf("namespaces=%d", namespaces), func(b *testing.B) {
			var objects []runtime.Object
			for i := range namespaces {
				name := fmt.Sprintf("ns-%d", i)
				cm := newConfigMap(name, "bundle")
				cm.ResourceVersion = "1"
				objects = append(objects, namespace(name, corev1.NamespaceActive), cm)
			}
			env, p := start(b, objects...)
			b.ReportAllocs()
			for b.Loop() {
				if err := p.reconcile(env.Context(), "ns-5"); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
