package endpointslice

import (
	"testing"
	"time"

	"kcmd.dev/pkg/controllers/kit/reconcile"
)

func TestBackoffOfAService(t *testing.T) {
	backoff := reconcile.Backoff[string](minRetryDelay, maxRetryDelay)
	want := time.Second
	for range 15 {
		if got := backoff.When("n/web"); got != min(want, 1000*time.Second) {
			t.Errorf("delay is %v, want %v", got, want)
		}
		want *= 2
	}
	backoff.Forget("n/web")
	if got := backoff.When("n/web"); got != time.Second {
		t.Errorf("delay after a success is %v", got)
	}
}

func TestDelayOfSliceNotifications(t *testing.T) {
	for batch, want := range map[time.Duration]time.Duration{0: time.Second, time.Millisecond: time.Second, time.Minute: time.Minute} {
		if got := sliceDelay(batch); got != want {
			t.Errorf("delay with batch period %v is %v, want %v", batch, got, want)
		}
	}
}
