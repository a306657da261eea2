package fakecloud

import (
	"context"
	"fmt"
	"io"
	"strings"

	corev1 "k8s.io/api/core/v1"
	cloudprovider "k8s.io/cloud-provider"
)

// provider is the access of one owner to the cloud.
type provider struct {
	cloud *Cloud
	owner string
}

var (
	_ cloudprovider.Interface    = &provider{}
	_ cloudprovider.LoadBalancer = &provider{}
	_ cloudprovider.Routes       = &provider{}
	_ cloudprovider.InstancesV2  = &provider{}
)

func (c *Cloud) provider(config io.Reader) (*provider, error) {
	p := &provider{cloud: c}
	if config == nil {
		return p, nil
	}
	content, err := io.ReadAll(config)
	if err != nil {
		return nil, fmt.Errorf("reading the configuration of the fake cloud: %w", err)
	}
	p.owner, _, _ = strings.Cut(string(content), "\n")
	return p, nil
}

func (p *provider) do(ctx context.Context, method, about string, f func() error) error {
	return p.cloud.do(ctx, p.owner, method, about, f)
}

// Initialize implements cloudprovider.Interface.
func (*provider) Initialize(cloudprovider.ControllerClientBuilder, <-chan struct{}) {}

// LoadBalancer implements cloudprovider.Interface.
func (p *provider) LoadBalancer() (cloudprovider.LoadBalancer, bool) { return p, true }

// Instances implements cloudprovider.Interface.
func (*provider) Instances() (cloudprovider.Instances, bool) { return nil, false }

// InstancesV2 implements cloudprovider.Interface.
func (p *provider) InstancesV2() (cloudprovider.InstancesV2, bool) { return p, true }

// Zones implements cloudprovider.Interface.
func (*provider) Zones() (cloudprovider.Zones, bool) { return nil, false }

// Clusters implements cloudprovider.Interface.
func (*provider) Clusters() (cloudprovider.Clusters, bool) { return nil, false }

// Routes implements cloudprovider.Interface.
func (p *provider) Routes() (cloudprovider.Routes, bool) { return p, true }

// ProviderName implements cloudprovider.Interface.
func (*provider) ProviderName() string { return Name }

// HasClusterID implements cloudprovider.Interface.
func (*provider) HasClusterID() bool { return true }

func keyOf(service *corev1.Service) string { return service.Namespace + "/" + service.Name }

// GetLoadBalancerName implements cloudprovider.LoadBalancer.
func (*provider) GetLoadBalancerName(_ context.Context, _ string, service *corev1.Service) string {
	return cloudprovider.DefaultLoadBalancerName(service)
}

// GetLoadBalancer implements cloudprovider.LoadBalancer.
func (p *provider) GetLoadBalancer(ctx context.Context, cluster string, service *corev1.Service) (status *corev1.LoadBalancerStatus, exists bool, err error) {
	err = p.do(ctx, "GetLoadBalancer", keyOf(service), func() error {
		var err error
		status, _, err = p.cloud.backend.GetLoadBalancer(ctx, cluster, service)
		_, exists = p.cloud.backend.Balancers[cloudprovider.DefaultLoadBalancerName(service)]
		return err
	})
	return status, exists, err
}

// EnsureLoadBalancer implements cloudprovider.LoadBalancer.
func (p *provider) EnsureLoadBalancer(ctx context.Context, cluster string, service *corev1.Service, nodes []*corev1.Node) (status *corev1.LoadBalancerStatus, err error) {
	err = p.do(ctx, "EnsureLoadBalancer", keyOf(service), func() error {
		var err error
		p.cloud.owners[cloudprovider.DefaultLoadBalancerName(service)] = keyOf(service)
		status, err = p.cloud.backend.EnsureLoadBalancer(ctx, cluster, service, nodes)
		return err
	})
	return status, err
}

// UpdateLoadBalancer implements cloudprovider.LoadBalancer.
func (p *provider) UpdateLoadBalancer(ctx context.Context, _ string, service *corev1.Service, nodes []*corev1.Node) error {
	return p.do(ctx, "UpdateLoadBalancer", keyOf(service), func() error {
		name := cloudprovider.DefaultLoadBalancerName(service)
		balancer, ok := p.cloud.backend.Balancers[name]
		if !ok {
			return fmt.Errorf("there is no load balancer %s", name)
		}
		balancer.Hosts = nodes
		p.cloud.backend.Balancers[name] = balancer
		return nil
	})
}

// EnsureLoadBalancerDeleted implements cloudprovider.LoadBalancer.
func (p *provider) EnsureLoadBalancerDeleted(ctx context.Context, _ string, service *corev1.Service) error {
	return p.do(ctx, "EnsureLoadBalancerDeleted", keyOf(service), func() error {
		delete(p.cloud.backend.Balancers, cloudprovider.DefaultLoadBalancerName(service))
		return nil
	})
}

// ListRoutes implements cloudprovider.Routes.
func (p *provider) ListRoutes(ctx context.Context, cluster string) (routes []*cloudprovider.Route, err error) {
	err = p.do(ctx, "ListRoutes", "", func() error {
		var err error
		routes, err = p.cloud.backend.ListRoutes(ctx, cluster)
		return err
	})
	return routes, err
}

// CreateRoute implements cloudprovider.Routes.
func (p *provider) CreateRoute(ctx context.Context, cluster, hint string, route *cloudprovider.Route) error {
	return p.do(ctx, "CreateRoute", string(route.TargetNode), func() error {
		return p.cloud.backend.CreateRoute(ctx, cluster, hint, route)
	})
}

// DeleteRoute implements cloudprovider.Routes.
func (p *provider) DeleteRoute(ctx context.Context, cluster string, route *cloudprovider.Route) error {
	return p.do(ctx, "DeleteRoute", string(route.TargetNode), func() error {
		return p.cloud.backend.DeleteRoute(ctx, cluster, route)
	})
}

// InstanceExists implements cloudprovider.InstancesV2.
func (p *provider) InstanceExists(ctx context.Context, node *corev1.Node) (exists bool, err error) {
	err = p.do(ctx, "InstanceExists", node.Name, func() error {
		exists = !p.cloud.gone[node.Name]
		return nil
	})
	return exists, err
}

// InstanceShutdown implements cloudprovider.InstancesV2.
func (p *provider) InstanceShutdown(ctx context.Context, node *corev1.Node) (off bool, err error) {
	err = p.do(ctx, "InstanceShutdown", node.Name, func() error {
		off = p.cloud.off[node.Name]
		return nil
	})
	return off, err
}

// InstanceMetadata implements cloudprovider.InstancesV2.
func (p *provider) InstanceMetadata(ctx context.Context, node *corev1.Node) (metadata *cloudprovider.InstanceMetadata, err error) {
	err = p.do(ctx, "InstanceMetadata", node.Name, func() error {
		metadata = &cloudprovider.InstanceMetadata{
			ProviderID:    Name + "://" + node.Name,
			InstanceType:  InstanceType,
			NodeAddresses: []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: InternalIP}, {Type: corev1.NodeHostName, Address: node.Name}},
			Zone:          Zone,
			Region:        Region,
		}
		if change := p.cloud.shapes[node.Name]; change != nil {
			change(metadata)
		}
		return nil
	})
	return metadata, err
}
