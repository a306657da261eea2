package report

import (
	"bytes"
	"encoding/xml"
	"errors"
	"flag"
	"io"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"kcmd.dev/test/controlplane/binaries"
)

var update = flag.Bool("update", false, "write the documentation instead of comparing it")

// TestDocumentationIsUpToDate renders the checked-in results and compares the result with
// the checked-in page and images.
func TestDocumentationIsUpToDate(t *testing.T) {
	root, err := binaries.Root()
	if err != nil {
		t.Fatal(err)
	}
	f, err := Load(filepath.Join(root, "test", "benchmark", "results", "results.json"))
	if err != nil {
		t.Fatal(err)
	}
	rendered, err := Render(root, f)
	if err != nil {
		t.Fatal(err)
	}
	if *update {
		if err := rendered.Write(root); err != nil {
			t.Fatal(err)
		}
		return
	}
	for name, want := range rendered {
		have, err := os.ReadFile(filepath.Join(root, name))
		if err != nil || !bytes.Equal(have, want) {
			t.Errorf("%s is not what the results say, run make bench-render (%v)", name, err)
		}
	}
	images, err := filepath.Glob(filepath.Join(root, Images, "*.svg"))
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range images {
		if _, made := rendered[Images+"/"+filepath.Base(path)]; !made {
			t.Errorf("%s is not made from the results", path)
		}
	}
}

func TestSummarize(t *testing.T) {
	for name, tc := range map[string]struct {
		values []float64
		want   Sample
	}{
		"one":  {[]float64{3}, Sample{Median: 3, Count: 1}},
		"odd":  {[]float64{9, 1, 2}, Sample{Median: 2, Spread: 7, Count: 3}},
		"even": {[]float64{4, 1, 2, 3}, Sample{Median: 2.5, Spread: 1.5, Count: 4}},
	} {
		if got := summarize(tc.values); got != tc.want {
			t.Errorf("%s: got %+v, want %+v", name, got, tc.want)
		}
	}
}

// sample is two rounds of a phase of both subjects, and more.
func sample() []Result {
	result := func(phase, subject string, round int, cpu, wall float64) Result {
		return Result{
			Scenario: strings.SplitN(phase, "-", 2)[0], Phase: phase, Mode: "unlimited", Subject: subject, Round: round,
			Size: phase + " of 10 pods", Units: 10, Unit: "pod", EndState: "10 pods", HarnessCPUSeconds: 0.5,
			Figures: map[string]float64{CPU: cpu, Wall: wall, PeakRSS: 100 * cpu, Writes: 0},
		}
	}
	return []Result{
		result("scale-out", Upstream, 0, 2, 10), result("scale-out", Ours, 0, 1, 9),
		result("scale-out", Ours, 1, 1.5, 11), result("scale-out", Upstream, 1, 4, 12),
		result("growth-1000", Upstream, 0, 1, 1), result("growth-1000", Ours, 0, 2, 1),
		result("change", Upstream, 0, 1, 18), result("change", Ours, 0, 0.1, 0.12),
	}
}

func TestAggregate(t *testing.T) {
	comparisons, voided := Aggregate(sample())
	if len(comparisons) != 3 || len(voided) != 0 {
		t.Fatalf("got %d comparisons and %v", len(comparisons), voided)
	}
	c := comparisons[0]
	if c.Phase != "scale-out" || c.Rounds() != 2 || c.Harness[Ours] != 0.5 {
		t.Errorf("got %+v", c)
	}
	if s, ok := c.Figure(Ours, CPU); !ok || s != (Sample{Median: 1.25, Spread: 0.25, Count: 2}) {
		t.Errorf("got %+v, %t", s, ok)
	}
	if ratio, ok := c.Ratio(CPU); !ok || math.Abs(ratio-1.25/3) > 1e-9 {
		t.Errorf("got %v, %t", ratio, ok)
	}
	if ratio, ok := c.Ratio(Writes); ok {
		t.Errorf("the ratio to nothing is %v", ratio)
	}
	if _, ok := c.Ratio(Gets); ok {
		t.Error("a figure that was not measured has a ratio")
	}
}

func TestVoidResultsDoNotCount(t *testing.T) {
	t.Run("one failed", func(t *testing.T) {
		results := sample()
		results[2].Void = "it took too long\nand more"
		comparisons, voided := Aggregate(results)
		if s, _ := comparisons[0].Figure(Ours, CPU); s.Count != 1 || s.Median != 1 {
			t.Errorf("got %+v", s)
		}
		if text := Voids(voided); text != "- scale-out, unlimited, kcmd, round 2: it took too long\n" {
			t.Errorf("got %q", text)
		}
	})
	t.Run("the end states differ", func(t *testing.T) {
		results := sample()
		results[3].EndState = "9 pods"
		comparisons, voided := Aggregate(results)
		if len(comparisons) != 2 || len(voided) != 1 || !strings.Contains(voided[0].Reason, "9 pods") {
			t.Errorf("got %d comparisons and %+v", len(comparisons), voided)
		}
	})
	t.Run("only one subject", func(t *testing.T) {
		comparisons, _ := Aggregate(sample()[:1])
		if _, ok := comparisons[0].Ratio(CPU); ok {
			t.Error("a single subject has a ratio")
		}
	})
}

func TestSignificant(t *testing.T) {
	for value, want := range map[float64]string{0: "0", 0.00743: "0.0074", 0.25: "0.25", 0.999: "1.00", 1.26: "1.3", 12.6: "13", 134: "134"} {
		if got := significant(value); got != want {
			t.Errorf("%v: got %q, want %q", value, got, want)
		}
	}
}

func TestTables(t *testing.T) {
	comparisons, _ := Aggregate(sample())
	ratios := Ratios(comparisons)
	for _, want := range []string{"| scale-out of 10 pods | unlimited | 2 | 0.42 | 0.42 |", "| change of 10 pods | unlimited | 1 | 0.10 |", "0.0067 |"} {
		if !strings.Contains(ratios, want) {
			t.Errorf("there is no %q in\n%s", want, ratios)
		}
	}
	details := Details(comparisons)
	for _, want := range []string{"| CPU, s | 3.00 ± 1.00 | 1.25 ± 0.25 | 0.42 |", "| time, s | 18.00 | 0.12 | 0.0067 |"} {
		if !strings.Contains(details, want) {
			t.Errorf("there is no %q in\n%s", want, details)
		}
	}
	if strings.Contains(details, "| writes |") {
		t.Error("a figure that is zero for both is shown")
	}
}

func TestPlotsAreImages(t *testing.T) {
	comparisons, _ := Aggregate(sample())
	plots := Plots(comparisons)
	for _, name := range []string{"cpu.svg", "memory.svg", "time.svg", "growth.svg", "change.svg"} {
		if len(plots[name]) == 0 {
			t.Errorf("there is no %s", name)
		}
	}
	if plots["writes.svg"] != nil {
		t.Error("there is a plot of what was not measured")
	}
	for name, image := range plots {
		decoder := xml.NewDecoder(bytes.NewReader(image))
		for {
			_, err := decoder.Token()
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
		}
		if bytes.Contains(image, []byte("NaN")) || bytes.Contains(image, []byte("Inf")) {
			t.Errorf("%s has coordinates that are no numbers", name)
		}
	}
	again := Plots(comparisons)
	if !reflect.DeepEqual(plots, again) {
		t.Error("plots differ from one time to the next")
	}
}

func TestNiceStep(t *testing.T) {
	for most, want := range map[float64]float64{5: 1, 216: 50, 99: 20, 1000: 200} {
		if got := niceStep(most); got != want {
			t.Errorf("%v: got %v, want %v", most, got, want)
		}
	}
}

func TestReplaceGenerated(t *testing.T) {
	page := "a\n" + beginMarker + "\nold\n" + endMarker + "\nb\n"
	page += page
	got, err := replaceGenerated([]byte(page), "new\n", "newer\n")
	want := "a\n" + beginMarker + "\n\nnew\n\n" + endMarker + "\nb\na\n" + beginMarker + "\n\nnewer\n\n" + endMarker + "\nb\n"
	if err != nil || string(got) != want {
		t.Errorf("got %q, %v", got, err)
	}
	again, err := replaceGenerated(got, "new\n", "newer\n")
	if err != nil || !bytes.Equal(again, got) {
		t.Errorf("the second time it is %q, %v", again, err)
	}
	for name, parts := range map[string][]string{"few": {"new"}, "many": {"new", "newer", "newest"}} {
		if _, err := replaceGenerated([]byte(page), parts...); err == nil {
			t.Errorf("too %s parts are accepted", name)
		}
	}
}

func TestResultsAreKept(t *testing.T) {
	path := filepath.Join(t.TempDir(), "folder", "results.json")
	empty, err := Load(path)
	if err != nil || len(empty.Results) != 0 {
		t.Fatalf("got %v, %v", empty, err)
	}
	f := &File{Environment: Environment{Cores: 2}, Results: sample()}
	if err := f.Save(path); err != nil {
		t.Fatal(err)
	}
	loaded, err := Load(path)
	if err != nil || !reflect.DeepEqual(loaded, f) {
		t.Fatalf("got %+v, %v", loaded, err)
	}
	loaded.Forget("scale", "unlimited")
	if len(loaded.Results) != 4 {
		t.Errorf("%d results are left", len(loaded.Results))
	}
	loaded.Forget("growth", "defaults")
	if len(loaded.Results) != 4 {
		t.Error("results of another mode are forgotten")
	}
	if err := os.WriteFile(path, []byte("{"), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := Load(path); err == nil {
		t.Error("a broken file is accepted")
	}
}
