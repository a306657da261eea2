package status

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/duration"

	"kcmd.dev/pkg/runtime/breaker"
	"kcmd.dev/pkg/runtime/health"
	"kcmd.dev/pkg/runtime/informers"
	"kcmd.dev/pkg/runtime/leadership"
	"kcmd.dev/pkg/runtime/pausing"
	"kcmd.dev/pkg/runtime/status/statuspage"
	"kcmd.dev/pkg/runtime/supervisor"
)

// viewOf is what the status page shows of a status, ready to be printed.
func viewOf(s Status, host string, now time.Time, refresh time.Duration) statuspage.View {
	v := statuspage.View{
		Refresh: int(refresh.Seconds()),
		Version: s.Version,
		Host:    host,
		Uptime:  ago(now, s.Started),
		Now:     now.UTC().Format(time.RFC3339),
		Configuration: statuspage.Configuration{
			File: s.Configuration.File, Hash: s.Configuration.Hash,
			Generation: s.Configuration.Generation, Rejected: s.Configuration.Rejected,
			LastGood: lastGood(s.Configuration.LastGood), NotKept: s.Configuration.NotKept,
		},
		Connection: statuspage.Connection{
			Server: s.Connection.Server, Generation: s.Connection.Generation,
			Renewed: s.Connection.Renewed, Error: s.Connection.Error,
		},
		Leases:      leaseRows(s.Leadership, now),
		Controllers: controllerRows(s.Controllers, now),
		Reloads:     reloadRows(s.Reloads, now),
		Informers:   informerRows(s.Informers, now),
	}
	addPlots(&v, s.Past, now)
	for _, c := range s.Controllers {
		if c.State == supervisor.Running {
			v.Running++
		}
	}
	for _, i := range s.Informers {
		v.Objects += i.Objects
	}
	v.Verdict = judge(s, now)
	v.Title = titleOf(v.Verdict)
	v.Cards = cards(s, v, now)
	return v
}

func titleOf(v statuspage.Verdict) string {
	mark := "●"
	if v.Tone != statuspage.Good {
		mark = "▲"
	}
	return mark + " kube-controller-manager: " + v.Text
}

// judge summarizes the status, the worst first.
func judge(s Status, now time.Time) statuspage.Verdict {
	var failing []string
	for _, c := range s.Controllers {
		if health.Problem(c, now) != "" {
			failing = append(failing, c.Name)
		}
	}
	var v statuspage.Verdict
	note := func(t statuspage.Tone, format string, args ...any) {
		if v.Text == "" {
			v.Tone = t
		} else {
			v.Text += " · "
		}
		v.Text += fmt.Sprintf(format, args...)
	}
	if len(failing) > 0 {
		note(statuspage.Bad, "%s not healthy: %s", plural(len(failing), "controller is", "controllers are"), strings.Join(failing, ", "))
	}
	noteConfiguration(s.Configuration, note)
	noteLeases(s.Leadership, note)
	if s.Connection.Error != "" {
		note(statuspage.Warn, "New credentials cannot be used; the previous ones stay in use")
	}
	if len(s.Pauses) > 0 {
		note(statuspage.Warn, "Paused: %s", pausing.List(s.Pauses))
	}
	noteDeletions(s.Deletions, note)
	noteCaches(s, note)
	if v.Text == "" && holdsNone(s.Leadership) {
		note(statuspage.Good, "Standing by, ready to take over")
	}
	if v.Text == "" {
		note(statuspage.Good, "Everything runs as configured")
	}
	return v
}

// noteConfiguration notes why a configuration is in force other than that of the file, and whether it is
// kept.
func noteConfiguration(c Configuration, note func(t statuspage.Tone, format string, args ...any)) {
	switch {
	case c.LastGood != nil:
		note(statuspage.Bad, "The configuration file cannot be used; the last good configuration is in force")
	case c.Rejected != "":
		note(statuspage.Bad, "The configuration file was rejected; generation %d stays in force", c.Generation)
	}
	if c.NotKept != "" {
		note(statuspage.Warn, "The configuration in force is not kept as the last good one")
	}
}

// noteLeases notes why nothing more starts under a lease that is held, and which leases cannot be read or renewed.
func noteLeases(l leadership.Status, note func(t statuspage.Tone, format string, args ...any)) {
	for _, lock := range l.Leases {
		if lock.Leading && lock.Problem != "" {
			note(statuspage.Bad, "Nothing more starts under the lock %s: %s", lock.Lock, lock.Problem)
		}
		if e := lock.Election; e != nil && e.LastError != "" && e.LastErrorTime.After(e.Renewed) {
			note(statuspage.Warn, "The last request for the lease of the lock %s failed: %s", lock.Lock, e.LastError)
		}
	}
}

// noteCaches notes that the API server is not reached, and which caches do not hold what they should.
func noteCaches(s Status, note func(t statuspage.Tone, format string, args ...any)) {
	if s.Connection.Unreached != "" {
		note(statuspage.Warn, "%s", s.Connection.Unreached)
	}
	unsynced := 0
	for _, i := range s.Informers {
		if i.Running && !i.Synced {
			unsynced++
		}
	}
	if unsynced > 0 {
		note(statuspage.Warn, "%s not filled yet", plural(unsynced, "cache is", "caches are"))
	}
	if behind := s.Behind(); len(behind) > 0 {
		note(statuspage.Warn, "%s not up to date: %s", plural(len(behind), "cache is", "caches are"), strings.Join(behind, ", "))
	}
}

// noteDeletions notes which deletions are stopped, and that none is counted.
func noteDeletions(d *breaker.Status, note func(t statuspage.Tone, format string, args ...any)) {
	if d == nil {
		return
	}
	for _, stop := range d.Stops {
		note(statuspage.Bad, "Deletions of %s are stopped: %s", stop.Resource, stop.Reason())
	}
	if !d.AllowedUntil.IsZero() {
		note(statuspage.Warn, "All deletions are allowed until %s", d.AllowedUntil.UTC().Format(time.RFC3339))
	}
}

// lastGood says where the configuration in force comes from, if not from the file.
func lastGood(g *LastGood) string {
	if g == nil {
		return ""
	}
	return fmt.Sprintf("kept in %s when it came into force, %s in %s", g.File, g.At.UTC().Format(time.RFC3339), g.Program)
}

func holdsNone(l leadership.Status) bool {
	return !slices.ContainsFunc(l.Leases, func(one leadership.LeaseStatus) bool { return one.Leading })
}

func cards(s Status, v statuspage.View, now time.Time) []statuspage.Card {
	leases := statuspage.Card{Label: "Leases held", Value: "none", Detail: "standing by"}
	held := 0
	for _, l := range v.Leases {
		if l.Tone == statuspage.Good {
			held++
		}
	}
	if held > 0 {
		leases.Value, leases.Detail = fmt.Sprintf("%d of %d", held, len(v.Leases)), fmt.Sprintf("term %d", s.Leadership.Term)
	}
	queued, inFlight := 0, 0
	for _, c := range v.Controllers {
		queued += c.Queued
		inFlight += len(c.InFlight) + c.More
	}
	reload := "not changed since startup"
	if n := len(s.Reloads); n > 0 {
		last := s.Reloads[n-1]
		reload = fmt.Sprintf("last reload: %s, %s ago", last.Status, ago(now, last.Time))
	}
	return []statuspage.Card{
		{Label: "Controllers running", Value: fmt.Sprintf("%d of %d", v.Running, len(v.Controllers)), Detail: stateCounts(s.Controllers)},
		leases,
		{Label: "Configuration", Value: fmt.Sprintf("generation %d", s.Configuration.Generation), Detail: reload},
		{Label: "Work", Value: fmt.Sprintf("%d queued", queued), Detail: fmt.Sprintf("%d in flight", inFlight)},
	}
}

// stateCounts counts controllers by state, but for those that run.
func stateCounts(all []supervisor.Status) string {
	var parts []string
	for _, state := range supervisor.States {
		n := 0
		for _, c := range all {
			if c.State == state {
				n++
			}
		}
		if n > 0 && state != supervisor.Running {
			parts = append(parts, fmt.Sprintf("%d %s", n, state))
		}
	}
	return strings.Join(parts, ", ")
}

func informerRows(all []informers.Status, now time.Time) []statuspage.Informer {
	rows := make([]statuspage.Informer, 0, len(all))
	for _, i := range all {
		row := statuspage.Informer{
			Name: i.Name(), Form: string(i.Form), Error: i.LastError,
			Objects: i.Objects, Handlers: i.Handlers, Readers: i.Scopes,
		}
		for _, part := range []struct{ name, value string }{{"namespace", i.Namespace}, {"fields", i.FieldSelector}, {"labels", i.LabelSelector}} {
			if part.value != "" {
				row.Filter += part.name + " " + part.value + " "
			}
		}
		switch {
		case i.Synced:
			row.State, row.Tone = "synced", statuspage.Good
		case i.Running:
			row.State, row.Tone = "filling", statuspage.Warn
		default:
			row.State, row.Tone = "not started", statuspage.Calm
		}
		if !i.IdleSince.IsZero() {
			row.Idle = "for " + ago(now, i.IdleSince)
		}
		rows = append(rows, row)
	}
	return rows
}

// byTrouble sorts what needs attention first, and keeps the order otherwise.
func byTrouble(a, b statuspage.Controller) int {
	rank := func(c statuspage.Controller) int {
		switch {
		case c.Problem != "":
			return 0
		case c.State == string(supervisor.Disabled):
			return 2
		}
		return 1
	}
	return cmp.Compare(rank(a), rank(b))
}

// ago is how long something has been going on, for people.
func ago(now, since time.Time) string {
	if since.IsZero() {
		return "–"
	}
	return duration.HumanDuration(max(now.Sub(since), 0))
}

func plural(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}
