package status

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"kcmd.dev/pkg/config/diff"
	"kcmd.dev/pkg/config/plan"
	"kcmd.dev/pkg/runtime/election"
	"kcmd.dev/pkg/runtime/health"
	"kcmd.dev/pkg/runtime/leadership"
	"kcmd.dev/pkg/runtime/status/statuspage"
	"kcmd.dev/pkg/runtime/supervisor"
	"kcmd.dev/pkg/runtime/telemetry"
)

func leaseRows(l leadership.Status, now time.Time) []statuspage.Lease {
	rows := make([]statuspage.Lease, 0, len(l.Leases))
	for _, lock := range l.Leases {
		row := statuspage.Lease{Lock: lock.Lock, State: "standby", Tone: statuspage.Calm, Term: lock.Term, Controllers: lock.Controllers, Renewed: "–"}
		if lock.Leading {
			row.State, row.Tone = "leads", statuspage.Good
		}
		addElection(&row, lock.Election, now)
		for _, name := range slices.Sorted(maps.Keys(lock.Blocked)) {
			row.Blocked = append(row.Blocked, name+" waits: "+lock.Blocked[name])
		}
		if lock.Problem != "" {
			row.Blocked = append(row.Blocked, lock.Problem)
		}
		rows = append(rows, row)
	}
	return rows
}

// addElection adds the state of the election; without one, nobody else can lead.
func addElection(row *statuspage.Lease, e *election.Status, now time.Time) {
	if e == nil {
		row.Holder = "no leader election"
		return
	}
	row.Holder, row.Transitions, row.Error = cmp.Or(e.Holder, "nobody"), e.Transitions, e.LastError
	if !e.Renewed.IsZero() {
		row.Renewed = ago(now, e.Renewed) + " ago"
	}
}

// maxKeys is how many keys in flight are shown of a controller.
const maxKeys = 5

func controllerRows(all []supervisor.Status, now time.Time) []statuspage.Controller {
	rows := make([]statuspage.Controller, 0, len(all))
	for _, c := range all {
		row := statuspage.Controller{
			Name: c.Name, State: string(c.State), Reason: c.Reason, Tone: toneOf(c.State), Generation: c.Generation,
			Problem: health.Problem(c, now), LastError: c.LastError, Loops: len(c.Loops),
		}
		if row.Problem != "" {
			row.Tone = statuspage.Bad
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
			row.Restarts = append(row.Restarts, plural(int(c.Abandoned), "instance was abandoned", "instances were abandoned"))
		}
		if c.HandOverError != "" {
			row.Restarts = append(row.Restarts, "the last instance handed nothing over")
		}
		addLoops(&row, c, now)
		rows = append(rows, row)
	}
	slices.SortStableFunc(rows, byTrouble)
	return rows
}

func addLoops(row *statuspage.Controller, c supervisor.Status, now time.Time) {
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
			row.InFlight = append(row.InFlight, statuspage.Key{Key: k.Key, Age: ago(now, k.Since)})
		}
		if row.LastError == "" && l.LastError != "" {
			row.LastError, row.LastErrorAge = l.LastError, ago(now, l.LastErrorTime)+" ago"
		}
	}
}

func toneOf(s supervisor.State) statuspage.Tone {
	switch s {
	case supervisor.Running:
		return statuspage.Good
	case supervisor.BackingOff:
		return statuspage.Bad
	case supervisor.Waiting, supervisor.Stopping, supervisor.Paused:
		return statuspage.Warn
	}
	return statuspage.Calm
}

// reloadRows lists the reloads, the newest first and open.
func reloadRows(all []Reload, now time.Time) []statuspage.Reload {
	rows := make([]statuspage.Reload, 0, len(all))
	for _, o := range slices.Backward(all) {
		row := statuspage.Reload{
			Time: o.Time.UTC().Format(time.RFC3339), Age: ago(now, o.Time) + " ago", Status: "applied", Tone: statuspage.Good,
			Took: fmt.Sprintf("took %.3g s", o.Took), Error: o.Error, Generation: o.Generation, Open: len(rows) == 0,
		}
		if o.Status == telemetry.Failure {
			row.Status, row.Tone = "rejected", statuspage.Bad
		}
		if o.Plan != nil {
			row.Steps, row.Rest = stepRows(*o.Plan)
		}
		rows = append(rows, row)
	}
	return rows
}

// stepRows lists what a plan does, in the order of its text form, and sums up the rest.
func stepRows(p plan.Plan) (steps []statuspage.Step, rest string) {
	for _, c := range p.ProcessWide {
		steps = append(steps, statuspage.Step{What: "everything", Detail: c.String() + " (" + c.Effect + ")", Tone: statuspage.Warn})
	}
	kept := 0
	tones := map[plan.Action]statuspage.Tone{plan.Restart: statuspage.Warn, plan.Start: statuspage.Good, plan.Pause: statuspage.Warn, plan.Resume: statuspage.Good}
	row := func(action plan.Action, subject string) statuspage.Step {
		return statuspage.Step{What: string(action), Subject: subject, Tone: cmp.Or(tones[action], statuspage.Calm)}
	}
	for _, l := range p.ShownLeases() {
		steps = append(steps, causeRows(l.Causes, row(l.Action, "lease "+l.Lease))...)
	}
	for _, c := range p.Shown() {
		steps = append(steps, causeRows(p.Own(c.Causes), row(c.Action, c.Name))...)
	}
	for _, c := range p.InPlace {
		steps = append(steps, statuspage.Step{What: "in place", Detail: c.String(), Tone: statuspage.Good})
	}
	for _, c := range p.NoEffect {
		steps = append(steps, statuspage.Step{What: "no effect", Detail: c.String(), Tone: statuspage.Calm})
	}
	for _, c := range p.Controllers {
		if c.Action == plan.Keep {
			kept++
		}
	}
	if kept > 0 {
		rest = plural(kept, "controller keeps running.", "controllers keep running.")
	}
	return steps, rest
}

// causeRows has one row per cause.
func causeRows(causes []diff.Change, first statuspage.Step) []statuspage.Step {
	var rows []statuspage.Step
	for _, cause := range causes {
		row := first
		row.Detail = cause.String()
		rows = append(rows, row)
	}
	if len(rows) == 0 {
		rows = append(rows, first)
	}
	return rows
}
