package endpointslice

import (
	"strconv"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"kcmd.dev/pkg/controllers/kit/reconcile"
)

// Pins EPS-15 and EPS-41.
func TestBackoffOfAService(t *testing.T) {
	backoff := reconcile.Backoff[types.NamespacedName](minRetryDelay, maxRetryDelay)
	want := time.Second
	for range 15 {
		if got := backoff.When(web); got != min(want, 1000*time.Second) {
			t.Errorf("delay is %v, want %v", got, want)
		}
		want *= 2
	}
	backoff.Forget(web)
	if got := backoff.When(web); got != time.Second {
		t.Errorf("delay after a success is %v", got)
	}
	crowded := reconcile.Backoff[types.NamespacedName](minRetryDelay, maxRetryDelay)
	var last time.Duration
	for i := range 100 + 10*10 {
		last = crowded.When(types.NamespacedName{Name: strconv.Itoa(i)})
		if i < 100 && last != time.Second {
			t.Fatalf("delay of the first of many Services is %v", last)
		}
	}
	if last <= 5*time.Second || last > 10*time.Second {
		t.Errorf("delay is %v for a Service that has 10 seconds of others before it", last)
	}
}

// Pins EPS-11d and EPS-41.
func TestDelayOfSliceNotifications(t *testing.T) {
	for batch, want := range map[time.Duration]time.Duration{0: time.Second, time.Millisecond: time.Second, time.Minute: time.Minute} {
		if got := sliceDelay(batch); got != want {
			t.Errorf("delay with batch period %v is %v, want %v", batch, got, want)
		}
	}
}
