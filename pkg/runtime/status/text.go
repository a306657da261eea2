package status

import (
	"bytes"
	"fmt"
	"strings"
	"text/tabwriter"
	"time"

	"kcmd.dev/pkg/runtime/breaker"
	"kcmd.dev/pkg/runtime/plain"
)

// Text renders the status for a reader. It is safe to show on a terminal.
func (s Status) Text(now time.Time) string {
	var b bytes.Buffer
	fmt.Fprintf(&b, "kube-controller-manager %s, up %v\n\n", s.Version, now.Sub(s.Started).Round(time.Second))
	fmt.Fprintf(&b, "Configuration: generation %d of %s\n  sha256:%s\n", s.Configuration.Generation, s.Configuration.File, s.Configuration.Hash)
	if g := s.Configuration.LastGood; g != nil {
		fmt.Fprintf(&b, "  in force instead of the file is the last good configuration, kept in %s when it came into force, %s\n", g.File, g.At.UTC().Format(time.RFC3339))
	}
	if s.Configuration.NotKept != "" {
		fmt.Fprintf(&b, "  it is not kept as the last good configuration: %s\n", s.Configuration.NotKept)
	}
	if s.Configuration.Rejected != "" {
		fmt.Fprintf(&b, "  the current content of the file was rejected:\n%s\n", s.Configuration.Rejected)
	}
	if c := s.Connection; c.Server != "" {
		fmt.Fprintf(&b, "API server: %s, connection %d, credentials renewed %d times\n", c.Server, c.Generation, c.Renewed)
		if c.Error != "" {
			fmt.Fprintf(&b, "  new credentials cannot be used: %s\n", c.Error)
		}
		if c.Unreached != "" {
			fmt.Fprintf(&b, "  not reached: %s\n", c.Unreached)
		}
	}
	for _, p := range s.Pauses {
		fmt.Fprintf(&b, "Paused: %s, for %s\n", p, ago(now, p.Since))
	}
	s.deletions(&b, now)
	b.WriteString("\n")
	s.leaseTable(&b, now)
	b.WriteString("\n")
	s.controllerTable(&b)
	b.WriteString("\n")
	s.informerTable(&b)
	s.reloadList(&b)
	return plain.Text(b.String())
}

// deletions says which are stopped, and until when none is.
func (s Status) deletions(b *bytes.Buffer, now time.Time) {
	d := s.Deletions
	if d == nil {
		return
	}
	if !d.AllowedUntil.IsZero() {
		fmt.Fprintf(b, "Deletions are not counted: deletionBreaker.allowUntil allows all until %s\n", d.AllowedUntil.UTC().Format(time.RFC3339))
	}
	for _, stop := range d.Stops {
		fmt.Fprintf(b, "Deletions of %s are stopped, for %s: %s\n", stop.Resource, ago(now, stop.Since), stop.Reason())
	}
	if len(d.Stops) > 0 {
		fmt.Fprintf(b, "  %s\n", breaker.Remedy(now))
	}
}

func (s Status) leaseTable(b *bytes.Buffer, now time.Time) {
	w := tabwriter.NewWriter(b, 0, 4, 2, ' ', 0)
	fmt.Fprintln(w, "LOCK\tTHIS PROCESS\tTERM\tHOLDER\tRENEWED\tTRANSITIONS\tCONTROLLERS\tERROR")
	for _, l := range leaseRows(s.Leadership, now) {
		fmt.Fprintf(w, "%s\t%s\t%d\t%s\t%s\t%d\t%d\t%s\n", l.Lock, l.State, l.Term, l.Holder, l.Renewed, l.Transitions, len(l.Controllers),
			strings.Join(append(l.Blocked, l.Error), " "))
	}
	_ = w.Flush()
}

func (s Status) controllerTable(b *bytes.Buffer) {
	w := tabwriter.NewWriter(b, 0, 4, 2, ' ', 0)
	fmt.Fprintln(w, "CONTROLLER\tSTATE\tGENERATION\tQUEUED\tIN FLIGHT\tFAILED\tREASON")
	for _, c := range s.Controllers {
		queued, inFlight, failed := 0, 0, uint64(0)
		for _, l := range c.Loops {
			queued += l.Depth
			inFlight += len(l.InFlight)
			failed += l.Failed
		}
		reason := c.Reason
		if ok, why := c.Healthy(); !ok {
			reason = why
		}
		fmt.Fprintf(w, "%s\t%s\t%d\t%d\t%d\t%d\t%s\n", c.Name, c.State, c.Generation, queued, inFlight, failed, reason)
	}
	_ = w.Flush()
}

func (s Status) informerTable(b *bytes.Buffer) {
	w := tabwriter.NewWriter(b, 0, 4, 2, ' ', 0)
	fmt.Fprintln(w, "INFORMER\tFORM\tFILTER\tOBJECTS\tSYNCED\tHANDLERS\tERROR")
	for _, i := range s.Informers {
		fmt.Fprintf(w, "%s\t%s\t%s\t%d\t%v\t%d\t%s\n", i.Name(), i.Form, i.Namespace+i.FieldSelector+i.LabelSelector, i.Objects, i.Synced, i.Handlers, i.LastError)
	}
	_ = w.Flush()
}

func (s Status) reloadList(b *bytes.Buffer) {
	for n := len(s.Reloads) - 1; n >= 0; n-- {
		o := s.Reloads[n]
		fmt.Fprintf(b, "\nReload at %s: %s, generation %d in force\n", o.Time.Format(time.RFC3339), o.Status, o.Generation)
		if o.Error != "" {
			fmt.Fprintln(b, o.Error)
		}
		if o.Plan != nil {
			fmt.Fprint(b, o.Plan.String())
		}
	}
}
