package serviceaccount

import (
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clienttesting "k8s.io/client-go/testing"

	"kcmd.dev/pkg/config/v1beta1"
	"kcmd.dev/pkg/controllers/kit/reconcile"
	"kcmd.dev/test/controllertest"
)

func start(t testing.TB, objects ...runtime.Object) (*controllertest.Env, *serviceAccountController) {
	t.Helper()
	env := controllertest.New(t, objects...)
	c, err := newController(env.Env, config{})
	if err != nil {
		t.Fatal(err)
	}
	env.Start(t)
	env.Fake.ClearActions()
	return env, c
}

// Pins SA-15.
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
		"SA-15c: namespace not found":   {apierrors.NewNotFound(corev1.Resource("namespaces"), "a"), true},
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
			if expected := apierrors.IsAlreadyExists(tc.refusal); reconcile.IsRequeue(err) != expected {
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

// Pins SA-28.
func TestAnAccountThatTheCacheShowsCostsNoFurtherRequest(t *testing.T) {
	env, c := start(t, namespace("a", corev1.NamespaceActive))
	env.Run(t, c)
	awaitAccount(t, env, "a")
	controllertest.Eventually(t, "the cache shows it", func() bool {
		_, err := c.accounts.ServiceAccounts("a").Get("default")
		return err == nil
	})
	env.EventuallyAsTimePasses(t, "the namespace is looked at again", time.Second, func() bool { return c.loop.Inspect().Reconciled > 1 })
	if got := env.Writes(); len(got) != 1 {
		t.Errorf("writes are %v, want the create alone", got)
	}
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

// Pins SA-29.
func TestDeletingAnotherAccountQueuesNothing(t *testing.T) {
	env, c := start(t, account("a", "other"), account("b", "default"))
	for _, a := range []*corev1.ServiceAccount{account("a", "other"), account("b", "default")} {
		if err := env.Client.CoreV1().ServiceAccounts(a.Namespace).Delete(env.Context(), a.Name, metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	// Notifications of one informer arrive in order, so once b is queued a was not.
	controllertest.Eventually(t, "a key is queued", func() bool { return c.loop.Inspect().Depth > 0 })
	if depth := c.loop.Inspect().Depth; depth != 1 {
		t.Errorf("depth = %d, want the key of b alone", depth)
	}
}

// Pins SA-11 and SA-30.
func TestDescriptor(t *testing.T) {
	d := Descriptor()
	cfg := v1beta1.NewDefault()
	before := d.Value(cfg)
	cfg.ServiceAccounts.RootCAFile, cfg.FeatureGates = "/etc/ca.crt", map[string]bool{"A": true}
	if d.Value(cfg) != before {
		t.Error("a setting of others restarts the controller")
	}
	c, err := d.New(controllertest.New(t).Env, before)
	if err != nil {
		t.Fatal(err)
	}
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
