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
	"kcmd.dev/test/integration/harness"
	"kcmd.dev/test/must"
)

// Who adds a controller adds a scenario.
func TestEveryControllerIsInAScenario(t *testing.T) {
	t.Parallel()
	runs := map[string]bool{}
	for _, s := range Scenarios() {
		c := v1beta1.NewDefault()
		harness.Only(s.Controllers)(c)
		for _, one := range c.Controllers.All() {
			runs[one.Name] = runs[one.Name] || c.ControllerEnabled(one.Name)
		}
	}
	for name, runs := range runs {
		if !runs {
			t.Errorf("no scenario has %s", name)
		}
	}
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
		named := slices.Collect(maps.Values(s.Differs))
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
