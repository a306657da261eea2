package status

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"kcmd.dev/pkg/controller"
	"kcmd.dev/pkg/runtime/status/statuspage"
	"kcmd.dev/pkg/runtime/supervisor"
)

// at is the work of two controllers, with queues or without.
func at(generation uint64, depth int, reconciled uint64) []supervisor.Status {
	return []supervisor.Status{
		{Name: "a", Generation: generation, Loops: []controller.LoopStatus{{Depth: depth, Reconciled: reconciled}, {Depth: 1}}},
		{Name: "b", Generation: 1, Loops: []controller.LoopStatus{{Reconciled: 2 * reconciled}}},
		{Name: "idle"},
	}
}

func TestSamplesAreTakenWhenSomebodyLooks(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	var p Past
	if !p.Due(now) {
		t.Error("the first sample is not due")
	}
	p.Observe(now, at(1, 0, 0))
	if p.Due(now.Add(pastSpacing - 1)) {
		t.Error("another sample is due at once")
	}
	if got := p.Observe(now.Add(time.Second), at(1, 5, 5)); len(got) != 1 || got[0].works["a"].queued != 1 {
		t.Errorf("a second look changed the samples to %+v", got)
	}
	if !p.Due(now.Add(pastSpacing)) {
		t.Error("no other sample is due later")
	}
	for range 1000 {
		now = now.Add(pastSpacing)
		p.Observe(now, at(1, 0, 0))
	}
	if got, most := len(p.Observe(now, nil)), int(pastSpan/pastSpacing)+1; got != most {
		t.Errorf("%d samples are kept, want %d", got, most)
	}
}

func TestPlots(t *testing.T) {
	begin := time.Unix(1_800_000_000, 0)
	var p Past
	p.Observe(begin, at(1, 0, 10))
	p.Observe(begin.Add(10*time.Second), at(1, 3, 30)) // 20 and 40 keys in 10 seconds
	p.Observe(begin.Add(20*time.Second), at(2, 1, 5))  // a is another instance, and b as well by its count
	past := p.Observe(begin.Add(20*time.Second), nil)
	v := statuspage.View{Controllers: []statuspage.Controller{{Name: "a", Loops: 2}, {Name: "b", Loops: 1}, {Name: "idle"}}}
	addPlots(&v, past, begin.Add(pastSpan))
	step := 10.0 / pastSpan.Seconds()
	want := []statuspage.Plot{
		{Label: "Keys waiting", Now: "2", Most: "at most 4", Points: []statuspage.Point{{X: 0, Y: 0.25}, {X: step, Y: 1}, {X: 2 * step, Y: 0.5}}},
		{Label: "Keys done per second", Now: "1.5", Most: "at most 6.0", Points: []statuspage.Point{{X: 0, Y: 1}, {X: step, Y: 1}, {X: 2 * step, Y: 0.25}}},
	}
	near := cmp.Comparer(func(x, y float64) bool { return x-y < 1e-9 && y-x < 1e-9 })
	if diff := cmp.Diff(want, v.Plots, near); diff != "" {
		t.Errorf("the plots differ (-want +got):\n%s", diff)
	}
	if c := v.Controllers; len(c[0].QueuedPast) != 3 || len(c[0].DonePast) != 3 || len(c[1].QueuedPast) != 0 || len(c[1].DonePast) != 3 || c[2].DonePast != nil {
		t.Errorf("the controllers have %+v", c)
	}
}

func TestNothingIsDrawnOfOneSample(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	var p Past
	var v statuspage.View
	addPlots(&v, p.Observe(now, at(1, 3, 3)), now)
	if v.Plots[0].Now != "4" || v.Plots[1].Now != "–" || v.Plots[0].Points != nil || v.Plots[1].Points != nil {
		t.Errorf("the plots are %+v", v.Plots)
	}
}

// What a look costs besides reading the status, at most once per five seconds.
func BenchmarkObserve(b *testing.B) {
	all := make([]supervisor.Status, 0, 53)
	for range 53 {
		all = append(all, at(1, 1, 1)[0])
	}
	now := time.Unix(1_800_000_000, 0)
	var p Past
	b.ReportAllocs()
	for b.Loop() {
		now = now.Add(pastSpacing)
		p.Observe(now, all)
	}
}
