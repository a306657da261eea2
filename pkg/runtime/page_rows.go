package runtime

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"kcmd.dev/pkg/config"
	"kcmd.dev/pkg/runtime/election"
	"kcmd.dev/pkg/runtime/supervisor"
	"kcmd.dev/pkg/runtime/telemetry"
)

type leaseRow struct {
	Lock, State, Holder, Error, Renewed string
	Tone                                tone
	Term                                uint64
	Transitions                         int32
	Controllers, Blocked                []string
}

func leaseRows(l LeadershipStatus, now time.Time) []leaseRow {
	rows := make([]leaseRow, 0, len(l.Leases))
	for _, lock := range l.Leases {
		row := leaseRow{Lock: lock.Lock, State: "standby", Tone: calm, Term: lock.Term, Controllers: lock.Controllers, Renewed: "–"}
		if lock.Leading {
			row.State, row.Tone = "leads", good
		}
		row.observe(lock.Election, now)
		for _, name := range slices.Sorted(maps.Keys(lock.Blocked)) {
			row.Blocked = append(row.Blocked, name+" waits: "+lock.Blocked[name])
		}
		rows = append(rows, row)
	}
	return rows
}

// observe adds what the election knows; without one, nobody else can lead.
func (row *leaseRow) observe(e *election.Status, now time.Time) {
	if e == nil {
		row.Holder = "no leader election"
		return
	}
	row.Holder, row.Transitions, row.Error = e.Holder, e.Transitions, e.LastError
	if row.Holder == "" {
		row.Holder = "nobody"
	}
	if !e.Renewed.IsZero() {
		row.Renewed = ago(now, e.Renewed) + " ago"
	}
}

type controllerRow struct {
	Name, Reason, Problem, LastError, LastErrorAge, Up string
	State                                              supervisor.State
	Tone                                               tone
	Generation                                         uint64
	Restarts                                           []string
	Loops                                              int
	Queued, Workers, More                              int
	Done, Failed                                       uint64
	InFlight                                           []keyRow
}

type keyRow struct{ Key, Age string }

// maxKeys is how many keys in flight are shown of a controller.
const maxKeys = 5

func controllerRows(all []supervisor.Status, now time.Time) []controllerRow {
	rows := make([]controllerRow, 0, len(all))
	for _, c := range all {
		row := controllerRow{
			Name: c.Name, State: c.State, Reason: c.Reason, Tone: toneOf(c.State), Generation: c.Generation,
			Problem: ailment(c, now), LastError: c.LastError, Loops: len(c.Loops),
		}
		if row.Problem != "" {
			row.Tone = bad
		}
		if c.LastError != "" {
			row.LastErrorAge = ago(now, c.LastErrorTime) + " ago"
		}
		if c.State == supervisor.Running {
			row.Up = ago(now, c.Started)
		}
		for _, cause := range slices.Sorted(maps.Keys(c.Restarts)) {
			row.Restarts = append(row.Restarts, fmt.Sprintf("%d× %s", c.Restarts[cause], cause))
		}
		if c.Abandoned > 0 {
			row.Restarts = append(row.Restarts, plural(int(c.Abandoned), "instance was left behind", "instances were left behind"))
		}
		row.addLoops(c, now)
		rows = append(rows, row)
	}
	slices.SortStableFunc(rows, byTrouble)
	return rows
}

func (row *controllerRow) addLoops(c supervisor.Status, now time.Time) {
	for _, l := range c.Loops {
		row.Queued += l.Depth
		row.Workers += l.Workers
		row.Done += l.Reconciled
		row.Failed += l.Failed
		for _, k := range l.InFlight {
			if len(row.InFlight) == maxKeys {
				row.More++
				continue
			}
			row.InFlight = append(row.InFlight, keyRow{k.Key, ago(now, k.Since)})
		}
		if row.LastError == "" && l.LastError != "" {
			row.LastError, row.LastErrorAge = l.LastError, ago(now, l.LastErrorTime)+" ago"
		}
	}
}

func toneOf(s supervisor.State) tone {
	switch s {
	case supervisor.Running:
		return good
	case supervisor.BackingOff:
		return bad
	case supervisor.Waiting, supervisor.Stopping:
		return warn
	}
	return calm
}

type reloadRow struct {
	Time, Age, Status, Took, Error, Rest string
	Tone                                 tone
	Generation                           uint64
	Open                                 bool
	Steps                                []stepRow
}

// stepRow is one change of a plan.
type stepRow struct {
	What, Subject, Detail string
	Tone                  tone
}

// reloadRows lists the reloads, the newest first and open.
func reloadRows(all []Reload, now time.Time) []reloadRow {
	rows := make([]reloadRow, 0, len(all))
	for _, o := range slices.Backward(all) {
		row := reloadRow{
			Time: o.Time.UTC().Format(time.RFC3339), Age: ago(now, o.Time) + " ago", Status: "applied", Tone: good,
			Took: fmt.Sprintf("took %.3g s", o.Took), Error: o.Error, Generation: o.Generation, Open: len(rows) == 0,
		}
		if o.Status == telemetry.Failure {
			row.Status, row.Tone = "rejected", bad
		}
		if o.Plan != nil {
			row.Steps, row.Rest = stepRows(*o.Plan)
		}
		rows = append(rows, row)
	}
	return rows
}

// stepRows lists what a plan does, in the order of its text form, and sums up the rest.
func stepRows(p config.Plan) (steps []stepRow, rest string) {
	for _, c := range p.ProcessWide {
		steps = append(steps, stepRow{"everything", "", c.String() + " (" + c.Effect + ")", warn})
	}
	kept := 0
	tones := map[config.Action]tone{config.Stop: calm, config.Restart: warn, config.Start: good}
	for _, action := range []config.Action{config.Stop, config.Restart, config.Start} {
		for _, c := range p.Controllers {
			if c.Action != action {
				continue
			}
			steps = append(steps, causeRows(c, stepRow{What: string(action), Subject: c.Name, Tone: tones[action]})...)
		}
	}
	for _, c := range p.InPlace {
		steps = append(steps, stepRow{"in place", "", c.String(), good})
	}
	for _, c := range p.NoEffect {
		steps = append(steps, stepRow{"no effect", "", c.String(), calm})
	}
	for _, c := range p.Controllers {
		if c.Action == config.Keep {
			kept++
		}
	}
	if kept > 0 {
		rest = plural(kept, "controller keeps running.", "controllers keep running.")
	}
	return steps, rest
}

// causeRows has one row per cause that is the controller's own.
func causeRows(c config.ControllerPlan, first stepRow) []stepRow {
	var rows []stepRow
	for _, cause := range c.Causes {
		if _, all := config.RestartsAll(cause.Path); !all {
			row := first
			row.Detail = cause.String()
			rows = append(rows, row)
		}
	}
	if len(rows) == 0 {
		rows = append(rows, first)
	}
	return rows
}
