package simulation

import (
	"context"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"kcmd.dev/pkg/controller"
)

// ticking counts the minutes while it runs.
type ticking struct{ minutes int }

func (c *ticking) Run(ctx context.Context) error {
	ticker := time.NewTicker(time.Minute)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
			c.minutes++
		case <-ctx.Done():
			return nil
		}
	}
}

func TestTimersOfAControllerFollowTheClockOfTheWorld(t *testing.T) {
	RunInBubbles(t, 2, func(t *testing.T, w *World) {
		c := &ticking{}
		running := RunFree(w, w.Env.Env, func(controller.Env) controller.Controller { return c })
		w.Pass(90 * time.Second)
		w.Pass(90 * time.Second)
		if c.minutes != 3 {
			t.Errorf("it has counted %d minutes", c.minutes)
		}
		running.Stop()
		w.Pass(time.Hour)
		if c.minutes != 3 {
			t.Errorf("it went on after the stop: %d minutes", c.minutes)
		}
	})
}

// The load balancer controller writes the finalizer of a Service together with its status.
func TestAPatchOfTheStatusOfAService(t *testing.T) {
	w := New(t, 1)
	w.Create(&corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "s"}})
	patch := func(text string) error {
		_, err := w.Client.CoreV1().Services("ns").Patch(
			t.Context(), "s", types.StrategicMergePatchType, []byte(text), metav1.PatchOptions{}, "status",
		)
		return err
	}
	must(patch(`{"metadata":{"finalizers":["example.com/hold"]},"spec":{"type":"LoadBalancer"}}`))
	service, _ := Get[*corev1.Service](w, "ns", "s")
	if len(service.Finalizers) != 1 || service.Spec.Type != "" {
		t.Errorf("stored %+v", service)
	}
	if err := patch(`{"status":{"loadBalancer":{"ingress":[{"ip":"10.0.0.1"}]}}}`); !apierrors.IsInvalid(err) {
		t.Errorf("it wants no load balancer: %v", err)
	}
}
