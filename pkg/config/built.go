package config

import (
	"slices"
	"strings"
)

// built lists the controllers that this build has. A test in pkg/controllers compares it
// with the registry, which this package may not import.
func built() []string {
	return []string{
		"cronjob-controller",
		"daemonset-controller",
		"deployment-controller",
		"disruption-controller",
		"endpoints-controller",
		"endpointslice-controller",
		"endpointslice-mirroring-controller",
		"garbage-collector-controller",
		"horizontal-pod-autoscaler-controller",
		"job-controller",
		"namespace-controller",
		"pod-garbage-collector-controller",
		"podgroup-protection-controller",
		"replicaset-controller",
		"replicationcontroller-controller",
		"root-ca-certificate-publisher-controller",
		"serviceaccount-controller",
		"serviceaccount-token-controller",
		"statefulset-controller",
		"ttl-after-finished-controller",
	}
}

// Built says whether this build has the controller of a canonical name.
func Built(controller string) bool { return slices.Contains(built(), controller) }

// readers names the controllers that alone read a field outside of their own blocks.
func readers() map[string][]string {
	return map[string][]string{
		"networking.clusterCIDRs":           {"node-ipam-controller", "node-route-controller"},
		"networking.serviceCIDRs":           {"node-ipam-controller"},
		"volumes.flexVolumePluginDirectory": {"persistentvolume-attach-detach-controller", "selinux-warning-controller"},
	}
}

// ReadBy returns the controllers that alone read a field, such as the one whose block it is
// in. ok is false for a field that others read too, or the process itself.
func ReadBy(path string) (controllers []string, ok bool) {
	if block, found := strings.CutPrefix(path, "controllers."); found {
		name, _, _ := strings.Cut(block, ".")
		return []string{name}, true
	}
	controllers, ok = readers()[path]
	return controllers, ok
}

// validateBuilt reports what concerns controllers that this build does not have: enabling
// one is an error, since the cluster would wait for its work; to prepare its settings is not.
func (v *validator) validateBuilt() {
	for _, c := range v.cfg.Controllers.All() {
		path := "controllers." + c.Name + ".enabled"
		if !Built(c.Name) && v.set(path) && *c.Settings.Enabled {
			v.errorf(path, "%s is not part of this build and cannot be enabled: remove the setting, or set it to false", c.Name)
		}
	}
	for _, change := range v.changedFields() {
		names, ok := ReadBy(change.Path)
		if !ok || slices.ContainsFunc(names, Built) || strings.HasSuffix(change.Path, ".enabled") || !v.set(change.Path) {
			continue
		}
		if len(names) == 1 {
			v.warnf(change.Path, "has no effect until %s is part of the build", names[0])
			continue
		}
		v.warnf(change.Path, "has no effect until one of %s is part of the build", strings.Join(names, ", "))
	}
}
