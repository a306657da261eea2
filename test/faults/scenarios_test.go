package faults

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"kcmd.dev/pkg/config/v1beta1"
	"kcmd.dev/test/controlplane/binaries"
	"kcmd.dev/test/must"
)

// Who adds a controller adds a scenario.
func TestEveryControllerIsInAScenario(t *testing.T) {
	t.Parallel()
	for name, runs := range controllersOf(Scenarios()) {
		if !runs {
			t.Errorf("no scenario has %s", name)
		}
	}
}

// alone are the controllers that are not compared with upstream: those that work after minutes or days, and those of a
// cloud.
var alone = []string{
	"cloud-node-controller", "cloud-node-lifecycle-controller",
	"legacy-serviceaccount-token-cleaner-controller", "node-route-controller", "podcertificaterequest-cleaner-controller",
	"service-lb-controller",
}

func TestEveryOtherControllerIsComparedWithUpstream(t *testing.T) {
	t.Parallel()
	played := slices.DeleteFunc(slices.Concat(Scenarios(), Comparisons()), func(s Scenario) bool { return !s.hasUnderstudy() })
	for name, runs := range controllersOf(played) {
		if runs == slices.Contains(alone, name) {
			t.Errorf("%s is compared: %t", name, runs)
		}
	}
}

// controllersOf says of each controller whether one of some scenarios has it.
func controllersOf(scenarios []Scenario) map[string]bool {
	runs := map[string]bool{}
	for _, s := range scenarios {
		c := v1beta1.NewDefault()
		s.configure(c)
		for _, one := range c.Controllers.All() {
			runs[one.Name] = runs[one.Name] || c.ControllerEnabled(one.Name)
		}
	}
	return runs
}

// What explains a difference from upstream is a rule of a specification.
func TestDifferencesFromUpstreamHaveRules(t *testing.T) {
	t.Parallel()
	root := must.Get(binaries.Root())(t)
	var rules strings.Builder
	for _, path := range must.Get(filepath.Glob(filepath.Join(root, "docs", "specs", "*.md")))(t) {
		rules.Write(must.Get(os.ReadFile(path))(t))
	}
	for _, s := range slices.Concat(Scenarios(), Comparisons()) {
		named := slices.AppendSeq(slices.Collect(maps.Values(s.Differs)), maps.Values(s.Chance))
		if s.Stalls != "" {
			named = append(named, s.Stalls)
		}
		for _, rule := range named {
			if !strings.Contains(rules.String(), "`"+rule+"`") {
				t.Errorf("scenario %s names %q, which is no rule", s.Name, rule)
			}
		}
	}
}
