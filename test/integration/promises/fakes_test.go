package promises

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kcmd.dev/pkg/controller"
	"kcmd.dev/pkg/controller/concurrent"
	"kcmd.dev/pkg/controllers"
	"kcmd.dev/pkg/controllers/kit/reconcile"
	"kcmd.dev/pkg/controllers/kit/watch"
)

// fakeAccount is the service account of the fakes.
const fakeAccount = "promises-fake"

// allow lets the fakes do everything.
func allow(t testing.TB) {
	t.Helper()
	binding := &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{GenerateName: fakeAccount + "-"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "cluster-admin"},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: metav1.NamespaceSystem, Name: fakeAccount}},
	}
	if _, err := plane.AdminClient().RbacV1().ClusterRoleBindings().Create(t.Context(), binding, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

// fakeValue is what a fake reads of the configuration: the block of the deployment
// controller, whose place it takes.
type fakeValue struct{ workers int32 }

// withFake are all controllers, but for the deployment controller, which is a fake.
func withFake(build func(controller.Env, fakeValue) (controller.Controller, error)) []controller.Descriptor {
	all := controllers.All()
	for n, d := range all {
		if d.Name != deployment {
			continue
		}
		all[n] = controller.Describe(
			controller.Descriptor{Name: deployment, ServiceAccount: fakeAccount, EventSource: fakeAccount},
			func(c *controller.Config) fakeValue {
				return fakeValue{*c.Controllers.Deployment.ConcurrentSyncs}
			},
			build)
	}
	return all
}

// runFunc is a controller that only has a Run.
type runFunc func(context.Context) error

func (f runFunc) Run(ctx context.Context) error { return f(ctx) }

// idle is a Run that does what it should: nothing, until it is told to stop.
func idle(ctx context.Context) error {
	<-ctx.Done()
	return nil
}

// faulty builds controllers that misbehave in one way as long as broken is set.
type faulty struct {
	broken atomic.Bool
	way    func(controller.Env) (controller.Controller, error)
}

func (f *faulty) build(env controller.Env, _ fakeValue) (controller.Controller, error) {
	if f.broken.Load() {
		return f.way(env)
	}
	return runFunc(idle), nil
}

var errFake = errors.New("a fake failure")

func failsToBuild(controller.Env) (controller.Controller, error) { return nil, errFake }

func panicsWhenBuilt(controller.Env) (controller.Controller, error) { panic(errFake) }

func failsWhenRun(controller.Env) (controller.Controller, error) {
	return runFunc(func(context.Context) error { return errFake }), nil
}

func returnsEarly(controller.Env) (controller.Controller, error) {
	return runFunc(func(context.Context) error { return nil }), nil
}

func panicsWhenRun(controller.Env) (controller.Controller, error) {
	return runFunc(func(context.Context) error { panic(errFake) }), nil
}

// panicsBeside runs well itself, but what it runs beside panics.
func panicsBeside(controller.Env) (controller.Controller, error) {
	return runFunc(func(ctx context.Context) error {
		return concurrent.Run(ctx, idle, func(context.Context) error { panic(errFake) })
	}), nil
}

// panicsInHandler runs well, but panics when it is told of a namespace.
func panicsInHandler(env controller.Env) (controller.Controller, error) {
	watch.Objects(env.Informers.Core().V1().Namespaces().Informer(), watch.Funcs[*corev1.Namespace]{
		Add: func(reconcile.Lane, *corev1.Namespace) { panic(errFake) },
	})
	return runFunc(idle), nil
}
