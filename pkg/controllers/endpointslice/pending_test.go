package endpointslice

import (
	"errors"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// The time of a change is that of the write that shows it, however often it failed. Pins EPS-82.
func TestTriggerTimeOfAWriteThatFailed(t *testing.T) {
	first, second := time.Date(2026, 1, 2, 0, 0, 0, 0, time.UTC), time.Date(2026, 1, 2, 0, 1, 0, 0, time.UTC)
	unreadySince := func(at time.Time) func(*corev1.Pod) {
		return func(p *corev1.Pod) {
			unready(p)
			p.Status.Conditions[0].LastTransitionTime.Time = at
		}
	}
	for name, tc := range map[string]struct {
		between func(*bench) *bench
		want    time.Time
	}{
		"tried again": {func(b *bench) *bench { return b }, first},
		"tried again after a later change": {func(b *bench) *bench {
			b.Cache(t, testPod(2, unreadySince(second)))
			return b
		}, first},
		"by the successor": {func(b *bench) *bench {
			next := succeed(t, b, testService(), testNode("node-a", "zone-a"), testPod(1, unreadySince(first)), testPod(2), b.one(t))
			return next.begin(t)
		}, first},
		"undone meanwhile": {func(b *bench) *bench {
			b.Cache(t, testPod(1))
			b.MustReconcile(t) // finds nothing to do
			b.Cache(t, testPod(1, unreadySince(second)))
			return b
		}, second},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, defaults, testService(), testNode("node-a", "zone-a"), testPod(1), testPod(2)).begin(t)
			b.MustReconcile(t)
			b.observed(t)
			b.MustReconcile(t) // notes that there is nothing to do
			b.Cache(t, testPod(1, unreadySince(first)))
			allow := b.Refuse("update endpointslices", errors.New("outage"))
			if err := b.Reconcile(); err == nil {
				t.Fatal("the update is not refused")
			}
			allow()
			b = tc.between(b)
			b.MustReconcile(t)
			if got, want := b.one(t).Annotations[corev1.EndpointsLastChangeTriggerTime], tc.want.Format(time.RFC3339Nano); got != want {
				t.Errorf("the trigger time is %q, want %q", got, want)
			}
		})
	}
}

// Pins EPS-82.
func TestTheEarliestTimeIsThatOfTheFirstChange(t *testing.T) {
	first := time.Date(2026, 1, 2, 0, 0, 0, 0, time.UTC)
	for name, tc := range map[string]struct{ kept, latest, want time.Time }{
		"nothing is kept":                 {latest: first, want: first},
		"a later change":                  {first, first.Add(time.Minute), first},
		"no change":                       {kept: first, want: first},
		"an earlier one that comes later": {first.Add(time.Minute), first, first},
	} {
		p := newPendingTimes()
		p.noteFailure(web)
		p.conclude(web, tc.kept)
		if got := p.earliest(web, tc.latest); !got.Equal(tc.want) {
			t.Errorf("%s: the time is %v, want %v", name, got, tc.want)
		}
	}
}
