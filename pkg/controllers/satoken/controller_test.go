package satoken

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
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
	"k8s.io/utils/ptr"

	"kcmd.dev/pkg/config/locks"
	"kcmd.dev/pkg/config/v1beta1"
	"kcmd.dev/pkg/controller"
	"kcmd.dev/pkg/controllers/kit/reconcile"
	"kcmd.dev/test/controllertest"
)

// start makes a controller whose caches hold cached, and whose API server then holds live
// as well.
func start(t testing.TB, cached []runtime.Object, live ...runtime.Object) (*controllertest.Env, *tokenController) {
	t.Helper()
	return startAfter(t, nil, cached, live...)
}

func startAfter(t testing.TB, predecessor any, cached []runtime.Object, live ...runtime.Object) (*controllertest.Env, *tokenController) {
	t.Helper()
	env := controllertest.New(t, cached...)
	env.ClusterCA = []byte("ca")
	env.Succession.Leave(predecessor)
	c, err := newController(env.Env, config{concurrentSyncs: 1, privateKeyFile: write(t, keyPEM(t))})
	if err != nil {
		t.Fatal(err)
	}
	env.Start(t)
	env.Fake.ClearActions()
	for _, object := range live {
		// A reactor keeps it out of the watches, and so out of the caches.
		serve(env, object)
	}
	return env, c
}

// serve makes live reads of an account or a Secret return object.
func serve(env *controllertest.Env, object runtime.Object) {
	resource := "serviceaccounts"
	if _, ok := object.(*corev1.Secret); ok {
		resource = "secrets"
	}
	env.Fake.PrependReactor("get", resource, func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, object.DeepCopyObject(), nil
	})
}

// refuse makes a verb on a resource fail.
func refuse(env *controllertest.Env, verb, resource string, err error) {
	env.Fake.PrependReactor(verb, resource, func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, nil, err
	})
}

// requests are the requests made, as "verb resource name".
func requests(env *controllertest.Env) []string {
	all := []string{}
	for _, action := range env.Fake.Actions() {
		name := ""
		switch a := action.(type) {
		case clienttesting.DeleteActionImpl:
			name = a.Name
		case clienttesting.UpdateActionImpl:
			name = a.Object.(metav1.Object).GetName()
		case clienttesting.GetActionImpl:
			name = a.Name
		}
		all = append(all, fmt.Sprintf("%s %s %s", action.GetVerb(), action.GetResource().Resource, name))
	}
	return all
}

func objects(all ...runtime.Object) []runtime.Object { return all }

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
		"SAT-19, SAT-21, SAT-33b, SAT-68: secret incomplete": {
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

// Pins SAT-38, SAT-39 and SAT-72.
func TestPopulateWritesACompleteSecret(t *testing.T) {
	before := secret("s", "")
	env, c := start(t, objects(account("sa", "u1"), before))
	if err := c.reconcile(env.Context(), secretKey(before)); err != nil {
		t.Fatal(err)
	}
	got, err := env.Client.CoreV1().Secrets("ns").Get(env.Context(), "s", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if needsOf(got, []byte("ca")) != (needs{}) {
		t.Errorf("data = %q, still lacks something", got.Data)
	}
	if got.Annotations[corev1.ServiceAccountUIDKey] != "u1" || got.Annotations[corev1.ServiceAccountNameKey] != "sa" {
		t.Errorf("annotations = %v, not bound to the account", got.Annotations)
	}
	update := env.Writes()[0].(clienttesting.UpdateAction).GetObject().(*corev1.Secret)
	if update.UID != before.UID || update.ResourceVersion != before.ResourceVersion {
		t.Errorf("update is of %s at %q, want the cached UID and resource version", update.UID, update.ResourceVersion)
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

// Pins SAT-30.
func TestDeletesOfADeadAccountAreAllAttempted(t *testing.T) {
	env, c := start(t, objects(secret("s", "u1"), secret("t", "u1"), secret("u", "u1")))
	refuse(env, "delete", "secrets", errors.New("outage"))
	if err := c.reconcile(env.Context(), accountKey(account("sa", "u1"))); err == nil {
		t.Error("reconcile hides the failures")
	}
	env.WantRequestsInAnyOrder(t, "get serviceaccounts sa", "delete secrets", "delete secrets", "delete secrets")
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

// writesOf are the requests that change something.
func writesOf(env *controllertest.Env) []string {
	return slices.DeleteFunc(requests(env), func(request string) bool { return strings.HasPrefix(request, "get ") })
}

// A reference could not be removed: the next instance tries again, or the end of the pause. Pins SAT-84.
func TestAReferenceThatStaysIsNotForgotten(t *testing.T) {
	for name, tc := range map[string]struct {
		refusal error
		held    bool
	}{
		"the lease was lost":      {errors.New("fenced"), false},
		"the namespace is paused": {&controller.PausedError{Namespace: testNamespace}, true},
	} {
		t.Run(name, func(t *testing.T) {
			env, c := start(t, objects(account("sa", "u1", "s")))
			refuse(env, "update", "serviceaccounts", tc.refusal)
			k := secretKey(secret("s", "u1"))
			c.known.add(k)
			if err := c.reconcile(env.Context(), k); len(controller.PausedIn(err)) > 0 != tc.held {
				t.Errorf("reconcile = %v, want to be held: %v", err, tc.held)
			}
			if diff := cmp.Diff(handover{secrets: []key{k}}, c.HandOver(), cmp.AllowUnexported(handover{}, key{})); diff != "" {
				t.Errorf("handed over (-want +got):\n%s", diff)
			}
		})
	}
}

// The API server answers once with an error while the reference to a deleted Secret is removed.
func TestAReferenceIsRemovedAfterAFailure(t *testing.T) {
	outage := apierrors.NewInternalError(errors.New("outage"))
	notFound := apierrors.NewNotFound(corev1.Resource("serviceaccounts"), "sa")
	for name, tc := range map[string]struct {
		request string
		refusal error
	}{
		"SAT-84: reading the account: outage":                      {"get serviceaccounts sa", outage},
		"SAT-84: reading the secret: outage":                       {"get secrets s", outage},
		"SAT-84: updating the account: outage":                     {"update serviceaccounts sa", outage},
		"SAT-86: updating the account, as if it were gone":         {"update serviceaccounts sa", notFound},
		"SAT-84: reading the account: a proxy does not know of it": {"get serviceaccounts sa", apierrors.NewGenericServerResponse(404, "get", corev1.Resource("serviceaccounts"), "sa", "404 page not found", 0, true)},
	} {
		t.Run(name, func(t *testing.T) {
			env, c := start(t, objects(account("sa", "u1", "s"), secret("s", "u1", withData("ca", "ns", "t"))))
			env.Run(t, c)
			env.AwaitIdle(t)
			env.RefuseIf(tc.request, tc.refusal, func(n int) bool { return n == 1 })
			env.Remove(t, secret("s", "u1"))
			env.EventuallyAsTimePasses(t, "the reference is removed", time.Second, func() bool {
				return len(controllertest.MustStored[*corev1.ServiceAccount](t, env, testNamespace, "sa").Secrets) == 0
			})
			controllertest.Eventually(t, "nothing is left to do", func() bool { return len(c.known.keys()) == 0 })
		})
	}
}

// Pins SAT-32 and SAT-51.
func TestReferenceRemovalBacksOffOnConflict(t *testing.T) {
	env, c := start(t, objects(account("sa", "u1", "s")))
	var attempts atomic.Int32
	env.Fake.PrependReactor("update", "serviceaccounts", func(clienttesting.Action) (bool, runtime.Object, error) {
		attempts.Add(1)
		return true, nil, apierrors.NewConflict(corev1.Resource("serviceaccounts"), "sa", errors.New("stale"))
	})
	done := make(chan error, 1)
	go func() { done <- c.removeReference(env.Context(), secretKey(secret("s", "u1"))) }()
	for pauses := range 9 {
		controllertest.Eventually(t, "it pauses", env.Clock.HasWaiters)
		env.Clock.Step(99 * time.Millisecond)
		if !env.Clock.HasWaiters() {
			t.Fatalf("pause %d is shorter than 100ms", pauses)
		}
		env.Clock.Step(101 * time.Millisecond)
		controllertest.Eventually(t, "it tries again", func() bool { return int(attempts.Load()) == pauses+2 })
	}
	if err := <-done; !apierrors.IsConflict(err) {
		t.Errorf("removeReference = %v, want the conflict", err)
	}
	if got := attempts.Load(); got != 10 {
		t.Errorf("attempts = %d, want 10", got)
	}
}

func TestReferenceRemovalEndsWhenFenced(t *testing.T) {
	env, c := start(t, objects(account("sa", "u1", "s")))
	refuse(env, "update", "serviceaccounts", apierrors.NewConflict(corev1.Resource("serviceaccounts"), "sa", errors.New("stale")))
	k := secretKey(secret("s", "u1"))
	c.known.add(k)
	ctx, fence := context.WithCancel(env.Context())
	done := make(chan error, 1)
	go func() { done <- c.reconcile(ctx, k) }()
	controllertest.Eventually(t, "it pauses", env.Clock.HasWaiters)
	fence()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Errorf("reconcile = %v, want the end of its context", err)
	}
	if diff := cmp.Diff(handover{secrets: []key{k}}, c.HandOver(), cmp.AllowUnexported(handover{}, key{})); diff != "" {
		t.Errorf("what was cut short must be handed over (-want +got):\n%s", diff)
	}
}

func TestHandlers(t *testing.T) {
	opaque := secret("s", "u1", func(s *corev1.Secret) { s.Type = corev1.SecretTypeOpaque })
	for name, tc := range map[string]struct {
		event func(*tokenController)
		depth int
		known int
	}{
		"SAT-15: secret added":            {func(c *tokenController) { c.secretAdded(reconcile.Fresh, secret("s", "u1")) }, 1, 1},
		"SAT-15: other secret added":      {func(c *tokenController) { c.secretAdded(reconcile.Fresh, opaque) }, 0, 0},
		"SAT-15: secret updated":          {func(c *tokenController) { c.secretUpdated(reconcile.Fresh, secret("s", ""), secret("s", "u1")) }, 1, 1},
		"SAT-15: secret deleted":          {func(c *tokenController) { c.secretDeleted(secret("s", "u1")) }, 1, 0},
		"SAT-15: other secret deleted":    {func(c *tokenController) { c.secretDeleted(opaque) }, 0, 0},
		"SAT-74: account updated":         {func(c *tokenController) { c.accountUpdated(account("sa", "u1"), account("sa", "u1", "x")) }, 0, 0},
		"SAT-74: account replaced":        {func(c *tokenController) { c.accountUpdated(account("sa", "u1"), account("sa", "u2")) }, 1, 0},
		"SAT-75: secret replaced unnoted": {func(c *tokenController) { replaceSecret(c) }, 2, 1},
	} {
		t.Run(name, func(t *testing.T) {
			_, c := start(t, nil)
			tc.event(c)
			if got := c.loop.Inspect().Depth; got != tc.depth {
				t.Errorf("depth = %d, want %d", got, tc.depth)
			}
			if got := len(c.known.keys()); got != tc.known {
				t.Errorf("known = %v, want %d", c.known.keys(), tc.known)
			}
		})
	}
}

func replaceSecret(c *tokenController) {
	c.secretAdded(reconcile.Fresh, secret("s", "u1"))
	c.secretUpdated(reconcile.Fresh, secret("s", "u1"), secret("s", "u1", func(s *corev1.Secret) { s.UID = "replacement" }))
}

// Pins SAT-73.
func TestSecretsDeletedBetweenInstancesAreCleanedUpAfter(t *testing.T) {
	full := secret("s", "u1", withData("ca", "ns", "t"))
	kept := secret("kept", "u1", withData("ca", "ns", "t"))
	_, old := start(t, objects(account("sa", "u1", "s", "kept", "never-seen"), full, kept))

	env, c := startAfter(t, old.HandOver(), objects(account("sa", "u1", "s", "kept", "never-seen"), kept))
	stop := env.Run(t, c)
	controllertest.Eventually(t, "the reference is removed", func() bool {
		sa, err := env.Client.CoreV1().ServiceAccounts("ns").Get(t.Context(), "sa", metav1.GetOptions{})
		return err == nil && len(sa.Secrets) == 2 && sa.Secrets[0].Name == "kept" && sa.Secrets[1].Name == "never-seen"
	})
	controllertest.Eventually(t, "both secrets are reconciled", func() bool { return c.loop.Inspect().Reconciled >= 2 })
	stop()
	if got := c.known.keys(); len(got) != 1 || got[0] != secretKey(kept) {
		t.Errorf("known = %v, want the secret that exists", got)
	}
}

func TestAnEstateOfAnotherTypeIsIgnored(t *testing.T) {
	_, c := startAfter(t, "something else", nil)
	c.takeOver()
	if depth := c.loop.Inspect().Depth; depth != 0 {
		t.Errorf("depth = %d, want 0", depth)
	}
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

// Pins SAT-3, SAT-8 and SAT-79.
func TestDescriptor(t *testing.T) {
	d := Descriptor()
	env := controllertest.New(t)
	cfg := v1beta1.NewDefault()
	cfg.ServiceAccounts.RootCAFile = "/nothing/ca.crt"
	idle := d.Value(cfg)
	if c, err := d.New(env.Env, idle); c != nil || err != nil {
		t.Errorf("New = %v, %v without a private key, want nothing to run", c, err)
	}
	if files := d.Files(idle); len(files) != 0 {
		t.Errorf("files = %v without a private key", files)
	}

	cfg.ServiceAccounts.PrivateKeyFile = write(t, keyPEM(t))
	if _, err := d.New(env.Env, d.Value(cfg)); err == nil {
		t.Error("New accepts a missing CA file")
	}
	cfg.ServiceAccounts.RootCAFile = write(t, caPEM(t))
	value := d.Value(cfg)
	if diff := cmp.Diff([]string{cfg.ServiceAccounts.PrivateKeyFile, cfg.ServiceAccounts.RootCAFile}, d.Files(value)); diff != "" {
		t.Errorf("files (-want +got):\n%s", diff)
	}
	c, err := d.New(env.Env, value)
	if err != nil {
		t.Fatal(err)
	}
	if workers := c.(*tokenController).loop.Inspect().Workers; workers != 10 {
		t.Errorf("workers = %d, want 5 for each of two kinds of keys", workers)
	}
}

// Pins SAT-1, SAT-5, SAT-6, SAT-9, SAT-77 and SAT-79.
func TestIdentity(t *testing.T) {
	d, cfg := Descriptor(), v1beta1.NewDefault()
	if d.Name != "serviceaccount-token-controller" || !slices.Equal(d.Aliases, []string{"serviceaccount-token"}) {
		t.Errorf("it is called %s, also %q", d.Name, d.Aliases)
	}
	// Without a service account it has the identity of the process.
	if d.ServiceAccount != "" || d.ClientName != "tokens-controller" {
		t.Errorf("it acts as %q, and its user agent ends with %q", d.ServiceAccount, d.ClientName)
	}
	if on, reason := d.Enabled(cfg); !on || d.Gate != "" {
		t.Errorf("it is disabled: %s", reason)
	}
	cfg.Controllers.ServiceAccountToken.Enabled = ptr.To(false)
	if on, _ := d.Enabled(cfg); on {
		t.Error("it cannot be disabled")
	}
	cfg.ServiceAccounts.PrivateKeyFile = write(t, keyPEM(t))
	before := d.Value(cfg)
	cfg.FeatureGates = map[string]bool{"AllAlpha": true}
	if d.Value(cfg) != before {
		t.Error("feature gates restart it")
	}
	*cfg.Controllers.ServiceAccountToken.ConcurrentSyncs = 7
	c, err := d.New(controllertest.New(t).Env, d.Value(cfg))
	if err != nil {
		t.Fatal(err)
	}
	if s := c.(*tokenController).loop.Inspect(); s.Workers != 14 || s.Queue != "serviceaccount_tokens_service" {
		t.Errorf("its queue is %s with %d workers", s.Queue, s.Workers)
	}
}

// It runs under the main lease whatever is migrated, and what is migrated does not wait for it, not even if it has
// nothing to run. Pins SAT-7 and SAT-87.
func TestItIsNotMigrated(t *testing.T) {
	cfg := v1beta1.NewDefault()
	cfg.LeaderMigration.Enabled = ptr.To(true)
	cfg.LeaderMigration.ControllerLeaders = []v1beta1.ControllerLeader{
		{Name: Descriptor().Name, Component: v1beta1.AnyComponent}, {Name: "job-controller", Component: v1beta1.AnyComponent},
	}
	var contended []string
	for _, lock := range locks.All(cfg) {
		contended = append(contended, lock.Name)
		if runs := slices.Contains(lock.Controllers, Descriptor().Name); runs != (lock.Name == locks.Main) {
			t.Errorf("under %s run %q", lock.Name, lock.Controllers)
		}
	}
	if want := []string{locks.Main, locks.Migration}; !slices.Equal(contended, want) {
		t.Errorf("locks are %q, want %q", contended, want)
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
