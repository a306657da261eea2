package v1beta1_test

import (
	"maps"
	"slices"
	"testing"

	"kcmd.dev/pkg/config/diff"
	"kcmd.dev/pkg/config/v1beta1"
)

func TestControllerNamesMatchBlocks(t *testing.T) {
	cfg := v1beta1.NewDefault()
	blocks := diff.ObjectOf(cfg)["controllers"].(map[string]any)
	for _, c := range cfg.Controllers.All() {
		if _, ok := blocks[c.Name]; !ok {
			t.Errorf("All names %s, which has no block", c.Name)
		}
		delete(blocks, c.Name)
		off := false
		c.Settings.Enabled = &off
		if cfg.ControllerEnabled(c.Name) {
			t.Errorf("%s is enabled although its block says no", c.Name)
		}
	}
	if len(blocks) > 0 {
		t.Errorf("blocks without an entry in All: %v", slices.Sorted(maps.Keys(blocks)))
	}
	if cfg.ControllerEnabled("no-such-controller") {
		t.Error("a controller without a block is enabled")
	}
}

// A plan asks for every controller once for each field that an edit changes.
func TestLookingUpAControllerAllocatesNothing(t *testing.T) {
	cfg := v1beta1.NewDefault()
	for _, name := range []string{"node-route-controller", "no-such-controller"} {
		if n := testing.AllocsPerRun(100, func() {
			cfg.ControllerEnabled(name)
			cfg.ControllerPaused(name)
			cfg.ResyncPeriodOf(name)
		}); n != 0 {
			t.Errorf("%s: %v allocations", name, n)
		}
	}
}
