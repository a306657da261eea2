package satoken

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/utils/clock"

	"kcmd.dev/pkg/controller"
	"kcmd.dev/test/must"
	"kcmd.dev/test/simulation"
)

// model is a world with accounts and their token Secrets.
type model struct {
	*simulation.World
	t       *testing.T
	meddled bool // whether users acted since the reconcile began, or since it read an account
	started bool
	killed  bool // whether an instance handed nothing over
}

// inAHurry is a clock on which nobody waits.
type inAHurry struct{ clock.WithTicker }

func (c inAHurry) After(time.Duration) <-chan time.Time {
	at := make(chan time.Time, 1)
	at <- c.Now()
	return at
}

// accountOf returns the account that a Secret names, false if there is none.
func (m *model) accountOf(secret *corev1.Secret) (*corev1.ServiceAccount, bool) {
	account, ok := simulation.Get[*corev1.ServiceAccount](m.World, "ns", secret.Annotations[corev1.ServiceAccountNameKey])
	uid := types.UID(secret.Annotations[corev1.ServiceAccountUIDKey])
	return account, ok && (uid == "" || account.UID == uid)
}

// hasMeddled reports whether users may have acted since the controller decided on a request.
func (m *model) hasMeddled() bool { return m.meddled || m.IsLateWrite() }

// observe sees the requests of the controller.
func (m *model) observe(action clienttesting.Action) (bool, runtime.Object, error) {
	if action.Matches("get", "serviceaccounts") {
		m.meddled = false
	}
	return false, nil, nil
}

// deleted checks a deletion by the controller. What names no UID belongs to whichever account has the name.
func (m *model) deleted(object runtime.Object) {
	secret := object.(*corev1.Secret)
	isBound := secret.Annotations[corev1.ServiceAccountUIDKey] != ""
	if account, lives := m.accountOf(secret); lives && (isBound || !m.hasMeddled()) {
		m.t.Errorf("%s of the account %s is deleted", secret.Name, account.UID)
	}
}

// validate checks what the controller writes.
func (m *model) validate(old, new runtime.Object) error {
	switch next := new.(type) {
	case *corev1.Secret:
		m.checkSecret(old.(*corev1.Secret), next)
	case *corev1.ServiceAccount:
		for _, ref := range old.(*corev1.ServiceAccount).Secrets {
			_, exists := simulation.Get[*corev1.Secret](m.World, "ns", ref.Name)
			if !slices.Contains(next.Secrets, ref) && exists && !m.hasMeddled() {
				m.t.Errorf("the reference to %s is removed", ref.Name)
			}
		}
	}
	return nil
}

func (m *model) checkSecret(was, is *corev1.Secret) {
	of, to := secretKey(was), secretKey(is)
	if of.accountName != to.accountName || of.accountUID != "" && of.accountUID != to.accountUID || to.accountUID == "" {
		m.t.Errorf("%+v becomes %+v", of, to)
	}
	if _, lives := m.accountOf(is); !lives && of.accountUID == "" && !m.hasMeddled() {
		m.t.Errorf("%s is bound to %s, which is gone", is.Name, to.accountUID)
	}
	before, token := string(was.Data[corev1.ServiceAccountTokenKey]), string(is.Data[corev1.ServiceAccountTokenKey])
	if before != "" && token != before {
		m.t.Errorf("the token of %s is replaced", is.Name)
	}
	if token == before {
		return
	}
	var claims map[string]string
	payload := must.Get(base64.RawURLEncoding.DecodeString(strings.Split(token, ".")[1]))(m.t)
	must.Succeed(m.t, json.Unmarshal(payload, &claims))
	of = key{accountName: claims[accountNameClaim], accountUID: types.UID(claims[accountUIDClaim]), name: claims[secretNameClaim]}
	if of.accountName != to.accountName || of.accountUID != to.accountUID || of.name != to.name {
		m.t.Errorf("%+v gets the token of %v", to, claims)
	}
}

func (m *model) user() {
	m.meddled = true
	n := m.Rand.IntN
	name := []string{"a", "b"}[n(2)]
	account, ok := simulation.Get[*corev1.ServiceAccount](m.World, "ns", name)
	if n(3) == 0 {
		if ok {
			m.Delete(account, nil)
		}
		if !ok || n(2) == 0 {
			m.Create(&corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name}})
		}
		return
	}
	secretName := fmt.Sprint("s", n(3))
	secret, exists := simulation.Get[*corev1.Secret](m.World, "ns", secretName)
	annotations := map[string]string{corev1.ServiceAccountNameKey: name}
	if ok && n(2) == 0 {
		annotations[corev1.ServiceAccountUIDKey] = string(account.UID)
	}
	if !exists {
		m.Create(&corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: secretName, Annotations: annotations},
			Type:       corev1.SecretTypeServiceAccountToken,
		})
		m.forgetReferences(secretName, name)
		return
	}
	switch n(5) {
	case 0:
		m.Note("user has %s name %v", secretName, annotations)
		simulation.Change(m.World, secret, func(s *corev1.Secret) { s.Annotations = annotations })
		m.forgetReferences(secretName, name)
	case 1:
		m.Note("user edits %s", secretName)
		simulation.Change(m.World, secret, func(s *corev1.Secret) {
			s.Data = map[string][]byte{corev1.ServiceAccountRootCAKey: []byte("edited")}
		})
	case 2:
		m.Delete(secret, nil)
	default: // what the controller has not seen, it cannot miss
		isSeen := len(secret.Data[corev1.ServiceAccountTokenKey]) > 0
		if of, lives := m.accountOf(secret); lives && isSeen && len(of.Secrets) == 0 {
			m.Note("user has %s refer to %s", of.Name, secretName)
			simulation.Change(m.World, of, func(a *corev1.ServiceAccount) {
				a.Secrets = append(a.Secrets, corev1.ObjectReference{Name: secretName})
			})
		}
	}
}

// forgetReferences removes the references to a Secret from all accounts but one.
func (m *model) forgetReferences(secret, but string) {
	for _, account := range simulation.All[*corev1.ServiceAccount](m.World) {
		if account.Name != but && len(account.Secrets) > 0 {
			simulation.Change(m.World, account, func(a *corev1.ServiceAccount) {
				a.Secrets = slices.DeleteFunc(a.Secrets, func(ref corev1.ObjectReference) bool { return ref.Name == secret })
			})
		}
	}
}

// TestWhateverHappensEachSecretBelongsToItsAccount has accounts and Secrets deleted, created again and edited, also
// between two requests of a reconcile, requests fail and the controller restarted, while the caches are behind.
func TestWhateverHappensEachSecretBelongsToItsAccount(t *testing.T) {
	file := write(t, keyPEM(t))
	simulation.Run(t, 40, func(t *testing.T, w *simulation.World) {
		m := &model{World: w, t: t}
		w.Fake.PrependReactor("*", "*", m.observe)
		w.Validate, w.Deleted = m.validate, m.deleted
		w.Start = func(env controller.Env, left any) simulation.Instance {
			env.ClusterCA = []byte("ca")
			env.Clock = inAHurry{env.Clock}
			c := must.Get(newController(env, config{concurrentSyncs: 1, privateKeyFile: file}))(t)
			queue := simulation.NewQueue(w, func(ctx context.Context, k key) error {
				m.meddled = false
				return c.reconcile(ctx, k)
			})
			c.queue = queue
			m.killed = m.killed || m.started && left == nil
			m.started = true
			c.takeOver()
			return simulation.Instance{Runners: []simulation.Runner{queue}, HandOver: func() any { return c.HandOver() }}
		}
		w.MayComeLate = simulation.AnyWrite
		w.Begin()
		w.Hasty = []int{0, 3}[w.Rand.IntN(2)]
		w.MayBeLossy(3)
		w.Play(func() {
			if w.OneIn(4) {
				m.user()
			}
		}, m.user)
		w.Settle(time.Minute, nil)
		m.check()
	})
}

func (m *model) check() {
	for _, secret := range simulation.All[*corev1.Secret](m.World) {
		if _, lives := m.accountOf(secret); !lives {
			m.t.Errorf("%s stays, and its account is gone: %v", secret.Name, secret.Annotations)
		} else if lacking := needsOf(secret, []byte("ca")); lacking != (needs{}) {
			m.t.Errorf("%s lacks %+v", secret.Name, lacking)
		}
	}
	for _, account := range simulation.All[*corev1.ServiceAccount](m.World) {
		for _, ref := range account.Secrets {
			if _, ok := simulation.Get[*corev1.Secret](m.World, "ns", ref.Name); !ok && !m.killed {
				m.t.Errorf("%s refers to %s, which is gone", account.Name, ref.Name)
			}
		}
	}
}
