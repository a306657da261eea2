package endpointslice

import (
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"kcmd.dev/pkg/controllers/kit/reconcile"
)

// Pins EPS-15.
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
}

// Pins EPS-11d.
func TestDelayOfSliceNotifications(t *testing.T) {
	for batch, want := range map[time.Duration]time.Duration{0: time.Second, time.Millisecond: time.Second, time.Minute: time.Minute} {
		if got := sliceDelay(batch); got != want {
			t.Errorf("delay with batch period %v is %v, want %v", batch, got, want)
		}
	}
}
