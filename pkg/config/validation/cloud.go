package validation

import (
	"slices"

	cloudprovider "k8s.io/cloud-provider"

	"kcmd.dev/pkg/config/problem"
	"kcmd.dev/pkg/config/registry"
	"kcmd.dev/pkg/config/v1beta1"
)

// validateCloud requires that a cloud provider is linked into this build, and that there are
// ranges for which it can keep routes.
func (v *validator) validateCloud() {
	const provider, routes = "cloud.provider", "controllers.node-route-controller.enabled"
	if !v.decoded(provider) {
		return
	}
	if !v.cfg.Cloud.Linked() {
		v.warnOfIdle(provider)
		return
	}
	if name := v.cfg.Cloud.Provider; !cloudprovider.IsCloudProvider(name) {
		v.errorf(provider,
			"no cloud provider %s is linked into this build: set it to %s, or use a build that has the provider",
			problem.Quote(name), v1beta1.NoCloudProvider)
	}
	lacksRanges := len(v.cfg.Networking.ClusterCIDRs) == 0 && v.decoded(clusterCIDRs, routes)
	if lacksRanges && v.cfg.ControllerEnabled("node-route-controller") {
		v.errorf(routes, "needs %s", clusterCIDRs)
	}
}

// warnOfIdle reports the controllers that are enabled and have no provider to work with.
func (v *validator) warnOfIdle(provider string) {
	for _, c := range v.cfg.Controllers.All() {
		path := "controllers." + c.Name + ".enabled"
		if readers, _ := registry.ReadBy(provider); slices.Contains(readers, c.Name) && v.set(path) && *c.Settings.Enabled {
			v.warnf(path, "the controller stays idle until %s names a provider that is linked into the program", provider)
		}
	}
}
