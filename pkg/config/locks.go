package config

import (
	"cmp"
	"slices"

	"k8s.io/utils/ptr"

	"kcmd.dev/pkg/config/v1beta1"
)

// The locks that are no lease group.
const (
	// MainLock is the lock of every controller that is not in a group and not migrated.
	MainLock = "main"
	// MigrationLock is the lock that several components compete for.
	MigrationLock = "migration"
)

const (
	groupPrefix = "group/"
	// tokenController makes the credentials of all others, so it cannot run elsewhere.
	tokenController = "serviceaccount-token-controller"
	// anyComponent in controllerLeaders stands for every component.
	anyComponent = "*"
)

// GroupLock is the name of the lock of a lease group.
func GroupLock(group string) string { return groupPrefix + group }

// Lock is the right to run some controllers, and the Lease that carries it.
type Lock struct {
	// Name is MainLock, MigrationLock or that of GroupLock.
	Name string
	// LeaseNamespace and LeaseName say which Lease it is.
	LeaseNamespace, LeaseName string
	// Controllers are those that run under the lock if they are enabled, sorted.
	Controllers []string
}

// LockOf says under which lock a controller runs. ok is false if leader migration gives the
// controller to another component. Without leader election there is the main lock only.
func LockOf(cfg *v1beta1.KubeControllerManagerConfiguration, controller string) (lock string, ok bool) {
	if !ptr.Deref(cfg.LeaderElection.LeaderElect, true) {
		return MainLock, true
	}
	if leader, migrates := migrated(cfg, controller); migrates {
		if leader == anyComponent || leader == cfg.LeaderMigration.Component {
			return MigrationLock, true
		}
		return "", false
	}
	for _, g := range cfg.LeaderElection.Groups {
		if slices.Contains(g.Controllers, controller) {
			return GroupLock(g.Name), true
		}
	}
	return MainLock, true
}

// migrated returns the component that leader migration gives a controller to.
func migrated(cfg *v1beta1.KubeControllerManagerConfiguration, controller string) (component string, ok bool) {
	if !ptr.Deref(cfg.LeaderMigration.Enabled, false) || controller == tokenController {
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
	case MainLock:
		return e.ResourceNamespace, e.ResourceName
	case MigrationLock:
		return e.ResourceNamespace, cfg.LeaderMigration.LeaderName
	}
	for _, g := range e.Groups {
		if GroupLock(g.Name) == lock {
			return e.ResourceNamespace, leaseOf(e, g)
		}
	}
	return "", ""
}

// leaseOf is the name of the lease of a group.
func leaseOf(e v1beta1.LeaderElection, g v1beta1.LeaseGroup) string {
	return cmp.Or(g.ResourceName, e.ResourceName+"-"+g.Name)
}

// Locks lists the locks that a process with this configuration contends for: the main one,
// the migration lock, the groups in the order of the file. The migration lock is only there
// if an enabled controller runs under it: to hold it for nothing would keep the other
// component from working.
func Locks(cfg *v1beta1.KubeControllerManagerConfiguration) []Lock {
	names := []string{MainLock}
	if ptr.Deref(cfg.LeaderElection.LeaderElect, true) {
		if ptr.Deref(cfg.LeaderMigration.Enabled, false) {
			names = append(names, MigrationLock)
		}
		for _, g := range cfg.LeaderElection.Groups {
			names = append(names, GroupLock(g.Name))
		}
	}
	locks := make([]Lock, 0, len(names))
	for _, name := range names {
		namespace, lease := LeaseOf(cfg, name)
		locks = append(locks, Lock{Name: name, LeaseNamespace: namespace, LeaseName: lease})
	}
	assign(cfg, locks)
	return slices.DeleteFunc(locks, func(l Lock) bool {
		return l.Name == MigrationLock && !slices.ContainsFunc(l.Controllers, cfg.ControllerEnabled)
	})
}

// assign tells each lock its controllers.
func assign(cfg *v1beta1.KubeControllerManagerConfiguration, locks []Lock) {
	for _, c := range cfg.Controllers.All() {
		name, ok := LockOf(cfg, c.Name)
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
