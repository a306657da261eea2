// Package locks derives from a configuration which locks a process contends for, which Lease
// carries each, and which controllers run under it.
//
// The model:
//
//  1. Every controller that writes runs under one lock: the main one, that of its lease
//     group, or the migration lock. Without leader election there is the main one only, and
//     no Lease carries it.
//  2. A Key holds everything that identifies a lock. A process whose key of a lock changes
//     releases the old lock and contends for the new one: whatever runs under it stops and
//     starts again. What a key does not hold can change while the lock is held.
package locks

import (
	"cmp"
	"slices"

	"k8s.io/utils/ptr"

	"kcmd.dev/pkg/config/gates"
	"kcmd.dev/pkg/config/registry"
	"kcmd.dev/pkg/config/v1beta1"
)

// The locks that are no lease group.
const (
	// Main is the lock of every controller that is not in a group and not migrated.
	Main = "main"
	// Migration is the lock that several components compete for.
	Migration = "migration"
)

const (
	groupPrefix = "group/"
	// NotMigrated makes the credentials of all others, so it cannot run elsewhere.
	NotMigrated = "serviceaccount-token-controller"
)

// Group is the name of the lock of a lease group.
func Group(group string) string { return groupPrefix + group }

// Lock is the right to run some controllers, and the Lease that carries it.
type Lock struct {
	// Name is Main, Migration or that of Group.
	Name string
	// LeaseNamespace and LeaseName identify the Lease.
	LeaseNamespace, LeaseName string
	// Controllers are those that run under the lock if they are enabled, sorted.
	Controllers []string
}

// Of returns the name of the lock under which a controller runs. ok is false if leader
// migration gives the controller to another component. Without leader election there is the
// main lock only.
func Of(cfg *v1beta1.KubeControllerManagerConfiguration, controller string) (lock string, ok bool) {
	if !ptr.Deref(cfg.LeaderElection.LeaderElect, true) {
		return Main, true
	}
	if leader, migrates := migrated(cfg, controller); migrates {
		if leader == v1beta1.AnyComponent || leader == cfg.LeaderMigration.Component {
			return Migration, true
		}
		return "", false
	}
	for _, g := range cfg.LeaderElection.Groups {
		if slices.Contains(g.Controllers, controller) {
			return Group(g.Name), true
		}
	}
	return Main, true
}

// migrated returns the component that leader migration gives a controller to.
func migrated(cfg *v1beta1.KubeControllerManagerConfiguration, controller string) (component string, ok bool) {
	if !ptr.Deref(cfg.LeaderMigration.Enabled, false) || controller == NotMigrated {
		return "", false
	}
	for _, l := range cfg.LeaderMigration.ControllerLeaders {
		if l.Name == controller {
			return l.Component, true
		}
	}
	return "", false
}

// LeaseOf is the Lease of a lock; empty for a lock that the configuration does not have.
func LeaseOf(cfg *v1beta1.KubeControllerManagerConfiguration, lock string) (namespace, name string) {
	e := cfg.LeaderElection
	switch lock {
	case Main:
		return e.ResourceNamespace, e.ResourceName
	case Migration:
		return e.ResourceNamespace, cfg.LeaderMigration.LeaderName
	}
	for _, g := range e.Groups {
		if Group(g.Name) == lock {
			return e.ResourceNamespace, GroupLease(e, g)
		}
	}
	return "", ""
}

// GroupLease is the name of the lease of a group.
func GroupLease(e v1beta1.LeaderElection, g v1beta1.LeaseGroup) string {
	return cmp.Or(g.ResourceName, e.ResourceName+"-"+g.Name)
}

// All lists the locks that a process with this configuration contends for: the main one, the
// migration lock, the groups in the order of the file. The migration lock is listed only if
// a controller runs under it: holding it without need would keep the other component from
// working.
func All(cfg *v1beta1.KubeControllerManagerConfiguration) []Lock {
	names := []string{Main}
	if ptr.Deref(cfg.LeaderElection.LeaderElect, true) {
		if ptr.Deref(cfg.LeaderMigration.Enabled, false) {
			names = append(names, Migration)
		}
		for _, g := range cfg.LeaderElection.Groups {
			names = append(names, Group(g.Name))
		}
	}
	locks := make([]Lock, 0, len(names))
	for _, name := range names {
		namespace, lease := LeaseOf(cfg, name)
		locks = append(locks, Lock{Name: name, LeaseNamespace: namespace, LeaseName: lease})
	}
	assign(cfg, locks)
	return slices.DeleteFunc(locks, func(l Lock) bool {
		return l.Name == Migration && !slices.ContainsFunc(l.Controllers, func(c string) bool { return runs(cfg, c) })
	})
}

// runs reports whether a controller is enabled, and so is the feature gate that it needs.
func runs(cfg *v1beta1.KubeControllerManagerConfiguration, controller string) bool {
	gate := registry.Needs(controller)
	return cfg.ControllerEnabled(controller) && (gate == "" || gates.Enabled(cfg, gate))
}

// assign gives each lock its controllers.
func assign(cfg *v1beta1.KubeControllerManagerConfiguration, locks []Lock) {
	for _, c := range cfg.Controllers.All() {
		name, ok := Of(cfg, c.Name)
		if !ok {
			continue
		}
		if n := slices.IndexFunc(locks, func(l Lock) bool { return l.Name == name }); n >= 0 {
			locks[n].Controllers = append(locks[n].Controllers, c.Name)
		}
	}
	for n := range locks {
		slices.Sort(locks[n].Controllers)
	}
}

// Lease names a Lease object.
type Lease struct{ Namespace, Name string }

// Election is what all locks of a process have in common. It is zero without leader election,
// where nothing else of leaderElection decides what runs.
type Election struct {
	Elect    bool
	Identity string // as configured
	Main     Lease  // by which the processes of one cluster find each other's claims
}

// ElectionOf is what all locks of a configuration have in common.
func ElectionOf(cfg *v1beta1.KubeControllerManagerConfiguration) Election {
	e := cfg.LeaderElection
	if !ptr.Deref(e.LeaderElect, true) {
		return Election{}
	}
	return Election{Elect: true, Identity: e.Identity, Main: Lease{Namespace: e.ResourceNamespace, Name: e.ResourceName}}
}

// Key identifies a lock. Keys are compared with ==.
type Key struct {
	// Name is that of the lock.
	Name     string
	Election Election
	// Lease carries the lock; zero without leader election.
	Lease Lease
	// Coordinated is set if the API server chooses the holder. As upstream, it does so for
	// the main lock only: a candidate has one lease.
	Coordinated bool
	// Emulated is the version by which the API server then chooses; otherwise empty.
	Emulated string
}

// KeyOf is the key of a lock.
func KeyOf(cfg *v1beta1.KubeControllerManagerConfiguration, lock string) Key {
	key := Key{Name: lock, Election: ElectionOf(cfg)}
	if !key.Election.Elect {
		return key
	}
	key.Lease.Namespace, key.Lease.Name = LeaseOf(cfg, lock)
	key.Coordinated = lock == Main && gates.Enabled(cfg, gates.CoordinatedLeaderElection)
	if key.Coordinated {
		key.Emulated = cfg.EmulatedVersion
	}
	return key
}
