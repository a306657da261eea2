package runtime

import (
	"bytes"
	"fmt"
	"strings"
	"text/tabwriter"
	"time"
)

// Text renders the status for a reader.
func (s Status) Text(now time.Time) string {
	var b bytes.Buffer
	fmt.Fprintf(&b, "kube-controller-manager %s, up %v\n\n", s.Version, now.Sub(s.Started).Round(time.Second))
	fmt.Fprintf(&b, "Configuration: generation %d of %s\n  sha256:%s\n", s.Configuration.Generation, s.Configuration.File, s.Configuration.Hash)
	if s.Configuration.Rejected != "" {
		fmt.Fprintf(&b, "  the file as it is now was rejected:\n%s\n", s.Configuration.Rejected)
	}
	if c := s.Connection; c.Server != "" {
		fmt.Fprintf(&b, "API server: %s, connection %d, credentials renewed %d times\n", c.Server, c.Generation, c.Renewed)
		if c.Error != "" {
			fmt.Fprintf(&b, "  new credentials cannot be used: %s\n", c.Error)
		}
	}
	b.WriteString("\n")
	s.leaseTable(&b, now)
	b.WriteString("\n")
	s.controllerTable(&b)
	b.WriteString("\n")
	s.informerTable(&b)
	s.reloadList(&b)
	return b.String()
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
		name := i.Resource
		if i.Group != "" {
			name += "." + i.Group
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%d\t%v\t%d\t%s\n", name, i.Form, i.Namespace+i.FieldSelector+i.LabelSelector, i.Objects, i.Synced, i.Handlers, i.LastError)
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
