package config

import (
	"reflect"
	"slices"
	"strings"

	"kcmd.dev/pkg/config/v1beta1"
)

// Subject is one controller as the Plan sees it.
type Subject struct {
	// Name is the canonical name.
	Name string
	// Enabled says whether the controller is to run. Value returns the small value
	// that it reads. Both are pure functions of a whole, defaulted configuration.
	// Two values are the same if reflect.DeepEqual says so.
	Enabled func(*v1beta1.KubeControllerManagerConfiguration) bool
	Value   func(*v1beta1.KubeControllerManagerConfiguration) any
}

// leased is what a controller reads together with the lease it runs under.
type leased struct {
	lock, lease string
	value       any
}

// underLease makes the lease part of what a controller depends on: under another one it is
// run by another leader, and where leader migration gives it to another component it does
// not run at all.
func (s Subject) underLease() Subject {
	out := Subject{Name: s.Name}
	out.Enabled = func(cfg *v1beta1.KubeControllerManagerConfiguration) bool {
		_, ours := LockOf(cfg, s.Name)
		return ours && s.Enabled(cfg)
	}
	out.Value = func(cfg *v1beta1.KubeControllerManagerConfiguration) any {
		lock, lease := leaseFor(cfg, s.Name)
		return leased{lock, lease, s.Value(cfg)}
	}
	return out
}

// leaseFor names the lock of a controller and its Lease; the main one's is left out, because
// a change of it is a change for every controller.
func leaseFor(cfg *v1beta1.KubeControllerManagerConfiguration, controller string) (lock, lease string) {
	lock, _ = LockOf(cfg, controller)
	switch lock {
	case MainLock, "":
		return lock, ""
	case MigrationLock:
		return lock, cfg.LeaderMigration.LeaderName
	}
	for _, g := range cfg.LeaderElection.Groups {
		if GroupLock(g.Name) == lock {
			return lock, leaseOf(cfg.LeaderElection, g)
		}
	}
	return lock, ""
}

// Action is what happens to one controller.
type Action string

// The actions of a Plan.
const (
	Start   Action = "start"
	Stop    Action = "stop"
	Restart Action = "restart"
	Keep    Action = "keep"
)

// ControllerPlan is what happens to one controller and why.
type ControllerPlan struct {
	Name   string `json:"name"`
	Action Action `json:"action"`
	// Causes are the fields that make it happen: none for keep, and none when the
	// process starts.
	Causes []Change `json:"causes,omitempty"`
}

// ProcessWideChange is a change that restarts every controller.
type ProcessWideChange struct {
	Change
	// Effect says what it does besides.
	Effect string `json:"effect"`
}

// Plan is the difference between two configurations: what a reload does.
type Plan struct {
	// Controllers has an entry for each controller that runs before or after,
	// sorted by name.
	Controllers []ControllerPlan `json:"controllers,omitempty"`
	// ProcessWide are the changes that restart every controller.
	ProcessWide []ProcessWideChange `json:"processWide,omitempty"`
	// InPlace are the changes that the running process takes over as it is, sorted
	// by path, so that those of one block are together.
	InPlace []Change `json:"inPlace,omitempty"`
	// NoEffect are changes that nothing reads at present, such as the settings of
	// a controller that is not enabled.
	NoEffect []Change `json:"noEffect,omitempty"`
}

// Empty says that carrying out the plan changes nothing.
func (p Plan) Empty() bool {
	return len(p.ProcessWide) == 0 && len(p.InPlace) == 0 && p.count(Keep) == len(p.Controllers)
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

const (
	rebuildsClients = "rebuilds the clients"
	newTerm         = "starts a new leadership term"
)

// RestartsAll says whether a change of the field restarts every controller, and
// what it does besides. These are the fields that all controllers depend on
// through their clients, so that no controller needs to name them in its value.
func RestartsAll(path string) (effect string, ok bool) {
	switch path {
	case "clientConnection.kubeconfig", "clientConnection.server", "clientConnection.acceptContentTypes",
		"clientConnection.contentType", "clientConnection.useServiceAccountCredentials":
		return rebuildsClients, true
	case "leaderElection.leaderElect", "leaderElection.resourceName",
		"leaderElection.resourceNamespace", "leaderElection.identity":
		return newTerm, true
	}
	return "", false
}

// inPlaceBlocks are the fields and blocks that the runtime takes over live.
var inPlaceBlocks = []string{
	"clientConnection.qps", "clientConnection.burst",
	"leaderElection.leaseDuration", "leaderElection.renewDeadline", "leaderElection.retryPeriod",
	"leaderElection.standby", "leaderElection.spread",
	"resync", "reload", "serving", "metrics", "logging", "controllerStartInterval",
	// What the process itself reads of the gates, and reports of the versions.
	"emulatedVersion", "minCompatibilityVersion", "featureGates." + AllAlpha, "featureGates." + AllBeta,
	"featureGates." + LoggingAlphaOptions, "featureGates." + LoggingBetaOptions, "featureGates." + RemoteRequestHeaderUID,
}

func appliesInPlace(path string, running func(controller string) bool) bool {
	for _, block := range inPlaceBlocks {
		if path == block || strings.HasPrefix(path, block+".") {
			return true
		}
	}
	controller, found := strings.CutPrefix(path, "controllers.")
	controller, isResync := strings.CutSuffix(controller, ".resyncPeriod")
	return found && isResync && running(controller)
}

// NewPlan compares two defaulted configurations. A nil old is the start of the
// process: every enabled controller starts.
//
// A changed field is a cause of what happens to a controller when that field
// alone decides: applying only it to old, or withholding only it from new,
// changes what the controller reads (for restart) or whether it is enabled (for
// start and stop). If no field decides alone, the causes are a smallest set of
// fields that decide together.
func NewPlan(old, new *v1beta1.KubeControllerManagerConfiguration, subjects []Subject) Plan {
	subjects = slices.SortedFunc(slices.Values(subjects), func(a, b Subject) int { return strings.Compare(a.Name, b.Name) })
	for i := range subjects {
		subjects[i] = subjects[i].underLease()
	}
	if old == nil {
		return coldStart(new, subjects)
	}
	d := newDifference(old, new)
	plan := Plan{}
	for _, change := range d.changes {
		if effect, ok := RestartsAll(change.Path); ok {
			plan.ProcessWide = append(plan.ProcessWide, ProcessWideChange{change, effect})
		}
	}
	used := map[string]bool{}
	running := map[string]bool{}
	for _, subject := range subjects {
		running[subject.Name] = subject.Enabled(new)
		entry, runs := planController(d, subject, plan.ProcessWide)
		if !runs {
			continue
		}
		plan.Controllers = append(plan.Controllers, entry)
		for _, cause := range entry.Causes {
			used[cause.Path] = true
		}
	}
	for _, change := range d.changes {
		_, all := RestartsAll(change.Path)
		switch {
		case all || used[change.Path]:
		case appliesInPlace(change.Path, func(name string) bool { return running[name] }):
			plan.InPlace = append(plan.InPlace, change)
		default:
			plan.NoEffect = append(plan.NoEffect, change)
		}
	}
	return plan
}

func coldStart(cfg *v1beta1.KubeControllerManagerConfiguration, subjects []Subject) Plan {
	plan := Plan{}
	for _, subject := range subjects {
		if subject.Enabled(cfg) {
			plan.Controllers = append(plan.Controllers, ControllerPlan{Name: subject.Name, Action: Start})
		}
	}
	return plan
}

// planController decides about one controller; runs is false for one that runs
// neither before nor after.
func planController(d *difference, s Subject, processWide []ProcessWideChange) (entry ControllerPlan, runs bool) {
	entry.Name = s.Name
	enabled := func(cfg *v1beta1.KubeControllerManagerConfiguration) any { return s.Enabled(cfg) }
	before, after := s.Enabled(d.old), s.Enabled(d.new)
	switch {
	case !before && !after:
		return entry, false
	case !before:
		entry.Action, entry.Causes = Start, d.causes(enabled)
	case !after:
		entry.Action, entry.Causes = Stop, d.causes(enabled)
	default:
		entry.Causes = d.causes(s.Value)
		for _, change := range processWide {
			if !slices.ContainsFunc(entry.Causes, func(c Change) bool { return c.Path == change.Path }) {
				entry.Causes = append(entry.Causes, change.Change)
			}
		}
		entry.Action = Keep
		if len(entry.Causes) > 0 {
			entry.Action = Restart
		}
	}
	return entry, true
}

// difference holds two configurations and, for each changed field, the mixtures
// that tell what the field decides.
type difference struct {
	old, new *v1beta1.KubeControllerManagerConfiguration
	changes  []Change
	only     []*v1beta1.KubeControllerManagerConfiguration // old with only this change
	without  []*v1beta1.KubeControllerManagerConfiguration // new without this change
}

func newDifference(old, new *v1beta1.KubeControllerManagerConfiguration) *difference {
	d := &difference{old: old, new: new, changes: changedLeaves(toObject(old), toObject(new))}
	for _, change := range d.changes {
		d.only = append(d.only, mixture(old, new, change))
		d.without = append(d.without, mixture(new, old, change))
	}
	return d
}

// causes returns the changes that make read differ between old and new.
func (d *difference) causes(read func(*v1beta1.KubeControllerManagerConfiguration) any) []Change {
	before, after := read(d.old), read(d.new)
	if reflect.DeepEqual(before, after) {
		return nil
	}
	var out []Change
	for i, change := range d.changes {
		if !reflect.DeepEqual(read(d.only[i]), before) || !reflect.DeepEqual(read(d.without[i]), after) {
			out = append(out, change)
		}
	}
	if len(out) == 0 {
		return d.jointCauses(read, before)
	}
	return out
}

// jointCauses drops, one after another, each change without which the rest still
// makes read differ from before.
func (d *difference) jointCauses(read func(*v1beta1.KubeControllerManagerConfiguration) any, before any) []Change {
	needed := slices.Clone(d.changes)
	for i := 0; i < len(needed); {
		rest := slices.Delete(slices.Clone(needed), i, i+1)
		if reflect.DeepEqual(read(mixture(d.old, d.new, rest...)), before) {
			i++
			continue
		}
		needed = rest
	}
	return needed
}
