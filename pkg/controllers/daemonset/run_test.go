package daemonset

import (
	"context"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"

	"kcmd.dev/pkg/config/v1beta1"
	"kcmd.dev/pkg/controllers/kit/controller"
	"kcmd.dev/pkg/controllers/kit/controllertest"
	"kcmd.dev/pkg/controllers/kit/pods"
)

// TestRun watches the controller at work, and its successor.
func TestRun(t *testing.T) {
	h := newHarness(t, true, newSet(), newNode("n0"))
	d := Descriptor()
	run := func(env *controllertest.Env) (controller.Controller, func()) {
		instance, err := d.New(env.Env, d.Value(v1beta1.NewDefault()))
		if err != nil {
			t.Fatal(err)
		}
		env.Start(t)
		ctx, stop := context.WithCancel(env.Context())
		done := make(chan error, 1)
		go func() { done <- instance.Run(ctx) }()
		return instance, func() {
			stop()
			if err := <-done; err != nil {
				t.Error(err)
			}
		}
	}
	// The metrics of the harness's own controller are in the way of another one's.
	h.Metrics = nil
	first, stop := run(h.Env)
	waitForPods(t, h, 1)
	h.store(t, newNode("n1"))
	waitForPods(t, h, 2)
	first.(*daemonSetController).failures.backoff.Next("key", h.Clock.Now())
	stop()

	handed, ok := first.(controller.HandsOver).HandOver().(memory)
	if !ok {
		t.Fatal("nothing is handed over")
	}
	h.Predecessor = func() any { return handed }
	second, stop := run(h.Env)
	h.store(t, newNode("n2"))
	waitForPods(t, h, 3)
	stop()
	if got := second.(*daemonSetController).failures.backoff.Get("key"); got != time.Second {
		t.Errorf("the backoff handed over is %v", got)
	}
}

func waitForPods(t *testing.T, h *harness, n int) {
	t.Helper()
	err := wait.PollUntilContextTimeout(t.Context(), 5*time.Millisecond, 20*time.Second, true, func(ctx context.Context) (bool, error) {
		h.Clock.Step(10 * time.Millisecond)
		list, err := h.Fake.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{})
		return err == nil && len(list.Items) == n, err
	})
	if err != nil {
		t.Fatalf("waiting for %d pods: %v", n, err)
	}
}

func TestUnseenWritesAreHandedOver(t *testing.T) {
	h := newHarness(t, true, newSet())
	h.c.tracker.Wrote(key, "set", pods.Resource, "100000")
	handed := h.c.HandOver()
	h.Metrics, h.Predecessor = nil, func() any { return handed }
	successor, err := newController(h.Env.Env, config{concurrentSyncs: 1, requireFresh: true})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	stop()
	if err := successor.Run(ctx); err != nil {
		t.Fatal(err)
	}
	h.observe(t)
	if err := successor.reconcile(h.Context(), key); err == nil {
		t.Error("the successor does not wait for what was written")
	}
	if requests := h.requests(); len(requests) != 0 {
		t.Errorf("requests are %v", requests)
	}
}

func TestOldBackoffsAreForgotten(t *testing.T) {
	h := newHarness(t, true)
	h.c.failures.backoff.Next("key", h.Clock.Now())
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		h.c.failures.expire(ctx, h.Clock)
	}()
	err := wait.PollUntilContextTimeout(t.Context(), time.Millisecond, 10*time.Second, true, func(context.Context) (bool, error) {
		h.Clock.Step(expireInterval)
		return h.c.failures.backoff.Get("key") == 0, nil
	})
	if err != nil {
		t.Error("it is remembered")
	}
	stop()
	<-done
}
