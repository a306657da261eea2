package rootca

import (
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clienttesting "k8s.io/client-go/testing"

	"kcmd.dev/pkg/controller"
	"kcmd.dev/pkg/controllers/kit/reconcile"
	"kcmd.dev/test/controllertest"
	"kcmd.dev/test/must"
)

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
	next := must.Get(newPublisher(env.Env, config{}))(t)
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
			// A running loop always waits for its heartbeat, and for a retry once it is scheduled.
			if len(keys) != 1 || keys[0].State != controller.KeyDelayed || env.Clock.Waiters() != 2 {
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
			p := must.Get(newPublisher(env.Env, config{}))(t)
			env.WantWaitsFor(t, p, resource)
			// The ConfigMap cannot be read: the fake gives the one that it stores to a watch that begins later.
			controllertest.Eventually(t, "a ConfigMap is created", func() bool { return slices.Equal(env.WriteVerbs(), []string{"create"}) })
		})
	}
}
