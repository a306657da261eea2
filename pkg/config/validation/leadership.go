package validation

import (
	"time"

	apivalidation "k8s.io/apimachinery/pkg/util/validation"

	"kcmd.dev/pkg/config/fieldpath"
	"kcmd.dev/pkg/config/gates"
	"kcmd.dev/pkg/config/locks"
	"kcmd.dev/pkg/config/problem"
	"kcmd.dev/pkg/config/registry"
	"kcmd.dev/pkg/config/rules"
	"kcmd.dev/pkg/config/v1beta1"
)

func (v *validator) validateLeaderElection() {
	const (
		lease = "leaderElection.leaseDuration"
		renew = "leaderElection.renewDeadline"
		retry = "leaderElection.retryPeriod"
	)
	l := v.cfg.LeaderElection
	if v.decoded(lease, renew) && l.LeaseDuration.Duration <= l.RenewDeadline.Duration {
		v.errorf(v.firstSet(lease, renew), "leaseDuration (%s) must be more than renewDeadline (%s)",
			v1beta1.FormatDuration(l.LeaseDuration.Duration), v1beta1.FormatDuration(l.RenewDeadline.Duration))
	}
	if v.decoded(renew, retry) && float64(l.RenewDeadline.Duration) <= 1.2*float64(l.RetryPeriod.Duration) {
		v.errorf(v.firstSet(renew, retry), "renewDeadline (%s) must be more than 1.2 × retryPeriod (%s)",
			v1beta1.FormatDuration(l.RenewDeadline.Duration), v1beta1.FormatDuration(l.RetryPeriod.Duration))
	}
	whole := l.LeaseDuration.Truncate(time.Second)
	switch {
	case !v.decoded(lease) || whole == l.LeaseDuration.Duration:
	case v.decoded(retry) && float64(whole) <= 1.2*float64(l.RetryPeriod.Duration):
		v.errorf(v.firstSet(lease, retry),
			"the whole seconds of leaseDuration (%s), which are recorded in the lease, must be more than 1.2 × retryPeriod (%s)",
			v1beta1.FormatDuration(whole), v1beta1.FormatDuration(l.RetryPeriod.Duration))
	default:
		v.warnf(lease, "other processes see whole seconds only: they wait %s", v1beta1.FormatDuration(whole))
	}
}

// maxCandidateIdentity is the greatest length of an identity to which an underscore and a UUID are
// added, so that the result can be the name of a LeaseCandidate.
const maxCandidateIdentity = rules.MaxSubdomain - 37

// validateCandidate requires an identity of which the name of a LeaseCandidate can be made, if the
// API server chooses the holder of the lease. An empty one stands for the name of the host.
func (v *validator) validateCandidate() {
	const (
		identity = "leaderElection.identity"
		elect    = "leaderElection.leaderElect"
		gate     = "featureGates." + gates.CoordinatedLeaderElection
	)
	e := v.cfg.LeaderElection
	if e.Identity == "" || !v.decoded(identity, elect, gate, "emulatedVersion") {
		return
	}
	if !*e.LeaderElect || !gates.Enabled(v.cfg, gates.CoordinatedLeaderElection) {
		return
	}
	// Names of LeaseCandidates have the syntax of the keys of a ConfigMap.
	if len(e.Identity) > maxCandidateIdentity || len(apivalidation.IsConfigMapKey(e.Identity+"_")) > 0 {
		v.errorf(identity, "must be at most %d letters, digits, '-', '_' and '.', and not start with '..', "+
			"with the feature gate %s: it becomes part of the name of a LeaseCandidate",
			maxCandidateIdentity, gates.CoordinatedLeaderElection)
	}
}

// validateLeaseGroups checks that groups differ and that no controller is in two of them.
func (v *validator) validateLeaseGroups() {
	const list = "leaderElection.groups"
	names, homes := map[string]bool{}, map[string]string{}
	for i, g := range v.cfg.LeaderElection.Groups {
		path := fieldpath.Element(list, i)
		if at := path + ".name"; v.decoded(at) {
			switch {
			case g.Name == locks.Main || g.Name == locks.Migration:
				v.errorf(at, "%q is the name of another lock: choose a different one", g.Name)
			case names[g.Name]:
				v.errorf(at, "another group has the name %q", g.Name)
				v.undecoded[at] = true // its Lease needs no further report
			}
			names[g.Name] = true
		}
		for n, name := range g.Controllers {
			at := fieldpath.Element(path+".controllers", n)
			if !v.decoded(at) || !v.knownController(at, name) {
				continue
			}
			if other, taken := homes[name]; taken && other != path {
				v.errorf(at, "%s is in %s already: a controller can be in one group only", name, other)
			}
			homes[name] = path
		}
	}
}

// knownController reports whether a name is the canonical name of a controller. If not, it adds an error.
func (v *validator) knownController(path, name string) bool {
	if canonical, ok := registry.Canonical(name); ok && canonical == name {
		return true
	}
	message := "unknown controller " + problem.Quote(name)
	if !v.report.Terse() {
		message = registry.Unknown(message, name)
	}
	v.errorf(path, "%s", message)
	return false
}

// validateLeaderMigration checks the entries, and what they need of the election.
func (v *validator) validateLeaderMigration() {
	const list = "leaderMigration.controllerLeaders"
	m := v.cfg.LeaderMigration
	first := map[string]int{}
	for i, leader := range m.ControllerLeaders {
		at := fieldpath.Element(list, i) + ".name"
		if !v.set(at) || !v.knownController(at, leader.Name) {
			continue // also the entries of the default
		}
		if leader.Name == locks.NotMigrated {
			v.errorf(at, "%s cannot be migrated: the other controllers need the tokens it creates", locks.NotMigrated)
		}
		if n, ok := first[leader.Name]; ok {
			v.errorf(at, "%s is in %s already", leader.Name, fieldpath.Element(list, n))
			continue
		}
		first[leader.Name] = i
	}
	v.validateGroupsAgainstMigration()
	if !*m.Enabled {
		return
	}
	if !*v.cfg.LeaderElection.LeaderElect && v.decoded("leaderMigration.enabled", "leaderElection.leaderElect") {
		v.errorf("leaderMigration.enabled",
			"needs leaderElection.leaderElect: without leases controllers cannot be handed over")
	}
	if len(m.ControllerLeaders) == 0 && v.set(list) {
		v.warnf(list, "is empty: no controller is migrated")
	}
	if m.Component == v1beta1.AnyComponent && v.decoded("leaderMigration.component") {
		v.errorf("leaderMigration.component",
			"must be the name of this component, not %q, which stands for any component", m.Component)
	}
}

// validateGroupsAgainstMigration reports controllers that two leases claim.
func (v *validator) validateGroupsAgainstMigration() {
	m := v.cfg.LeaderMigration
	if !*m.Enabled {
		return
	}
	migrated := map[string]bool{}
	for _, leader := range m.ControllerLeaders {
		migrated[leader.Name] = true
	}
	for i, g := range v.cfg.LeaderElection.Groups {
		for n, name := range g.Controllers {
			at := fieldpath.Element(fieldpath.Element("leaderElection.groups", i)+".controllers", n)
			if migrated[name] && v.decoded(at) {
				v.errorf(at, "%s is in leaderMigration.controllerLeaders: it cannot be in a group too", name)
			}
		}
	}
}

// validateLeaseNames reports two locks that would share a Lease object.
func (v *validator) validateLeaseNames() {
	e := v.cfg.LeaderElection
	owners := map[string]string{e.ResourceName: "leaderElection.resourceName"}
	claim := func(path, name string) {
		if other, taken := owners[name]; taken {
			v.errorf(path, "the Lease %s belongs to %s: all leases of a process must have different names", name, other)
			return
		}
		owners[name] = path
	}
	if *v.cfg.LeaderMigration.Enabled && v.decoded("leaderMigration.leaderName") {
		claim("leaderMigration.leaderName", v.cfg.LeaderMigration.LeaderName)
	}
	for i, g := range e.Groups {
		path := fieldpath.Element("leaderElection.groups", i)
		at := path + ".name"
		if g.ResourceName != "" {
			at = path + ".resourceName"
		}
		if !v.decoded(at, path+".name", path+".resourceName") {
			continue
		}
		name := locks.GroupLease(e, g)
		if len(name) > rules.MaxSubdomain {
			v.errorf(at, "the Lease would have the name %s: a name has at most %d characters; set resourceName",
				problem.Quote(name), rules.MaxSubdomain)
			continue
		}
		claim(at, name)
	}
}
