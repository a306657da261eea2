package supervisor

import "kcmd.dev/pkg/config/plan"

// Done is what one controller was told to do.
type Done struct {
	Name string
	// Before is what it was told last.
	Before, After Want
}

// Action is what happens to its instance; off if it has none before and after.
func (d Done) Action() plan.Action {
	switch was, is := d.Before.State == Paused, d.After.State == Paused; {
	case was && is:
		return plan.Keep
	case is:
		return plan.Pause
	case was && d.After.State == Running:
		return plan.Resume
	case was && d.After.State == Disabled:
		return plan.Stop
	}
	switch was, is := d.Before.State == Running, d.After.State == Running; {
	case was && is && d.Before.equal(d.After):
		return plan.Keep
	case was && is:
		return plan.Restart
	case was:
		return plan.Stop
	case is:
		return plan.Start
	}
	return plan.Off
}
