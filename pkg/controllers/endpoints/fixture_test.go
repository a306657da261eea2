package endpoints

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"kcmd.dev/test/controllertest"
	"kcmd.dev/test/must"
)

var (
	defaults = config{concurrentSyncs: 5}
	web      = types.NamespacedName{Namespace: "n", Name: "web"}
)

// bench is a controller on a fake API server, with its caches filled.
type bench struct {
	*controllertest.Subject[types.NamespacedName]
	c *endpointsController
}

func newBench(t testing.TB, config config, objects ...runtime.Object) *bench {
	t.Helper()
	b := &bench{Subject: controllertest.NewSubject(t, web, objects...)}
	b.StampWrites("endpoints")
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

// stored returns the Endpoints that the API server holds, nil if none.
func (b *bench) stored(t testing.TB) *corev1.Endpoints {
	t.Helper()
	stored, _ := controllertest.Stored[*corev1.Endpoints](t, b.Env, web.Namespace, web.Name)
	return stored
}

// observed waits until the cache shows the stored Endpoints as they are.
func (b *bench) observed(t testing.TB) {
	t.Helper()
	controllertest.Eventually(t, "the cache shows what is stored", func() bool {
		cached, err := b.c.endpoints.Endpoints(web.Namespace).Get(web.Name)
		return err == nil && cached.ResourceVersion == b.stored(t).ResourceVersion
	})
}
