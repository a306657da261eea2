package config

import (
	"fmt"
	"strings"
)

// String renders the plan for people, what changes first:
//
//	deployment-controller  restart  controllers.deployment-controller.concurrentSyncs: 5 → 20
//	in place               logging.verbosity: 0 → 2
//	7 controllers keep running
func (p Plan) String() string {
	t := planText{width: len("process-wide")}
	for _, c := range p.Controllers {
		if c.Action != Keep {
			t.width = max(t.width, len(c.Name))
		}
	}
	for _, c := range p.ProcessWide {
		t.note("process-wide", fmt.Sprintf("%s (%s and restarts every controller)", c.Change, c.Effect))
	}
	for _, action := range []Action{Stop, Restart, Start} {
		for _, c := range p.Controllers {
			if c.Action == action {
				t.controller(c, len(p.ProcessWide) > 0)
			}
		}
	}
	for _, c := range p.InPlace {
		t.note("in place", c.String())
	}
	for _, c := range p.NoEffect {
		t.note("no effect", c.String())
	}
	switch n := p.count(Keep); {
	case n == 1:
		t.text.WriteString("1 controller keeps running\n")
	case n > 1:
		fmt.Fprintf(&t.text, "%d controllers keep running\n", n)
	case t.text.Len() == 0:
		t.text.WriteString("nothing changes\n")
	}
	return t.text.String()
}

type planText struct {
	text  strings.Builder
	width int
}

// controller writes one line per cause; a process-wide cause has its own line above.
func (t *planText) controller(c ControllerPlan, processWide bool) {
	name, action := c.Name, string(c.Action)
	for _, cause := range c.Causes {
		if _, all := RestartsAll(cause.Path); all && processWide {
			continue
		}
		t.line(name, action, cause.String())
		name, action = "", ""
	}
	if name != "" {
		t.line(name, action, "")
	}
}

// note writes a change that is no single controller's.
func (t *planText) note(name, detail string) {
	fmt.Fprintf(&t.text, "%-*s  %s\n", t.width, name, detail)
}

func (t *planText) line(name, action, detail string) {
	line := fmt.Sprintf("%-*s  %-7s  %s", t.width, name, action, detail)
	t.text.WriteString(strings.TrimRight(line, " ") + "\n")
}
