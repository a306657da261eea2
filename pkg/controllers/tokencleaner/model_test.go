package tokencleaner

import (
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clienttesting "k8s.io/client-go/testing"
	bootstrapapi "k8s.io/cluster-bootstrap/token/api"

	"kcmd.dev/pkg/controller"
	"kcmd.dev/test/must"
	"kcmd.dev/test/simulation"
)

// model is a world with tokens that others create, extend and delete.
type model struct {
	*simulation.World
	t *testing.T
	// wall is the clock of the process, which is never ahead.
	wall *simulation.Wall
}

// isOver reports whether a token has expired at a time, or never will because that is no time.
func isOver(s *corev1.Secret, at time.Time) bool {
	expiration, ok := s.Data[bootstrapapi.BootstrapTokenExpirationKey]
	end, err := time.Parse(time.RFC3339, string(expiration))
	return ok && (err != nil || !end.After(at))
}

func (m *model) deleted(object runtime.Object) {
	if s := object.(*corev1.Secret); s.Type != bootstrapapi.SecretTypeBootstrapToken || !isOver(s, m.Clock.Now()) {
		m.t.Errorf("%s %s is deleted, of type %s: %s", s.Name, s.UID, s.Type, s.Data)
	}
}

func (m *model) shape(s *corev1.Secret) {
	s.Data = map[string][]byte{}
	switch m.Rand.IntN(6) {
	case 0:
	case 1:
		s.Data[bootstrapapi.BootstrapTokenExpirationKey] = []byte("garbage")
	default:
		at := m.Clock.Now().Add(time.Duration(m.Rand.IntN(300)-30) * time.Second)
		s.Data[bootstrapapi.BootstrapTokenExpirationKey] = []byte(at.Format(time.RFC3339))
	}
}

func (m *model) edit() {
	name := fmt.Sprint("bootstrap-token-id000", m.Rand.IntN(4))
	switch s, ok := simulation.Get[*corev1.Secret](m.World, metav1.NamespaceSystem, name); {
	case !ok:
		s = token("", func(s *corev1.Secret) {
			s.ObjectMeta = metav1.ObjectMeta{Namespace: metav1.NamespaceSystem, Name: name}
			if m.OneIn(3) {
				s.Finalizers = []string{"example.com/hold"}
			}
			if m.OneIn(6) { // which a server that knows no such field selector sends as well
				s.Type = corev1.SecretTypeOpaque
			}
		})
		m.shape(s)
		m.Create(s)
	case len(s.Finalizers) > 0 && m.OneIn(2):
		m.Note("%s is released", name)
		simulation.Change(m.World, s, func(s *corev1.Secret) { s.Finalizers = nil })
	case m.OneIn(2):
		m.Delete(s, nil)
	default:
		m.Note("%s is changed", name)
		simulation.Change(m.World, s, m.shape)
	}
}

// answer has a webhook answer a deletion now and then as the API server itself would, though nothing has changed.
func (m *model) answer(action clienttesting.Action) (bool, runtime.Object, error) {
	name := action.(clienttesting.DeleteAction).GetName()
	switch resource := corev1.Resource("secrets"); {
	case !m.Faulty || !m.OneIn(4):
		return false, nil, nil
	case m.OneIn(2):
		return true, nil, apierrors.NewNotFound(resource, name)
	default:
		return true, nil, apierrors.NewConflict(resource, name, nil)
	}
}

// TestWhateverHappensExpiredTokensGoAndOthersStay has tokens created, extended, deleted and created again, the clock of
// the process set, requests fail and the controller restarted, while the cache is behind.
func TestWhateverHappensExpiredTokensGoAndOthersStay(t *testing.T) {
	simulation.Run(t, 40, func(t *testing.T, w *simulation.World) {
		(&model{World: w, t: t, wall: simulation.NewWall(w)}).run()
	})
}

func (m *model) run() {
	m.Deleted = m.deleted
	m.Fake.PrependReactor("delete", "secrets", m.answer)
	m.Start = func(env controller.Env, _ any) simulation.Instance {
		env.Clock = m.wall
		c := must.Get(newCleaner(env))(m.t)
		queue := simulation.NewQueue(m.World, c.reconcile)
		c.queue = queue
		return simulation.Instance{Runners: []simulation.Runner{queue}}
	}
	m.MayComeLate = simulation.AnyWrite
	m.Begin()
	m.Hasty = []int{0, 3}[m.Rand.IntN(2)]
	m.MayBeLossy(2)
	m.Play(m.edit, func() {
		m.wall.Ahead = time.Duration(m.Rand.IntN(3)-2) * time.Hour
		m.Note("the clock is set to %v", m.wall.Now())
	})
	for range 4 { // requests still fail, and nobody edits anything any more
		m.Drain()
		m.Clock.Step(10 * time.Second)
	}
	m.wall.Ahead = 0
	m.Note("the clock is right")
	m.Settle(10*time.Minute, func() bool { return simulation.Release[*corev1.Secret](m.World, true) })
	for _, s := range simulation.All[*corev1.Secret](m.World) {
		if s.Type == bootstrapapi.SecretTypeBootstrapToken && isOver(s, m.Clock.Now()) {
			m.t.Errorf("%s is left: %s", s.Name, s.Data)
		}
	}
}
