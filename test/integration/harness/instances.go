package harness

import (
	"maps"
	"slices"
	"testing"
	"time"

	kcmruntime "kcmd.dev/pkg/runtime"
	"kcmd.dev/pkg/runtime/supervisor"
)

// Instance tells one instance of a controller from another.
type Instance struct {
	Generation uint64
	Started    time.Time
}

// Instances are the running instances by controller.
func Instances(s kcmruntime.Status) map[string]Instance {
	all := map[string]Instance{}
	for _, c := range s.Controllers {
		if c.State == supervisor.Running {
			all[c.Name] = Instance{c.Generation, c.Started.Round(0)}
		}
	}
	return all
}

// SameInstances fails unless exactly the controllers that ran before run now, in the same
// instances, but for those in except, of which exactly one newer instance must have run.
func SameInstances(t testing.TB, before, after map[string]Instance, except ...string) {
	t.Helper()
	for _, name := range slices.Sorted(maps.Keys(before)) {
		was, is := before[name], after[name]
		switch {
		case is == (Instance{}):
			t.Errorf("%s does not run any more", name)
		case slices.Contains(except, name):
			if is.Generation != was.Generation+1 {
				t.Errorf("%s went from instance %d to %d, want exactly one restart", name, was.Generation, is.Generation)
			}
		case is.Generation != was.Generation || !is.Started.Equal(was.Started):
			t.Errorf("%s was restarted: instance %d of %v, before %d of %v", name, is.Generation, is.Started, was.Generation, was.Started)
		}
	}
	for name := range after {
		if _, ran := before[name]; !ran {
			t.Errorf("%s runs, it did not before", name)
		}
	}
}
