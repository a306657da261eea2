package mutations

const (
	lifecycle = "pkg/controllers/nodelifecycle"
	ipam      = "pkg/controllers/nodeipam"
	eviction  = "pkg/controllers/tainteviction"
)

// nodes are the cases of controllers of nodes.
func nodes() []Case {
	return []Case{
		{
			Name:   "eviction goes on when no zone has a ready node",
			Issues: []int{77864, 24200, 28832},
			Story: "A load balancer was misconfigured, and no kubelet reached the API server: all nodes were Unknown at once, " +
				"though every pod ran. Whoever evicts then empties the cluster.",
			Edits: []Edit{{
				File: lifecycle + "/zones.go",
				Old:  "	case is:\n		return stop\n",
				New:  "	case is:\n		return follow\n",
			}},
			Caught: Test{lifecycle, "TestZonesThatAreDisrupted", "NLC-64: all zones"},
		},
		{
			Name:   "a watch that shows no Leases makes nodes not ready",
			Issues: []int{85221},
			Story: "In large clusters the watch of the Leases was lost. The kubelets went on renewing, and their nodes were marked as " +
				"not ready.",
			Edits: []Edit{
				{File: lifecycle + "/hear.go", Old: "	if now := c.Clock.Now(); !c.cluster.isOpen(now) {\n",
					New: "	if len(silent) > 0 {\n		return silent\n	}\n	if now := c.Clock.Now(); !c.cluster.isOpen(now) {\n"},
				{File: lifecycle + "/silence.go", Old: "	return r != nil && c.hadFallenSilent(r)\n", New: "	return r != nil\n"},
			},
			Caught: Test{lifecycle, "TestNothingIsHeard", "no watch shows Leases any more"},
		},
		{
			Name:   "two nodes get the same block of addresses",
			Issues: []int{127792},
			Story: "An autoscaler kept nodes that were being deleted by a finalizer, for minutes. Their addresses were freed at once " +
				"and given to new nodes: two nodes had the same block.",
			Edits: []Edit{{
				File: ipam + "/watch.go",
				Old:  "	switch {\n	case old.UID != node.UID: // deleted and recreated, seen as one update\n",
				New: "	if node.DeletionTimestamp != nil {\n		c.ranges.gone(incarnationOf(node))\n		return\n	}\n" +
					"	switch {\n	case old.UID != node.UID: // deleted and recreated, seen as one update\n",
			}},
			Caught: Test{ipam, "TestARangeIsFreedByTheEndOfItsNode", ""},
		},
		{
			Name:   "pods are deleted by their names",
			Issues: []int{19403},
			Story: "A pod was deleted and recreated under its name. The deletion that was meant for the first one came late, " +
				"and took the second.",
			Edits: []Edit{{
				File: "pkg/controllers/kit/pods/requests.go",
				Old:  "		Preconditions:      metav1.NewUIDPreconditions(string(pod.UID)),\n",
				New:  "",
			}},
			Caught: Test{eviction, "TestEvict", ""},
		},
	}
}
