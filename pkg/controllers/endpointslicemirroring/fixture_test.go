package endpointslicemirroring

import (
	"testing"

	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"kcmd.dev/test/controllertest"
	"kcmd.dev/test/must"
)

var (
	defaults = config{concurrentSyncs: 5, maxEndpoints: 1000}
	web      = types.NamespacedName{Namespace: "n", Name: "web"}
)

// bench is a controller on a fake API server, with its caches filled.
type bench struct {
	*controllertest.Subject[types.NamespacedName]
	c *mirroringController
}

func newBench(t testing.TB, config config, objects ...runtime.Object) *bench {
	t.Helper()
	b := &bench{Subject: controllertest.NewSubject(t, web, objects...)}
	b.StampWrites("endpointslices")
	b.c = must.Get(newController(b.Env.Env, config))(t)
	b.Work = b.c.reconcile
	return b
}

// begin fills the caches and readies the controller for single reconciles.
func (b *bench) begin(t testing.TB) *bench {
	t.Helper()
	b.Start(t)
	must.Succeed(t, b.c.begin(b.Context()))
	return b
}

// stored returns the slices that the API server holds.
func (b *bench) stored(t testing.TB) []*discoveryv1.EndpointSlice {
	t.Helper()
	return controllertest.AllStored[*discoveryv1.EndpointSlice](t, b.Env, web.Namespace)
}

// observed waits until the cache shows the stored slices as they are.
func (b *bench) observed(t testing.TB) {
	t.Helper()
	controllertest.Eventually(t, "the cache shows what is stored", func() bool {
		cached, err := b.c.slices.Of(web.Namespace, web.Name)
		return err == nil && controllertest.SameVersions(cached, b.stored(t))
	})
}
