package legacytokencleaner

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/informers/core"
	"k8s.io/client-go/informers/internalinterfaces"
	"k8s.io/client-go/tools/cache"

	"kcmd.dev/pkg/controller"
	"kcmd.dev/test/must"
	"kcmd.dev/test/simulation"
)

const day = 24 * time.Hour

// model is a world in which tokens are used, and Secrets, accounts and pods come and go under the same names.
type model struct {
	*simulation.World
	t *testing.T
	// used is when the API server saw the token of a Secret last, at first when the Secret was created. One that it
	// refuses is recorded as used, too.
	used map[types.UID]time.Time
	// invalidated is when the pass began in which the controller labelled a Secret, unless that was undone.
	invalidated map[types.UID]time.Time
	began       time.Time // of the pass
	meddled     bool      // whether users acted since
}

// isMounted reports whether a pod refers to a Secret.
func (m *model) isMounted(secret *corev1.Secret) bool {
	return slices.ContainsFunc(simulation.All[*corev1.Pod](m.World), func(p *corev1.Pod) bool {
		return p.Spec.Volumes[0].Secret.SecretName == secret.Name
	})
}

// isGenerated reports whether the account of a Secret lists it, and whether there is that account.
func (m *model) isGenerated(secret *corev1.Secret) (generated, lives bool) {
	account, ok := simulation.Get[*corev1.ServiceAccount](m.World, "ns", secret.Annotations[corev1.ServiceAccountNameKey])
	if !ok || string(account.UID) != secret.Annotations[corev1.ServiceAccountUIDKey] {
		return false, false
	}
	isListed := func(ref corev1.ObjectReference) bool { return ref.Name == secret.Name }
	return slices.ContainsFunc(account.Secrets, isListed), true
}

// checkRetired checks that a Secret to which the controller does something is out of use.
func (m *model) checkRetired(secret *corev1.Secret) {
	if idle := m.Clock.Since(m.used[secret.UID]); idle < day {
		m.t.Errorf("%s %s is retired, and was used %v ago", secret.Name, secret.UID, idle)
	}
	if m.IsLateWrite() {
		return // what the Secret does not show may have changed since
	}
	if !m.meddled && m.isMounted(secret) {
		m.t.Errorf("%s %s is retired, and a pod refers to it", secret.Name, secret.UID)
	}
	if generated, lives := m.isGenerated(secret); lives && !generated {
		m.t.Errorf("%s %s is retired, and was not generated", secret.Name, secret.UID)
	}
}

// validate checks what the controller labels.
func (m *model) validate(old, new runtime.Object) error {
	is := new.(*corev1.Secret)
	m.checkRetired(old.(*corev1.Secret))
	m.invalidated[is.UID] = m.began
	if since := is.Labels[invalidSinceLabel]; since != dayOf(m.began) && !m.IsLateWrite() {
		m.t.Errorf("%s is labelled as invalid since %s", is.Name, since)
	}
	return nil
}

// deleted checks a deletion by the controller.
func (m *model) deleted(object runtime.Object) {
	secret := object.(*corev1.Secret)
	m.checkRetired(secret)
	if since, ok := m.invalidated[secret.UID]; !ok || m.Clock.Since(since) < day {
		m.t.Errorf("%s %s is deleted, and is labelled since %v", secret.Name, secret.UID, since)
	}
}

// use has the API server see the token of a Secret. It records a day once.
func (m *model) use(secret *corev1.Secret) {
	now := m.Clock.Now()
	m.Note("the token of %s is used", secret.Name)
	m.used[secret.UID] = now
	if last := secret.Labels[lastUsedLabel]; last == dayOf(now) || last == dayOf(now.Add(day)) {
		return
	}
	simulation.Change(m.World, secret, func(s *corev1.Secret) { setLabel(s, lastUsedLabel, dayOf(now)) })
}

func setLabel(secret *corev1.Secret, key, value string) {
	if secret.Labels == nil {
		secret.Labels = map[string]string{}
	}
	secret.Labels[key] = value
}

func (m *model) userOfAccounts(name string) {
	account, ok := simulation.Get[*corev1.ServiceAccount](m.World, "ns", name)
	if ok {
		m.Delete(account, nil)
	} else {
		m.Create(&corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name}})
	}
}

func (m *model) user() {
	m.meddled = true
	n := m.Rand.IntN(4)
	name, accountName := fmt.Sprint("s", n), fmt.Sprint("a", n/2)
	secret, exists := simulation.Get[*corev1.Secret](m.World, "ns", name)
	account, ok := simulation.Get[*corev1.ServiceAccount](m.World, "ns", accountName)
	switch {
	case !ok || m.OneIn(12):
		m.userOfAccounts(accountName)
	case !exists:
		created := m.Create(&corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, Annotations: map[string]string{
				corev1.ServiceAccountNameKey: accountName, corev1.ServiceAccountUIDKey: string(account.UID),
			}},
			Type: corev1.SecretTypeServiceAccountToken,
		}).(*corev1.Secret)
		m.used[created.UID] = created.CreationTimestamp.Time
		if !m.OneIn(4) {
			simulation.Change(m.World, account, func(a *corev1.ServiceAccount) {
				a.Secrets = append(a.Secrets, corev1.ObjectReference{Name: name})
			})
		}
	case m.OneIn(3):
		m.use(secret)
	case m.OneIn(5):
		m.Delete(secret, nil)
	case secret.Labels[invalidSinceLabel] != "" && m.OneIn(2):
		m.Note("user has %s be valid again", name)
		delete(m.invalidated, secret.UID)
		simulation.Change(m.World, secret, func(s *corev1.Secret) { setLabel(s, invalidSinceLabel, "") })
	default:
		if used, ok := simulation.Get[*corev1.Pod](m.World, "ns", name); ok {
			m.Delete(used, nil)
		} else if m.OneIn(2) {
			m.Create(pod(name, name))
		}
	}
}

// liveScope answers whoever asks for the pods of a namespace alone with those that there are.
type liveScope struct {
	controller.Scope
	w *simulation.World
}

func (s liveScope) Filtered(filter controller.Filter) informers.SharedInformerFactory {
	if filter.Namespace == "" {
		return s.Scope.Filtered(filter)
	}
	return liveFactory{s.Scope, s.w}
}

func (s liveScope) Release(cache.SharedIndexInformer) {}

type liveFactory struct {
	informers.SharedInformerFactory
	w *simulation.World
}

func (f liveFactory) StartWithContext(context.Context) {}
func (f liveFactory) Core() core.Interface             { return core.New(f, "", nil) }

func (f liveFactory) InformerFor(
	_ runtime.Object, newInformer internalinterfaces.NewInformerFunc,
) cache.SharedIndexInformer {
	i := newInformer(f.w.Fake, 0)
	for _, pod := range simulation.All[*corev1.Pod](f.w) {
		if err := i.GetIndexer().Add(pod); err != nil {
			panic(err)
		}
	}
	return synced{i}
}

type synced struct{ cache.SharedIndexInformer }

func (synced) HasSynced() bool { return true }

// TestWhateverHappensNoTokenInUseIsRetired has tokens used, mounted, deleted and created again, requests fail and the
// controller restarted, while the caches are behind, or lack objects.
func TestWhateverHappensNoTokenInUseIsRetired(t *testing.T) {
	simulation.Run(t, 40, func(t *testing.T, w *simulation.World) {
		m := &model{World: w, t: t, used: map[types.UID]time.Time{}, invalidated: map[types.UID]time.Time{}}
		w.Validate, w.Deleted = m.validate, m.deleted
		w.Start = func(env controller.Env, _ any) simulation.Instance {
			env.Informers = liveScope{env.Informers, w}
			c := must.Get(newCleaner(env, value(day)))(t)
			passes := simulation.NewPasses(w, 0, passPeriod, func(ctx context.Context) {
				m.began, m.meddled = m.Clock.Now(), false
				c.pass(ctx, ctx)
			})
			return simulation.Instance{Runners: []simulation.Runner{passes}}
		}
		w.Create(tracking("2025-12-01"))
		for range 12 {
			m.user()
		}
		w.MayComeLate = simulation.AnyWrite
		w.Begin()
		w.Hasty = []int{0, 3}[w.Rand.IntN(2)]
		w.MayBeLossy(3)
		w.Play(func() {
			if w.OneIn(4) {
				w.Clock.Step(time.Duration(w.Rand.IntN(20)) * time.Hour)
			}
			m.user()
		}, m.user)
		w.Settle(8*day, nil)
		for _, secret := range simulation.All[*corev1.Secret](w) {
			if generated, _ := m.isGenerated(secret); generated && !m.isMounted(secret) {
				t.Errorf("%s stays: %+v", secret.Name, secret)
			}
		}
	})
}
