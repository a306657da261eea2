package disruption

import (
	"testing"

	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	discoveryfake "k8s.io/client-go/discovery/fake"
	scalefake "k8s.io/client-go/scale/fake"
	clienttesting "k8s.io/client-go/testing"

	"kcmd.dev/test/controllertest"
)

// bench is a controller on fakes.
type bench struct {
	*controllertest.Subject[types.NamespacedName]
	c      *disruptionController
	scales *scalefake.FakeScaleClient
}

// newBench makes a controller whose caches and API server hold the objects.
func newBench(t testing.TB, objects ...runtime.Object) *bench {
	t.Helper()
	key := types.NamespacedName{Namespace: "n", Name: "pdb"}
	b := &bench{Subject: controllertest.NewSubject(t, key, objects...), scales: &scalefake.FakeScaleClient{}}
	b.c = newController(b.Env.Env, b.scales)
	b.Work = b.c.reconcile
	b.Start(t)
	b.Fake.ClearActions()
	return b
}

// writes returns the statuses that were written so far.
func (b *bench) writes() []policyv1.PodDisruptionBudgetStatus {
	var all []policyv1.PodDisruptionBudgetStatus
	for _, action := range b.Fake.Actions() {
		if update, ok := action.(clienttesting.UpdateAction); ok && action.GetSubresource() == "status" {
			all = append(all, update.GetObject().(*policyv1.PodDisruptionBudget).Status)
		}
	}
	return all
}

// wrote returns the status of the only write.
func (b *bench) wrote(t testing.TB) policyv1.PodDisruptionBudgetStatus {
	t.Helper()
	all := b.writes()
	if len(all) != 1 {
		t.Fatalf("%d statuses were written, want one", len(all))
	}
	return all[0]
}

// serveScale makes the scale of anything be what the API server says.
func (b *bench) serveScale(answer func(name string) (runtime.Object, error)) {
	b.scales.PrependReactor("get", "*", func(action clienttesting.Action) (bool, runtime.Object, error) {
		object, err := answer(action.(clienttesting.GetAction).GetName())
		return true, object, err
	})
}

// serveResources makes discovery list resources.
func (b *bench) serveResources(t testing.TB, gv schema.GroupVersion, resources ...metav1.APIResource) {
	t.Helper()
	fake, ok := b.Fake.Discovery().(*discoveryfake.FakeDiscovery)
	if !ok {
		t.Fatal("discovery is no fake")
	}
	fake.Resources = append(fake.Resources, &metav1.APIResourceList{GroupVersion: gv.String(), APIResources: resources})
}
