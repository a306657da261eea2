package namespace

import (
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clienttesting "k8s.io/client-go/testing"

	"kcmd.dev/test/controllertest"
	"kcmd.dev/test/must"
)

// fixture is a controller with a namespace named ns that is being deleted.
type fixture struct {
	*controllertest.Env
	*namespaceController
	store  *store
	server *server
}

// start starts a controller that has seen long enough which namespaces are being deleted to sweep them.
func start(t testing.TB, s *server, objects ...runtime.Object) *fixture {
	t.Helper()
	return startSeeing(t, epoch.Add(-settleTime), s, objects...)
}

// startSeeing starts a controller, at epoch, that has seen at a time which namespaces are being deleted.
func startSeeing(t testing.TB, at time.Time, s *server, objects ...runtime.Object) *fixture {
	t.Helper()
	f := unstarted(t, s, objects...)
	f.Clock.SetTime(at)
	f.Start(t)
	f.Clock.SetTime(epoch)
	f.Fake.ClearActions()
	return f
}

// unstarted makes a controller whose informers have not been started.
func unstarted(t testing.TB, s *server, objects ...runtime.Object) *fixture {
	t.Helper()
	env := controllertest.New(t, objects...)
	f := &fixture{Env: env, store: newStore(), server: s}
	env.Metadata, env.Env.Discovery = f.store, s
	env.Informers.Core().V1().Pods().Informer() // as other controllers do
	c := must.Get(newController(env.Env, config{concurrentSyncs: 1, podsFirst: true}))(t)
	f.namespaceController = c
	return f
}

// epoch is when the deletion of namespaces in tests, and their clocks, begin.
var epoch = time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)

// terminating is a namespace that was deleted at epoch.
func terminating(changes ...func(*corev1.Namespace)) *corev1.Namespace {
	at := metav1.NewTime(epoch)
	ns := &corev1.Namespace{
		ObjectMeta: metav1.ObjectMeta{Name: "ns", UID: "uid", ResourceVersion: "1", DeletionTimestamp: &at},
		Spec:       corev1.NamespaceSpec{Finalizers: []corev1.FinalizerName{corev1.FinalizerKubernetes}},
		Status:     corev1.NamespaceStatus{Phase: corev1.NamespaceTerminating},
	}
	for _, change := range changes {
		change(ns)
	}
	return ns
}

// written are the requests on namespaces that are no lists, as "verb subresource".
func (f *fixture) written() []string {
	var all []string
	for _, action := range f.Fake.Actions() {
		if action.GetResource().Resource != "namespaces" || action.GetVerb() == "list" || action.GetVerb() == "watch" {
			continue
		}
		name := action.GetVerb()
		if sub := action.GetSubresource(); sub != "" {
			name += " " + sub
		}
		all = append(all, name)
	}
	f.Fake.ClearActions()
	return all
}

// finalized are the finalizers of each finalize request so far.
func (f *fixture) finalized() *[][]corev1.FinalizerName {
	var all [][]corev1.FinalizerName
	f.Fake.PrependReactor("create", "namespaces", func(action clienttesting.Action) (bool, runtime.Object, error) {
		if action.GetSubresource() != "finalize" {
			return false, nil, nil
		}
		ns := action.(clienttesting.CreateAction).GetObject().(*corev1.Namespace)
		all = append(all, ns.Spec.Finalizers)
		return true, ns, nil
	})
	return &all
}

func (f *fixture) live(t testing.TB) *corev1.Namespace {
	t.Helper()
	ns, err := f.Fake.CoreV1().Namespaces().Get(f.Context(), "ns", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return ns
}

// conditionsOf are the conditions as "Type=Status".
func conditionsOf(ns *corev1.Namespace) []string {
	var all []string
	for _, c := range ns.Status.Conditions {
		all = append(all, fmt.Sprintf("%s=%s", c.Type, c.Status))
	}
	return all
}

type finalizers = [][]corev1.FinalizerName
