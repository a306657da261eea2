package endpointslice

import (
	"context"
	"fmt"
	"maps"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/endpointslice/util"
	"k8s.io/utils/clock"

	"kcmd.dev/pkg/controller"
)

const (
	// answerLasts is how long what a read of a node has shown is used.
	answerLasts = time.Minute
	// fewNodes is how many nodes are read one by one. More are read by a list of all nodes.
	fewNodes = 5
)

// confirmedNodes are the nodes of the cache, for the library, which takes pods out of the slices if their node does not
// exist. A list may lack a node that exists, so those that the cache lacks are read.
type confirmedNodes struct {
	corelisters.NodeLister
	live  typedcorev1.NodeInterface
	clock clock.PassiveClock

	mu      sync.Mutex
	answers map[string]answer // by name of the node
}

// answer is what a read of a node has shown.
type answer struct {
	node *corev1.Node // nil if it is gone
	at   time.Time
}

// Get implements corelisters.NodeLister. It returns an error other than NotFound, after which the library writes
// nothing, if it is not known whether a node that the cache lacks exists.
func (n *confirmedNodes) Get(name string) (*corev1.Node, error) {
	node, err := n.NodeLister.Get(name)
	if !apierrors.IsNotFound(err) || name == "" {
		return node, err
	}
	switch last, ok := n.last(name); {
	case !ok:
		return nil, fmt.Errorf("node %s has just disappeared from the cache", name)
	case last.node != nil:
		return last.node, nil
	}
	return nil, err
}

// confirm reads those nodes of pods that the cache lacks, as far as the library asks for them.
func (n *confirmedNodes) confirm(ctx context.Context, pods []*corev1.Pod) error {
	lacking := map[string]*corev1.Node{}
	for _, pod := range pods {
		name := pod.Spec.NodeName
		if name == "" || !util.ShouldPodBeInEndpoints(pod, true) {
			continue
		}
		if _, err := n.NodeLister.Get(name); !apierrors.IsNotFound(err) {
			continue
		}
		if _, ok := n.last(name); !ok {
			lacking[name] = nil
		}
	}
	if len(lacking) == 0 {
		return nil
	}
	if err := n.read(ctx, lacking); err != nil {
		return fmt.Errorf("reading nodes that the cache lacks: %w", err)
	}
	n.note(lacking)
	return nil
}

// read reads the nodes of the given names. Those that are gone stay nil.
func (n *confirmedNodes) read(ctx context.Context, named map[string]*corev1.Node) error {
	if len(named) > fewNodes {
		all, err := n.live.List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		for i := range all.Items {
			if _, ok := named[all.Items[i].Name]; ok {
				named[all.Items[i].Name] = all.Items[i].DeepCopy() // which does not keep the list
			}
		}
		return nil
	}
	for name := range named {
		node, err := n.live.Get(ctx, name, metav1.GetOptions{})
		switch {
		case err == nil:
			named[name] = node
		case !controller.Absent(err):
			return err
		}
	}
	return nil
}

func (n *confirmedNodes) last(name string) (answer, bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	last, ok := n.answers[name]
	return last, ok && n.clock.Since(last.at) < answerLasts
}

// note keeps answers, and drops those that are too old.
func (n *confirmedNodes) note(named map[string]*corev1.Node) {
	n.mu.Lock()
	defer n.mu.Unlock()
	now := n.clock.Now()
	maps.DeleteFunc(n.answers, func(_ string, a answer) bool { return now.Sub(a.at) >= answerLasts })
	for name, node := range named {
		n.answers[name] = answer{node, now}
	}
}
