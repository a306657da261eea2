package statefulset

import (
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	ktesting "k8s.io/client-go/testing"

	"kcmd.dev/test/controllertest"
	"kcmd.dev/test/must"
)

var defaultGates = config{concurrentSyncs: 1, requireFresh: true, semanticComparison: true}

// fixture is a controller whose caches hold exactly what the test puts there.
type fixture struct {
	*controllertest.Subject[types.NamespacedName]
	c *statefulSetController
}

func newFixture(t testing.TB, objects ...runtime.Object) *fixture {
	t.Helper()
	return newFixtureWith(t, defaultGates, objects...)
}

// newFixtureWith makes a controller over the objects, which are both stored and cached.
func newFixtureWith(t testing.TB, cfg config, objects ...runtime.Object) *fixture {
	t.Helper()
	f := &fixture{Subject: controllertest.NewSubject(t, key, objects...)}
	f.CompleteWrites()
	f.Intercept("create pods", func(action ktesting.Action) error {
		if pod := action.(ktesting.CreateAction).GetObject().(*corev1.Pod); pod.Status.Phase == "" {
			phase(corev1.PodPending)(pod)
		}
		return nil
	})
	f.c = must.Get(newController(f.Env.Env, cfg))(t)
	f.Work, f.c.owners.Queue, f.Queued.Namespace = f.c.owners.Reconcile, f.Queued, key.Namespace
	f.Kinds = []runtime.Object{&appsv1.StatefulSet{}, &appsv1.ControllerRevision{}, &corev1.PersistentVolumeClaim{}, &corev1.Pod{}}
	f.Cache(t, objects...)
	return f
}

// storePods stores the pods that are created, after some changes, without what the fake API server
// spends several milliseconds on for each.
func storePods(env *controllertest.Env, changes ...podChange) {
	env.Fake.PrependReactor("create", "pods", func(action ktesting.Action) (bool, runtime.Object, error) {
		pod := controllertest.Changed(action.(ktesting.CreateAction).GetObject().(*corev1.Pod), changes...)
		pod.UID, pod.ResourceVersion = types.UID(pod.Name), env.NextVersion()
		return true, pod, env.Fake.Tracker().Add(pod)
	})
}

// kubelet makes every pod of the API server run and be ready.
func (f *fixture) kubelet(t testing.TB) {
	t.Helper()
	for _, pod := range controllertest.AllStored[*corev1.Pod](t, f.Env, key.Namespace) {
		f.Store(t, controllertest.Changed(pod, phase(corev1.PodRunning), readySince(start.Add(-time.Hour))))
	}
	f.CatchUp(t)
}

func (f *fixture) status(t testing.TB) appsv1.StatefulSetStatus {
	t.Helper()
	return controllertest.MustStored[*appsv1.StatefulSet](t, f.Env, key.Namespace, key.Name).Status
}

const (
	createWeb0 = "create pods web-0"
	createWeb1 = "create pods web-1"
	createWeb2 = "create pods web-2"
	putStatus  = "update statefulsets/status web"
)

// settled makes a fixture of a set whose pods are all ready at one revision.
func settled(t testing.TB, replicas int32, changes ...setChange) *fixture {
	t.Helper()
	revision := revisionAt(t, 1)
	set := newSet(replicas, settledAt(revision.Name))
	objects := []runtime.Object{set, revision}
	for n := range int(replicas) {
		objects = append(objects, podAt(set, revision.Name, n))
	}
	for _, change := range changes {
		change(set)
	}
	return newFixture(t, objects...)
}
