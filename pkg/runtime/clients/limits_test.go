package clients

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/client-go/rest"

	"kcmd.dev/pkg/controller"
)

// Pins MGR-168 and WL-106.
func TestNoLimitByDefault(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newLimits(0, 0).newBucket(controller.LimitFactors{QPS: 2})
		start := time.Now()
		for range 10000 {
			if err := b.Wait(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		if time.Since(start) != 0 || b.QPS() != 0 || !b.TryAccept() {
			t.Fatalf("waited %v without a limit", time.Since(start))
		}
	})
}

// spend takes n tokens and returns how long that took.
func spend(t *testing.T, b *bucket, n int) time.Duration {
	t.Helper()
	start := time.Now()
	for range n {
		b.Accept()
	}
	return time.Since(start).Round(10 * time.Millisecond)
}

// Pins MGR-168.
func TestLimitsScaleAndChangeLive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLimits(10, 5)
		plain, scaled, discovery := l.newBucket(controller.LimitFactors{}), l.newBucket(controller.LimitFactors{QPS: 2, Burst: 3}), l.newDiscoveryBucket()
		for name, tc := range map[string]struct {
			b     *bucket
			burst int
			qps   float32
		}{
			"plain": {plain, 5, 10}, "scaled": {scaled, 15, 20}, "discovery": {discovery, 200, 20},
		} {
			if took := spend(t, tc.b, tc.burst); took != 0 {
				t.Errorf("%s: the burst took %v", name, took)
			}
			if took := spend(t, tc.b, 10); took != time.Duration(float32(10*time.Second)/tc.qps) || tc.b.QPS() != tc.qps {
				t.Errorf("%s: ten requests at %v per second took %v", name, tc.b.QPS(), took)
			}
		}
		l.set(100, 1)
		if took := spend(t, plain, 101); took != time.Second {
			t.Errorf("101 requests at 100 per second took %v", took)
		}
		l.set(0, 0)
		if took := spend(t, discovery, 1000); took != 0 {
			t.Errorf("discovery waited %v without limits", took)
		}
	})
}

func TestWaitingRequestsFollowANewLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for name, tc := range map[string]struct {
			qps  float32
			took time.Duration
		}{"lifted": {0, 0}, "raised": {1, 9 * time.Second}} {
			l := newLimits(0.001, 1)
			b := l.newBucket(controller.LimitFactors{})
			b.Accept()
			done := make(chan error)
			for range 10 {
				go func() { done <- b.Wait(t.Context()) }()
			}
			synctest.Wait()
			start := time.Now()
			l.set(tc.qps, 1)
			for range 10 {
				if err := <-done; err != nil {
					t.Fatal(err)
				}
			}
			if took := time.Since(start); took != tc.took {
				t.Errorf("limit %s: ten waiting requests took %v, want %v", name, took, tc.took)
			}
		}
	})
}

func TestWaitEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newLimits(0.001, 1).newBucket(controller.LimitFactors{})
		if !b.TryAccept() || b.TryAccept() {
			t.Fatal("a bucket of one token gives another number of them")
		}
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Second, cancel)
		if err := b.Wait(ctx); !errors.Is(err, context.Canceled) {
			t.Fatalf("got %v", err)
		}
		ctx, cancel = context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		start := time.Now()
		if err := b.Wait(ctx); err == nil || time.Since(start) != 0 {
			t.Fatalf("a wait that cannot succeed took %v: %v", time.Since(start), err)
		}
	})
}

// Pins WL-3.
func TestEachClientHasItsOwnBucket(t *testing.T) {
	c, err := New(Options{Base: &rest.Config{Host: "https://example.test"}, QPS: 7, Burst: 1})
	if err != nil {
		t.Fatal(err)
	}
	a, err := c.For(Identity{Name: "a"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	b, err := c.For(Identity{Name: "b", Limits: controller.LimitFactors{QPS: 2}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	one, other := a.Kubernetes.CoreV1().RESTClient().GetRateLimiter(), b.Kubernetes.CoreV1().RESTClient().GetRateLimiter()
	if one != a.Kubernetes.AppsV1().RESTClient().GetRateLimiter() {
		t.Error("API groups of one client have different buckets")
	}
	if one == other || one == a.Config.RateLimiter || one.QPS() != 7 || other.QPS() != 14 {
		t.Errorf("buckets of %v and %v per second", one.QPS(), other.QPS())
	}
	c.SetLimits(0, 0)
	if one.QPS() != 0 || other.QPS() != 0 {
		t.Error("a set in use keeps its limit")
	}
}
