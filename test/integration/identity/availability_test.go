package identity

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/tools/cache"

	"kcmd.dev/pkg/controller"
	"kcmd.dev/pkg/controllers"
	"kcmd.dev/pkg/runtime"
	"kcmd.dev/pkg/runtime/supervisor"
	"kcmd.dev/test/await"
	"kcmd.dev/test/controlplane"
	"kcmd.dev/test/integration/harness"
	"kcmd.dev/test/manager"
	"kcmd.dev/test/must"
)

const autoscaler = "horizontal-pod-autoscaler-controller"

var (
	widgets     = schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "widgets"}
	definitions = schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}
)

// runFunc is a controller that only has a Run.
type runFunc func(context.Context) error

func (f runFunc) Run(ctx context.Context) error { return f(ctx) }

func idle(ctx context.Context) error {
	<-ctx.Done()
	return nil
}

type noValue struct{}

// instead are all controllers, but for the deployment controller, whose place build takes.
func instead(build func(controller.Env, noValue) (controller.Controller, error), requires ...schema.GroupVersionResource) []controller.Descriptor {
	all := controllers.All()
	for n, d := range all {
		if d.Name == deployment {
			all[n] = controller.Describe(
				controller.Descriptor{Name: deployment, ServiceAccount: "identity-fake", EventSource: "identity-fake", Requires: requires},
				func(*controller.Config) noValue { return noValue{} }, build)
		}
	}
	return all
}

// counter is a controller of widgets that counts them.
type counter struct{ seen atomic.Int64 }

func (c *counter) build(env controller.Env, _ noValue) (controller.Controller, error) {
	_, err := env.Informers.MetadataFor(widgets).Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: func(any) { c.seen.Add(1) },
	})
	return runFunc(idle), err
}

// define has the API server serve widgets.
func define(t *testing.T, client dynamic.Interface) {
	t.Helper()
	definition := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
		"metadata": map[string]any{"name": "widgets.example.com"},
		"spec": map[string]any{
			"group": "example.com", "scope": "Namespaced",
			"names": map[string]any{"plural": "widgets", "singular": "widget", "kind": "Widget", "listKind": "WidgetList"},
			"versions": []any{map[string]any{
				"name": "v1", "served": true, "storage": true,
				"schema": map[string]any{"openAPIV3Schema": map[string]any{"type": "object"}},
			}},
		},
	}}
	_, err := client.Resource(definitions).Create(t.Context(), definition, metav1.CreateOptions{})
	must.Succeed(t, err)
	widget := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "example.com/v1", "kind": "Widget", "metadata": map[string]any{"name": "w"},
	}}
	await.That(t, "a widget can be created", func(context.Context) error {
		_, err := client.Resource(widgets).Namespace(metav1.NamespaceDefault).Create(t.Context(), widget, metav1.CreateOptions{})
		return err
	})
}

// restartWith restarts the API server with further flags.
func restartWith(t *testing.T, args ...string) {
	t.Helper()
	plane.SetAPIServerArgs(args...)
	must.Succeed(t, plane.RestartAPIServer(context.WithoutCancel(t.Context())))
}

// waitStates waits until both controllers are in a state, and all others run.
func waitStates(t *testing.T, m *manager.Manager, state supervisor.State) time.Duration {
	t.Helper()
	began := time.Now()
	harness.Wait(t, m, fmt.Sprintf("both are %s and the others run", state), func(s *runtime.Status) error {
		if len(s.Controllers) == 0 {
			return errors.New("there are no controllers yet")
		}
		for _, c := range s.Controllers {
			want := supervisor.Running
			if c.Name == deployment || c.Name == autoscaler {
				want = state
			}
			// Without a reason it is only not told yet what to do.
			off := want == supervisor.Running && (c.State == supervisor.Idle || c.State == supervisor.Disabled && c.Reason != "")
			if c.State != want && !off || c.Pending {
				return fmt.Errorf("%s is %s: %s %s", c.Name, c.State, c.Reason, c.LastError)
			}
		}
		return nil
	})
	return time.Since(began).Round(time.Millisecond)
}

// A kind that is not served is waited for, without haste. When it appears its controllers
// start by themselves; when it goes they stop. Nobody else notices.
// Pins MGR-173.
func TestControllersFollowWhatIsServed(t *testing.T) {
	const without = "--runtime-config=autoscaling/v2=false"
	client, err := dynamic.NewForConfig(plane.AdminConfig())
	must.Succeed(t, err)
	restartWith(t, without)
	t.Cleanup(func() { restartWith(t) })
	c := &counter{}
	m := begin(t, runtime.Options{Descriptors: instead(c.build, widgets)}, func(c *manager.Config) {
		// The lease outlives a restart of the API server, however busy the machine.
		c.LeaderElection.LeaseDuration = &metav1.Duration{Duration: 90 * time.Second}
		c.LeaderElection.RenewDeadline = &metav1.Duration{Duration: time.Minute}
	})
	waitStates(t, m, supervisor.Waiting)
	s := harness.Status(t, m)
	for name, what := range map[string]string{autoscaler: "horizontalpodautoscalers in autoscaling/v2", deployment: "widgets in example.com/v1"} {
		if reason := harness.ControllerOf(&s, name).Reason; reason != "the API server does not serve "+what {
			t.Errorf("%s waits because of %q", name, reason)
		}
	}
	published(t)
	harness.Wait(t, m, "the others work", harness.LoopsBegan)
	waitQuietly(t)
	before := harness.Instances(harness.Status(t, m))

	define(t, client)
	restartWith(t)
	t.Logf("both run %v after the kinds are served", waitStates(t, m, supervisor.Running))
	await.That(t, "the widget is seen", func(context.Context) error {
		if c.seen.Load() != 1 {
			return fmt.Errorf("%d are", c.seen.Load())
		}
		return nil
	})
	must.Succeed(t, client.Resource(definitions).Delete(t.Context(), "widgets.example.com", metav1.DeleteOptions{}))
	restartWith(t, without)
	t.Logf("both wait %v after the kinds are gone", waitStates(t, m, supervisor.Waiting))
	restartWith(t)
	harness.Wait(t, m, "the autoscaler is back", func(s *runtime.Status) error {
		if a := harness.ControllerOf(s, autoscaler); a.State != supervisor.Running || a.Generation != 2 {
			return fmt.Errorf("it is %s, instance %d", a.State, a.Generation)
		}
		return nil
	})
	for _, c := range harness.Status(t, m).Controllers {
		if c.LastError != "" || c.Abandoned != 0 {
			t.Errorf("%s failed: %s", c.Name, c.LastError)
		}
		if was, ran := before[c.Name]; ran && c.Generation != was.Generation {
			t.Errorf("%s went from instance %d to %d", c.Name, was.Generation, c.Generation)
		}
	}
}

// waitQuietly fails if more than a few requests are made while the manager renews its lease
// twice, which takes four seconds.
func waitQuietly(t *testing.T) {
	t.Helper()
	from := mark(t)
	await.That(t, "the lease is renewed twice", func(context.Context) error {
		events := since(t, from, controlplane.ByUserAgent("kube-controller-manager/"), controlplane.ByResource("leases"), controlplane.ByVerb("update"))
		if len(events) < 2 {
			return fmt.Errorf("it was %d times", len(events))
		}
		return nil
	})
	others := since(t, from, controlplane.ByUserAgent("kube-controller-manager/"), func(e *auditv1.Event) bool {
		return e.ObjectRef == nil || e.ObjectRef.Resource != "leases"
	})
	const most = 12 // a discovery is two, and the garbage collector has its own
	if len(others) > most {
		t.Errorf("%d requests while two controllers wait:\n%s", len(others), lines(others))
	}
	for _, e := range others {
		if strings.Contains(e.RequestURI, "horizontalpodautoscalers") || strings.Contains(e.RequestURI, "widgets") {
			t.Errorf("a kind that is not served was asked for: %s %s", e.Verb, e.RequestURI)
		}
	}
	t.Logf("%d requests in four seconds", len(others))
}

// Without an API server the process starts, is alive and not ready, and goes on by itself.
// Pins MGR-165.
func TestStartWithoutAnAPIServer(t *testing.T) {
	must.Succeed(t, plane.StopAPIServer())
	there := false
	t.Cleanup(func() {
		if !there {
			restartWith(t)
		}
	})
	m := begin(t, runtime.Options{}, nil)
	answers := func(path string, want int) {
		t.Helper()
		await.That(t, fmt.Sprintf("%s answers %d", path, want), func(context.Context) error {
			response, err := m.Client().Get(m.URL() + path)
			if err != nil {
				return err
			}
			if err := response.Body.Close(); err != nil || response.StatusCode != want {
				return errors.Join(err, fmt.Errorf("it answers %d", response.StatusCode))
			}
			return nil
		})
	}
	answers("/livez", http.StatusOK)
	answers("/healthz", http.StatusOK)
	answers("/readyz", http.StatusInternalServerError)
	restartWith(t)
	there = true
	began := time.Now()
	must.Succeed(t, m.WaitRunning(t.Context()))
	answers("/readyz", http.StatusOK)
	t.Logf("ready %v after the API server", time.Since(began).Round(time.Millisecond))
	published(t)
	await.That(t, "the endpoint knows whom to trust", func(context.Context) error {
		_, err := m.Get(t.Context(), "/metrics")
		return err
	})
	t.Logf("metrics can be read %v after the API server", time.Since(began).Round(time.Millisecond))
}
