package satoken

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	clienttesting "k8s.io/client-go/testing"

	"kcmd.dev/pkg/controller"
	"kcmd.dev/test/controllertest"
)

// A reference could not be removed: the next instance tries again, or the end of the pause. Pins SAT-84.
func TestAReferenceThatStaysIsNotForgotten(t *testing.T) {
	for name, tc := range map[string]struct {
		refusal error
		held    bool
	}{
		"the lease was lost":      {errors.New("fenced"), false},
		"the namespace is paused": {&controller.PausedError{Namespace: testNamespace}, true},
	} {
		t.Run(name, func(t *testing.T) {
			env, c := start(t, objects(account("sa", "u1", "s")))
			refuse(env, "update", "serviceaccounts", tc.refusal)
			k := secretKey(secret("s", "u1"))
			c.known.add(k)
			if err := c.reconcile(env.Context(), k); controller.IsPaused(err) != tc.held {
				t.Errorf("reconcile = %v, want to be held: %v", err, tc.held)
			}
			if diff := cmp.Diff(handover{secrets: []key{k}}, c.HandOver(), cmp.AllowUnexported(handover{}, key{})); diff != "" {
				t.Errorf("handed over (-want +got):\n%s", diff)
			}
		})
	}
}

// The API server answers once with an error while the reference to a deleted Secret is removed.
func TestAReferenceIsRemovedAfterAFailure(t *testing.T) {
	outage := apierrors.NewInternalError(errors.New("outage"))
	notFound := apierrors.NewNotFound(corev1.Resource("serviceaccounts"), "sa")
	for name, tc := range map[string]struct {
		request string
		refusal error
	}{
		"SAT-84: reading the account: outage":                      {"get serviceaccounts sa", outage},
		"SAT-84: reading the secret: outage":                       {"get secrets s", outage},
		"SAT-84: updating the account: outage":                     {"update serviceaccounts sa", outage},
		"SAT-86: updating the account, as if it were gone":         {"update serviceaccounts sa", notFound},
		"SAT-84: reading the account: a proxy does not know of it": {"get serviceaccounts sa", apierrors.NewGenericServerResponse(404, "get", corev1.Resource("serviceaccounts"), "sa", "404 page not found", 0, true)},
	} {
		t.Run(name, func(t *testing.T) {
			env, c := start(t, objects(account("sa", "u1", "s"), secret("s", "u1", withData("ca", "ns", "t"))))
			env.Run(t, c)
			env.AwaitIdle(t)
			env.RefuseIf(tc.request, tc.refusal, func(n int) bool { return n == 1 })
			env.Remove(t, secret("s", "u1"))
			env.EventuallyAsTimePasses(t, "the reference is removed", time.Second, func() bool {
				return len(controllertest.MustStored[*corev1.ServiceAccount](t, env, testNamespace, "sa").Secrets) == 0
			})
			controllertest.Eventually(t, "nothing is left to do", func() bool { return len(c.known.keys()) == 0 })
		})
	}
}

// A list that lacks a Secret looks like its deletion. No event tells when it is deleted indeed. Pins SAT-93.
func TestASecretThatAListLacks(t *testing.T) {
	env, c := start(t, objects(account("sa", "u1", "s")))
	var gone atomic.Bool
	env.Fake.PrependReactor("get", "secrets", func(clienttesting.Action) (bool, runtime.Object, error) {
		return !gone.Load(), secret("s", "u1"), nil
	})
	k := secretKey(secret("s", "u1"))
	c.known.add(k)
	c.queue.Add(k)
	env.Run(t, c)
	controllertest.Eventually(t, "it is reconciled", func() bool { return c.loop.Inspect().Reconciled > 0 && env.Idle() })
	if diff := cmp.Diff(handover{secrets: []key{k}}, c.HandOver(), cmp.AllowUnexported(handover{}, key{})); diff != "" {
		t.Errorf("handed over (-want +got):\n%s", diff)
	}
	referring := func() int {
		return len(controllertest.MustStored[*corev1.ServiceAccount](t, env, testNamespace, "sa").Secrets)
	}
	if referring() != 1 {
		t.Error("the reference to a Secret that exists is removed")
	}
	gone.Store(true)
	env.EventuallyAsTimePasses(t, "the reference is removed", time.Second, func() bool { return referring() == 0 })
}

// Pins SAT-32 and SAT-51.
func TestReferenceRemovalBacksOffOnConflict(t *testing.T) {
	env, c := start(t, objects(account("sa", "u1", "s")))
	var attempts atomic.Int32
	env.Fake.PrependReactor("update", "serviceaccounts", func(clienttesting.Action) (bool, runtime.Object, error) {
		attempts.Add(1)
		return true, nil, apierrors.NewConflict(corev1.Resource("serviceaccounts"), "sa", errors.New("stale"))
	})
	done := make(chan error, 1)
	go func() { done <- c.removeReference(env.Context(), secretKey(secret("s", "u1"))) }()
	for pauses := range 9 {
		controllertest.Eventually(t, "it pauses", env.Clock.HasWaiters)
		env.Clock.Step(99 * time.Millisecond)
		if !env.Clock.HasWaiters() {
			t.Fatalf("pause %d is shorter than 100ms", pauses)
		}
		env.Clock.Step(101 * time.Millisecond)
		controllertest.Eventually(t, "it tries again", func() bool { return int(attempts.Load()) == pauses+2 })
	}
	if err := <-done; !apierrors.IsConflict(err) {
		t.Errorf("removeReference = %v, want the conflict", err)
	}
	if got := attempts.Load(); got != 10 {
		t.Errorf("attempts = %d, want 10", got)
	}
}

func TestReferenceRemovalEndsWhenFenced(t *testing.T) {
	env, c := start(t, objects(account("sa", "u1", "s")))
	refuse(env, "update", "serviceaccounts", apierrors.NewConflict(corev1.Resource("serviceaccounts"), "sa", errors.New("stale")))
	k := secretKey(secret("s", "u1"))
	c.known.add(k)
	ctx, fence := context.WithCancel(env.Context())
	done := make(chan error, 1)
	go func() { done <- c.reconcile(ctx, k) }()
	controllertest.Eventually(t, "it pauses", env.Clock.HasWaiters)
	fence()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Errorf("reconcile = %v, want the end of its context", err)
	}
	if diff := cmp.Diff(handover{secrets: []key{k}}, c.HandOver(), cmp.AllowUnexported(handover{}, key{})); diff != "" {
		t.Errorf("what was cut short must be handed over (-want +got):\n%s", diff)
	}
}
