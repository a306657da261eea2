package endpoints

import (
	"errors"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clienttesting "k8s.io/client-go/testing"

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

// serveEndpoints makes the API server treat updates of Endpoints as a real one does: outdated ones are conflicts, and
// one that changes nothing leaves the version as it is. Until fine is called they fail, executed or not.
func (b *bench) serveEndpoints(t testing.TB, failure error, executed bool) (fine func()) {
	t.Helper()
	failing := true
	b.Fake.PrependReactor("update", "endpoints", func(action clienttesting.Action) (bool, runtime.Object, error) {
		sent := action.(clienttesting.UpdateActionImpl).Object.(*corev1.Endpoints)
		object, err := b.Fake.Tracker().Get(action.GetResource(), sent.Namespace, sent.Name)
		if err != nil {
			return true, nil, err
		}
		stored := object.(*corev1.Endpoints)
		switch {
		case sent.ResourceVersion != stored.ResourceVersion:
			return true, nil, apierrors.NewConflict(corev1.Resource("endpoints"), sent.Name, errors.New("old"))
		case failing && !executed:
			return true, nil, failure
		case !failing && equality.Semantic.DeepEqual(sent.Subsets, stored.Subsets):
			return true, stored, nil
		}
		updated := sent.DeepCopy()
		updated.ResourceVersion = b.NextVersion()
		if err := b.Fake.Tracker().Update(action.GetResource(), updated, sent.Namespace); err != nil || !failing {
			return true, updated, err
		}
		return true, nil, failure
	})
	return func() { failing = false }
}

// boundDeletes makes the API server check the preconditions of deletions.
func (b *bench) boundDeletes() {
	b.Fake.PrependReactor("delete", "endpoints", func(action clienttesting.Action) (bool, runtime.Object, error) {
		deletion := action.(clienttesting.DeleteActionImpl)
		object, err := b.Fake.Tracker().Get(action.GetResource(), action.GetNamespace(), deletion.Name)
		if err != nil {
			return true, nil, err
		}
		stored := object.(*corev1.Endpoints)
		p := deletion.DeleteOptions.Preconditions
		if p != nil && (*p.UID != stored.UID || *p.ResourceVersion != stored.ResourceVersion) {
			return true, nil, apierrors.NewConflict(corev1.Resource("endpoints"), deletion.Name, errors.New("precondition failed"))
		}
		return false, nil, nil
	})
}

// observed waits until the cache shows the stored Endpoints as they are.
func (b *bench) observed(t testing.TB) {
	t.Helper()
	controllertest.Eventually(t, "the cache shows what is stored", func() bool {
		cached, err := b.c.endpoints.Endpoints(web.Namespace).Get(web.Name)
		return err == nil && cached.ResourceVersion == b.stored(t).ResourceVersion
	})
}
