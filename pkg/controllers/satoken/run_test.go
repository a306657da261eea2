package satoken

import (
	"context"
	"crypto"
	"errors"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/go-jose/go-jose/v4"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	corelisters "k8s.io/client-go/listers/core/v1"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/keyutil"

	"kcmd.dev/test/controllertest"
	"kcmd.dev/test/must"
)

// Pins SAT-13 and SAT-78.
func TestWhatIsCached(t *testing.T) {
	written := account("sa", "u1")
	written.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "kubectl"}}
	env := controllertest.New(t, written)
	c := must.Get(newController(env.Env, config{concurrentSyncs: 1, privateKeyFile: write(t, keyPEM(t))}))(t)
	env.Start(t)
	listed := map[string]string{}
	for _, action := range env.Fake.Actions() {
		if list, ok := action.(clienttesting.ListActionImpl); ok {
			listed[list.GetResource().Resource] = list.GetNamespace() + list.GetListRestrictions().Fields.String()
		}
	}
	fields, found := listed["serviceaccounts"]
	if secrets := listed["secrets"]; !found || fields != "" || len(listed) != 2 || secrets != "type=kubernetes.io/service-account-token" {
		t.Errorf("listed, with fields: %q", listed)
	}
	cached, err := c.accounts.ServiceAccounts(testNamespace).Get("sa")
	if err != nil || len(cached.ManagedFields) > 0 {
		t.Errorf("cached: %v, %v", cached, err)
	}
}

// Pins SAT-16.
func TestItWaitsForBothCaches(t *testing.T) {
	for _, resource := range []string{"serviceaccounts", "secrets"} {
		t.Run(resource, func(t *testing.T) {
			env := controllertest.New(t)
			c := must.Get(newController(env.Env, config{concurrentSyncs: 1, privateKeyFile: write(t, keyPEM(t))}))(t)
			env.WantWaitsFor(t, c, resource)
		})
	}
}

// Pins SAT-54.
func TestNothingIsResynced(t *testing.T) {
	_, c := start(t, nil)
	accounts, secrets := &controllertest.Captured{Resync: 1}, &controllertest.Captured{Resync: 1}
	c.watch(accounts, secrets)
	if accounts.Resync != 0 || secrets.Resync != 0 {
		t.Errorf("accounts are resynced every %v, secrets every %v", accounts.Resync, secrets.Resync)
	}
}

// unreadable are listers that fail.
type (
	unreadableAccounts struct {
		corelisters.ServiceAccountLister
		corelisters.ServiceAccountNamespaceLister
	}
	unreadableSecrets struct {
		corelisters.SecretLister
		corelisters.SecretNamespaceLister
	}
)

var errUnreadable = errors.New("unreadable")

func (u unreadableAccounts) ServiceAccounts(string) corelisters.ServiceAccountNamespaceLister {
	return u
}

func (u unreadableAccounts) Get(string) (*corev1.ServiceAccount, error) { return nil, errUnreadable }

func (u unreadableAccounts) List(labels.Selector) ([]*corev1.ServiceAccount, error) {
	return nil, errUnreadable
}

func (u unreadableSecrets) Secrets(string) corelisters.SecretNamespaceLister { return u }

func (u unreadableSecrets) Get(string) (*corev1.Secret, error) { return nil, errUnreadable }

func (u unreadableSecrets) List(labels.Selector) ([]*corev1.Secret, error) {
	return nil, errUnreadable
}

// Nothing is written on what cannot be looked up.
func TestLookupsThatFail(t *testing.T) {
	accounts := func(c *tokenController) { c.accounts = unreadableAccounts{} }
	secrets := func(c *tokenController) { c.secrets = unreadableSecrets{} }
	index := func(c *tokenController) { c.tokens = cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{}) }
	for name, tc := range map[string]struct {
		key    key
		broken func(*tokenController)
		retry  bool
	}{
		"SAT-28: the account of a key":             {accountKey(account("other", "u1")), accounts, true},
		"SAT-30: the secrets of a deleted account": {accountKey(account("other", "u1")), index, false},
		"SAT-31: the secret of a key":              {secretKey(secret("s", "u1")), secrets, true},
		"SAT-33: the account of a secret":          {secretKey(secret("s", "u1")), accounts, true},
	} {
		t.Run(name, func(t *testing.T) {
			env, c := start(t, objects(account("sa", "u1"), secret("s", "u1")))
			tc.broken(c)
			if err := c.reconcile(env.Context(), tc.key); errors.Is(err, errUnreadable) != tc.retry {
				t.Errorf("reconcile = %v, want retry %v", err, tc.retry)
			}
			env.WantRequests(t)
		})
	}
}

// The tokens of a deleted account are found by its name: no other Secret of its namespace is read. Pins SAT-89.
func TestOnlyTheTokensOfADeletedAccountAreLookedAt(t *testing.T) {
	env, c := start(t, objects(secret("s", "u1"), secret("of-another", "u2", func(s *corev1.Secret) {
		s.Annotations[corev1.ServiceAccountNameKey] = "other"
	})))
	c.secrets = unreadableSecrets{}
	if err := c.reconcile(env.Context(), accountKey(account("sa", "u1"))); err != nil {
		t.Fatal(err)
	}
	env.WantRequests(t, "get serviceaccounts sa", "delete secrets s")
}

// Two workers for each one that is configured, each with one key at a time. Run returns when they have finished, and
// leaves what is still queued. Pins SAT-27 and SAT-77.
func TestWorkers(t *testing.T) {
	env, c := start(t, objects(account("sa", "u1"), secret("s", "u1"), secret("t", "u1"), secret("u", "u1")))
	release := make(chan struct{})
	free := sync.OnceFunc(func() { close(release) }) // also if the test fails: the fake is locked until then
	defer free()
	env.Intercept("update secrets", func(clienttesting.Action) error {
		<-release
		return nil
	})
	ctx, cancel := context.WithCancel(env.Context())
	ended := make(chan int, 1)
	go func() {
		if err := c.Run(ctx); err != nil {
			t.Error(err)
		}
		ended <- len(c.loop.Inspect().InFlight)
	}()
	controllertest.Eventually(t, "both workers are at work", func() bool {
		s := c.loop.Inspect()
		return len(s.InFlight) == 2 && s.Depth == 1
	})
	cancel()
	free()
	if working := <-ended; working != 0 {
		t.Errorf("%d keys are still worked on after Run", working)
	}
	if got := requests(env); len(got) != 2 {
		t.Errorf("requests = %v, want those of the two workers", got)
	}
}

// What a queue held is found again by the next instance: nothing is handed over that Secrets themselves show. Pins
// SAT-50, SAT-61, SAT-64 and SAT-68.
func TestAnInstanceBeginsWithWhatIsThere(t *testing.T) {
	toGone := func(s *corev1.Secret) { s.Annotations[corev1.ServiceAccountNameKey] = "gone" }
	env, c := start(t, objects(
		account("sa", "u1"), account("other", "u2"),
		secret("complete", "u1", withData("ca", "ns", "t")),
		secret("new", "u1"),
		secret("rotated-1", "u1", withData("old", "ns", "t")), secret("rotated-2", "", withData("old", "ns", "t")),
		secret("orphan", "u3", toGone),
	))
	if s := c.loop.Inspect(); s.Depth != 5 || s.Backlog != 5 {
		t.Errorf("%d keys are queued, %d of them in the backlog, want the secrets alone", s.Depth, s.Backlog)
	}
	env.Run(t, c)
	controllertest.Eventually(t, "the cache shows what was done", func() bool {
		cached, err := c.secrets.List(labels.Everything())
		return err == nil && len(cached) == 4 && !slices.ContainsFunc(cached, func(s *corev1.Secret) bool { return needsOf(s, c.ca) != needs{} })
	})
	controllertest.Eventually(t, "the deletion was noticed", func() bool { return len(requests(env)) >= 7 })
	env.AwaitIdle(t)
	env.WantRequestsInAnyOrder(t, "update secrets new", "update secrets rotated-1",
		"get serviceaccounts sa", "update secrets rotated-2", "get serviceaccounts gone", "delete secrets orphan", "get serviceaccounts gone")
	env.WantEvents(t)
	env.WantOnlyQueueMetrics(t)
	if adds := env.Series(t, "workqueue_adds_total"); len(adds) != 1 || !strings.HasPrefix(adds[0], "name=serviceaccount_tokens_service ") {
		t.Errorf("keys: %q", adds)
	}
}

// Each instance reads the files. Pins SAT-67.
func TestTheNextInstanceHasTheNewKeyAndCA(t *testing.T) {
	first, second := keyPEM(t), keyPEM(t)
	cfg := config{concurrentSyncs: 1, privateKeyFile: write(t, first), rootCAFile: write(t, caPEM(t))}
	for _, key := range [][]byte{first, second} {
		ca := caPEM(t)
		if err := errors.Join(os.WriteFile(cfg.privateKeyFile, key, 0o600), os.WriteFile(cfg.rootCAFile, ca, 0o600)); err != nil {
			t.Fatal(err)
		}
		env := controllertest.New(t, account("sa", "u1"), secret("s", "u1"))
		c := must.Get(newController(env.Env, cfg))(t)
		env.Start(t)
		if err := c.reconcile(env.Context(), secretKey(secret("s", "u1"))); err != nil {
			t.Fatal(err)
		}
		data := controllertest.MustStored[*corev1.Secret](t, env, testNamespace, "s").Data
		if string(data["ca.crt"]) != string(ca) {
			t.Errorf("ca.crt is %s", data["ca.crt"])
		}
		private, err := keyutil.ParsePrivateKeyPEM(key)
		if err != nil {
			t.Fatal(err)
		}
		token, err := jose.ParseSigned(string(data["token"]), []jose.SignatureAlgorithm{jose.ES256})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := token.Verify(private.(crypto.Signer).Public()); err != nil {
			t.Errorf("the token was signed with another key: %v", err)
		}
	}
}
