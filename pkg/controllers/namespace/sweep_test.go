package namespace

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/utils/ptr"

	"kcmd.dev/pkg/config/v1beta1"
	"kcmd.dev/test/await"
	"kcmd.dev/test/controllertest"
)

// Pins NS-28, NS-28a and NS-41.
func TestPodsGoFirst(t *testing.T) {
	grace := int64(30)
	running := pod(corev1.PodRunning, &grace)
	f := start(t, serving(pods, secrets), terminating(), running)
	f.store.put(secrets, "s")
	f.store.put(pods, "pod", "example.com/hold")
	finalized := f.finalized()

	if err := f.reconcile(f.Context(), "ns"); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"deletecollection pods", "list pods"}, f.store.requests()); diff != "" {
		t.Errorf("requests while pods run (-want +got):\n%s", diff)
	}
	want := []string{
		"NamespaceDeletionDiscoveryFailure=False", "NamespaceDeletionGroupVersionParsingFailure=False",
		"NamespaceDeletionContentFailure=False", "NamespaceContentRemaining=False", "NamespaceFinalizersRemaining=False",
	}
	if diff := cmp.Diff(want, conditionsOf(f.live(t))); diff != "" {
		t.Errorf("conditions while pods run (-want +got):\n%s", diff)
	}

	// The grace period is over, but a finalizer holds the pod.
	f.Clock.Step(30 * time.Second)
	if err := f.reconcile(f.Context(), "ns"); err != nil {
		t.Fatal(err)
	}
	if len(f.store.items[secrets]) != 1 || len(*finalized) != 0 {
		t.Fatal("other content was touched while a pod exists")
	}

	f.store.clear(pods)
	if err := f.Fake.CoreV1().Pods("ns").Delete(f.Context(), "pod", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := f.reconcile(f.Context(), "ns"); err != nil {
		t.Fatal(err)
	}
	if len(f.store.items[secrets]) != 0 || len(*finalized) != 1 {
		t.Errorf("items left %v, finalized %v", f.store.items, *finalized)
	}
}

// Other types wait for pods that are there, not for an answer about pods.
// Pins NS-28b and NS-29f.
func TestPodsThatCannotBeSweptDoNotKeepTheOthers(t *testing.T) {
	for name, arrange := range map[string]func(*fixture){
		"list fails": func(f *fixture) {
			f.Fake.PrependReactor("list", "pods", func(clienttesting.Action) (bool, runtime.Object, error) {
				return true, nil, errors.New("boom")
			})
		},
		"last list fails": func(f *fixture) { f.store.refused["list pods"] = errors.New("boom") },
		"delete fails":    func(f *fixture) { f.store.refused["deletecollection pods"] = errors.New("boom") },
	} {
		t.Run(name, func(t *testing.T) {
			f := start(t, serving(pods, secrets), terminating(), pod(corev1.PodRunning, nil))
			f.store.put(secrets, "s")
			finalized := f.finalized()
			arrange(f)
			err := f.reconcile(f.Context(), "ns")
			if want := "failed to delete pods for namespace: ns, err: boom"; textOf(err) != want {
				t.Errorf("reconcile = %v, want %q", err, want)
			}
			if len(f.store.items[secrets]) != 0 {
				t.Error("other content is left")
			}
			if len(*finalized) != 0 {
				t.Error("finalized although there may be pods")
			}
			for _, c := range f.live(t).Status.Conditions {
				want := "Failed to delete all resource types, 1 remaining: boom"
				if c.Type == corev1.NamespaceDeletionContentFailure && c.Message != want {
					t.Errorf("message = %q, want %q", c.Message, want)
				}
			}
		})
	}
}

// Pins NS-4 and NS-67.
func TestPodsAreSweptWithTheRestWithoutTheGate(t *testing.T) {
	cfg := v1beta1.NewDefault()
	cfg.EmulatedVersion = "1.33"
	ordered := Descriptor().Value(cfg)
	cfg.FeatureGates = map[string]bool{"OrderedNamespaceDeletion": false}
	unordered := Descriptor().Value(cfg)
	if ordered == unordered {
		t.Fatal("the gate OrderedNamespaceDeletion has no effect")
	}
	f := start(t, serving(pods, secrets), terminating(), pod(corev1.PodRunning, ptr.To[int64](30)))
	f.podsFirst = unordered.(config).podsFirst
	f.store.put(secrets, "s")
	f.store.put(pods, "pod", "example.com/hold")
	if err := f.reconcile(f.Context(), "ns"); err != nil {
		t.Fatal(err)
	}
	if len(f.store.items[secrets]) != 0 {
		t.Error("secrets wait for pods")
	}
	for _, c := range f.live(t).Status.Conditions {
		if want := "Some resources are remaining: pods. has 1 resource instances"; c.Type == corev1.NamespaceContentRemaining && c.Message != want {
			t.Errorf("message = %q, want %q", c.Message, want)
		}
	}

	// What fails is no longer a step of its own.
	f.store.refused["deletecollection pods"] = errors.New("boom")
	if err := f.reconcile(f.Context(), "ns"); textOf(err) != "boom" {
		t.Errorf("reconcile = %v", err)
	}
}

// A type that was never swept may hold what keeps another one from becoming clean.
// Pins NS-63.
func TestATypeThatAppearsLateIsSweptBesideWhatWasLeft(t *testing.T) {
	s := serving(pods, secrets)
	f := start(t, s, terminating())
	f.store.put(secrets, "s", "example.com/hold")
	if err := f.reconcile(f.Context(), "ns"); err != nil {
		t.Fatal(err)
	}
	s.mu.Lock()
	s.add(widgets, allVerbs...)
	s.mu.Unlock()
	f.store.put(widgets, "w")
	f.Clock.Step(maxAge)
	if err := f.reconcile(f.Context(), "ns"); err != nil {
		t.Fatal(err)
	}
	if len(f.store.items[widgets]) != 0 {
		t.Error("R7d: the type was not swept")
	}
}

// Pins NS-63.
func TestARepeatedSweepBeginsWithWhatWasLeft(t *testing.T) {
	f := start(t, serving(pods, secrets, widgets, deployments), terminating())
	finalized := f.finalized()
	f.store.put(widgets, "w", "example.com/hold")
	if err := f.reconcile(f.Context(), "ns"); err != nil {
		t.Fatal(err)
	}
	f.store.requests()

	if err := f.reconcile(f.Context(), "ns"); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"list widgets limit=1", "deletecollection widgets", "list widgets"}, f.store.requests()); diff != "" {
		t.Errorf("requests while the finalizer holds (-want +got):\n%s", diff)
	}
	if len(*finalized) != 0 {
		t.Fatal("finalized with content left")
	}

	// Something comes back in a type that had been clean: the last pass must find it.
	f.store.clear(widgets)
	f.store.put(secrets, "late")
	if err := f.reconcile(f.Context(), "ns"); err != nil {
		t.Fatal(err)
	}
	got := f.store.requests()
	if got[0] != "list widgets limit=1" {
		t.Errorf("first request = %q", got[0])
	}
	slices.Sort(got)
	want := []string{"deletecollection secrets", "list deployments limit=1", "list secrets", "list secrets limit=1", "list widgets limit=1"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("requests of the last pass (-want +got):\n%s", diff)
	}
	if len(*finalized) != 1 {
		t.Error("not finalized")
	}
}

// Pins NS-10, NS-19, NS-21, NS-42 and NS-54.
func TestRunWaitsBeforeTheFirstSweepAndAfterAnEstimate(t *testing.T) {
	f := startSeeing(t, epoch, serving(pods, widgets), terminating(), terminating(func(ns *corev1.Namespace) {
		ns.Name, ns.UID, ns.DeletionTimestamp, ns.Status.Phase = "active", "uid-2", nil, corev1.NamespaceActive
	}))
	f.store.put(widgets, "w", "example.com/hold")
	f.Env.Run(t, f.namespaceController)
	reconciled := func() uint64 { return f.loop.Inspect().Reconciled }

	// The delaying queue of a running loop always has a heartbeat, and one timer for keys.
	controllertest.Eventually(t, "the namespace waits", func() bool { return f.Clock.Waiters() >= 2 })
	f.Clock.Step(5*time.Second - time.Nanosecond)
	await.Stays(t, "nothing is swept before that", 200*time.Millisecond, func(context.Context) error {
		if got := reconciled(); got != 0 {
			return fmt.Errorf("%d reconciles", got)
		}
		return nil
	})
	f.Clock.Step(time.Nanosecond)
	controllertest.Eventually(t, "it is swept", func() bool { return reconciled() == 1 })
	if got := f.loop.Inspect(); got.Failed != 0 || got.Depth != 0 {
		t.Errorf("after a sweep that left content: %+v", got)
	}

	// The finalizer is given 15 seconds, of which half plus one are waited.
	f.Clock.Step(8 * time.Second)
	controllertest.Eventually(t, "it is swept again", func() bool { return reconciled() >= 2 })
}

// Pins NS-68. The pods have five minutes to end; the namespace is swept again when they have, at once.
func TestTheEndOfTheLastPodIsNotWaitedForLonger(t *testing.T) {
	grace := int64(300)
	first, second := pod(corev1.PodRunning, &grace), pod(corev1.PodRunning, &grace)
	second.Name = "second"
	f := startSeeing(t, epoch, serving(pods, secrets), terminating(), first, second)
	f.store.put(pods, first.Name, "example.com/hold")
	f.Env.Run(t, f.namespaceController)
	reconciled := func() uint64 { return f.loop.Inspect().Reconciled }
	controllertest.Eventually(t, "the namespace waits", func() bool { return f.Clock.Waiters() >= 2 })
	f.Clock.Step(5 * time.Second)
	controllertest.Eventually(t, "it is swept", func() bool { return reconciled() == 1 })

	end := func(name string) {
		t.Helper()
		if _, exists, _ := f.pods.GetByKey("ns/" + name); !exists {
			t.Fatalf("the cache does not show %s", name)
		}
		if err := f.Fake.CoreV1().Pods("ns").Delete(f.Context(), name, metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		controllertest.Eventually(t, "the cache has seen it", func() bool {
			_, exists, _ := f.pods.GetByKey("ns/" + name)
			return !exists
		})
	}
	end(first.Name)
	await.Stays(t, "one pod is left", 200*time.Millisecond, func(context.Context) error {
		if got := reconciled(); got != 1 {
			return fmt.Errorf("%d reconciles", got)
		}
		return nil
	})
	f.store.clear(pods)
	end(second.Name)
	controllertest.Eventually(t, "it is swept at once", func() bool { return reconciled() >= 2 })
}

// Pins NS-68.
func TestPodsThatTheCacheDoesNotShowAreLookedForAgain(t *testing.T) {
	f := startSeeing(t, epoch, serving(pods), terminating())
	f.awaitPods(terminating())
	f.Env.Run(t, f.namespaceController)
	controllertest.Eventually(t, "the namespace waits", func() bool { return f.Clock.Waiters() >= 2 })
	f.Clock.Step(time.Second - time.Nanosecond)
	await.Stays(t, "nothing is swept before that", 200*time.Millisecond, func(context.Context) error {
		if got := f.loop.Inspect().Reconciled; got != 0 {
			return fmt.Errorf("%d reconciles", got)
		}
		return nil
	})
	f.Clock.Step(time.Nanosecond)
	controllertest.Eventually(t, "it is swept", func() bool { return f.loop.Inspect().Reconciled >= 1 })
}

// A single pod that the API server cannot decode makes every list of all pods fail. Pins NS-80.
func TestPodsThatCannotBeListedKeepNoNamespace(t *testing.T) {
	f := unstarted(t, serving(pods), terminating())
	f.Intercept("list pods", func(action clienttesting.Action) error {
		if action.GetNamespace() == metav1.NamespaceAll {
			return errors.New("boom")
		}
		return nil
	})
	finalized := f.finalized()
	f.Env.Informers.StartWithContext(f.Context())
	f.Env.Run(t, f.namespaceController)
	f.EventuallyAsTimePasses(t, "the namespace is swept", time.Second, func() bool { return f.loop.Inspect().Reconciled == 1 })
	if len(*finalized) != 1 {
		t.Errorf("it is finalized %d times", len(*finalized))
	}
	if passed := f.Clock.Since(controllertest.Epoch); passed < syncTimeout {
		t.Errorf("after %v", passed)
	}
}

// Pins NS-80.
func TestPodsAreNotLookedForInACacheThatWasNotFilled(t *testing.T) {
	f := unstarted(t, serving(pods), terminating())
	queued := &controllertest.Queue[string]{}
	f.queue = queued
	f.awaitPods(terminating())
	queued.Want(t)
}
