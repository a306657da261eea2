package satoken

import (
	"errors"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clienttesting "k8s.io/client-go/testing"

	"kcmd.dev/test/controllertest"
)

// Pins SAT-30.
func TestDeletesOfADeadAccountAreAllAttempted(t *testing.T) {
	env, c := start(t, objects(secret("s", "u1"), secret("t", "u1"), secret("u", "u1")))
	refuse(env, "delete", "secrets", errors.New("outage"))
	if err := c.reconcile(env.Context(), accountKey(account("sa", "u1"))); err == nil {
		t.Error("reconcile hides the failures")
	}
	env.WantRequestsInAnyOrder(t, "get serviceaccounts sa", "delete secrets", "delete secrets", "delete secrets")
}

// The Secret is gone indeed: nothing is written for it again. Pins SAT-86.
func TestASecretThatIsGoneIsNotDeletedAgain(t *testing.T) {
	env, c := start(t, objects(secret("s", "u1")))
	gone := apierrors.NewNotFound(corev1.Resource("secrets"), "s")
	env.Intercept("delete secrets s", func(clienttesting.Action) error {
		env.Remove(t, secret("s", "u1"))
		return gone
	})
	env.Run(t, c)
	controllertest.Eventually(t, "it is seen that the secret is gone", func() bool {
		return c.loop.Inspect().Reconciled >= 2 && env.Idle()
	})
	env.Requests()
	before := c.loop.Inspect().Reconciled
	env.EventuallyAsTimePasses(t, "its key is looked at again", time.Second, func() bool { return c.loop.Inspect().Reconciled > before })
	env.WantRequests(t, "get serviceaccounts sa")
}

// The account comes and goes while the watch of accounts is broken: no event reports it. Pins SAT-81.
func TestAnAccountThatTheCacheNeverShows(t *testing.T) {
	env, c := start(t, objects(secret("s", "u1", withData("ca", "ns", "t"))))
	var reads atomic.Int32
	env.Fake.PrependReactor("get", "serviceaccounts", func(clienttesting.Action) (bool, runtime.Object, error) {
		return reads.Add(1) == 1, account("sa", "u1"), nil
	})
	env.Intercept("delete secrets s", func(clienttesting.Action) error {
		if n := reads.Load(); n != 2 {
			t.Errorf("the account was read %d times", n)
		}
		return nil
	})
	env.Run(t, c)
	env.EventuallyAsTimePasses(t, "the secret is deleted", time.Second, func() bool {
		_, err := env.Client.CoreV1().Secrets("ns").Get(t.Context(), "s", metav1.GetOptions{})
		return apierrors.IsNotFound(err)
	})
}

// A list that lacks an account looks like its deletion. No event tells when it is deleted indeed. Pins SAT-91.
func TestAnAccountThatAListLacks(t *testing.T) {
	env, c := start(t, objects(account("sa", "u1"), secret("s", "u1", withData("ca", "ns", "t"))))
	env.Run(t, c)
	controllertest.Eventually(t, "the secret is looked at", func() bool { return c.loop.Inspect().Reconciled > 0 && env.Idle() })
	if err := env.CacheOf(t, account("sa", "u1")).Delete(account("sa", "u1")); err != nil {
		t.Fatal(err)
	}
	before := c.loop.Inspect().Reconciled
	c.loop.Add(accountKey(account("sa", "u1")))
	controllertest.Eventually(t, "the account is looked at", func() bool { return c.loop.Inspect().Reconciled > before && env.Idle() })
	env.WantRequests(t, "get serviceaccounts sa")
	env.Remove(t, account("sa", "u1"))
	env.EventuallyAsTimePasses(t, "the secret is deleted", time.Second, func() bool {
		_, err := env.Client.CoreV1().Secrets("ns").Get(t.Context(), "s", metav1.GetOptions{})
		return apierrors.IsNotFound(err)
	})
}

// An account is deleted and created again, with a Secret that names it without a UID, while the namespace is paused.
// What was held is worked off afterwards. Pins SAT-83.
func TestAnAccountIsCreatedAgainDuringAPause(t *testing.T) {
	for name, tc := range map[string]struct {
		again bool
		want  string
	}{
		"it is there": {true, "update secrets s"},
		"it is gone":  {false, "delete secrets s"},
	} {
		t.Run(name, func(t *testing.T) {
			cached := objects(secret("s", ""))
			if tc.again {
				cached = append(cached, account("sa", "u2"))
			}
			env, c := start(t, cached)
			c.accountUpdated(account("sa", "u1"), account("sa", "u2"))
			env.Run(t, c)
			env.AwaitIdle(t)
			if !slices.Contains(requests(env), tc.want) {
				t.Errorf("requests = %v, want %s", requests(env), tc.want)
			}
			if others := slices.DeleteFunc(writesOf(env), func(write string) bool { return write == tc.want }); len(others) > 0 {
				t.Errorf("writes = %v", others)
			}
		})
	}
}

// An account was deleted and created again, and a Secret was created for the new one, which names no UID. The cache of
// accounts is behind: it shows the former one. Pins SAT-90.
func TestASecretForAnAccountThatTheCacheDoesNotShowYet(t *testing.T) {
	for name, of := range map[string]*corev1.Secret{
		"it lacks everything": secret("s", ""),
		"it lacks the CA":     secret("s", "", withData("", "ns", "t")),
	} {
		t.Run(name, func(t *testing.T) {
			env, c := start(t, objects(account("sa", "u1"), of), account("sa", "u2"))
			env.Run(t, c)
			env.AwaitIdle(t)
			env.Remove(t, account("sa", "u1")) // the cache catches up
			env.Store(t, account("sa", "u2"))
			controllertest.Eventually(t, "the cache shows the new account", func() bool {
				cached, err := c.cachedAccount(testNamespace, "sa", "u2")
				return err == nil && cached != nil
			})
			env.AwaitIdle(t)
			got, kept := controllertest.Stored[*corev1.Secret](t, env, testNamespace, "s")
			if !kept {
				t.Fatal("the secret of the new account was deleted with the former one")
			}
			if uid := got.Annotations[corev1.ServiceAccountUIDKey]; uid != "u2" {
				t.Errorf("it is bound to account %s", uid)
			}
		})
	}
}

// A Secret that names an account without a UID goes with the last account of the name. Pins SAT-83.
func TestASecretWithoutAUIDGoesWithItsAccount(t *testing.T) {
	env, c := start(t, objects(account("sa", "u1"), secret("s", "", withData("ca", "ns", "t"))))
	env.Run(t, c)
	env.AwaitIdle(t)
	if err := env.Client.CoreV1().ServiceAccounts(testNamespace).Delete(t.Context(), "sa", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	controllertest.Eventually(t, "it is deleted", func() bool {
		_, err := env.Client.CoreV1().Secrets(testNamespace).Get(t.Context(), "s", metav1.GetOptions{})
		return apierrors.IsNotFound(err)
	})
}
