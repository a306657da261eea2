package serviceaccount

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
	"k8s.io/client-go/tools/cache"

	"kcmd.dev/pkg/config/v1beta1"
	"kcmd.dev/pkg/controller"
	"kcmd.dev/pkg/controllers/kit/reconcile"
	"kcmd.dev/test/controllertest"
	"kcmd.dev/test/must"
)

func start(t testing.TB, objects ...runtime.Object) (*controllertest.Env, *serviceAccountController) {
	t.Helper()
	env := controllertest.New(t, objects...)
	c := must.Get(newController(env.Env))(t)
	env.Start(t)
	env.Fake.ClearActions()
	return env, c
}

// Pins SA-4, SA-9 and SA-15.
func TestReconcileCreatesTheAccountWithNameAndNamespaceOnly(t *testing.T) {
	env, c := start(t, namespace("a", corev1.NamespaceActive), account("a", "other"))
	if err := c.reconcile(env.Context(), "a"); err != nil {
		t.Fatal(err)
	}
	got := env.Writes()
	if len(got) != 1 {
		t.Fatalf("got %d writes, want 1: %v", len(got), got)
	}
	want := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "default"}}
	if diff := cmp.Diff(want, got[0].(clienttesting.CreateAction).GetObject()); diff != "" {
		t.Errorf("created account (-want +got):\n%s", diff)
	}
}

func TestReconcileLeavesEverythingElseAlone(t *testing.T) {
	for name, objects := range map[string][]runtime.Object{
		"SA-14, SA-16: account exists": {namespace("a", corev1.NamespaceActive), account("a", "default")},
		"SA-12: namespace gone":        {},
		"SA-13: namespace terminating": {namespace("a", corev1.NamespaceTerminating)},
	} {
		t.Run(name, func(t *testing.T) {
			env, c := start(t, objects...)
			if err := c.reconcile(env.Context(), "a"); err != nil {
				t.Fatal(err)
			}
			if got := env.Writes(); len(got) != 0 {
				t.Errorf("unexpected writes: %v", got)
			}
		})
	}
}

func TestReconcileRetriesWhatIsNotSettled(t *testing.T) {
	for name, tc := range map[string]struct {
		refusal error
		retry   bool
	}{
		"SA-28: stale cache":            {apierrors.NewAlreadyExists(corev1.Resource("serviceaccounts"), "default"), true},
		"SA-15b: namespace terminating": {terminatingRefusal(), false},
		"SA-34: namespace not found":    {apierrors.NewNotFound(corev1.Resource("namespaces"), "a"), false},
		"SA-34: something not found":    {apierrors.NewNotFound(corev1.Resource("policies"), "p"), true},
		"SA-15c: quota":                 {apierrors.NewForbidden(corev1.Resource("serviceaccounts"), "default", errors.New("exceeded quota")), true},
		"SA-15c: connection lost":       {errors.New("connection refused"), true},
		"SA-15c: internal server error": {apierrors.NewInternalError(errors.New("boom")), true},
		"SA-15c: conflict":              {apierrors.NewConflict(corev1.Resource("serviceaccounts"), "default", errors.New("x")), true},
	} {
		t.Run(name, func(t *testing.T) {
			env, c := start(t, namespace("a", corev1.NamespaceActive))
			env.Fake.PrependReactor("create", "serviceaccounts", func(clienttesting.Action) (bool, runtime.Object, error) {
				return true, nil, tc.refusal
			})
			err := c.reconcile(env.Context(), "a")
			if (err != nil) != tc.retry {
				t.Errorf("reconcile = %v, want retry %v", err, tc.retry)
			}
			if tc.retry && !errors.Is(err, tc.refusal) {
				t.Errorf("reconcile = %v, does not wrap %v", err, tc.refusal)
			}
			if expected := apierrors.IsAlreadyExists(tc.refusal) || apierrors.IsConflict(tc.refusal); reconcile.IsExpected(err) != expected {
				t.Errorf("reconcile = %v, counts as a failure: %v", err, expected)
			}
		})
	}
}

// An account that is created and deleted while the watch is interrupted causes no event. So
// an answer that there is one is believed only until the cache has had time to show it.
// Pins SA-28.
func TestRunMakesAnAccountAgainThatWentUnseen(t *testing.T) {
	for name, answer := range map[string]error{
		"created by somebody else": apierrors.NewAlreadyExists(corev1.Resource("serviceaccounts"), "default"),
		"created here":             nil,
	} {
		t.Run(name, func(t *testing.T) {
			env, c := start(t, namespace("a", corev1.NamespaceActive))
			var answered atomic.Bool
			env.Fake.PrependReactor("create", "serviceaccounts", func(clienttesting.Action) (bool, runtime.Object, error) {
				return answered.CompareAndSwap(false, true), account("a", "default"), answer
			})
			env.Run(t, c)
			env.EventuallyAsTimePasses(t, "there is an account", time.Second, func() bool {
				_, err := env.Client.CoreV1().ServiceAccounts("a").Get(t.Context(), "default", metav1.GetOptions{})
				return err == nil
			})
		})
	}
}

// However long the watch is interrupted: no pod is admitted without the account. Pins SA-33.
func TestAnAccountThatTheCacheDoesNotShowIsReconciledAgainSoon(t *testing.T) {
	env, c := start(t, namespace("a", corev1.NamespaceActive))
	env.Refuse("create serviceaccounts", apierrors.NewAlreadyExists(corev1.Resource("serviceaccounts"), "default"))
	env.Run(t, c)
	var longest time.Duration
	env.EventuallyAsTimePasses(t, "the create is refused often", time.Second, func() bool {
		longest = max(longest, env.LongestDelay(c.loop.Keys(anyKey)))
		return len(env.Writes()) >= 15
	})
	if longest > reconcile.RecheckAfter {
		t.Errorf("the namespace is looked at again in %v", longest)
	}
}

// The API server may refuse because of a namespace that is gone, while the cache shows the one of the same name that
// was created since. Pins SA-32.
func TestRunTriesAgainInANamespaceThatIsActive(t *testing.T) {
	env, c := start(t, namespace("a", corev1.NamespaceActive))
	env.RefuseIf("create serviceaccounts", terminatingRefusal(), func(n int) bool { return n == 1 })
	env.Run(t, c)
	env.EventuallyAsTimePasses(t, "there is an account", time.Second, func() bool {
		_, ok := controllertest.Stored[*corev1.ServiceAccount](t, env, "a", "default")
		return ok
	})
}

// Pins SA-32.
func TestANamespaceThatIsTerminatingCostsOneRefusal(t *testing.T) {
	env, c := start(t, namespace("a", corev1.NamespaceActive))
	env.Refuse("create serviceaccounts", terminatingRefusal())
	env.Run(t, c)
	controllertest.Eventually(t, "the create is refused", func() bool { return len(env.Writes()) == 1 })
	env.Store(t, namespace("a", corev1.NamespaceTerminating))
	controllertest.Eventually(t, "the cache shows why", func() bool {
		ns, err := c.namespaces.Get("a")
		return err == nil && ns.Status.Phase == corev1.NamespaceTerminating
	})
	env.EventuallyAsTimePasses(t, "the namespace is looked at again", time.Second, func() bool { return c.loop.Inspect().Reconciled > 1 })
	if got := env.Writes(); len(got) != 1 {
		t.Errorf("writes are %v, want the refused create alone", got)
	}
}

// Pins SA-21.
func TestAnAccountHeldByAFinalizerIsReplacedOnceItIsGone(t *testing.T) {
	held := account("a", "default")
	deleting(&held.ObjectMeta)
	env, c := start(t, namespace("a", corev1.NamespaceActive), held)
	env.Run(t, c)
	controllertest.Eventually(t, "the namespace is looked at", func() bool { return c.loop.Inspect().Reconciled > 0 })
	if got := env.Writes(); len(got) != 0 {
		t.Errorf("writes are %v while the account is held", got)
	}
	env.Remove(t, held)
	awaitAccount(t, env, "a")
}

// Once it is there, no request is sent and no key waits. Pins SA-25 and SA-28.
func TestAnAccountThatTheCacheShowsCostsNoFurtherRequest(t *testing.T) {
	env, c := start(t, namespace("a", corev1.NamespaceActive))
	env.Run(t, c)
	awaitAccount(t, env, "a")
	controllertest.Eventually(t, "the cache shows it", func() bool {
		_, err := c.accounts.ServiceAccounts("a").Get("default")
		return err == nil
	})
	env.EventuallyAsTimePasses(t, "the namespace is looked at again", time.Second, func() bool { return c.loop.Inspect().Reconciled > 1 })
	awaitNothingToDo(t, env, c)
	if got := env.Writes(); len(got) != 1 {
		t.Errorf("writes are %v, want the create alone", got)
	}
}

// awaitNothingToDo waits until no key waits, not even for its time.
func awaitNothingToDo(t testing.TB, env *controllertest.Env, c *serviceAccountController) {
	t.Helper()
	env.AwaitIdle(t)
	controllertest.Eventually(t, "no key waits", func() bool { return len(c.loop.Keys(anyKey)) == 0 })
}

func anyKey(string) bool { return true }

// Failures delay a key as they do by default, and it is tried as often as it takes. The first create of a
// namespace is not delayed. Pins SA-18 and SA-22.
func TestARefusedCreateIsRetriedWithoutLimit(t *testing.T) {
	env, c := start(t, namespace("a", corev1.NamespaceActive))
	const refusals = 30
	env.RefuseIf("create serviceaccounts", errors.New("refused"), func(n int) bool { return n <= refusals })
	env.Run(t, c)
	controllertest.Eventually(t, "the create is refused", func() bool { return len(env.Writes()) == 1 })
	for i, want := range []time.Duration{5 * time.Millisecond, 10 * time.Millisecond, 20 * time.Millisecond} {
		var key controller.LoopKey
		controllertest.Eventually(t, "the key waits for its time", func() bool {
			keys := c.loop.Keys(anyKey)
			// A running loop always waits for its heartbeat, and for a retry once it is scheduled.
			if len(keys) != 1 || keys[0].State != controller.KeyDelayed || env.Clock.Waiters() != 2 {
				return false
			}
			key = keys[0]
			return true
		})
		if got := key.Until.Sub(env.Clock.Now()); got != want {
			t.Errorf("retry %d comes after %v, want %v", i+1, got, want)
		}
		env.Clock.Step(want)
		controllertest.Eventually(t, "the create is tried again", func() bool { return len(env.Writes()) == i+2 })
	}
	env.EventuallyAsTimePasses(t, "there is an account", 1000*time.Second, func() bool {
		_, ok := controllertest.Stored[*corev1.ServiceAccount](t, env, "a", "default")
		return ok
	})
	// Time passes until the account is seen: it may be created once more if the cache does not show it by then.
	if got := len(env.Writes()); got <= refusals {
		t.Errorf("the create was sent %d times, want at least %d", got, refusals+1)
	}
}

// Pins SA-18 and SA-22.
func TestNothingIsResynced(t *testing.T) {
	_, c := start(t)
	namespaces, accounts := &controllertest.Captured{Resync: time.Hour}, &controllertest.Captured{Resync: time.Hour}
	c.watch(namespaces, accounts)
	if namespaces.Resync != 0 || accounts.Resync != 0 {
		t.Errorf("the periods are %v and %v", namespaces.Resync, accounts.Resync)
	}
}

// Pins SA-5.
func TestAllNamespacesAndAccountsAreCached(t *testing.T) {
	env := controllertest.New(t)
	if _, err := newController(env.Env); err != nil {
		t.Fatal(err)
	}
	env.Start(t)
	got := map[string]string{}
	for _, action := range env.Fake.Actions() {
		if list, ok := action.(clienttesting.ListActionImpl); ok {
			got[list.Resource.Resource] = list.Namespace + list.ListOptions.FieldSelector + list.ListOptions.LabelSelector
		}
	}
	if diff := cmp.Diff(map[string]string{"namespaces": "", "serviceaccounts": ""}, got); diff != "" {
		t.Errorf("lists (-want +got):\n%s", diff)
	}
	if _, err := env.Informers.Core().V1().ServiceAccounts().Informer().GetIndexer().ByIndex(cache.NamespaceIndex, "a"); err != nil {
		t.Errorf("accounts are not indexed by namespace: %v", err)
	}
}

// Nothing begins while one of the caches is missing. Pins SA-8.
func TestRunWaitsForBothCaches(t *testing.T) {
	for _, resource := range []string{"namespaces", "serviceaccounts"} {
		t.Run(resource, func(t *testing.T) {
			t.Parallel()
			env := controllertest.New(t, namespace("a", corev1.NamespaceActive), account("a", "default"))
			c := must.Get(newController(env.Env))(t)
			env.WantWaitsFor(t, c, resource)
			controllertest.Eventually(t, "the namespace is looked at", func() bool { return c.loop.Inspect().Reconciled == 1 })
			if got := env.Writes(); len(got) != 0 {
				t.Errorf("writes are %v, although there is an account", got)
			}
		})
	}
}

// A successor looks at every namespace, and asks the API server for nothing where there is an account.
// Pins SA-24.
func TestASuccessorMakesWhatWasDeletedMeanwhile(t *testing.T) {
	env, c := start(t, namespace("a", corev1.NamespaceActive), account("a", "default"), namespace("b", corev1.NamespaceActive),
		account("b", "default"), namespace("c", corev1.NamespaceTerminating))
	stop := env.Run(t, c)
	controllertest.Eventually(t, "all namespaces are looked at", func() bool { return c.loop.Inspect().Reconciled == 3 })
	stop()
	env.Remove(t, account("b", "default"))
	controllertest.Eventually(t, "the cache shows the deletion", func() bool {
		_, err := c.accounts.ServiceAccounts("b").Get("default")
		return err != nil
	})
	env.Succeed(nil)
	next := must.Get(newController(env.Env))(t)
	env.Run(t, next)
	controllertest.Eventually(t, "all namespaces are looked at again", func() bool { return next.loop.Inspect().Reconciled == 3 })
	if got := env.Fake.Actions(); len(got) != 1 || !got[0].Matches("create", "serviceaccounts") || got[0].GetNamespace() != "b" {
		t.Errorf("requests are %v, want the create in b alone", got)
	}
}

// Pins SA-17.
func TestOnlyTheQueueIsMeasuredAndThereAreNoEvents(t *testing.T) {
	env, c := start(t, namespace("a", corev1.NamespaceActive), namespace("b", corev1.NamespaceActive))
	env.RefuseIf("create serviceaccounts", errors.New("refused"), func(n int) bool { return n == 1 })
	env.Run(t, c)
	env.EventuallyAsTimePasses(t, "there are accounts", time.Second, func() bool {
		return len(controllertest.AllStored[*corev1.ServiceAccount](t, env, "")) == 2
	})
	env.WantOnlyQueueMetrics(t)
	if got, want := env.Series(t, "workqueue_retries_total"), []string{"name=serviceaccount 1"}; !slices.Equal(got, want) {
		t.Errorf("retries are %q, want %q", got, want)
	}
	env.WantEvents(t)
}

// Pins SA-6, SA-7 and SA-31.
func TestRunKeepsTheAccountOfActiveNamespaces(t *testing.T) {
	env, c := start(t, namespace("a", corev1.NamespaceActive), namespace("later", ""), account("a", "other"))
	env.Run(t, c)
	ctx := env.Context()

	awaitAccount(t, env, "a")
	accounts := env.Client.CoreV1().ServiceAccounts("a")
	if err := accounts.Delete(ctx, "default", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	awaitAccount(t, env, "a")

	if _, err := env.Client.CoreV1().Namespaces().Update(ctx, namespace("later", corev1.NamespaceActive), metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	awaitAccount(t, env, "later")
	if _, err := env.Client.CoreV1().Namespaces().Create(ctx, namespace("new", corev1.NamespaceActive), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	awaitAccount(t, env, "new")
}

// Pins SA-27 and SA-29.
func TestDeletingAnotherAccountQueuesNothing(t *testing.T) {
	env, c := start(t, account("a", "other"), account("b", "default"))
	for _, a := range []*corev1.ServiceAccount{account("a", "other"), account("b", "default")} {
		if err := env.Client.CoreV1().ServiceAccounts(a.Namespace).Delete(env.Context(), a.Name, metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	// Notifications of one informer arrive in order, so once b is queued a was not.
	controllertest.Eventually(t, "a key is queued", func() bool { return c.loop.Inspect().Depth > 0 })
	if keys := c.loop.Keys(anyKey); len(keys) != 1 || keys[0].Trigger != "ServiceAccount b/default deleted" {
		t.Errorf("keys are %+v, want that of b alone", keys)
	}
}

// Pins SA-4, SA-11 and SA-30.
func TestDescriptor(t *testing.T) {
	d := Descriptor()
	cfg := v1beta1.NewDefault()
	before := d.Value(cfg)
	if d.Value(&v1beta1.KubeControllerManagerConfiguration{}) != before {
		t.Error("it depends on the configuration")
	}
	c := must.Get(d.New(controllertest.New(t).Env, before))(t)
	if s := c.(*serviceAccountController).loop.Inspect(); s.Queue != "serviceaccount" || s.Workers != 5 {
		t.Errorf("the loop is %+v", s)
	}
}

func awaitAccount(t testing.TB, env *controllertest.Env, namespace string) {
	t.Helper()
	controllertest.Eventually(t, "there is an account in "+namespace, func() bool {
		_, err := env.Client.CoreV1().ServiceAccounts(namespace).Get(t.Context(), "default", metav1.GetOptions{})
		return err == nil
	})
}

func BenchmarkReconcile(b *testing.B) {
	for _, namespaces := range []int{10, 10_000} {
		b.Run(fmt.Sprintf("namespaces=%d", namespaces), func(b *testing.B) {
			var objects []runtime.Object
			for i := range namespaces {
				name := fmt.Sprintf("ns-%d", i)
				objects = append(objects, namespace(name, corev1.NamespaceActive), account(name, "default"))
			}
			env, c := start(b, objects...)
			b.ReportAllocs()
			for b.Loop() {
				if err := c.reconcile(env.Context(), "ns-5"); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
