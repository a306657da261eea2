package report

import (
	"strings"
	"testing"
)

// results are those of both subjects, with the same figures but for a factor of ours.
func results(phase, unit string, units float64, figures map[string]float64, factor float64) []Result {
	ours := map[string]float64{}
	for name, value := range figures {
		ours[name] = value * factor
	}
	r := Result{Phase: phase, Mode: usualMode, Size: "size of " + phase, Units: units, Unit: unit}
	theirs, mine := r, r
	theirs.Subject, theirs.Figures, mine.Subject, mine.Figures = Upstream, figures, Ours, ours
	return []Result{theirs, mine}
}

func wantLines(t *testing.T, text string, want ...string) {
	t.Helper()
	for _, line := range want {
		if !strings.Contains("\n"+text, "\n"+line+"\n") {
			t.Errorf("there is no line %q in\n%s", line, text)
		}
	}
}

func TestSummary(t *testing.T) {
	all := results(GrowthPhase(50000), "pod", 50000, map[string]float64{RSS: 800, CPU: 6}, 0.5)
	all = append(all, results("steady", "minute", 3, map[string]float64{RSS: 100, CPU: 1.2}, 0.5)...)
	limited := results("change", "change", 1, map[string]float64{Wall: 10}, 0.1)
	for _, r := range limited {
		r.Mode = "limited"
		all = append(all, r)
	}
	all = append(all, results("failover-killed", "failover", 1, map[string]float64{Wall: 18}, 0.75)[0])
	comparisons, _ := Aggregate(all)
	wantLines(t, Summary(comparisons),
		"| memory at rest, MiB | start with 0 pods | – | – | – |",
		"| memory at rest, MiB | size of growth-50000 | 800 | 400 | 0.50 |",
		"| CPU of the start, s | size of growth-50000 | 6.0 | 3.0 | 0.50 |",
		"| CPU at rest, ms per minute | size of steady | 400 | 200 | 0.50 |",
		"| time until a new Deployment has its pod, s | a setting changed | – | – | – |",
		"| time until a new Deployment has its pod, s | size of failover-killed | 18.00 | – | – |",
	)
	if got := strings.Count(Summary(nil), "| – | – | – |"); got != len(headlines()) {
		t.Errorf("without results %d lines of %d are empty", got, len(headlines()))
	}
}

func TestGrowth(t *testing.T) {
	comparisons, _ := Aggregate(append(
		results(GrowthPhase(0), "pod", 0, map[string]float64{PeakRSS: 90, RSS: 80, CPU: 0.4}, 0.5),
		results("growths", "pod", 7, map[string]float64{PeakRSS: 90}, 0.5)...))
	got := Growth(comparisons)
	wantLines(t, got, "| 0 | 90 | 45 | 0.50 | 80 | 40 | 0.50 | 0.40 | 0.20 | 0.50 |")
	if strings.Contains(got, "| 7 |") {
		t.Errorf("another phase is there:\n%s", got)
	}
}

func TestSlopes(t *testing.T) {
	var all []Result
	memory := func(kind string, units, rss, heap float64) {
		all = append(all, results(SlopePhase(kind), strings.ToLower(kind), units, map[string]float64{RSS: rss, Heap: heap}, 1)...)
	}
	memory(NoKind, 0, 60, 20)
	memory(KindNode, 1024, 84, 28)
	memory(KindJob, 1024, 90, 29) // of pods there is no result: what Jobs need is not known
	memory(KindService, 1024, 98, 31)
	for i := range all {
		if all[i].Subject == Ours && all[i].Phase == SlopePhase(KindNode) {
			all[i].Figures = map[string]float64{RSS: 66, Heap: 22}
		}
	}
	comparisons, _ := Aggregate(all)
	got := Slopes(comparisons)
	wantLines(t, got,
		"| node, ready, with its Lease and 20 images | 24576 | 6144 | 0.25 | 8192 | 2048 | 0.25 |",
		"| Service, with its Endpoints, EndpointSlice and IPAddress | 8192 | 8192 | 1.0 | 2048 | 2048 | 1.0 |",
	)
	if strings.Contains(got, "Job") || strings.Contains(got, "pod") {
		t.Errorf("it tells what was not measured:\n%s", got)
	}
	if got := Slopes(nil); got != "" {
		t.Errorf("without results: %q", got)
	}
}

func TestDifference(t *testing.T) {
	got := difference(Sample{Median: 7, Spread: 1, Count: 3}, Sample{Median: 3, Spread: 0.5, Count: 2}, 2)
	if want := (Sample{Median: 8, Spread: 3, Count: 2}); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

func TestControllers(t *testing.T) {
	var all []Result
	for i, r := range []struct{ units, anonymous, heap, cpu float64 }{{0, 10, 10, 0.1}, {20, 20, 14, 0.2}, {40, 30, 20, 0.5}} {
		figures := map[string]float64{RSS: 100 - r.anonymous, Anonymous: r.anonymous, Heap: r.heap, CPU: r.cpu, Wall: 120}
		all = append(all, results(ControllersPhases[i], "controller", r.units, figures, 1)[1])
	}
	comparisons, _ := Aggregate(all)
	wantLines(t, Controllers(comparisons),
		"| 0 | 90.0 | 10.0 | 10.0 | 50 |",
		"| 20 | 80.0 | 20.0 | 14.0 | 100 |",
		"| 40 | 70.0 | 30.0 | 20.0 | 250 |",
		"One more controller costs 512 KiB of anonymous memory, of it 256 KiB of live heap, and 5.0 ms of processor time per minute.",
	)
	if got := Controllers(comparisons[:2]); got != "" {
		t.Errorf("without the last phase: %q", got)
	}
	if got := Ratios(comparisons); strings.Contains(got, "controllers") {
		t.Errorf("there are ratios of one subject:\n%s", got)
	}
}

func TestLabelsOfFewPodsDoNotOverlap(t *testing.T) {
	var all []Result
	for _, pods := range []int{0, 1000, 5000, 10000, 50000} {
		all = append(all, results(GrowthPhase(pods), "pod", float64(pods), map[string]float64{PeakRSS: 100}, 0.5)...)
	}
	comparisons, _ := Aggregate(all)
	image := string(growthLines(comparisons))
	for label, want := range map[string]bool{">50000 pods<": true, ">10000 pods<": true, ">5000 pods<": false, ">1000 pods<": true, ">0 pods<": false} {
		if strings.Contains(image, label) != want {
			t.Errorf("%s is there: %t, want %t", label, !want, want)
		}
	}
}
