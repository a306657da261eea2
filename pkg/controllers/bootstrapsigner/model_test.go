package bootstrapsigner

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/cluster-bootstrap/token/jws"

	"kcmd.dev/pkg/controller"
	"kcmd.dev/test/must"
	"kcmd.dev/test/simulation"
)

// model is a world with a ConfigMap and tokens that others edit.
type model struct {
	*simulation.World
	t    *testing.T
	wall *simulation.Wall
}

func (m *model) info() (*corev1.ConfigMap, bool) {
	return simulation.Get[*corev1.ConfigMap](m.World, clusterInfo.Namespace, clusterInfo.Name)
}

// validate checks that an update changes nothing but signatures, and that each is one of the kubeconfig.
func (m *model) validate(old, new runtime.Object) error {
	was, is := old.(*corev1.ConfigMap).DeepCopy(), new.(*corev1.ConfigMap).DeepCopy()
	for key, value := range is.Data {
		id, isSignature := strings.CutPrefix(key, "jws-kubeconfig-")
		if isSignature && !m.isSignature(value, is.Data["kubeconfig"], id) {
			m.t.Errorf("%s is no signature: %s", key, value)
		}
	}
	if _, ok := was.Data["kubeconfig"]; !ok {
		m.t.Error("it is signed without a kubeconfig")
	}
	for _, cm := range []*corev1.ConfigMap{was, is} {
		maps.DeleteFunc(cm.Data, func(key, _ string) bool { return strings.HasPrefix(key, "jws-kubeconfig-") })
		cm.ResourceVersion = ""
	}
	if !apiequality.Semantic.DeepEqual(was, is) {
		m.t.Errorf("it changes more than signatures, from %v to %v", was, is)
	}
	return nil
}

// isSignature reports whether any secret that a token can have makes a signature.
func (m *model) isSignature(value, kubeconfig, id string) bool {
	return jws.DetachedTokenIsValid(value, kubeconfig, id, "one") ||
		jws.DetachedTokenIsValid(value, kubeconfig, id, "other")
}

func (m *model) randomInfo() map[string]string {
	data := map[string]string{"kubeconfig": []string{"", "a", "b"}[m.Rand.IntN(3)]}
	switch m.Rand.IntN(4) {
	case 0:
		data["kept"] = "too"
	case 1:
		data["jws-kubeconfig-id0000"] = "forged"
		data["jws-kubeconfig-gone00"] = "forged"
	case 2:
		delete(data, "kubeconfig")
	}
	return data
}

func (m *model) editInfo() {
	switch cm, ok := m.info(); {
	case !ok:
		m.Create(&corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Namespace: clusterInfo.Namespace, Name: clusterInfo.Name},
			Data:       m.randomInfo(),
		})
	case m.OneIn(5):
		m.Delete(cm, nil)
	default:
		m.Note("somebody edits the ConfigMap")
		simulation.Change(m.World, cm, func(cm *corev1.ConfigMap) {
			if m.OneIn(2) {
				cm.Data = m.randomInfo()
			} else {
				for _, key := range slices.Sorted(maps.Keys(cm.Data)) {
					if m.OneIn(2) {
						delete(cm.Data, key)
					}
				}
			}
		})
	}
}

func (m *model) shape(s *corev1.Secret) {
	_, id, _ := strings.Cut(s.Name, "bootstrap-token-")
	s.Data = map[string][]byte{
		"token-id": []byte(id), "token-secret": []byte([]string{"one", "other"}[m.Rand.IntN(2)]),
		"usage-bootstrap-signing": []byte("true"),
	}
	switch m.Rand.IntN(10) {
	case 0:
		delete(s.Data, []string{"token-id", "token-secret", "usage-bootstrap-signing"}[m.Rand.IntN(3)])
	case 1:
		s.Data["expiration"] = []byte("garbage")
	case 2, 3, 4, 5:
		at := m.Clock.Now().Add(time.Duration(m.Rand.IntN(300)-30) * time.Second)
		s.Data["expiration"] = []byte(at.Format(time.RFC3339))
	}
}

func (m *model) editToken() {
	name := fmt.Sprint("bootstrap-token-id000", m.Rand.IntN(4))
	switch s, ok := simulation.Get[*corev1.Secret](m.World, metav1.NamespaceSystem, name); {
	case !ok:
		s = secret()
		s.ObjectMeta = metav1.ObjectMeta{Namespace: metav1.NamespaceSystem, Name: name}
		m.shape(s)
		m.Create(s)
	case m.OneIn(2):
		m.Delete(s, nil)
	default:
		m.Note("token %s is changed", name)
		simulation.Change(m.World, s, m.shape)
	}
}

// answer has a webhook answer an update now and then as the API server itself would, though nothing has changed.
func (m *model) answer(clienttesting.Action) (bool, runtime.Object, error) {
	switch resource := corev1.Resource("configmaps"); {
	case !m.Faulty || !m.OneIn(4):
		return false, nil, nil
	case m.OneIn(2):
		return true, nil, apierrors.NewNotFound(resource, clusterInfo.Name)
	default:
		return true, nil, apierrors.NewConflict(resource, clusterInfo.Name, nil)
	}
}

// TestWhateverHappensEachValidTokenSignsInTheEnd has the ConfigMap edited, deleted and created again, tokens come, go,
// change and expire, the clock of the process set, requests fail and the controller restarted, while the caches are
// behind.
func TestWhateverHappensEachValidTokenSignsInTheEnd(t *testing.T) {
	simulation.Run(t, 40, func(t *testing.T, w *simulation.World) {
		(&model{World: w, t: t, wall: simulation.NewWall(w)}).run()
	})
}

func (m *model) run() {
	m.Validate = m.validate
	m.Fake.PrependReactor("update", "configmaps", m.answer)
	m.Start = func(env controller.Env, _ any) simulation.Instance {
		env.Clock = m.wall
		s := must.Get(newSigner(env))(m.t)
		queue := simulation.NewQueue(m.World, s.reconcile)
		s.queue = queue
		return simulation.Instance{Runners: []simulation.Runner{queue}}
	}
	isSet := m.OneIn(2) // the clock
	m.editInfo()
	m.MayComeLate = simulation.AnyWrite
	m.Begin()
	m.Hasty = []int{0, 3}[m.Rand.IntN(2)]
	m.MayBeLossy(2)
	m.Play(func() {
		if m.OneIn(4) {
			m.editInfo()
		} else {
			m.editToken()
		}
	}, func() {
		if isSet {
			m.wall.Ahead = time.Duration(m.Rand.IntN(3)-1) * time.Hour
			m.Note("the clock is set to %v", m.wall.Now())
		}
	})
	for range 4 { // requests still fail, and nobody edits anything any more
		m.Drain()
		m.Clock.Step(10 * time.Second)
	}
	m.wall.Ahead = 0
	m.Note("the clock is right")
	horizon := 20 * time.Second // as fast as events tell, and RecheckAfter
	if isSet {
		horizon = lookAgain
	}
	m.Settle(horizon, nil)
	m.check()
}

// check compares the entries with those that the tokens should have by now.
func (m *model) check() {
	cm, ok := m.info()
	if !ok {
		return
	}
	kubeconfig, ok := cm.Data["kubeconfig"]
	if !ok {
		return
	}
	signatures := 0
	for _, s := range simulation.All[*corev1.Secret](m.World) {
		at, err := time.Parse(time.RFC3339, string(s.Data["expiration"]))
		_, id, _ := strings.Cut(s.Name, "bootstrap-token-")
		isValid := string(s.Data["token-id"]) == id && len(s.Data["token-secret"]) > 0 &&
			string(s.Data["usage-bootstrap-signing"]) == "true" &&
			(len(s.Data["expiration"]) == 0 || err == nil && at.After(m.Clock.Now()))
		is := cm.Data["jws-kubeconfig-"+id]
		switch {
		case isValid && !jws.DetachedTokenIsValid(is, kubeconfig, id, string(s.Data["token-secret"])):
			m.t.Errorf("the entry of token %s is %q", id, is)
		case isValid:
			signatures++
		case is != "":
			m.t.Errorf("token %s, which is not valid, has the entry %q", id, is)
		}
	}
	for key := range cm.Data {
		if strings.HasPrefix(key, "jws-kubeconfig-") {
			signatures--
		}
	}
	if signatures != 0 {
		m.t.Errorf("%d entries are missing or left: %v", signatures, cm.Data)
	}
}
