package plan

import "kcmd.dev/pkg/config/diff"

// notes say, by controller and field, what becomes of things that outlive a restart of the
// controller, where a change could be expected to concern them.
func notes() map[string]map[string]string {
	const keep = "nodes keep the ranges they have; "
	return map[string]map[string]string{
		"node-ipam-controller": {
			"networking.clusterCIDRs":                               "nodes keep the ranges they have, even outside of the new ones; only nodes without any get new ranges",
			"networking.serviceCIDRs":                               keep + "no range that overlaps is given out from now on",
			"controllers.node-ipam-controller.allocateNodeCIDRs":    keep + "nodes without any get ranges only while it is true",
			"controllers.node-ipam-controller.nodeCIDRMaskSizeIPv4": keep + "only nodes without any get ranges of the new size",
			"controllers.node-ipam-controller.nodeCIDRMaskSizeIPv6": keep + "only nodes without any get ranges of the new size",
		},
	}
}

// noted adds the notes to the causes of what happens to a controller.
func noted(controller string, causes []diff.Change) []diff.Change {
	of := notes()[controller]
	for i := range causes {
		causes[i].Note = of[causes[i].Path]
	}
	return causes
}
