package rootca

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clienttesting "k8s.io/client-go/testing"

	"kcmd.dev/pkg/controllers/kit/reconcile"
	"kcmd.dev/test/controllertest"
)

// Pins ROOTCA-6.
func TestResyncsFollowTheController(t *testing.T) {
	_, p := start(t)
	const untouched = time.Hour
	namespaces, configMaps := &controllertest.Captured{Resync: untouched}, &controllertest.Captured{Resync: untouched}
	p.watch(namespaces, configMaps)
	if namespaces.Resync != untouched || configMaps.Resync != untouched {
		t.Errorf("the handlers have periods of their own: %v and %v", namespaces.Resync, configMaps.Resync)
	}
	namespaces.Handler.OnUpdate(namespace("a", corev1.NamespaceActive), namespace("a", corev1.NamespaceActive))
	configMaps.Handler.OnUpdate(newConfigMap("b", "x"), newConfigMap("b", "x"))
	if depth := p.loop.Inspect().Depth; depth != 2 {
		t.Errorf("depth = %d after resyncs, want 2", depth)
	}
}

// Pins ROOTCA-6 and ROOTCA-40.
func TestOnlyConfigMapsOfThisNameAreCached(t *testing.T) {
	env := controllertest.New(t)
	if _, err := newPublisher(env.Env, config{}); err != nil {
		t.Fatal(err)
	}
	env.Start(t)
	got := map[string]string{}
	for _, action := range env.Fake.Actions() {
		if list, ok := action.(clienttesting.ListActionImpl); ok {
			got[list.Resource.Resource] = list.Namespace + list.ListOptions.FieldSelector
		}
	}
	if diff := cmp.Diff(map[string]string{"namespaces": "", "configmaps": "metadata.name=kube-root-ca.crt"}, got); diff != "" {
		t.Errorf("lists (-want +got):\n%s", diff)
	}
}

// Pins ROOTCA-7.
func TestOtherConfigMapsQueueNothing(t *testing.T) {
	_, p := start(t)
	other := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "other", ResourceVersion: "1"}}
	p.enqueueOwnerOf(reconcile.Fresh, other)
	if depth := p.loop.Inspect().Depth; depth != 0 {
		t.Errorf("depth = %d after an event of another ConfigMap", depth)
	}
	p.enqueueOwnerOf(reconcile.Fresh, newConfigMap("a", "x"))
	if depth := p.loop.Inspect().Depth; depth != 1 {
		t.Errorf("depth = %d after an event of the ConfigMap, want 1", depth)
	}
}

// Pins ROOTCA-8.
func TestUpdatesOfTerminatingNamespacesQueueNothing(t *testing.T) {
	var objects []runtime.Object
	for _, name := range []string{"a", "b"} {
		cm := newConfigMap(name, "bundle")
		cm.ResourceVersion = "1"
		objects = append(objects, namespace(name, corev1.NamespaceActive), cm)
	}
	env, p := start(t, objects...)
	env.Run(t, p)
	reconciled := func(want uint64) {
		t.Helper()
		controllertest.Eventually(t, "the namespaces are reconciled", func() bool { return p.loop.Inspect().Reconciled >= want })
	}
	reconciled(2)
	for _, ns := range []*corev1.Namespace{namespace("a", corev1.NamespaceTerminating), namespace("b", corev1.NamespaceActive)} {
		ns.ResourceVersion = "2"
		if _, err := env.Client.CoreV1().Namespaces().Update(env.Context(), ns, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	// Notifications arrive in order: once b has been reconciled, a was passed over.
	reconciled(3)
	if s := p.loop.Inspect(); s.Reconciled != 3 || s.Depth != 0 || len(s.InFlight) != 0 {
		t.Errorf("more than the update of b was queued: %+v", s)
	}
}
