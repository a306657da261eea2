// Package registry holds what the configuration needs to know about controllers.
//
//  1. The table of controllers is pkg/controllers/registry.go: a controller is declared in
//     its own folder, and has one row there. This package is below the controllers and
//     cannot import them, so its table is generated from that one. See make generate.
package registry

import "slices"

// Controller is a controller of Kubernetes.
type Controller struct {
	// Name is the canonical name.
	Name string
	// FormerNames are the names that older releases used, sorted.
	FormerNames []string
	// ClusterScoped says that it writes no objects in namespaces but Events.
	ClusterScoped bool
	// Gates are the feature gates that change what it does or whether it runs, in some
	// version that can be emulated; sorted.
	Gates []string
	// Needs is the feature gate without which it does not run, or empty.
	Needs string
}

// Controllers returns all controllers, sorted by name. Read only.
func Controllers() []Controller { return controllers }

// Canonical returns the canonical name of the controller with this canonical or former
// name. ok is false if there is none.
func Canonical(name string) (canonical string, ok bool) {
	n := slices.IndexFunc(controllers, func(c Controller) bool {
		return c.Name == name || slices.Contains(c.FormerNames, name)
	})
	if n < 0 {
		return name, false
	}
	return controllers[n].Name, true
}

// ClusterScoped reports whether the controller of a canonical name writes no objects in
// namespaces but Events, so that it cannot be paused in one.
func ClusterScoped(name string) bool {
	return slices.ContainsFunc(controllers, func(c Controller) bool { return c.Name == name && c.ClusterScoped })
}

// Needs returns the feature gate without which the controller of a canonical name does not run, empty if it needs none.
func Needs(name string) string {
	for _, c := range controllers {
		if c.Name == name {
			return c.Needs
		}
	}
	return ""
}

// Gates returns the feature gates that some controller reads, sorted.
func Gates() []string {
	var all []string
	for _, c := range controllers {
		all = append(all, c.Gates...)
	}
	slices.Sort(all)
	return slices.Compact(all)
}
