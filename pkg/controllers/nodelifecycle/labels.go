package nodelifecycle

import (
	"encoding/json"
	"fmt"

	corev1 "k8s.io/api/core/v1"
)

// oldLabels lists labels with their deprecated equivalents.
var oldLabels = [...]struct{ label, old string }{
	{corev1.LabelOSStable, "beta.kubernetes.io/os"},
	{corev1.LabelArchStable, "beta.kubernetes.io/arch"},
}

// missingLabels returns the old labels that a node lacks, or that differ from the new ones; nil
// if there are none.
func missingLabels(node *corev1.Node) map[string]string {
	var missing map[string]string
	for _, l := range oldLabels {
		value, ok := node.Labels[l.label]
		if !ok {
			continue
		}
		if old, has := node.Labels[l.old]; has && old == value {
			continue
		}
		if missing == nil {
			missing = map[string]string{}
		}
		missing[l.old] = value
	}
	return missing
}

// labelsPatch returns the strategic merge patch that sets labels of a node.
func labelsPatch(node *corev1.Node, labels map[string]string) ([]byte, error) {
	body, err := json.Marshal(map[string]any{"metadata": map[string]any{"uid": node.UID, "labels": labels}})
	if err != nil {
		return nil, fmt.Errorf("encoding the labels of a node: %w", err)
	}
	return body, nil
}
