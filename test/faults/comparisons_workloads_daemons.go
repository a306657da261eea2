package faults

import (
	"context"
	"fmt"
)

// createNode creates a node, and takes from it the taint that the API server gives every new one.
func createNode(name, labels, taints string) Action {
	create := Create(fmt.Sprintf("{apiVersion: v1, kind: Node, metadata: {name: %s, labels: {%s}}}", name, labels))
	return func(ctx context.Context, w *world) error {
		if err := create(ctx, w); err != nil {
			return err
		}
		return Patch("nodes", name, `{"spec":{"taints":[`+taints+`]}}`)(ctx, w)
	}
}

// scheduled is how many pods DaemonSets should have, have, and have where they should not be; all that should be there
// are available and of the newest template.
func scheduled(desired, misscheduled int, names ...string) []Condition {
	var all []Condition
	number, available := fmt.Sprint(desired), fmt.Sprint(desired)
	if desired == 0 {
		available = ""
	}
	for _, name := range names {
		all = append(all, Has("daemonsets", name, "{.status.desiredNumberScheduled}", number, "{.status.currentNumberScheduled}", number, "{.status.numberAvailable}", available,
			"{.status.updatedNumberScheduled}", available, "{.status.numberMisscheduled}", fmt.Sprint(misscheduled)), Count("pods", "app="+name, desired+misscheduled))
	}
	return all
}
