package identity

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/client-go/tools/cache"

	"kcmd.dev/pkg/controller"
	"kcmd.dev/pkg/runtime"
	"kcmd.dev/pkg/runtime/supervisor"
	"kcmd.dev/test/integration/harness"
	"kcmd.dev/test/manager"
	"kcmd.dev/test/must"
)

// hanging has a handler that does not return from its first call, until it is let go.
type hanging struct{ leave chan struct{} }

func (h *hanging) build(env controller.Env, _ noValue) (controller.Controller, error) {
	_, err := env.Informers.Core().V1().Namespaces().Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: func(any) { <-h.leave },
	})
	return runFunc(idle), err
}

// An event handler that hangs is found, shown with its stack, and left behind; neither the
// others nor the end of the process wait for it.
func TestHangingHandlerIsLeftBehind(t *testing.T) {
	h := &hanging{leave: make(chan struct{})}
	defer close(h.leave)
	m := begin(t, runtime.Options{
		Descriptors: instead(h.build),
		Supervision: supervisor.Options{StuckAfter: 2 * time.Second, CheckEvery: 100 * time.Millisecond, BackoffMin: time.Hour, BackoffMax: time.Hour},
	}, func(c *manager.Config) { c.Reload.DrainTimeout = &metav1.Duration{Duration: 100 * time.Millisecond} })
	harness.Wait(t, m, "it is found and left behind", func(s *runtime.Status) error {
		c := harness.ControllerOf(s, deployment)
		if c.State != supervisor.BackingOff || c.Abandoned != 1 || !strings.Contains(c.LastError, "namespaces in queue event handlers") {
			return fmt.Errorf("it is %s, %d left behind, error %s", c.State, c.Abandoned, c.LastError)
		}
		for _, other := range s.Controllers {
			if other.Name != deployment && other.LastError != "" {
				return fmt.Errorf("%s suffered: %s", other.Name, other.LastError)
			}
		}
		return nil
	})
	log, err := os.ReadFile(m.LogFile())
	must.Succeed(t, err)
	if !strings.Contains(string(log), "Controller is stuck") || !strings.Contains(string(log), "identity.(*hanging).build") {
		t.Error("the log does not show where the handler hangs")
	}
	published(t)
	began := time.Now()
	if err := m.Stop(); err != nil {
		t.Errorf("the end: %v", err)
	}
	took := time.Since(began)
	if took > 15*time.Second {
		t.Errorf("the end took %v", took)
	}
	t.Logf("ended after %v", took.Round(time.Millisecond))
}

// farewell records an event of an object as the last thing it does.
func farewell(uid types.UID) func(controller.Env, noValue) (controller.Controller, error) {
	return func(env controller.Env, _ noValue) (controller.Controller, error) {
		return runFunc(func(ctx context.Context) error {
			<-ctx.Done()
			env.Events.Event(&corev1.ObjectReference{Kind: "Namespace", Name: metav1.NamespaceDefault, Namespace: metav1.NamespaceDefault, UID: uid},
				corev1.EventTypeNormal, "Farewell", "recorded at the end")
			return nil
		}), nil
	}
}

// What is recorded while the process ends is delivered before it gives the lease back.
func TestLastEventsAreDelivered(t *testing.T) {
	_, err := plane.AdminClient().RbacV1().ClusterRoleBindings().Create(t.Context(), &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "identity-fake-"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "cluster-admin"},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: metav1.NamespaceSystem, Name: "identity-fake"}},
	}, metav1.CreateOptions{})
	must.Succeed(t, err)
	uid := uuid.NewUUID()
	m := begin(t, runtime.Options{Descriptors: instead(farewell(uid))}, nil)
	must.Succeed(t, m.WaitRunning(t.Context()))
	began := time.Now()
	must.Succeed(t, m.Stop())
	t.Logf("ended after %v", time.Since(began).Round(time.Millisecond))
	events, err := plane.AdminClient().CoreV1().Events(metav1.NamespaceDefault).List(t.Context(), metav1.ListOptions{FieldSelector: "reason=Farewell,involvedObject.uid=" + string(uid)})
	must.Succeed(t, err)
	if len(events.Items) != 1 || events.Items[0].Source.Component != "identity-fake" {
		t.Errorf("delivered are %v", events.Items)
	}
}

// With controllerStartInterval, controllers of a new leader start one after another; an edit
// starts what it restarts at once.
func TestControllersAreStartedOneAfterAnother(t *testing.T) {
	const interval = 2 * time.Second
	m := begin(t, runtime.Options{}, func(c *manager.Config) {
		c.ControllerStartInterval = &metav1.Duration{Duration: interval}
	})
	harness.Wait(t, m, "controllers wait for their turn", func(s *runtime.Status) error {
		if c := harness.ControllerOf(s, replicaSet); c.State != supervisor.Waiting || !strings.Contains(c.Reason, "not all controllers start at the same time") {
			return fmt.Errorf("%s is %s: %s", c.Name, c.State, c.Reason)
		}
		return nil
	})
	must.Succeed(t, m.WaitRunning(t.Context()))
	first, last := time.Time{}, time.Time{}
	for _, c := range harness.Status(t, m).Controllers {
		if c.State != supervisor.Running {
			continue
		}
		if first.IsZero() || c.Started.Before(first) {
			first = c.Started
		}
		if c.Started.After(last) {
			last = c.Started
		}
	}
	if spread := last.Sub(first); spread < interval/4 {
		t.Errorf("all controllers started within %v", spread)
	} else {
		t.Logf("started over %v", spread.Round(time.Millisecond))
	}
	// An instance that waits for its turn does so for an interval at least.
	harness.CarryOut(t, m, func(c *manager.Config) { c.ServiceAccounts.RootCAFile = plane.RequestHeaderCAFile() })
	for _, c := range harness.Status(t, m).Controllers {
		if c.State == supervisor.Waiting {
			t.Errorf("after an edit, %s is %s: %s", c.Name, c.State, c.Reason)
		}
	}
	must.Succeed(t, m.WaitRunning(t.Context()))
}
