package results

import (
	"path/filepath"
	"strconv"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestAdd(t *testing.T) {
	t.Parallel()
	const name = "killed-before/create-pods-1"
	was := Scenario{Faults: map[string]Count{"killed before": {2, 3}, "behind": {1, 4}}}
	for what, tc := range map[string]struct {
		was  Scenario
		run  Run
		want Scenario
	}{
		"the first run": {
			run:  Run{Exist: map[string]int{"killed before": 2}, Injected: []Injection{{"killed before", name, false}}},
			want: Scenario{Faults: map[string]Count{"killed before": {1, 2}}},
		},
		"a run of less": {
			was:  was,
			run:  Run{Exist: map[string]int{"killed before": 3, "behind": 4}, Injected: []Injection{{"killed before", name, false}}},
			want: was,
		},
		"a run of more": {
			was: was,
			run: Run{Exist: map[string]int{"killed before": 3, "behind": 4}, Injected: []Injection{
				{"behind", "behind/pods-in-step-1", false}, {"behind", "behind/pods-in-step-2", false},
			}},
			want: Scenario{Faults: map[string]Count{"killed before": {2, 3}, "behind": {2, 4}}},
		},
		"fewer exist now": {
			was:  was,
			run:  Run{Exist: map[string]int{"killed before": 1}},
			want: Scenario{Faults: map[string]Count{"killed before": {1, 1}}},
		},
		"a violation": {
			run:  Run{Exist: map[string]int{"killed before": 1}, Injected: []Injection{{"killed before", name, true}}},
			want: Scenario{Faults: map[string]Count{"killed before": {1, 1}}, Open: []string{name}},
		},
		"one that is settled": {
			was:  Scenario{Open: []string{name, "other"}},
			run:  Run{Exist: map[string]int{"killed before": 1}, Injected: []Injection{{"killed before", name, false}}},
			want: Scenario{Faults: map[string]Count{"killed before": {1, 1}}, Open: []string{"other"}, Settled: []string{name}},
		},
		"one that was settled and is back": {
			was:  Scenario{Settled: []string{name}},
			run:  Run{Exist: map[string]int{"killed before": 1}, Injected: []Injection{{"killed before", name, true}}},
			want: Scenario{Faults: map[string]Count{"killed before": {1, 1}}, Open: []string{name}, Settled: []string{}},
		},
		"one that was not injected again": {
			was:  Scenario{Open: []string{name}},
			run:  Run{Exist: map[string]int{"killed before": 1}},
			want: Scenario{Faults: map[string]Count{"killed before": {0, 1}}, Open: []string{name}},
		},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			r := Results{"web": tc.was}
			r.Add("web", tc.run)
			if diff := cmp.Diff(tc.want, r["web"]); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

func TestRecord(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "results.json")
	for _, scenario := range []string{"one", "other"} {
		run := Run{Exist: map[string]int{"behind": 2}, Injected: []Injection{{"behind", "behind/pods-in-step-1", true}}}
		if err := Record(path, scenario, run); err != nil {
			t.Fatal(err)
		}
	}
	got, err := load(path)
	if err != nil {
		t.Fatal(err)
	}
	each := Scenario{Faults: map[string]Count{"behind": {1, 2}}, Open: []string{"behind/pods-in-step-1"}}
	if diff := cmp.Diff(Results{"one": each, "other": each}, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestRecordsSideBySide(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "results.json")
	var recording sync.WaitGroup
	for n := range 50 {
		recording.Go(func() {
			if err := Record(path, strconv.Itoa(n), Run{Exist: map[string]int{"behind": 1}}); err != nil {
				t.Error(err)
			}
		})
	}
	recording.Wait()
	got, err := load(path)
	if err != nil {
		t.Fatal(err)
	}
	if len(got) != 50 {
		t.Errorf("%d of 50 scenarios are recorded", len(got))
	}
}

func TestTable(t *testing.T) {
	t.Parallel()
	r := Results{
		"b": {Faults: map[string]Count{"behind": {1, 2}, "conflict": {3, 3}, "invalid": {3, 3}}, Open: []string{"x"}, Settled: []string{"y"}},
		"a": {Faults: map[string]Count{"behind": {2, 2}}},
	}
	want := `| scenario | intermediate states | stale states | unobserved states | refusals | injected | violations | open |
|---|---:|---:|---:|---:|---:|---:|---:|
| a | 0 of 0 | 2 of 2 | 0 of 0 | 0 of 0 | 2 of 2 | 0 | 0 |
| b | 0 of 0 | 1 of 2 | 0 of 0 | 6 of 6 | 7 of 8 | 2 | 1 |
| never | 0 of 0 | 0 of 0 | 0 of 0 | 0 of 0 | 0 of 0 | 0 | 0 |
| **all** | 0 of 0 | 3 of 4 | 0 of 0 | 6 of 6 | 9 of 10 | 2 | 1 |
`
	if diff := cmp.Diff(want, r.Table([]string{"b", "never", "a"})); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}
