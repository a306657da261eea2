package ttl

import (
	"fmt"
	"strconv"

	corev1 "k8s.io/api/core/v1"
)

// shown returns the seconds that a node is annotated with, -1 if it has no annotation.
func shown(node *corev1.Node) (int, error) {
	value, ok := node.Annotations[corev1.ObjectTTLAnnotationKey]
	if !ok {
		return -1, nil
	}
	return strconv.Atoi(value)
}

func shows(node *corev1.Node, seconds int) bool {
	is, err := shown(node)
	return err == nil && is == seconds
}

// shownBy returns the number of nodes that are annotated with each number of seconds.
func shownBy(nodes []*corev1.Node) map[int]int {
	all := map[int]int{}
	for _, node := range nodes {
		if seconds, err := shown(node); err == nil {
			all[seconds]++
		}
	}
	return all
}

// patchTo returns the patch that annotates a node, and changes nothing else.
func patchTo(seconds int) []byte {
	return fmt.Appendf(nil, `{"metadata":{"annotations":{%q:"%d"}}}`, corev1.ObjectTTLAnnotationKey, seconds)
}
