package plan

import (
	"maps"
	"slices"
	"strings"

	"kcmd.dev/pkg/config/diff"
	"kcmd.dev/pkg/config/locks"
)

// Action is what happens to one controller, or to one lease.
type Action string

// The actions of a Plan.
const (
	Start   Action = "start"
	Stop    Action = "stop"
	Restart Action = "restart"
	Keep    Action = "keep"
	// Pause is for a controller of which no instance works from now on although it is enabled,
	// Resume for one that is no longer paused.
	Pause  Action = "pause"
	Resume Action = "resume"
	// Off is for a controller that runs neither before nor after, and would run without
	// one of the changes.
	Off Action = "off"
)

// ControllerPlan is what happens to one controller and why.
type ControllerPlan struct {
	Name   string `json:"name"`
	Action Action `json:"action"`
	// Causes are the changes that decide the action; for start, pause and resume also the
	// fields that were in force already, for keep and off those without which the action
	// would differ. Empty when the process starts.
	Causes []diff.Change `json:"causes,omitempty"`
}

// LeasePlan is what happens to one lease: start means that the process contends for it from
// now on, stop that it gives it back, restart that it does both, under another name or as
// somebody else.
type LeasePlan struct {
	// Lock is the lock that the lease carries: main, migration, or group/ and its name.
	Lock   string        `json:"lock"`
	Lease  string        `json:"lease"`
	Action Action        `json:"action"`
	Causes []diff.Change `json:"causes,omitempty"`
}

// ProcessWideChange is a change that restarts every controller.
type ProcessWideChange struct {
	diff.Change
	// Effect describes what else it does.
	Effect string `json:"effect"`
}

// Plan is the difference between two configurations: what a reload does.
type Plan struct {
	// Controllers has an entry for each controller that runs before or after, or that
	// one of the changes keeps from running, sorted by name.
	Controllers []ControllerPlan `json:"controllers,omitempty"`
	// Leases has an entry for each lease that is not kept, sorted by lock.
	Leases []LeasePlan `json:"leases,omitempty"`
	// ProcessWide are the changes that restart every controller.
	ProcessWide []ProcessWideChange `json:"processWide,omitempty"`
	// InPlace are the changes that the running process takes over as it is, sorted
	// by path, so that those of one block are together.
	InPlace []diff.Change `json:"inPlace,omitempty"`
	// NoEffect are changes that nothing reads at present, such as the settings of
	// a controller that is not enabled.
	NoEffect []diff.Change `json:"noEffect,omitempty"`
}

// Empty says that carrying out the plan changes nothing.
func (p Plan) Empty() bool {
	return len(p.ProcessWide)+len(p.Leases)+len(p.InPlace) == 0 && p.count(Keep)+p.count(Off) == len(p.Controllers)
}

func (p Plan) count(action Action) int {
	n := 0
	for _, c := range p.Controllers {
		if c.Action == action {
			n++
		}
	}
	return n
}

// Controller is what happens to a controller; Off for one that the plan does not have.
func (p Plan) Controller(name string) Action {
	for _, c := range p.Controllers {
		if c.Name == name {
			return c.Action
		}
	}
	return Off
}

// Reconnects reports whether the process takes another connection.
func (p Plan) Reconnects() bool {
	return slices.ContainsFunc(p.ProcessWide, func(c ProcessWideChange) bool { return c.Effect == wide()[0].effect })
}

// Own are the causes that are not process-wide: these are said once for all.
func (p Plan) Own(causes []diff.Change) []diff.Change {
	return slices.DeleteFunc(slices.Clone(causes), func(c diff.Change) bool {
		return slices.ContainsFunc(p.ProcessWide, func(w ProcessWideChange) bool { return w.Path == c.Path })
	})
}

// New compares two configurations. A nil old is the start of the process: every enabled
// controller starts.
func New(old, new *Config, subjects []Subject) Plan {
	subjects = slices.SortedFunc(slices.Values(subjects), func(a, b Subject) int {
		return strings.Compare(a.Name, b.Name)
	})
	if old == nil {
		return coldStart(new, subjects)
	}
	m := &maker{
		d:         newDifference(old, new),
		subjects:  subjects,
		used:      map[string]bool{},
		after:     map[string]Spec{},
		effective: map[*Config]*Config{},
	}
	m.processWide()
	for _, s := range subjects {
		m.controller(s)
	}
	m.leases()
	parts := m.inPlaceParts()
	m.inPlace(parts)
	m.rest(append(parts, func(cfg *Config) any { return leasesOf(cfg) }))
	slices.SortFunc(m.plan.Controllers, func(a, b ControllerPlan) int { return strings.Compare(a.Name, b.Name) })
	return m.plan
}

func coldStart(cfg *Config, subjects []Subject) Plan {
	plan := Plan{}
	for _, s := range subjects {
		if SpecOf(cfg, s).Runs() {
			plan.Controllers = append(plan.Controllers, ControllerPlan{Name: s.Name, Action: started(SpecOf(cfg, s))})
		}
	}
	return plan
}

// started is what happens to a controller that is to run, where none ran before.
func started(s Spec) Action {
	if s.Paused {
		return Pause
	}
	return Start
}

// changed is what happens to a controller that is to run before and after with different specs.
func changed(before, after Spec) Action {
	switch {
	case before.Paused && after.Paused:
		return Keep // there is no instance to be replaced
	case before.Paused:
		return Resume
	case after.Paused:
		return Pause
	}
	return Restart
}

// maker makes a Plan.
type maker struct {
	d        *difference
	subjects []Subject
	plan     Plan
	used     map[string]bool // paths of the changes that are in the plan
	after    map[string]Spec // by controller, of the new configuration
	// effective are the effective configurations so far.
	effective map[*Config]*Config
}

func (m *maker) effectiveOf(cfg *Config) *Config {
	if m.effective[cfg] == nil {
		m.effective[cfg] = Effective(cfg)
	}
	return m.effective[cfg]
}

// causes are those of a part, which are in the plan from now on.
func (m *maker) causes(read part) []diff.Change {
	causes := m.d.causes(read)
	for _, c := range causes {
		m.used[c.Path] = true
	}
	return causes
}

func (m *maker) processWide() {
	for _, w := range wide() {
		for _, c := range m.causes(w.read) {
			m.plan.ProcessWide = append(m.plan.ProcessWide, ProcessWideChange{c, w.effect})
		}
	}
	slices.SortStableFunc(m.plan.ProcessWide, func(a, b ProcessWideChange) int { return strings.Compare(a.Path, b.Path) })
}

// controller adds what happens to a controller, if it runs before or after.
func (m *maker) controller(s Subject) {
	entry := ControllerPlan{Name: s.Name, Action: Keep}
	before, after := SpecOf(m.d.old, s), SpecOf(m.d.new, s)
	m.after[s.Name] = after
	runs := func(cfg *Config) any { return SpecOf(cfg, s).Runs() }
	switch {
	case !before.Runs() && !after.Runs():
		return
	case !before.Runs():
		entry.Action, entry.Causes = started(after), m.causes(func(cfg *Config) any { return startsAs(cfg, s) })
	case !after.Runs():
		entry.Action, entry.Causes = Stop, m.causes(runs)
	case before != after:
		entry.Action = changed(before, after)
		for _, read := range s.parts() { // one by one: each has causes of its own
			entry.Causes = append(entry.Causes, m.causes(read)...)
		}
		slices.SortFunc(entry.Causes, byPath)
		entry.Causes = slices.CompactFunc(entry.Causes, func(a, b diff.Change) bool { return a.Path == b.Path })
	}
	entry.Causes = noted(s.Name, entry.Causes)
	m.plan.Controllers = append(m.plan.Controllers, entry)
}

// startsAs is whether a controller runs, and whether it is paused then.
func startsAs(cfg *Config, s Subject) any {
	spec := SpecOf(cfg, s)
	return [2]bool{spec.Runs(), spec.Paused}
}

func (m *maker) leases() {
	before, after := leasesOf(m.d.old), leasesOf(m.d.new)
	all := maps.Clone(before)
	maps.Copy(all, after)
	for _, lock := range slices.Sorted(maps.Keys(all)) {
		_, had := before[lock]
		_, has := after[lock]
		entry := LeasePlan{Lock: lock, Lease: name(all[lock].key.Lease), Action: Restart}
		switch {
		case before[lock] == after[lock]:
			continue
		case !had:
			entry.Action = Start
		case !has:
			entry.Action = Stop
		}
		entry.Causes = m.causes(func(cfg *Config) any { return leasesOf(cfg)[lock] })
		m.plan.Leases = append(m.plan.Leases, entry)
	}
}

func byPath(a, b diff.Change) int { return strings.Compare(a.Path, b.Path) }

func name(l locks.Lease) string { return l.Namespace + "/" + l.Name }

// inPlace adds what is taken over in place and is no cause of anything else.
func (m *maker) inPlace(parts []part) {
	concerned := map[string]bool{}
	for _, read := range parts {
		for _, c := range m.d.touches(read) {
			concerned[c.Path] = true
		}
	}
	for _, c := range m.d.changes {
		if concerned[c.Path] && !m.used[c.Path] {
			m.used[c.Path] = true
			m.plan.InPlace = append(m.plan.InPlace, c)
		}
	}
}

// inPlaceParts are those of the process, and the resync periods and paused namespaces of the
// controllers that run.
func (m *maker) inPlaceParts() []part {
	var parts []part
	for _, read := range inPlace() {
		parts = append(parts, func(cfg *Config) any { return read(m.effectiveOf(cfg)) })
	}
	running := map[string]bool{}
	for name, spec := range m.after {
		running[name] = spec.Runs()
	}
	return append(parts, resyncs(running), pauses(running))
}

// rest adds the changes that are no cause: those without which something would be otherwise,
// and those that have no effect.
func (m *maker) rest(parts []part) {
	for i, c := range m.d.changes {
		switch {
		case m.used[c.Path] || m.keeps(i):
		case slices.ContainsFunc(parts, func(read part) bool { return m.d.decides(i, read) }):
			m.plan.InPlace = append(m.plan.InPlace, c)
		default:
			m.plan.NoEffect = append(m.plan.NoEffect, c)
		}
	}
	slices.SortFunc(m.plan.InPlace, byPath)
}

// keeps adds a change to the controllers that would run otherwise without it, or with
// something else, and reports whether there are any.
func (m *maker) keeps(change int) bool {
	found := false
	for _, s := range m.subjects {
		with, without := m.after[s.Name], SpecOf(m.d.without[change], s)
		if with == without || !with.Runs() && !without.Runs() {
			continue
		}
		found = true
		m.entry(s.Name, with.Runs()).Causes = append(m.entry(s.Name, with.Runs()).Causes, m.d.changes[change])
	}
	return found
}

// entry is that of a controller; a new one if it runs neither before nor after.
func (m *maker) entry(name string, runs bool) *ControllerPlan {
	for i := range m.plan.Controllers {
		if m.plan.Controllers[i].Name == name {
			return &m.plan.Controllers[i]
		}
	}
	action := Off
	if runs {
		action = Keep
	}
	m.plan.Controllers = append(m.plan.Controllers, ControllerPlan{Name: name, Action: action})
	return &m.plan.Controllers[len(m.plan.Controllers)-1]
}
