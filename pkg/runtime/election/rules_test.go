package election

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unsafe"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/testutil"
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"

	"kcmd.dev/test/must"
)

// Pins MGR-81, MGR-82 and MGR-182.
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

		"leading, new annotations too early": {with(self, func(v *view) { v.renewNow = true; v.retryAt = now.Add(1) }), waitFor(1)},
		"leading, delay and holdOff are nil": {with(self, func(v *view) { v.delay = 9 * second; v.holdOff = now.Add(9) }), waitFor(second)},

		"free, delay":                 {with(other, func(v *view) { v.holder = ""; v.freeAt = ago(second); v.delay = 3 * second }), waitFor(2 * second)},
		"free, delay is over":         {with(other, func(v *view) { v.holder = ""; v.freeAt = ago(3 * second); v.delay = 3 * second }), action{verb: acquire}},
		"free, delay, unwatched":      {with(other, func(v *view) { v.holder = ""; v.freeAt = now; v.delay = 9 * second; v.watched = false }), waitFor(2 * second)},
		"no lease, delay":             {view{known: true, watched: true, freeAt: now, delay: second}, waitFor(second)},
		"no lease, delay is over":     {view{known: true, watched: true, freeAt: ago(second), delay: second}, action{verb: create}},
		"expired, delay":              {with(other, func(v *view) { v.changedAt = ago(16 * second); v.delay = 3 * second }), waitFor(2 * second)},
		"expired, delay and jitter":   {with(other, func(v *view) { v.changedAt = ago(16 * second); v.delay = 3 * second; v.jitter = 4 }), waitFor(2*second + 4)},
		"expired, delay is over":      {with(other, func(v *view) { v.changedAt = ago(18 * second); v.delay = 3 * second }), action{verb: acquire}},
		"deleted, expired, delay":     {with(other, func(v *view) { v.exists = false; v.changedAt = ago(16 * second); v.delay = 3 * second }), waitFor(2 * second)},
		"yielded":                     {with(other, func(v *view) { v.holder = ""; v.holdOff = now.Add(5) }), waitFor(5)},
		"yielded long ago":            {with(other, func(v *view) { v.holder = ""; v.holdOff = now }), action{verb: acquire}},
		"yielded, then deleted":       {with(other, func(v *view) { v.holder = ""; v.exists = false; v.holdOff = now.Add(5) }), waitFor(5)},
		"yielded, then taken":         {with(other, func(v *view) { v.holdOff = now.Add(5) }), waitFor(10 * second)},
		"yielded, taken, expired":     {with(other, func(v *view) { v.changedAt = ago(15 * second); v.holdOff = now.Add(5) }), waitFor(5)},
		"yield failed":                {with(self, func(v *view) { v.leading = false; v.watched = true; v.holdOff = now.Add(5) }), waitFor(5)},
		"yield failed, unknown":       {with(self, func(v *view) { v.leading = false; v.known = false; v.holdOff = now.Add(5) }), action{verb: read}},
		"preferred without consent":   {with(self, func(v *view) { v.preferred = "other" }), waitFor(second)},
		"holder without term, delay":  {with(self, func(v *view) { v.leading = false; v.delay = second }), action{verb: acquire}},
		"foreign":                     {with(self, func(v *view) { v.leading = false; v.foreign = true; v.watched = true }), waitFor(14 * second)},
		"foreign, expired":            {with(self, func(v *view) { v.leading = false; v.foreign = true; v.changedAt = ago(15 * second) }), action{verb: acquire}},
		"foreign, jitter and delay":   {with(self, func(v *view) { v.leading, v.foreign, v.watched, v.jitter, v.delay = false, true, true, 3, 4 }), waitFor(14*second + 7)},
		"foreign, deleted":            {with(self, func(v *view) { v.leading, v.foreign, v.exists, v.watched = false, true, false, true }), waitFor(14 * second)},
		"leading, but other is shown": {with(self, func(v *view) { v.holder = "other"; v.watched = true }), waitFor(14 * second)},
	} {
		t.Run(name, func(t *testing.T) {
			if got := decide(tc.view, now, "self", defaults); got != tc.want {
				t.Errorf("got %v, want %v", got, tc.want)
			}
		})
	}
}

// Pins MGR-93.
func TestDecideCoordinated(t *testing.T) {
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
		"nothing known":                {view{}, action{verb: read}},
		"failed before":                {view{retryAt: now.Add(3)}, waitFor(3)},
		"no lease":                     {view{known: true, watched: true, seenAt: now}, waitFor(15 * second)},
		"no lease, unwatched":          {view{known: true, seenAt: ago(second)}, waitFor(second)},
		"no lease, poll due":           {view{known: true}, action{verb: read}},
		"held by other":                {other, waitFor(15 * second)},
		"expired":                      {with(other, func(v *view) { v.changedAt = ago(time.Hour) }), waitFor(15 * second)},
		"expired, unwatched":           {with(other, func(v *view) { v.changedAt = ago(time.Hour); v.watched = false }), waitFor(2 * second)},
		"MGR-269: nothing heard":       {with(other, func(v *view) { v.seenAt = ago(15 * second) }), action{verb: read}},
		"released":                     {with(other, func(v *view) { v.holder = "" }), waitFor(15 * second)},
		"deleted under other":          {with(other, func(v *view) { v.exists = false }), waitFor(15 * second)},
		"chosen":                       {with(self, func(v *view) { v.leading = false }), action{verb: acquire}},
		"chosen long ago":              {with(self, func(v *view) { v.leading = false; v.changedAt = ago(time.Hour) }), action{verb: acquire}},
		"chosen, another preferred":    {with(self, func(v *view) { v.leading = false; v.preferred = "other"; v.watched = true }), waitFor(14 * second)},
		"leading":                      {self, waitFor(second)},
		"leading, renewal due":         {with(self, func(v *view) { v.renewedAt = ago(2 * second) }), action{verb: renew}},
		"leading, new timings":         {with(self, func(v *view) { v.renewNow = true }), action{verb: renew}},
		"leading, unknown":             {with(self, func(v *view) { v.known = false }), action{verb: read}},
		"leading, another preferred":   {with(self, func(v *view) { v.preferred = "other" }), action{verb: resign}},
		"leading, self is preferred":   {with(self, func(v *view) { v.preferred = "self" }), action{verb: resign}},
		"leading, deleted":             {with(self, func(v *view) { v.exists = false }), action{verb: resign}},
		"chosen by a foreign record":   {with(self, func(v *view) { v.leading = false; v.foreign = true }), action{verb: acquire}},
		"deleted under self":           {with(self, func(v *view) { v.exists, v.leading, v.watched = false, false, true }), waitFor(14 * second)},
		"yield failed":                 {with(self, func(v *view) { v.leading, v.watched = false, true; v.holdOff = now.Add(5) }), waitFor(5)},
		"yield failed, then unwatched": {with(self, func(v *view) { v.leading = false; v.holdOff = now.Add(time.Hour) }), waitFor(second)},
	} {
		t.Run(name, func(t *testing.T) {
			if got := decideCoordinated(tc.view, now, "self", defaults); got != tc.want {
				t.Errorf("got %v, want %v", got, tc.want)
			}
		})
	}
}

// TestContestable covers when Options.Delay is asked.
func TestContestable(t *testing.T) {
	now := time.Unix(100000, 0)
	held := view{known: true, exists: true, holder: "other", duration: time.Second, changedAt: now.Add(-time.Second + 1)}
	with := func(change func(*view)) view { v := held; change(&v); return v }
	for name, tc := range map[string]struct {
		view view
		want bool
	}{
		"held":             {held, false},
		"expired":          {with(func(v *view) { v.changedAt = now.Add(-time.Second) }), true},
		"free":             {with(func(v *view) { v.holder = "" }), true},
		"missing":          {view{known: true}, true},
		"unknown":          {view{}, false},
		"held by self":     {with(func(v *view) { v.holder = "self"; v.duration = 0 }), false},
		"foreign":          {with(func(v *view) { v.holder = "self"; v.foreign = true }), false},
		"foreign, expired": {with(func(v *view) { v.holder = "self"; v.foreign = true; v.duration = 0 }), true},
		"leading":          {with(func(v *view) { v.leading = true; v.holder = "" }), false},
		"deleted, held":    {with(func(v *view) { v.exists = false }), false},
		"deleted, expired": {with(func(v *view) { v.exists = false; v.duration = 0 }), true},
	} {
		t.Run(name, func(t *testing.T) {
			if got := tc.view.contestable(now, "self"); got != tc.want {
				t.Errorf("got %v, want %v", got, tc.want)
			}
		})
	}
}

// Pins MGR-80 and MGR-53.
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

// Pins MGR-81 and MGR-82.
func TestHeldSpec(t *testing.T) {
	then, now := time.Unix(1000, 0), time.Unix(2000, 0)
	lease := func(holder string) *coordinationv1.Lease {
		return &coordinationv1.Lease{Spec: coordinationv1.LeaseSpec{
			HolderIdentity: &holder, LeaseTransitions: ptr.To[int32](4),
			AcquireTime: &metav1.MicroTime{Time: then}, RenewTime: &metav1.MicroTime{Time: then},
			Strategy: ptr.To(coordinationv1.OldestEmulationVersion),
		}}
	}
	counted := func(holder string, transitions int32) *coordinationv1.Lease {
		l := lease(holder)
		l.Spec.LeaseTransitions = &transitions
		return l
	}
	for name, tc := range map[string]struct {
		current     *coordinationv1.Lease
		exists, own bool
		transitions int32
		acquired    time.Time
	}{
		"new":                  {nil, false, false, 0, now},
		"renewed":              {lease("self"), true, true, 4, then},
		"taken":                {lease("other"), true, false, 5, now},
		"released before":      {lease(""), true, false, 5, now},
		"deleted under self":   {lease("self"), false, true, 4, then},
		"deleted under other":  {lease("other"), false, false, 0, now},
		"created by something": {&coordinationv1.Lease{}, true, false, 1, now},
		"taken from a twin":    {lease("self"), true, false, 5, now},

		"MGR-200: the count begins again": {counted("other", math.MaxInt32), true, false, 0, now},
		"MGR-200: the last one stays":     {counted("self", math.MaxInt32), true, true, math.MaxInt32, then},
	} {
		t.Run(name, func(t *testing.T) {
			got := heldSpec(tc.current, tc.exists, tc.own, "self", now, defaults)
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
	term.End(ErrTaken)
	if !errors.Is(term.Err(), ErrNotRenewed) {
		t.Fatal("the cause changed")
	}
}

// suspended returns the time after a suspend of the machine: the wall clock goes on, the monotonic one does not.
// Package time has no means to make such a time, so the monotonic reading is changed in place, where it has been since
// Go 1.9.
func suspended(t *testing.T, began time.Time, slept time.Duration) time.Time {
	t.Helper()
	now := began.Add(slept)
	layout := (*struct {
		wall uint64
		ext  int64
		loc  *time.Location
	})(unsafe.Pointer(&now))
	layout.ext -= int64(slept)
	if now.Sub(began) != 0 || now.Round(0).Sub(began.Round(0)) != slept {
		t.Fatalf("of the clocks, one has moved by %v, the other by %v", now.Sub(began), now.Round(0).Sub(began.Round(0)))
	}
	return now
}

// Others lead while the machine is suspended, and the Term may not go on afterwards. A wall clock that is set back, or
// forward by less than what remains, changes nothing. Pins MGR-195.
func TestATermDoesNotOutliveASuspend(t *testing.T) {
	for slept, valid := range map[time.Duration]bool{
		-time.Hour: true, 0: true, 10*time.Second - 1: true, 10 * time.Second: false, time.Hour: false,
	} {
		began := time.Now()
		c := clocktesting.NewFakeClock(began)
		term := newTerm(1, began.Add(10*time.Second), c)
		c.SetTime(suspended(t, began, slept))
		if term.Valid() != valid {
			t.Errorf("after %v by the wall clock the term is valid: %t", slept, !valid)
		}
		if !valid && (term.extend(c.Now().Add(time.Hour)) || !errors.Is(term.Err(), ErrNotRenewed)) {
			t.Errorf("after %v the term is extended, or ended with %v", slept, term.Err())
		}
	}
}

func TestTermContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := clocktesting.NewFakeClock(time.Unix(1000, 0))
		term := newTerm(1, c.Now().Add(time.Second), c)
		ctx, cancel := term.Context(context.Background())
		defer cancel()
		term.End(ErrTaken)
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

// Pins MGR-87 and MGR-131.
func TestMetricsAreUpstreams(t *testing.T) {
	r := metrics.NewKubeRegistry()
	m := NewMetrics(r)
	m.SetLeading("one", true)
	m.SetLeading("two", false)
	m.SlowPath("two")
	for metric, want := range map[string]float64{"one": 1, "two": 0} {
		got, err := testutil.GetGaugeMetricValue(m.(*prometheusMetrics).leading.WithLabelValues(metric))
		if err != nil || got != want {
			t.Errorf("leader_election_master_status{name=%q} is %v (%v), want %v", metric, got, err, want)
		}
	}
	families, err := r.Gather()
	if err != nil || len(families) != 2 || families[0].GetName() != "leader_election_master_status" || families[1].GetName() != "leader_election_slowpath_total" {
		t.Fatalf("families %v, error %v", families, err)
	}
}

// The series of a lease ends when the process has left it, and begins anew when it contends for it again. Pins MGR-260.
func TestALeaseThatIsLeftHasNoSeries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := metrics.NewKubeRegistry()
		m := NewMetrics(r)
		shown := func() string {
			t.Helper()
			var all []string
			for _, f := range must.Get(r.Gather())(t) {
				for _, s := range f.GetMetric() {
					all = append(all, fmt.Sprintf("%s %v", s.GetLabel()[0].GetValue(), s.GetGauge().GetValue()))
				}
			}
			return strings.Join(all, ", ")
		}
		s := newServer()
		for range 2 {
			a := s.runWith(t, "a", defaults, func(o *Options) { o.Metrics = m })
			synctest.Wait()
			if got, want := shown(), leaseName+" 1"; got != want {
				t.Errorf("while it is held: %q, want %q", got, want)
			}
			if err := a.Release(t.Context()); err != nil {
				t.Fatal(err)
			}
			a.stop()
			if got := shown(); got != "" {
				t.Errorf("after it was left: %q", got)
			}
		}
	})
}
