package faults

import (
	"testing"

	"kcmd.dev/pkg/config/v1beta1"
	"kcmd.dev/test/integration/harness"
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
