package registry

import "strings"

// readers names the controllers that alone read a field outside of their own blocks.
func readers() map[string][]string {
	loops := []string{
		"service-lb-controller", "node-route-controller", "cloud-node-controller", "cloud-node-lifecycle-controller",
	}
	return map[string][]string{
		"cloud.provider":                    loops,
		"cloud.configFile":                  loops,
		"cloud.allowUntagged":               loops,
		"cloud.clusterName":                 {"service-lb-controller", "node-route-controller"},
		"networking.clusterCIDRs":           {"node-ipam-controller", "node-route-controller"},
		"networking.serviceCIDRs":           {"node-ipam-controller"},
		"volumes.flexVolumePluginDirectory": {"persistentvolume-attach-detach-controller"},
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
