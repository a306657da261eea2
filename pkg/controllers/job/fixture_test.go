package job

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	ktesting "k8s.io/client-go/testing"

	"kcmd.dev/test/controllertest"
	"kcmd.dev/test/must"
)

// fixture is a controller whose caches hold exactly what the test puts there.
type fixture struct {
	*controllertest.Subject[types.NamespacedName]
	c       *jobController
	orphans *controllertest.Queue[orphan]
}

// newFixture makes a controller over the objects, which are both stored and cached.
func newFixture(t testing.TB, cfg config, objects ...runtime.Object) *fixture {
	t.Helper()
	f := &fixture{Subject: controllertest.NewSubject(t, key, objects...), orphans: &controllertest.Queue[orphan]{}}
	f.CompleteWrites("pods")
	f.Fake.PrependReactor("delete", "pods", f.deletePod)
	f.Intercept("update jobs/status", func(action ktesting.Action) error {
		sent := action.(ktesting.UpdateAction).GetObject().(*batchv1.Job)
		for _, fault := range faultsIn(f.stored(t), sent) {
			t.Errorf("the API server would refuse a status: %s", fault)
		}
		return nil
	})
	f.c = must.Get(newController(f.Env.Env, cfg))(t)
	f.Work, f.c.owners.Queue, f.c.orphanQueue = f.c.owners.Reconcile, f.Queued, f.orphans
	f.Kinds = []runtime.Object{&batchv1.Job{}, &corev1.Pod{}}
	f.Cache(t, objects...)
	return f
}

// deletePod keeps a pod that has the finalizer when it is deleted, as the API server does.
func (f *fixture) deletePod(action ktesting.Action) (bool, runtime.Object, error) {
	pods := f.Fake.Tracker()
	stored, err := pods.Get(action.GetResource(), action.GetNamespace(), action.(ktesting.DeleteAction).GetName())
	pod, ok := stored.(*corev1.Pod)
	if err != nil || !ok || !isTracked(pod) {
		return false, nil, nil
	}
	return true, nil, pods.Update(action.GetResource(), controllertest.Changed(pod.DeepCopy(), leaving), pod.Namespace)
}

// checkVersion makes the API server refuse patches of a pod that name another version than is stored.
func (f *fixture) checkVersion(t testing.TB, pod string) {
	t.Helper()
	f.Intercept("patch pods "+pod, func(action ktesting.Action) error {
		var sent corev1.Pod
		if err := json.Unmarshal(action.(ktesting.PatchAction).GetPatch(), &sent); err != nil {
			return err
		}
		stored := controllertest.MustStored[*corev1.Pod](t, f.Env, key.Namespace, pod)
		if v := sent.ResourceVersion; v != "" && v != stored.ResourceVersion {
			return apierrors.NewConflict(corev1.Resource("pods"), pod, errors.New("changed"))
		}
		return nil
	})
}

func (f *fixture) stored(t testing.TB) *batchv1.Job {
	t.Helper()
	return controllertest.MustStored[*batchv1.Job](t, f.Env, key.Namespace, key.Name)
}

func (f *fixture) storedPods(t testing.TB) []*corev1.Pod {
	t.Helper()
	return controllertest.AllStored[*corev1.Pod](t, f.Env, key.Namespace)
}

// metric returns the series of a metric as "label=value ... number".
func (f *fixture) metric(t testing.TB, name string) string {
	t.Helper()
	return strings.Join(f.Series(t, name), ", ")
}

var errBoom = errors.New("boom")
