package index

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/cache"
)

// PodsByNode is the name of the index of pods by the node they are assigned to. Pods that are
// not scheduled yet are not indexed.
const PodsByNode = "spec.nodeName"

// NodePods finds pods by node.
type NodePods struct{ indexer cache.Indexer }

// NewNodePods adds the index to the pod informer if needed.
func NewNodePods(informer cache.SharedIndexInformer) NodePods {
	Ensure(informer, PodsByNode, nodeKeys)
	return NodePods{informer.GetIndexer()}
}

// On returns the pods of all namespaces that are assigned to the node.
func (p NodePods) On(node string) ([]*corev1.Pod, error) {
	return Append[*corev1.Pod](nil, p.indexer, PodsByNode, node)
}

func nodeKeys(obj any) ([]string, error) {
	pod, ok := obj.(*corev1.Pod)
	if !ok || pod.Spec.NodeName == "" {
		return nil, nil
	}
	return []string{pod.Spec.NodeName}, nil
}
