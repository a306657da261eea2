package satoken

import (
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clienttesting "k8s.io/client-go/testing"

	"kcmd.dev/pkg/controller"
	"kcmd.dev/test/controllertest"
)

func TestReconcileRequests(t *testing.T) {
	full := func(accountUID string) *corev1.Secret { return secret("s", accountUID, withData("ca", "ns", "t")) }
	other := secret("other", "u1", func(s *corev1.Secret) { s.Type = corev1.SecretTypeOpaque })
	terminating := account("sa", "u1")
	now := metav1.Now()
	terminating.DeletionTimestamp, terminating.Finalizers = &now, []string{"example.com/hold"}

	for name, tc := range map[string]struct {
		key    key
		cached []runtime.Object
		live   []runtime.Object
		want   []string
	}{
		"SAT-29: account exists": {
			accountKey(account("sa", "u1")), objects(account("sa", "u1"), full("u1")), nil, []string{}},
		"SAT-20, SAT-30, SAT-68: account gone: its secrets are deleted, others stay": {
			accountKey(account("sa", "u1")),
			objects(full("u1"), secret("t", "", withData("ca", "ns", "t")), secret("u", "u2"), other), nil,
			[]string{"get serviceaccounts sa", "delete secrets s"}},
		"SAT-30, SAT-28: account recreated: the secrets of the old one go": {
			accountKey(account("sa", "u1")), objects(account("sa", "u2"), full("u1"), secret("t", ""), secret("u", "u2")), nil,
			[]string{"get serviceaccounts sa", "delete secrets s"}},
		"SAT-91: account not in the cache any more, which exists": {
			accountKey(account("sa", "u1")), objects(full("u1")), objects(account("sa", "u1")),
			[]string{"get serviceaccounts sa"}},
		"SAT-91: account gone, without secrets of its own": {
			accountKey(account("sa", "u1")), objects(secret("t", ""), secret("u", "u2")), nil, []string{}},

		"SAT-34, SAT-68: secret complete": {
			secretKey(full("u1")), objects(account("sa", "u1"), full("u1")), nil, []string{}},
		"SAT-49: secret complete, account terminating": {
			secretKey(full("u1")), objects(terminating, full("u1")), nil, []string{}},
		"SAT-19, SAT-21, SAT-33b, SAT-68, SAT-71: secret incomplete": {
			secretKey(secret("s", "u1")), objects(account("sa", "u1"), secret("s", "u1")), nil, []string{"update secrets s"}},
		"SAT-17, SAT-33: account not in the cache yet": {
			secretKey(secret("s", "u1")), objects(secret("s", "u1")), objects(account("sa", "u1")),
			[]string{"get serviceaccounts sa", "update secrets s"}},
		"SAT-33: recreated account not in the cache yet": {
			secretKey(secret("s", "u2")), objects(account("sa", "u1"), secret("s", "u2")), objects(account("sa", "u2")),
			[]string{"get serviceaccounts sa", "update secrets s"}},
		"SAT-33a: account gone": {
			secretKey(full("u1")), objects(full("u1")), nil, []string{"get serviceaccounts sa", "delete secrets s"}},
		"SAT-33a, SAT-59: account has another UID": {
			secretKey(full("u1")), objects(account("sa", "u2"), full("u1")), nil,
			[]string{"get serviceaccounts sa", "delete secrets s"}},
		"SAT-33b: secret names no UID": {
			secretKey(secret("s", "")), objects(account("sa", "u2"), secret("s", "")), nil,
			[]string{"get serviceaccounts sa", "update secrets s"}},
		"SAT-34: secret complete, names no UID": {
			secretKey(full("")), objects(account("sa", "u2"), full("")), nil, []string{}},

		"SAT-18, SAT-21, SAT-32, SAT-68: secret gone, referenced": {
			secretKey(full("u1")), objects(account("sa", "u1", "s")), nil,
			[]string{"get serviceaccounts sa", "get secrets s", "update serviceaccounts sa"}},
		"SAT-17, SAT-57: secret gone, referenced live but not in the stale cache": {
			secretKey(full("u1")), objects(account("sa", "u1")), objects(account("sa", "u1", "s")),
			[]string{"get serviceaccounts sa", "get secrets s", "update serviceaccounts sa"}},
		"SAT-76: secret in use, not in the stale cache": {
			secretKey(full("u1")), objects(account("sa", "u1", "s")), objects(full("u1")),
			[]string{"get serviceaccounts sa", "get secrets s"}},
		"SAT-32, SAT-68: secret gone, not referenced": {
			secretKey(full("u1")), objects(account("sa", "u1", "x")), nil, []string{"get serviceaccounts sa"}},
		"SAT-92: secret gone, account not in the cache": {
			secretKey(full("u1")), nil, objects(account("sa", "u1", "s")),
			[]string{"get serviceaccounts sa", "get secrets s", "update serviceaccounts sa"}},
		"SAT-92: secret gone, its account too": {
			secretKey(full("u1")), nil, nil, []string{"get serviceaccounts sa"}},
		"SAT-32, SAT-92: secret gone, account of another UID in the cache": {
			secretKey(full("u1")), objects(account("sa", "u2", "s")), nil, []string{"get serviceaccounts sa"}},
		"SAT-32: secret gone, account of another UID live": {
			secretKey(full("u1")), objects(account("sa", "u1", "s")), objects(account("sa", "u2", "s")), []string{"get serviceaccounts sa"}},
		"SAT-32: secret gone, no UID named": {
			secretKey(full("")), objects(account("sa", "u2", "s")), nil,
			[]string{"get serviceaccounts sa", "get secrets s", "update serviceaccounts sa"}},
		"SAT-31, SAT-56, SAT-76: secret replaced under its name": {
			key{kind: secretKind, namespace: "ns", name: "s", uid: "old", accountName: "sa", accountUID: "u1"},
			objects(account("sa", "u1", "s"), full("u1")), nil,
			[]string{"get serviceaccounts sa", "get secrets s"}},
		"SAT-60, SAT-82: secret names another account by now": {
			secretKey(secret("s", "", func(s *corev1.Secret) { s.Annotations[corev1.ServiceAccountNameKey] = "typo" })),
			objects(account("sa", "u1"), secret("s", "")), nil, []string{}},
		"SAT-82: secret names the account without its former UID by now": {
			secretKey(full("u1")), objects(account("sa", "u2"), secret("s", "")), nil, []string{}},
		"SAT-24: invalid key": {
			secretKey(secret("s", "", func(s *corev1.Secret) { s.Annotations = nil })), objects(secret("s", "")), nil, []string{}},
	} {
		t.Run(name, func(t *testing.T) {
			env, c := start(t, tc.cached, tc.live...)
			if err := c.reconcile(env.Context(), tc.key); err != nil {
				t.Fatal(err)
			}
			// The order of the deletes of an account is of no importance.
			if diff := cmp.Diff(slices.Sorted(slices.Values(tc.want)), slices.Sorted(slices.Values(requests(env))), cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("requests (-want +got):\n%s", diff)
			}
			for _, action := range env.Fake.Actions() {
				if d, ok := action.(clienttesting.DeleteActionImpl); ok {
					uid, version := types.UID(d.Name+"-uid"), "1"
					if diff := cmp.Diff(&metav1.Preconditions{UID: &uid, ResourceVersion: &version}, d.DeleteOptions.Preconditions); diff != "" {
						t.Errorf("preconditions of deleting %s (-want +got):\n%s", d.Name, diff)
					}
				}
			}
		})
	}
}

func TestReconcileRetries(t *testing.T) {
	secrets, accounts := corev1.Resource("secrets"), corev1.Resource("serviceaccounts")
	conflict := apierrors.NewConflict(secrets, "s", errors.New("stale"))
	notFound := apierrors.NewNotFound(secrets, "s")
	outage := apierrors.NewInternalError(errors.New("outage"))
	incomplete := secret("s", "u1")

	for name, tc := range map[string]struct {
		key            key
		cached         []runtime.Object
		verb, resource string
		refusal        error
		retry          bool
	}{
		"SAT-33a: delete of an orphan: gone":        {secretKey(incomplete), objects(incomplete), "delete", "secrets", notFound, false},
		"SAT-33a: delete of an orphan: replaced":    {secretKey(incomplete), objects(incomplete), "delete", "secrets", conflict, false},
		"SAT-33a: delete of an orphan: outage":      {secretKey(incomplete), objects(incomplete), "delete", "secrets", outage, true},
		"SAT-33: live lookup: outage":               {secretKey(incomplete), objects(incomplete), "get", "serviceaccounts", outage, true},
		"SAT-40: update: newer state on its way":    {secretKey(incomplete), objects(account("sa", "u1"), incomplete), "update", "secrets", conflict, false},
		"SAT-40: update: gone":                      {secretKey(incomplete), objects(account("sa", "u1"), incomplete), "update", "secrets", notFound, false},
		"SAT-40, SAT-49: update: immutable":         {secretKey(incomplete), objects(account("sa", "u1"), incomplete), "update", "secrets", apierrors.NewInvalid(corev1.SchemeGroupVersion.WithKind("Secret").GroupKind(), "s", nil), true},
		"SAT-30: account gone, delete: gone":        {accountKey(account("sa", "u1")), objects(incomplete), "delete", "secrets", notFound, false},
		"SAT-30: account gone, delete: replaced":    {accountKey(account("sa", "u1")), objects(incomplete), "delete", "secrets", conflict, false},
		"SAT-30: account gone, delete: outage":      {accountKey(account("sa", "u1")), objects(incomplete), "delete", "secrets", outage, true},
		"SAT-91: account gone, live lookup: outage": {accountKey(account("sa", "u1")), objects(incomplete), "get", "serviceaccounts", outage, true},
		"SAT-84: reference, read: outage":           {secretKey(incomplete), objects(account("sa", "u1", "s")), "get", "serviceaccounts", outage, true},
		"SAT-84: reference, read: secret":           {secretKey(incomplete), objects(account("sa", "u1", "s")), "get", "secrets", outage, true},
		"SAT-32: reference, update: account gone":   {secretKey(incomplete), objects(account("sa", "u1", "s")), "update", "serviceaccounts", apierrors.NewNotFound(accounts, "sa"), false},
		"SAT-84: reference, update: outage":         {secretKey(incomplete), objects(account("sa", "u1", "s")), "update", "serviceaccounts", outage, true},
		"SAT-32: reference, read: account is gone":  {secretKey(incomplete), objects(account("sa", "u1", "s")), "get", "serviceaccounts", apierrors.NewNotFound(accounts, "sa"), false},
	} {
		t.Run(name, func(t *testing.T) {
			env, c := start(t, tc.cached)
			refuse(env, tc.verb, tc.resource, tc.refusal)
			err := c.reconcile(env.Context(), tc.key)
			if (err != nil) != tc.retry {
				t.Errorf("reconcile = %v, want retry %v", err, tc.retry)
			}
		})
	}
}

// The API server answers once with a refusal although nothing has changed, as a webhook can.
func TestARefusalWithoutAnEvent(t *testing.T) {
	conflict := apierrors.NewConflict(corev1.Resource("secrets"), "s", errors.New("a webhook says so"))
	notFound := apierrors.NewNotFound(corev1.Resource("secrets"), "s")
	completed := func(s *corev1.Secret, err error) bool { return err == nil && needsOf(s, []byte("ca")) == (needs{}) }
	deleted := func(_ *corev1.Secret, err error) bool { return apierrors.IsNotFound(err) }
	for name, tc := range map[string]struct {
		cached  []runtime.Object
		request string
		refusal error
		done    func(*corev1.Secret, error) bool
	}{
		"SAT-80: completing a secret":                {objects(account("sa", "u1"), secret("s", "u1")), "update secrets s", conflict, completed},
		"SAT-80: deleting that of no account":        {objects(secret("s", "u1")), "delete secrets s", conflict, deleted},
		"SAT-86: completing one, as if it were gone": {objects(account("sa", "u1"), secret("s", "u1")), "update secrets s", notFound, completed},
		"SAT-86: deleting one, as if it were gone":   {objects(secret("s", "u1")), "delete secrets s", notFound, deleted},
	} {
		t.Run(name, func(t *testing.T) {
			env, c := start(t, tc.cached)
			env.RefuseIf(tc.request, tc.refusal, func(n int) bool { return n == 1 })
			env.Run(t, c)
			env.EventuallyAsTimePasses(t, "what was refused is done", time.Second, func() bool {
				return tc.done(env.Client.CoreV1().Secrets("ns").Get(t.Context(), "s", metav1.GetOptions{}))
			})
		})
	}
}

// delayOf returns how long a key still waits, once no worker works on it.
func delayOf(t *testing.T, env *controllertest.Env, c *tokenController, k key) (delay time.Duration) {
	t.Helper()
	controllertest.Eventually(t, fmt.Sprintf("%v is delayed", k), func() bool {
		keys := c.loop.Keys(func(text string) bool { return text == k.String() })
		if len(keys) != 1 || keys[0].State != controller.KeyDelayed {
			return false
		}
		delay = keys[0].Until.Sub(env.Clock.Now())
		return true
	})
	return delay
}

// No event follows the end of an outage, however long it was. Pins SAT-25, SAT-53 and SAT-88.
func TestAKeyIsRetriedUntilTheOutageEnds(t *testing.T) {
	const failures = 12
	env, c := start(t, objects(account("sa", "u1"), secret("s", "u1")))
	var attempts atomic.Int32
	env.Fake.PrependReactor("update", "secrets", func(clienttesting.Action) (bool, runtime.Object, error) {
		return attempts.Add(1) <= failures, nil, errors.New("outage")
	})
	env.Run(t, c)
	k := secretKey(secret("s", "u1"))
	for attempt := range failures {
		// A running loop always waits for its heartbeat, and for a retry once it is scheduled.
		controllertest.Eventually(t, "the retry is scheduled", func() bool {
			return int(attempts.Load()) == attempt+1 && c.loop.Retries(k) == attempt+1 && env.Clock.Waiters() == 2
		})
		if delay := delayOf(t, env, c, k); delay != 5*time.Millisecond<<attempt {
			t.Errorf("retry %d is after %v", attempt+1, delay)
		}
		env.Clock.Step(time.Hour)
	}
	controllertest.Eventually(t, "the secret is complete and the failures of its key are forgotten", func() bool {
		s, err := env.Client.CoreV1().Secrets("ns").Get(t.Context(), "s", metav1.GetOptions{})
		return err == nil && needsOf(s, c.ca) == needs{} && c.loop.Retries(k) == 0
	})
}

// A hundred failed keys may be retried at once, the others ten in a second. Pins SAT-25 and SAT-53.
func TestManyFailedKeysAreDelayedTogether(t *testing.T) {
	env, c := start(t, nil)
	const many = 200
	keys := make([]key, many)
	for i := range keys {
		keys[i] = secretKey(secret(fmt.Sprint("s-", i), "u1"))
		c.loop.AddRateLimited(keys[i])
	}
	if first := delayOf(t, env, c, keys[0]); first != 5*time.Millisecond {
		t.Errorf("the first waits for %v", first)
	}
	// The time that passes meanwhile is real.
	if last := delayOf(t, env, c, keys[many-1]); last < time.Second || last > 10*time.Second {
		t.Errorf("the last waits for %v, want it to wait for those before it", last)
	}
}

func BenchmarkReconcileSecret(b *testing.B) {
	for _, count := range []int{10, 10_000} {
		b.Run(fmt.Sprintf("secrets=%d", count), func(b *testing.B) {
			all := objects(account("sa", "u1"))
			for i := range count {
				all = append(all, secret(fmt.Sprintf("s-%d", i), "u1", withData("ca", "ns", "t")))
			}
			env, c := start(b, all)
			k := secretKey(secret("s-5", "u1"))
			b.ReportAllocs()
			for b.Loop() {
				if err := c.reconcile(env.Context(), k); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
