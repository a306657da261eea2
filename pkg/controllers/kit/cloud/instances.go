package cloud

import (
	"context"
	"fmt"
	"sync"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	cloudprovider "k8s.io/cloud-provider"
	cloudproviderapi "k8s.io/cloud-provider/api"
)

// instancesV2 asks about nodes. The work on a node begins with the question for its metadata, or
// whether it exists.
type instancesV2 struct {
	next  cloudprovider.InstancesV2
	guard *guard
}

// InstanceExists implements cloudprovider.InstancesV2.
func (i instancesV2) InstanceExists(ctx context.Context, node *corev1.Node) (bool, error) {
	i.guard.first()
	return call(ctx, i.guard, "InstanceExists "+node.Name, func(ctx context.Context) (bool, error) {
		return i.next.InstanceExists(ctx, node)
	})
}

// InstanceShutdown implements cloudprovider.InstancesV2.
func (i instancesV2) InstanceShutdown(ctx context.Context, node *corev1.Node) (bool, error) {
	return call(ctx, i.guard, "InstanceShutdown "+node.Name, func(ctx context.Context) (bool, error) {
		return i.next.InstanceShutdown(ctx, node)
	})
}

// InstanceMetadata implements cloudprovider.InstancesV2. No metadata means that a node is not to
// be initialized. For an initialized node the library does not expect that, and would panic. It would also write the
// addresses to a later node of the same name: rounds take long.
func (i instancesV2) InstanceMetadata(ctx context.Context, node *corev1.Node) (*cloudprovider.InstanceMetadata, error) {
	i.guard.first()
	if !initialized(node) {
		i.guard.asked.about(node)
	}
	ask := func(ctx context.Context) (*cloudprovider.InstanceMetadata, error) {
		return i.next.InstanceMetadata(ctx, node)
	}
	metadata, err := call(ctx, i.guard, "InstanceMetadata "+node.Name, ask)
	switch {
	case metadata != nil && err == nil:
	case !initialized(node): // nothing is written, and no event of its deletion would bring the library back to it
		i.guard.asked.forget(node.Name)
	case err == nil:
		return nil, fmt.Errorf("the cloud provider has no metadata of node %s", node.Name)
	}
	if err == nil && initialized(node) {
		if err := i.guard.stillIs(node); err != nil {
			return nil, err
		}
	}
	return metadata, err
}

// stillIs returns an error if the cache does not show a node any more. The answer of the provider is then about none, or
// another one has its name.
func (g *guard) stillIs(node *corev1.Node) error {
	cached, err := g.nodes.Get(node.Name)
	switch {
	case apierrors.IsNotFound(err):
		return fmt.Errorf("node %s was deleted since the cloud provider was asked about it", node.Name)
	case err != nil:
		return err
	case cached.UID != node.UID:
		return recreated(node.Name)
	}
	return nil
}

// initialized reports whether a node no longer has the taint that nodes of a cloud start with.
func initialized(node *corev1.Node) bool {
	for _, taint := range node.Spec.Taints {
		if taint.Key == cloudproviderapi.TaintExternalCloudProvider {
			return false
		}
	}
	return true
}

// asked has, by name, the UIDs of the nodes whose metadata was requested to initialize them, until they are
// initialized or gone.
type asked struct{ uids sync.Map }

func (a *asked) about(node *corev1.Node) { a.uids.Store(node.Name, node.UID) }

// firstAbout is for a node that is read, as it is before the provider is asked, and again before it is written.
func (a *asked) firstAbout(node *corev1.Node) { a.uids.LoadOrStore(node.Name, node.UID) }

func (a *asked) forget(name string) { a.uids.Delete(name) }

// another reports whether the provider was asked about another node of the name, so that its
// answer is not about this one.
func (a *asked) another(node *corev1.Node) bool {
	uid, found := a.uids.Load(node.Name)
	return found && uid != node.UID
}

// instances is the former form of instancesV2: several questions about a node, of which none
// follows a write. So each of them may be the first.
type instances struct {
	cloudprovider.Instances
	guard *guard
}

// about asks about one node.
func about[T any](ctx context.Context, i instances, what string, f func(context.Context) (T, error)) (T, error) {
	i.guard.first()
	return call(ctx, i.guard, what, f)
}

// NodeAddresses implements cloudprovider.Instances.
func (i instances) NodeAddresses(ctx context.Context, name types.NodeName) ([]corev1.NodeAddress, error) {
	return about(ctx, i, "NodeAddresses "+string(name), func(ctx context.Context) ([]corev1.NodeAddress, error) {
		return i.Instances.NodeAddresses(ctx, name)
	})
}

// NodeAddressesByProviderID implements cloudprovider.Instances.
func (i instances) NodeAddressesByProviderID(ctx context.Context, id string) ([]corev1.NodeAddress, error) {
	return about(ctx, i, "NodeAddresses "+id, func(ctx context.Context) ([]corev1.NodeAddress, error) {
		return i.Instances.NodeAddressesByProviderID(ctx, id)
	})
}

// InstanceID implements cloudprovider.Instances.
func (i instances) InstanceID(ctx context.Context, name types.NodeName) (string, error) {
	return about(ctx, i, "InstanceID "+string(name), func(ctx context.Context) (string, error) {
		return i.Instances.InstanceID(ctx, name)
	})
}

// InstanceType implements cloudprovider.Instances.
func (i instances) InstanceType(ctx context.Context, name types.NodeName) (string, error) {
	return about(ctx, i, "InstanceType "+string(name), func(ctx context.Context) (string, error) {
		return i.Instances.InstanceType(ctx, name)
	})
}

// InstanceTypeByProviderID implements cloudprovider.Instances.
func (i instances) InstanceTypeByProviderID(ctx context.Context, id string) (string, error) {
	return about(ctx, i, "InstanceType "+id, func(ctx context.Context) (string, error) {
		return i.Instances.InstanceTypeByProviderID(ctx, id)
	})
}

// InstanceExistsByProviderID implements cloudprovider.Instances.
func (i instances) InstanceExistsByProviderID(ctx context.Context, id string) (bool, error) {
	return about(ctx, i, "InstanceExists "+id, func(ctx context.Context) (bool, error) {
		return i.Instances.InstanceExistsByProviderID(ctx, id)
	})
}

// InstanceShutdownByProviderID implements cloudprovider.Instances.
func (i instances) InstanceShutdownByProviderID(ctx context.Context, id string) (bool, error) {
	return about(ctx, i, "InstanceShutdown "+id, func(ctx context.Context) (bool, error) {
		return i.Instances.InstanceShutdownByProviderID(ctx, id)
	})
}

// zones tells where instances are, for a provider with instances of the former form.
type zones struct {
	cloudprovider.Zones
	guard *guard
}

// GetZoneByProviderID implements cloudprovider.Zones.
func (z zones) GetZoneByProviderID(ctx context.Context, id string) (cloudprovider.Zone, error) {
	return call(ctx, z.guard, "GetZone "+id, func(ctx context.Context) (cloudprovider.Zone, error) {
		return z.Zones.GetZoneByProviderID(ctx, id)
	})
}

// GetZoneByNodeName implements cloudprovider.Zones.
func (z zones) GetZoneByNodeName(ctx context.Context, name types.NodeName) (cloudprovider.Zone, error) {
	return call(ctx, z.guard, "GetZone "+string(name), func(ctx context.Context) (cloudprovider.Zone, error) {
		return z.Zones.GetZoneByNodeName(ctx, name)
	})
}
