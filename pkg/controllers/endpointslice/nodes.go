package endpointslice

import (
	"context"
	"errors"
	"maps"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/utils/clock"

	"kcmd.dev/pkg/controller"
)

// answerLasts is how long the answer to a read of a node is used.
const answerLasts = time.Minute

// confirmedNodes are the nodes of the cache, for the library, which takes pods out of the slices if their node does not
// exist. A list may lack a node that exists, so one that the cache lacks is read.
type confirmedNodes struct {
	corelisters.NodeLister
	live  typedcorev1.NodeInterface
	clock clock.PassiveClock

	mu    sync.Mutex
	asked map[string]answer
}

// answer is what a read of a node has shown.
type answer struct {
	node *corev1.Node // nil if it is gone
	at   time.Time
}

// Get implements corelisters.NodeLister. After a read that fails, the library writes nothing.
func (n *confirmedNodes) Get(name string) (*corev1.Node, error) {
	node, err := n.NodeLister.Get(name)
	if !apierrors.IsNotFound(err) || name == "" {
		return node, err
	}
	if node, readErr := n.read(name); node != nil || readErr != nil {
		return node, readErr
	}
	return nil, err
}

// read returns a node as the API server had it within answerLasts, nil if it was gone. The library has no context to
// pass on: the client ends requests at the fence.
func (n *confirmedNodes) read(name string) (*corev1.Node, error) {
	if last, ok := n.last(name); ok {
		return last.node, nil
	}
	node, err := n.live.Get(context.Background(), name, metav1.GetOptions{})
	switch {
	case controller.Absent(err):
		node = nil
	case err != nil:
		// Not wrapped: the library would conclude from the NotFound of a proxy that the node is gone.
		return nil, errors.New("reading node " + name + ": " + err.Error())
	}
	n.note(name, node)
	return node, nil
}

func (n *confirmedNodes) last(name string) (answer, bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	last, ok := n.asked[name]
	return last, ok && n.clock.Since(last.at) < answerLasts
}

// note keeps an answer, and drops those that are too old.
func (n *confirmedNodes) note(name string, node *corev1.Node) {
	n.mu.Lock()
	defer n.mu.Unlock()
	maps.DeleteFunc(n.asked, func(_ string, a answer) bool { return n.clock.Since(a.at) >= answerLasts })
	n.asked[name] = answer{node, n.clock.Now()}
}
