// Package status shows the status of a running process to people, once or repeatedly.
package status

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"kcmd.dev/pkg/cli/table"
	"kcmd.dev/pkg/cli/terminal"
	"kcmd.dev/pkg/runtime/breaker"
	"kcmd.dev/pkg/runtime/leadership"
	"kcmd.dev/pkg/runtime/plain"
	"kcmd.dev/pkg/runtime/status"
	"kcmd.dev/pkg/runtime/supervisor"
	"kcmd.dev/pkg/runtime/telemetry"
)

// Show writes a status as of now.
func Show(out io.Writer, server string, s *status.Status, now time.Time, colors terminal.Colors) error {
	fmt.Fprintf(out, "%s, up %s\n\n", colors.Bold(fmt.Sprintf("kube-controller-manager %s at %s", s.Version, server)),
		ago(s.Started, now))
	showConfiguration(out, s, now, colors)
	fmt.Fprintln(out)
	if err := showLeases(out, s, now, colors); err != nil {
		return err
	}
	fmt.Fprintln(out)
	return showControllers(out, s, colors)
}

func showConfiguration(out io.Writer, s *status.Status, now time.Time, colors terminal.Colors) {
	c := s.Configuration
	fmt.Fprintf(out, "Configuration:  generation %d, sha256:%s, from %s\n", c.Generation, c.Hash, c.File)
	if g := c.LastGood; g != nil {
		fmt.Fprintf(out, "%s      in force instead of the file; kept in %s when it came into force, %s\n",
			colors.Red("Last good:"), g.File, g.At.UTC().Format(time.RFC3339))
	}
	if c.NotKept != "" {
		fmt.Fprintf(out, "%s       as the last good configuration: %s\n", colors.Yellow("Not kept:"), plain.Text(c.NotKept))
	}
	if len(s.Reloads) == 0 {
		fmt.Fprintln(out, "Last reload:    none since startup")
	} else {
		last := s.Reloads[len(s.Reloads)-1]
		result := colors.Green(last.Status)
		if last.Status != telemetry.Success {
			result = colors.Red(last.Status)
		}
		fmt.Fprintf(out, "Last reload:    %s, %s ago, took %s\n", result, ago(last.Time, now), seconds(last.Took))
		if last.Plan != nil {
			block(out, last.Plan.String())
		}
		if last.Error != "" && c.Rejected == "" {
			block(out, last.Error)
			block(out, "Since then, the file contains the configuration in force again.")
		}
	}
	if c.Rejected != "" {
		fmt.Fprintf(out, "%s       the current content of the file is not in force:\n", colors.Red("Rejected:"))
		block(out, c.Rejected)
	}
	showConnection(out, s, colors)
	for _, p := range s.Pauses {
		fmt.Fprintf(out, "%s         %s, for %s\n", colors.Yellow("Paused:"), p, ago(p.Since, now))
	}
	if s.Deletions != nil {
		showDeletions(out, s.Deletions, now, colors)
	}
}

// showConnection shows what keeps the process from using the API server, and from following it.
func showConnection(out io.Writer, s *status.Status, colors terminal.Colors) {
	if s.Connection.Error != "" {
		fmt.Fprintf(out, "%s    the new ones cannot be used, the previous ones are in use:\n", colors.Red("Credentials:"))
		block(out, s.Connection.Error)
	}
	if s.Connection.Unreached != "" {
		fmt.Fprintf(out, "%s    the API server:\n", colors.Red("Not reached:"))
		block(out, s.Connection.Unreached)
	}
	if behind := s.Behind(); len(behind) > 0 {
		fmt.Fprintf(out, "%s         the caches of %s\n", colors.Yellow("Behind:"), plain.Text(strings.Join(behind, ", ")))
	}
}

// showDeletions shows which deletions are stopped, and that none is counted.
func showDeletions(out io.Writer, d *breaker.Status, now time.Time, colors terminal.Colors) {
	for _, stop := range d.Stops {
		fmt.Fprintf(out, "%s        deletions of %s, for %s:\n", colors.Red("Stopped:"), stop.Resource, ago(stop.Since, now))
		block(out, stop.Reason())
	}
	if len(d.Stops) > 0 {
		block(out, breaker.Remedy(now))
	}
	if !d.AllowedUntil.IsZero() {
		fmt.Fprintf(out, "%s        all deletions, until %s\n",
			colors.Yellow("Allowed:"), d.AllowedUntil.UTC().Format(time.RFC3339))
	}
}

// block writes lines below a title.
func block(out io.Writer, text string) {
	for line := range strings.SplitSeq(strings.TrimRight(plain.Text(text), "\n"), "\n") {
		fmt.Fprintf(out, "  %s\n", line)
	}
}

// leasesOf returns the locks. A process that reports only its main lock has one.
func leasesOf(l leadership.Status) []leadership.LeaseStatus {
	if len(l.Leases) > 0 {
		return l.Leases
	}
	return []leadership.LeaseStatus{{Lock: "main", Leading: l.Leading, Term: l.Term, Election: l.Lease}}
}

func showLeases(out io.Writer, s *status.Status, now time.Time, colors terminal.Colors) error {
	t := table.New("LEASE", "LEADING", "TERM", "HOLDER", "SINCE", "CONTROLLERS", "LAST ERROR")
	var notes []string
	for _, l := range leasesOf(s.Leadership) {
		holder, since, problem := "(no leader election)", "", ""
		if e := l.Election; e != nil {
			holder, since, problem = cmp.Or(e.Holder, "-"), age(e.Since, now), e.LastError
		}
		controllers := "all"
		if len(s.Leadership.Leases) > 0 {
			controllers = strconv.Itoa(len(l.Controllers))
		}
		t.Row(l.Lock, yes(l.Leading), strconv.FormatUint(l.Term, 10), holder, cmp.Or(since, "-"), controllers, problem)
		for _, name := range slices.Sorted(maps.Keys(l.Blocked)) {
			notes = append(notes, plain.Text(fmt.Sprintf("%s does not run yet: %s", name, l.Blocked[name])))
		}
		if l.Problem != "" {
			notes = append(notes, plain.Text(fmt.Sprintf("lease %s: %s", l.Lock, l.Problem)))
		}
	}
	t.Style = func(row, column int, cell, padded string) string {
		switch {
		case row == 0:
			return colors.Faint(padded)
		case column == 1 && cell == yes(true):
			return colors.Green(padded)
		case column == 6:
			return colors.Red(padded)
		}
		return padded
	}
	if err := t.Write(out); err != nil {
		return err
	}
	for _, line := range notes {
		fmt.Fprintln(out, colors.Yellow(line))
	}
	return nil
}

func showControllers(out io.Writer, s *status.Status, colors terminal.Colors) error {
	t := table.New("CONTROLLER", "STATE", "INSTANCE", "RESTARTS", "QUEUED", "IN FLIGHT", "WORKERS", "FAILED", "LAST ERROR")
	for _, c := range s.Controllers {
		queued, inFlight, workers, failed := load(c)
		t.Row(c.Name, State(c), strconv.FormatUint(c.Generation, 10), Restarts(c),
			strconv.Itoa(queued), strconv.Itoa(inFlight), strconv.Itoa(workers),
			strconv.FormatUint(failed, 10), LastError(c))
	}
	t.Style = func(row, column int, cell, padded string) string {
		switch {
		case row == 0:
			return colors.Faint(padded)
		case column == 1:
			return paintState(s.Controllers[row-1], padded, colors)
		case column == 8:
			return colors.Red(padded)
		}
		return padded
	}
	return t.Write(out)
}

func paintState(c supervisor.Status, padded string, colors terminal.Colors) string {
	if healthy, _ := c.Healthy(); !healthy {
		return colors.Red(padded)
	}
	switch c.State {
	case supervisor.Running:
		return colors.Green(padded)
	case supervisor.Disabled, supervisor.Idle:
		return colors.Faint(padded)
	}
	return colors.Yellow(padded)
}

// State is the state of a controller, with the reason if there is one.
func State(c supervisor.Status) string {
	state := string(c.State)
	if c.Stuck != "" {
		return fmt.Sprintf("%s (stuck on %s)", state, c.Stuck)
	}
	if c.Reason != "" && c.State != supervisor.BackingOff {
		return fmt.Sprintf("%s (%s)", state, c.Reason)
	}
	return state
}

// Restarts is how often instances were replaced, and why: "3 (config 2, crash 1)".
func Restarts(c supervisor.Status) string {
	total := uint64(0)
	var causes []string
	for _, cause := range slices.Sorted(maps.Keys(c.Restarts)) {
		total += c.Restarts[cause]
		causes = append(causes, fmt.Sprintf("%s %d", cause, c.Restarts[cause]))
	}
	if total == 0 {
		return "0"
	}
	return fmt.Sprintf("%d (%s)", total, strings.Join(causes, ", "))
}

// LastError is the newest failure of an instance or of a key.
func LastError(c supervisor.Status) string {
	text, when := c.LastError, c.LastErrorTime
	for _, l := range c.Loops {
		if l.LastError != "" && (text == "" || l.LastErrorTime.After(when)) {
			text, when = l.LastError, l.LastErrorTime
		}
	}
	return text
}

// load returns the work of the loops of a controller.
func load(c supervisor.Status) (queued, inFlight, workers int, failed uint64) {
	for _, l := range c.Loops {
		queued += l.Depth
		inFlight += len(l.InFlight)
		workers += l.Workers
		failed += l.Failed
	}
	return queued, inFlight, workers, failed
}

func yes(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}

// age is ago for a table, empty for a time that is not known.
func age(then, now time.Time) string {
	if then.IsZero() {
		return ""
	}
	return ago(then, now)
}

// ago is how long ago a time was, to two units.
func ago(then, now time.Time) string {
	d := max(0, now.Sub(then))
	switch {
	case d < time.Minute:
		return fmt.Sprintf("%ds", int(d.Seconds()))
	case d < time.Hour:
		return fmt.Sprintf("%dm%ds", int(d.Minutes()), int(d.Seconds())%60)
	case d < 24*time.Hour:
		return fmt.Sprintf("%dh%dm", int(d.Hours()), int(d.Minutes())%60)
	}
	return fmt.Sprintf("%dd%dh", int(d.Hours())/24, int(d.Hours())%24)
}

func seconds(s float64) string {
	return time.Duration(s * float64(time.Second)).Round(time.Millisecond).String()
}
