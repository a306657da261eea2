package election

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/testutil"
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"
)

func TestDecide(t *testing.T) {
	now := time.Unix(100000, 0)
	ago := func(d time.Duration) time.Time { return now.Add(-d) }
	const second = time.Second
	other := view{known: true, exists: true, holder: "other", duration: 15 * second, changedAt: ago(5 * second), seenAt: now, watched: true}
	self := view{known: true, exists: true, holder: "self", duration: 15 * second, leading: true, renewedAt: ago(second), changedAt: ago(second), seenAt: ago(second)}
	with := func(v view, change func(*view)) view { change(&v); return v }

	for name, tc := range map[string]struct {
		view view
		want action
	}{
		"nothing known":           {view{}, action{verb: read}},
		"no lease":                {view{known: true}, action{verb: create}},
		"failed before":           {view{retryAt: now.Add(3)}, waitFor(3)},
		"failure is over":         {view{retryAt: now}, action{verb: read}},
		"held by other":           {other, waitFor(10 * second)},
		"held by other, jitter":   {with(other, func(v *view) { v.jitter = 7 }), waitFor(10*second + 7)},
		"just not expired":        {with(other, func(v *view) { v.changedAt = ago(15*second - 1) }), waitFor(1)},
		"expired":                 {with(other, func(v *view) { v.changedAt = ago(15 * second) }), action{verb: acquire}},
		"expired, jitter":         {with(other, func(v *view) { v.changedAt = ago(15 * second); v.jitter = 5 }), waitFor(5)},
		"expired, unwatched":      {with(other, func(v *view) { v.changedAt = ago(16 * second); v.watched = false }), action{verb: acquire}},
		"unwatched":               {with(other, func(v *view) { v.watched = false; v.seenAt = ago(second) }), waitFor(second)},
		"unwatched, poll due":     {with(other, func(v *view) { v.watched = false; v.seenAt = ago(2 * second) }), action{verb: read}},
		"unwatched, expiry first": {with(other, func(v *view) { v.watched = false; v.changedAt = ago(14 * second) }), waitFor(second)},
		"released":                {with(other, func(v *view) { v.holder = ""; v.changedAt = now }), action{verb: acquire}},
		"deleted under other":     {with(other, func(v *view) { v.exists = false }), waitFor(10 * second)},
		"deleted, expired":        {with(other, func(v *view) { v.exists = false; v.changedAt = ago(15 * second) }), action{verb: create}},
		"deleted after release":   {with(other, func(v *view) { v.exists = false; v.holder = "" }), action{verb: create}},
		"deleted under self":      {with(self, func(v *view) { v.exists = false }), action{verb: create}},
		"leading":                 {self, waitFor(second)},
		"leading, renewal due":    {with(self, func(v *view) { v.renewedAt = ago(2 * second) }), action{verb: renew}},
		"leading, new timings":    {with(self, func(v *view) { v.renewNow = true }), action{verb: renew}},
		"leading, failed before":  {with(self, func(v *view) { v.renewedAt = ago(9 * second); v.retryAt = now.Add(1) }), waitFor(1)},
		"leading, unknown":        {with(self, func(v *view) { v.known = false }), action{verb: read}},
		"holder without term":     {with(self, func(v *view) { v.leading = false }), action{verb: acquire}},
	} {
		t.Run(name, func(t *testing.T) {
			if got := decide(tc.view, now, "self", defaults); got != tc.want {
				t.Errorf("got %v, want %v", got, tc.want)
			}
		})
	}
}

func TestTimings(t *testing.T) {
	short := Timings{LeaseDuration: 1900 * time.Millisecond, RenewDeadline: 1500 * time.Millisecond, RetryPeriod: 200 * time.Millisecond}
	if got := short.seconds(); got != 1 {
		t.Errorf("recorded duration %d, want whole seconds", got)
	}
	if got := (Timings{LeaseDuration: 300 * time.Millisecond}).seconds(); got != 1 {
		t.Errorf("recorded duration %d, the API server demands at least 1", got)
	}
	if got := short.validFor(short.seconds()); got != time.Second {
		t.Errorf("a term of %v outlives the recorded lease", got)
	}
	if got := defaults.validFor(15); got != 10*time.Second {
		t.Errorf("a term of %v, want the renew deadline", got)
	}
	if got := defaults.requestTimeout(); got != 5*time.Second {
		t.Errorf("request timeout %v, want 5s", got)
	}
	if got := short.requestTimeout(); got != time.Second {
		t.Errorf("request timeout %v, want at least 1s", got)
	}
}

func TestHeldSpec(t *testing.T) {
	then, now := time.Unix(1000, 0), time.Unix(2000, 0)
	lease := func(holder string) *coordinationv1.Lease {
		return &coordinationv1.Lease{Spec: coordinationv1.LeaseSpec{
			HolderIdentity: &holder, LeaseTransitions: ptr.To[int32](4),
			AcquireTime: &metav1.MicroTime{Time: then}, RenewTime: &metav1.MicroTime{Time: then},
			Strategy: ptr.To(coordinationv1.OldestEmulationVersion),
		}}
	}
	for name, tc := range map[string]struct {
		current     *coordinationv1.Lease
		exists      bool
		transitions int32
		acquired    time.Time
	}{
		"new":                  {nil, false, 0, now},
		"renewed":              {lease("self"), true, 4, then},
		"taken":                {lease("other"), true, 5, now},
		"released before":      {lease(""), true, 5, now},
		"deleted under self":   {lease("self"), false, 4, then},
		"deleted under other":  {lease("other"), false, 0, now},
		"created by something": {&coordinationv1.Lease{}, true, 1, now},
	} {
		t.Run(name, func(t *testing.T) {
			got := heldSpec(tc.current, tc.exists, "self", now, defaults)
			if *got.HolderIdentity != "self" || *got.LeaseDurationSeconds != 15 || !got.RenewTime.Time.Equal(now) || got.Strategy != nil {
				t.Errorf("spec %+v", got)
			}
			if *got.LeaseTransitions != tc.transitions || !got.AcquireTime.Time.Equal(tc.acquired) {
				t.Errorf("transitions %d, acquired %v, want %d, %v", *got.LeaseTransitions, got.AcquireTime, tc.transitions, tc.acquired)
			}
		})
	}
}

func TestTermNeedsNobodyToEnd(t *testing.T) {
	c := clocktesting.NewFakeClock(time.Unix(1000, 0))
	term := newTerm(1, c.Now().Add(10*time.Second), c) // no guard runs: everything is paused
	c.Step(10*time.Second - 1)
	if !term.Valid() || !term.extend(c.Now().Add(10*time.Second)) {
		t.Fatal("ended early")
	}
	term.limit(c.Now().Add(time.Hour))
	c.Step(10 * time.Second)
	if err := term.Err(); !errors.Is(err, ErrNotRenewed) {
		t.Fatalf("after a pause the term says %v", err)
	}
	if term.extend(c.Now().Add(time.Hour)) || term.Valid() {
		t.Fatal("a term came back to life")
	}
	select {
	case <-term.Done():
	default:
		t.Fatal("Done is open")
	}
	term.end(ErrTaken)
	if !errors.Is(term.Err(), ErrNotRenewed) {
		t.Fatal("the cause changed")
	}
}

func TestTermContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := clocktesting.NewFakeClock(time.Unix(1000, 0))
		term := newTerm(1, c.Now().Add(time.Second), c)
		ctx, cancel := term.Context(context.Background())
		defer cancel()
		term.end(ErrTaken)
		<-ctx.Done()
		if !errors.Is(context.Cause(ctx), ErrTaken) {
			t.Fatalf("cause %v", context.Cause(ctx))
		}
	})
}

func TestAlways(t *testing.T) {
	term := Always()
	if _, limited := term.Deadline(); limited || !term.Valid() || term.Err() != nil {
		t.Fatal("a term without election has an end")
	}
	select {
	case <-term.Done():
		t.Fatal("a term without election has ended")
	default:
	}
}

func TestMetricsAreUpstreams(t *testing.T) {
	r := metrics.NewKubeRegistry()
	first, err := NewMetrics(r)
	if err != nil {
		t.Fatal(err)
	}
	second, err := NewMetrics(r) // for a second lease
	if err != nil {
		t.Fatal(err)
	}
	first.SetLeading("one", true)
	second.SetLeading("two", false)
	second.SlowPath("two")
	for metric, want := range map[string]float64{"one": 1, "two": 0} {
		got, err := testutil.GetGaugeMetricValue(first.(*prometheusMetrics).leading.WithLabelValues(metric))
		if err != nil || got != want {
			t.Errorf("leader_election_master_status{name=%q} is %v (%v), want %v", metric, got, err, want)
		}
	}
	families, err := r.Gather()
	if err != nil || len(families) != 2 || families[0].GetName() != "leader_election_master_status" || families[1].GetName() != "leader_election_slowpath_total" {
		t.Fatalf("families %v, error %v", families, err)
	}
}
