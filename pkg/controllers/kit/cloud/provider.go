package cloud

import (
	"context"
	"errors"
	"slices"

	corev1 "k8s.io/api/core/v1"
	cloudprovider "k8s.io/cloud-provider"
)

// guarded is a provider under a guard. Methods that the library does not call are not guarded.
type guarded struct {
	cloudprovider.Interface
	guard *guard
}

// LoadBalancer implements cloudprovider.Interface.
func (c guarded) LoadBalancer() (cloudprovider.LoadBalancer, bool) {
	next, ok := c.Interface.LoadBalancer()
	return balancer{next, c.guard}, ok
}

// Routes implements cloudprovider.Interface.
func (c guarded) Routes() (cloudprovider.Routes, bool) {
	next, ok := c.Interface.Routes()
	return routes{next, c.guard}, ok
}

// InstancesV2 implements cloudprovider.Interface. The library compares what is returned with
// nil.
func (c guarded) InstancesV2() (cloudprovider.InstancesV2, bool) {
	next, ok := c.Interface.InstancesV2()
	if next == nil {
		return nil, ok
	}
	return instancesV2{next, c.guard}, ok
}

// Instances implements cloudprovider.Interface.
func (c guarded) Instances() (cloudprovider.Instances, bool) {
	next, ok := c.Interface.Instances()
	return instances{next, c.guard}, ok
}

// Zones implements cloudprovider.Interface.
func (c guarded) Zones() (cloudprovider.Zones, bool) {
	next, ok := c.Interface.Zones()
	return zones{next, c.guard}, ok
}

type balancer struct {
	cloudprovider.LoadBalancer
	guard *guard
}

// GetLoadBalancer implements cloudprovider.LoadBalancer.
func (b balancer) GetLoadBalancer(
	ctx context.Context, cluster string, service *corev1.Service,
) (status *corev1.LoadBalancerStatus, exists bool, err error) {
	get := func(ctx context.Context) (status *corev1.LoadBalancerStatus, err error) {
		status, exists, err = b.LoadBalancer.GetLoadBalancer(ctx, cluster, service)
		return status, err
	}
	status, err = call(ctx, b.guard, "GetLoadBalancer "+keyOf(service), get)
	if err == nil && !exists {
		b.hasNone(service)
	}
	return status, exists, err
}

// EnsureLoadBalancer implements cloudprovider.LoadBalancer.
func (b balancer) EnsureLoadBalancer(
	ctx context.Context, cluster string, service *corev1.Service, nodes []*corev1.Node,
) (*corev1.LoadBalancerStatus, error) {
	defer b.guard.backends.set(service)()
	ensure := func(ctx context.Context) (*corev1.LoadBalancerStatus, error) {
		whole, err := b.guard.hosts.whole(nodes)
		if err != nil {
			return nil, err
		}
		return b.LoadBalancer.EnsureLoadBalancer(ctx, cluster, service, whole)
	}
	status, err := call(ctx, b.guard, "EnsureLoadBalancer "+keyOf(service), ensure)
	if !errors.Is(err, cloudprovider.ImplementedElsewhere) {
		b.guard.processed.balances(service)
	}
	return status, err
}

// UpdateLoadBalancer implements cloudprovider.LoadBalancer.
func (b balancer) UpdateLoadBalancer(
	ctx context.Context, cluster string, service *corev1.Service, nodes []*corev1.Node,
) error {
	defer b.guard.backends.set(service)()
	return do(ctx, b.guard, "UpdateLoadBalancer "+keyOf(service), func(ctx context.Context) error {
		whole, err := b.guard.hosts.whole(nodes)
		if err != nil {
			return err
		}
		return b.LoadBalancer.UpdateLoadBalancer(ctx, cluster, service, whole)
	})
}

// EnsureLoadBalancerDeleted implements cloudprovider.LoadBalancer.
func (b balancer) EnsureLoadBalancerDeleted(ctx context.Context, cluster string, service *corev1.Service) error {
	err := do(ctx, b.guard, "EnsureLoadBalancerDeleted "+keyOf(service), func(ctx context.Context) error {
		return b.LoadBalancer.EnsureLoadBalancerDeleted(ctx, cluster, service)
	})
	if err == nil || errors.Is(err, cloudprovider.ImplementedElsewhere) {
		b.hasNone(service)
	}
	return err
}

// hasNone records that a Service has no load balancer.
func (b balancer) hasNone(service *corev1.Service) {
	if b.guard.processed.pay(service) {
		b.guard.backends.queue(asWanted(service))
	}
}

func keyOf(service *corev1.Service) string { return service.Namespace + "/" + service.Name }

type routes struct {
	cloudprovider.Routes
	guard *guard
}

// ListRoutes implements cloudprovider.Routes. It is the first call of a round.
func (r routes) ListRoutes(ctx context.Context, cluster string) ([]*cloudprovider.Route, error) {
	r.guard.first()
	return call(ctx, r.guard, "ListRoutes", func(ctx context.Context) ([]*cloudprovider.Route, error) {
		listed, err := r.Routes.ListRoutes(ctx, cluster)
		if slices.Contains(listed, nil) { // which the library would read
			return nil, errors.Join(err, errNoRoute)
		}
		return listed, err
	})
}

var errNoRoute = errors.New("the cloud provider has listed a route without content")

// CreateRoute implements cloudprovider.Routes.
func (r routes) CreateRoute(ctx context.Context, cluster, hint string, route *cloudprovider.Route) error {
	return do(ctx, r.guard, "CreateRoute "+nameOf(route), func(ctx context.Context) error {
		return r.Routes.CreateRoute(ctx, cluster, hint, route)
	})
}

// DeleteRoute implements cloudprovider.Routes.
func (r routes) DeleteRoute(ctx context.Context, cluster string, route *cloudprovider.Route) error {
	return do(ctx, r.guard, "DeleteRoute "+nameOf(route), func(ctx context.Context) error {
		return r.Routes.DeleteRoute(ctx, cluster, route)
	})
}

func nameOf(route *cloudprovider.Route) string {
	return string(route.TargetNode) + " " + route.DestinationCIDR
}
