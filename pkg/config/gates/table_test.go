package gates

import (
	"slices"
	"strings"
	"testing"

	"kcmd.dev/pkg/config/v1beta1"
)

// The numbers are those of docs/specs/feature-gates.md.
// Pins MGR-113.
func TestGateTableIsComplete(t *testing.T) {
	all := All()
	if len(all) != 242 || all[0].Name != AllAlpha || all[1].Name != AllBeta {
		t.Fatalf("the table has %d gates and starts with %s, want 240 with AllAlpha and AllBeta in front", len(all), all[0].Name)
	}
	stages, locked, dependent := map[Stage]int{}, 0, 0
	for _, gate := range all[2:] {
		stages[gate.Stage]++
		if gate.Locked {
			locked++
		}
		if len(gate.Needs) > 0 {
			dependent++
		}
		for _, name := range gate.Needs {
			if !slices.ContainsFunc(all, func(g Gate) bool { return g.Name == name }) {
				t.Errorf("%s needs %s, which is no gate", gate.Name, name)
			}
		}
	}
	if stages[Alpha] != 49 || stages[Beta] != 99 || stages[GA] != 76 || stages[Deprecated] != 16 || locked != 76 || dependent != 48 {
		t.Errorf("stages %v, %d locked, %d with dependencies", stages, locked, dependent)
	}
	names := gateTables().names
	if !slices.IsSortedFunc(names, func(a, b string) int { return strings.Compare(strings.ToLower(a), strings.ToLower(b)) }) {
		t.Error("the table is not sorted")
	}
	if len(slices.Compact(slices.Clone(names))) != len(names) {
		t.Error("a gate is in the table twice")
	}
}

// At every version the defaults agree with each other.
func TestDefaultsOfGatesAreConsistent(t *testing.T) {
	for _, version := range Versions() {
		cfg := &v1beta1.KubeControllerManagerConfiguration{EmulatedVersion: version}
		for name, gate := range Of(cfg) {
			for _, need := range gate.Needs {
				if gate.Default && !Enabled(cfg, need) {
					t.Errorf("%s: %s is on by default and needs %s, which is off", version, name, need)
				}
			}
		}
	}
}

func TestGatesOfVersions(t *testing.T) {
	tests := []struct {
		version string
		want    Gate
	}{
		{"1.33", Gate{Name: "DRADeviceTaints", Stage: Alpha}},
		{"1.36", Gate{Name: "DRADeviceTaints", Stage: Beta, Default: true}},
		{"1.33", Gate{Name: "SeparateCacheWatchRPC", Stage: Deprecated}},
		{"1.36", Gate{Name: "SeparateCacheWatchRPC", Stage: Deprecated, Locked: true}},
		{"1.34", Gate{Name: "MultiCIDRServiceAllocator", Stage: GA, Default: true, Locked: true}},
		{"1.33", Gate{Name: "MultiCIDRServiceAllocator", Stage: GA, Default: true}},
		{"1.33", Gate{Name: "WatchList", Stage: Beta}},
		{"1.34", Gate{Name: "WatchList", Stage: Beta, Default: true}},
	}
	for _, test := range tests {
		minor, _ := ParseVersion(test.version)
		got := gateTables().at(minor)[test.want.Name]
		if got.Stage != test.want.Stage || got.Default != test.want.Default || got.Locked != test.want.Locked {
			t.Errorf("%s at %s = %+v, want %+v", test.want.Name, test.version, got, test.want)
		}
	}
	if _, ok := gateTables().at(35)["WorkloadWithJob"]; ok {
		t.Error("1.35 has WorkloadWithJob, which came in 1.36")
	}
	if since, ok := gateTables().since("WorkloadWithJob"); since != "1.36" || !ok {
		t.Errorf("since(WorkloadWithJob) = %s, %t", since, ok)
	}
	if AlwaysLocked("OrderedNamespaceDeletion") || !AlwaysLocked("LogarithmicScaleDown") || AlwaysLocked("PodDeletionCost") || AlwaysLocked("Foo") {
		t.Error("AlwaysLocked is wrong about when a gate was locked")
	}
}

func TestParseGatesRefusesNonsense(t *testing.T) {
	for _, text := range []string{"A 1.36:alpha", "A 1.36:alpha:off:lock", "A x:alpha:off", "A 1.36:gamma:off", "A 1.36:alpha:maybe"} {
		if _, err := parseGates(text); err == nil {
			t.Errorf("parseGates accepts %q", text)
		}
	}
}

func TestParseVersion(t *testing.T) {
	for text, want := range map[string]int{"1.36": 36, "1.4": 4} {
		if got, ok := ParseVersion(text); got != want || !ok {
			t.Errorf("ParseVersion(%q) = %d, %t", text, got, ok)
		}
	}
	for _, text := range []string{"", "1", "1.", "2.36", "1.36.1", "1.x", "v1.36", "1.+3", "1.-3", "1.03"} {
		if got, ok := ParseVersion(text); ok {
			t.Errorf("ParseVersion(%q) = %d, want none", text, got)
		}
	}
}
