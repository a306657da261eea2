package replicas

import (
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"kcmd.dev/test/controllertest"
)

// fixture is an engine whose caches hold exactly what the test puts there.
type fixture struct {
	*controllertest.Subject[types.NamespacedName]
	engine *Engine[*appsv1.ReplicaSet]
	stale  []schema.GroupResource
	ratios []float64
}

// newFixture makes an engine over the objects, which are both stored and cached.
func newFixture(t testing.TB, change func(*Kind[*appsv1.ReplicaSet], *Options), objects ...runtime.Object) *fixture {
	t.Helper()
	f := &fixture{Subject: controllertest.NewSubject(t, key, objects...)}
	f.CompleteWrites("pods")
	kind := testKind(f.Env)
	options := Options{
		Queue:            "test",
		Workers:          1,
		DeletionCost:     true,
		CountTerminating: true,
		RequireFresh:     true,
		OnStale:          func(r schema.GroupResource) { f.stale = append(f.stale, r) },
		OnAgeRatio:       func(ratio float64) { f.ratios = append(f.ratios, ratio) },
	}
	if change != nil {
		change(&kind, &options)
	}
	f.engine = New(f.Env.Env, kind, options)
	f.Work, f.engine.owners.Queue, f.Queued.Namespace = f.engine.owners.Reconcile, f.Queued, key.Namespace
	f.Kinds = []runtime.Object{&appsv1.ReplicaSet{}, &corev1.Pod{}}
	f.Cache(t, objects...)
	return f
}

func (f *fixture) status(t testing.TB) appsv1.ReplicaSetStatus {
	t.Helper()
	return controllertest.MustStored[*appsv1.ReplicaSet](t, f.Env, key.Namespace, key.Name).Status
}
