package plan

import (
	"fmt"
	"strings"

	"kcmd.dev/pkg/config/diff"
)

// String renders the plan for people, what changes first:
//
//	deployment-controller  restart  controllers.deployment-controller.concurrentSyncs: 5 → 20
//	in place               logging.verbosity: 0 → 2
//	7 controllers keep running
func (p Plan) String() string {
	t := planText{width: len("process-wide"), shown: map[string]bool{}}
	leases, controllers := p.ShownLeases(), p.Shown()
	for _, l := range leases {
		t.width = max(t.width, len(l.title()))
	}
	for _, c := range controllers {
		t.width = max(t.width, len(c.Name))
	}
	for _, c := range p.ProcessWide {
		t.note("process-wide", fmt.Sprintf("%s (%s and restarts every controller)", c.Change, c.Effect))
	}
	for _, l := range leases {
		t.action(l.title(), l.Action, l.Causes)
	}
	for _, c := range controllers {
		t.action(c.Name, c.Action, p.Own(c.Causes))
	}
	for _, c := range p.InPlace {
		t.note("in place", c.String())
	}
	for _, c := range p.NoEffect {
		t.note("no effect", c.String())
	}
	kept := ""
	switch n := p.count(Keep); {
	case n == 1:
		kept = "1 controller keeps running"
	case n > 1:
		kept = fmt.Sprintf("%d controllers keep running", n)
	}
	switch {
	case t.text.Len() == 0 && kept == "":
		t.text.WriteString("no changes\n")
	case t.text.Len() == 0:
		t.text.WriteString("no changes: " + kept + "\n")
	case kept != "":
		t.text.WriteString(kept + "\n")
	}
	return t.text.String()
}

// Shown are the controllers to which something happens, what ends first, and those to which
// nothing happens because of one of the changes.
func (p Plan) Shown() []ControllerPlan {
	var out []ControllerPlan
	for _, action := range []Action{Stop, Pause, Restart, Resume, Start, Keep, Off} {
		for _, c := range p.Controllers {
			if c.Action == action && (action != Keep || len(c.Causes) > 0) {
				out = append(out, c)
			}
		}
	}
	return out
}

// ShownLeases are the leases with causes of their own. What happens to all leases is among
// the process-wide changes.
func (p Plan) ShownLeases() []LeasePlan {
	var out []LeasePlan
	for _, l := range p.Leases {
		if l.Causes = p.Own(l.Causes); len(l.Causes) > 0 {
			out = append(out, l)
		}
	}
	return out
}

// title is what the text calls a lease.
func (l LeasePlan) title() string {
	_, name, _ := strings.Cut(l.Lease, "/")
	return "lease " + name
}

type planText struct {
	text  strings.Builder
	width int
	shown map[string]bool // paths of the causes that were written in full
}

// action writes one line per cause.
func (t *planText) action(name string, action Action, causes []diff.Change) {
	word := string(action)
	for _, cause := range causes {
		t.line(name, word, t.cause(cause))
		name, word = "", ""
	}
	if name != "" {
		t.line(name, word, "")
	}
}

// longCause is the length from which a cause is written in full only once, such as a list of lease groups that every
// lease and every controller in it has for a cause.
const longCause = 100

func (t *planText) cause(c diff.Change) string {
	text := c.String()
	if len(text) < longCause {
		return text
	}
	if t.shown[c.Path] {
		return c.Path + ", as above"
	}
	t.shown[c.Path] = true
	return text
}

// note writes a change that is no single controller's.
func (t *planText) note(name, detail string) {
	fmt.Fprintf(&t.text, "%-*s  %s\n", t.width, name, detail)
}

func (t *planText) line(name, action, detail string) {
	line := fmt.Sprintf("%-*s  %-7s  %s", t.width, name, action, detail)
	t.text.WriteString(strings.TrimRight(line, " ") + "\n")
}
