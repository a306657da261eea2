package cloud

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync/atomic"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/tools/record"
	nodeutil "k8s.io/component-helpers/node/util"

	"kcmd.dev/pkg/controller"
)

// client is the client of the instance. Its events go through the recorder of the instance, and its
// requests about nodes and Services end when the instance is fenced, and not before. The library
// sends most of them with a background context: without an end they would wait for an answer, or for
// the time that a server names in Retry-After, long after the stop.
type client struct {
	kubernetes.Interface
	core core
}

func newClient(env controller.Env, g *guard) *client {
	return &client{env.Client, core{env.Client.CoreV1(), env.Events, g, &judged{}}}
}

// CoreV1 implements kubernetes.Interface.
func (c *client) CoreV1() typedcorev1.CoreV1Interface { return c.core }

type core struct {
	typedcorev1.CoreV1Interface
	recorder record.EventRecorder
	guard    *guard
	judged   *judged
}

// Events implements typedcorev1.CoreV1Interface.
func (c core) Events(namespace string) typedcorev1.EventInterface {
	return events{c.CoreV1Interface.Events(namespace), c.recorder}
}

// Nodes implements typedcorev1.CoreV1Interface.
func (c core) Nodes() typedcorev1.NodeInterface {
	return nodes{c.CoreV1Interface.Nodes(), c.guard, c.judged}
}

// Services implements typedcorev1.CoreV1Interface.
func (c core) Services(namespace string) typedcorev1.ServiceInterface {
	return services{c.CoreV1Interface.Services(namespace), c.guard, namespace}
}

// events passes the events of the library on to the recorder, instead of sending them. The library
// has aggregated them already: a repeated event comes as a patch.
type events struct {
	typedcorev1.EventInterface
	recorder record.EventRecorder
}

// CreateWithEventNamespace implements typedcorev1.EventExpansion.
func (e events) CreateWithEventNamespace(event *corev1.Event) (*corev1.Event, error) {
	e.recorder.Event(&event.InvolvedObject, event.Type, event.Reason, event.Message)
	return event, nil
}

// UpdateWithEventNamespace implements typedcorev1.EventExpansion.
func (e events) UpdateWithEventNamespace(event *corev1.Event) (*corev1.Event, error) {
	return e.CreateWithEventNamespace(event)
}

// PatchWithEventNamespace implements typedcorev1.EventExpansion.
func (e events) PatchWithEventNamespace(event *corev1.Event, _ []byte) (*corev1.Event, error) {
	return e.CreateWithEventNamespace(event)
}

type services struct {
	typedcorev1.ServiceInterface
	guard     *guard
	namespace string
}

// Patch implements typedcorev1.ServiceInterface. It meets the Service that the library works on, and not a later one of
// the same name: the finalizer would go to that one, and nothing would protect the load balancer of this one. It gives no
// address to a Service that has come not to want one meanwhile: it would take the place of that of another class.
func (s services) Patch(
	ctx context.Context, name string, patch types.PatchType, data []byte, o metav1.PatchOptions, subresources ...string,
) (*corev1.Service, error) {
	key := s.namespace + "/" + name
	address, isStatus := addressIn(data)
	if w, known := s.guard.processed.of(key); known {
		if len(address) > 0 && s.guard.isUnwanted(s.namespace, name, w.uid) {
			return nil, errUnwanted
		}
		var err error
		if data, err = withUID(data, w.uid); err != nil {
			return nil, err
		}
	}
	service, err := s.ServiceInterface.Patch(s.guard.bind(ctx), name, patch, data, o, subresources...)
	s.guard.processed.wrote(key, service, err)
	if err == nil && isStatus {
		s.guard.processed.gave(key, service)
	}
	return service, err
}

var errUnwanted = errors.New("the Service does not want a load balancer any more")

// isUnwanted reports whether the cache shows that a Service wants no load balancer.
func (g *guard) isUnwanted(namespace, name string, uid types.UID) bool {
	cached, err := g.services.Services(namespace).Get(name)
	return err == nil && cached.UID == uid && !wants(cached)
}

// addressIn returns the address that a merge patch gives to a Service, and whether it changes the status.
func addressIn(patch []byte) (address []corev1.LoadBalancerIngress, isStatus bool) {
	var changed struct {
		Status *corev1.ServiceStatus `json:"status"`
	}
	if err := json.Unmarshal(patch, &changed); err != nil || changed.Status == nil {
		return nil, false
	}
	return changed.Status.LoadBalancer.Ingress, true
}

type nodes struct {
	typedcorev1.NodeInterface
	guard  *guard
	judged *judged
}

// judged are the nodes of the round that the library is in.
type judged struct {
	round atomic.Pointer[[]*corev1.Node]
}

// node returns a node of the round, nil if there is no round, or it is not in it.
func (j *judged) node(name string) *corev1.Node {
	round := j.round.Load()
	if round == nil {
		return nil
	}
	for _, node := range *round {
		if node.Name == name {
			return node
		}
	}
	return nil
}

// outdated returns an error if what was judged in the round is not this node any more, or not as it is now.
func (j *judged) outdated(is *corev1.Node) error {
	was := j.node(is.Name)
	switch {
	case was == nil:
		return nil
	case was.UID != is.UID:
		return recreated(is.Name)
	case was.Spec.ProviderID != is.Spec.ProviderID || isReady(was) != isReady(is):
		return fmt.Errorf("node %s has changed since the round began", is.Name)
	}
	return nil
}

func isReady(node *corev1.Node) bool {
	_, ready := nodeutil.GetNodeCondition(&node.Status, corev1.NodeReady)
	return ready != nil && ready.Status == corev1.ConditionTrue
}

// Get implements typedcorev1.NodeInterface. In a round, it returns no later node of the name of one that the provider
// was asked about, nor one that has changed so that it would be judged otherwise: the library would taint it for the
// answer. The patch that follows names the version that was read.
func (n nodes) Get(ctx context.Context, name string, o metav1.GetOptions) (*corev1.Node, error) {
	node, err := n.NodeInterface.Get(n.guard.bind(ctx), name, o)
	if err != nil {
		return node, asFailure(err)
	}
	if err := n.judged.outdated(node); err != nil {
		return nil, err
	}
	return node, nil
}

func recreated(node string) error {
	return fmt.Errorf("node %s was recreated since the cloud provider was asked about it", node)
}

// Patch implements typedcorev1.NodeInterface. It meets the node in the cache, which the library has made the patch for,
// and not a later one of the same name. If the cache has none, only a patch with a resource version is sent, as that of
// taints is, which meets the node that was read. Those of labels and of the status have none.
func (n nodes) Patch(
	ctx context.Context, name string, patch types.PatchType, data []byte, o metav1.PatchOptions, subresources ...string,
) (*corev1.Node, error) {
	cached, err := n.guard.nodes.Get(name)
	switch {
	case err == nil:
		data, err = withUID(data, cached.UID)
	case hasVersion(data):
		err = nil
	}
	if err != nil {
		return nil, err
	}
	node, err := n.NodeInterface.Patch(n.guard.bind(ctx), name, patch, data, o, subresources...)
	return node, asFailure(err)
}

// hasVersion reports whether a merge patch has a resource version, so that the API server refuses it for any other
// object.
func hasVersion(patch []byte) bool {
	var object struct {
		Metadata struct {
			ResourceVersion string `json:"resourceVersion"`
		} `json:"metadata"`
	}
	return json.Unmarshal(patch, &object) == nil && object.Metadata.ResourceVersion != ""
}

// withUID adds a UID to a merge patch, so that the API server refuses it for any other object.
func withUID(patch []byte, uid types.UID) ([]byte, error) {
	var fields, metadata map[string]json.RawMessage
	if err := json.Unmarshal(patch, &fields); err != nil {
		return nil, fmt.Errorf("reading a patch: %w", err)
	}
	if len(fields["metadata"]) > 0 {
		if err := json.Unmarshal(fields["metadata"], &metadata); err != nil {
			return nil, fmt.Errorf("reading the metadata of a patch: %w", err)
		}
	}
	if metadata == nil {
		metadata = map[string]json.RawMessage{}
	}
	var err error
	if metadata["uid"], err = json.Marshal(uid); err != nil {
		return nil, fmt.Errorf("encoding a UID: %w", err)
	}
	if fields["metadata"], err = json.Marshal(metadata); err != nil {
		return nil, fmt.Errorf("encoding the metadata of a patch: %w", err)
	}
	return json.Marshal(fields)
}

// PatchStatus implements typedcorev1.NodeExpansion. In a round, it meets the node that the round is about, and not a
// later one of the same name.
func (n nodes) PatchStatus(ctx context.Context, name string, data []byte) (*corev1.Node, error) {
	if judged := n.judged.node(name); judged != nil {
		var err error
		if data, err = withUID(data, judged.UID); err != nil {
			return nil, err
		}
	}
	node, err := n.NodeInterface.PatchStatus(n.guard.bind(ctx), name, data)
	return node, asFailure(err)
}

// Update implements typedcorev1.NodeInterface. It does not write what the provider answered about an earlier node of
// the same name: the library then asks again.
func (n nodes) Update(ctx context.Context, node *corev1.Node, o metav1.UpdateOptions) (*corev1.Node, error) {
	if n.guard.asked.another(node) {
		n.guard.asked.forget(node.Name)
		return nil, recreated(node.Name)
	}
	written, err := n.NodeInterface.Update(n.guard.bind(ctx), node, o)
	if err == nil {
		n.guard.asked.forget(node.Name)
	}
	return written, asFailure(err)
}

// asFailure returns the error of a request so that the library repeats the request later. retry.RetryOnConflict, in
// which it sends most of them, takes a timeout for the end of its own wait, and returns nil.
func asFailure(err error) error {
	if wait.Interrupted(err) {
		return errors.New(err.Error())
	}
	return err
}

// Delete implements typedcorev1.NodeInterface. It deletes the node that the provider was asked about, and not a later
// one of the same name, and only in a version in which it would be judged the same: a round that asks about many nodes
// may take minutes, and a new node may have become ready meanwhile.
func (n nodes) Delete(ctx context.Context, name string, o metav1.DeleteOptions) error {
	if n.judged.node(name) != nil {
		node, err := n.Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		o.Preconditions = &metav1.Preconditions{UID: &node.UID, ResourceVersion: &node.ResourceVersion}
	}
	return n.NodeInterface.Delete(n.guard.bind(ctx), name, o)
}
