// Package fakecloud is a cloud in memory, and registers the provider of it under the name fake.
//
//  1. There is one cloud in a process. Every provider that is made works with it: those of the
//     controllers of one manager, and those of several managers.
//  2. Load balancers and routes are those of k8s.io/cloud-provider/fake. Instances are made up: a
//     node has one, with addresses, a zone and a type, unless a test says that it is gone.
//  3. The first line of the configuration file of a provider is the name of its owner. Every call
//     is recorded with the owner, in the order in which calls begin.
//  4. A test can hold calls: they begin, and end when they are released or their context ends.
//  5. A test can have calls fail: those of a name (Fail), or as it decides for each (Disturb), which may be carried out
//     all the same.
package fakecloud

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	cloudprovider "k8s.io/cloud-provider"
	"k8s.io/cloud-provider/fake"
)

// Names of the providers.
const (
	Name = "fake"
	// Lacking is that of a provider without instances, routes and load balancers.
	Lacking = "lacking"
)

// What instances have, and the address of load balancers.
const (
	Zone         = "zone-1"
	Region       = "region-1"
	InstanceType = "large"
	InternalIP   = "192.0.2.10"
	BalancerIP   = "203.0.113.7"
)

func init() {
	cloudprovider.RegisterCloudProvider(Name, func(config io.Reader) (cloudprovider.Interface, error) {
		return shared.provider(config)
	})
	cloudprovider.RegisterCloudProvider(Lacking, func(io.Reader) (cloudprovider.Interface, error) {
		return &fake.Cloud{DisableInstances: true, DisableRoutes: true, DisableLoadBalancers: true}, nil
	})
}

// The is the cloud of this process.
func The() *Cloud { return shared }

var shared = &Cloud{
	backend: &fake.Cloud{ExternalIP: net.ParseIP(BalancerIP), RouteMap: map[string]*fake.Route{}},
	owners:  map[string]string{},
	gone:    map[string]bool{},
	off:     map[string]bool{},
	fails:   map[string]error{},
	shapes:  map[string]func(*cloudprovider.InstanceMetadata){},
}

// Cloud is a cloud in memory. Its methods may be called from several goroutines.
type Cloud struct {
	mu      sync.Mutex
	backend *fake.Cloud
	owners  map[string]string // the Services of load balancers, as <namespace>/<name>, by name
	gone    map[string]bool   // nodes without an instance
	off     map[string]bool   // nodes whose instance is shut down
	fails   map[string]error  // calls that fail
	shapes  map[string]func(*cloudprovider.InstanceMetadata)
	holds   []*Hold
	calls   []*Call
	disturb func(what string) (refused, lost error)
}

// Call is one call of a provider.
type Call struct {
	// Owner is the first line of the file of the provider.
	Owner string
	// What is the name of the method and what it was about.
	What string
	// Ended is set when the call has returned, and Err is what it returned.
	Ended bool
	Err   error
	// Open are the calls of the same owner that had not ended when this one began.
	Open []string
	// Beside is the owner of a call of the same method that had not ended when this one
	// began, if that was another one.
	Beside string
}

// Hold holds calls.
type Hold struct {
	prefix  string
	release chan struct{}
	once    sync.Once
}

// Release lets the calls that are held end, and holds no more.
func (h *Hold) Release() { h.once.Do(func() { close(h.release) }) }

// Hold holds calls whose What begins with prefix.
func (c *Cloud) Hold(prefix string) *Hold {
	c.mu.Lock()
	defer c.mu.Unlock()
	h := &Hold{prefix: prefix, release: make(chan struct{})}
	c.holds = append(c.holds, h)
	return h
}

// Fail has calls fail of which What is this; nil ends that.
func (c *Cloud) Fail(what string, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.fails[what] = err
}

// Disturb has a test decide about each call before it is carried out. With refused it fails instead; with lost it is
// carried out, and fails all the same. The function must not use the cloud; nil ends that.
func (c *Cloud) Disturb(decide func(what string) (refused, lost error)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.disturb = decide
}

// Remove removes the instance of a node.
func (c *Cloud) Remove(node string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.gone[node] = true
}

// ShutDown shuts down the instance of a node.
func (c *Cloud) ShutDown(node string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.off[node] = true
}

// Shape changes what is made up of the instance of a node.
func (c *Cloud) Shape(node string, change func(*cloudprovider.InstanceMetadata)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.shapes[node] = change
}

// Restore brings the instance of a node back, and starts it.
func (c *Cloud) Restore(node string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.gone, node)
	delete(c.off, node)
}

// Calls returns the calls so far whose What begins with prefix.
func (c *Cloud) Calls(prefix string) []Call {
	c.mu.Lock()
	defer c.mu.Unlock()
	var calls []Call
	for _, call := range c.calls {
		if strings.HasPrefix(call.What, prefix) {
			calls = append(calls, *call)
		}
	}
	return calls
}

// Routes returns the destinations of the routes to a node.
func (c *Cloud) Routes(node string) []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	var destinations []string
	for _, r := range c.backend.RouteMap {
		if string(r.Route.TargetNode) == node {
			destinations = append(destinations, r.Route.DestinationCIDR)
		}
	}
	return destinations
}

// Contents lists what controllers have made in the cloud, sorted: load balancers with the nodes behind them, and
// routes.
func (c *Cloud) Contents() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	var all []string
	for name, balancer := range c.backend.Balancers {
		var hosts []string
		for _, node := range balancer.Hosts {
			hosts = append(hosts, node.Name)
		}
		slices.Sort(hosts)
		all = append(all, fmt.Sprintf("load balancer of %s: %s", c.owners[name], strings.Join(hosts, " ")))
	}
	for _, r := range c.backend.RouteMap {
		all = append(all, fmt.Sprintf("route to %s: %s", r.Route.TargetNode, r.Route.DestinationCIDR))
	}
	slices.Sort(all)
	return all
}

// Reset empties the cloud and forgets the calls, for a test that runs more than once. No controller may run.
func (c *Cloud) Reset() {
	c.mu.Lock()
	defer c.mu.Unlock()
	clear(c.gone)
	clear(c.off)
	clear(c.fails)
	clear(c.shapes)
	clear(c.owners)
	clear(c.backend.RouteMap)
	clear(c.backend.Balancers)
	c.holds, c.calls, c.disturb = nil, nil, nil
}

// SetRoutes replaces all routes by some of a cluster.
func (c *Cloud) SetRoutes(cluster string, routes ...cloudprovider.Route) {
	c.mu.Lock()
	defer c.mu.Unlock()
	clear(c.backend.RouteMap)
	for i, r := range routes {
		c.backend.RouteMap[fmt.Sprint(i)] = &fake.Route{ClusterName: cluster, Route: r}
	}
}

// Hosts returns the names of the nodes behind the load balancer of a Service; false if there is
// none.
func (c *Cloud) Hosts(service *corev1.Service) ([]string, bool) {
	nodes, ok := c.Nodes(service)
	var names []string
	for _, node := range nodes {
		names = append(names, node.Name)
	}
	return names, ok
}

// Nodes is Hosts, but returns the nodes as the provider got them.
func (c *Cloud) Nodes(service *corev1.Service) ([]*corev1.Node, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	balancer, ok := c.backend.Balancers[cloudprovider.DefaultLoadBalancerName(service)]
	return slices.Clone(balancer.Hosts), ok
}

var errHeld = errors.New("the call was cancelled")

// do records a call, waits while it is held, and makes it.
func (c *Cloud) do(ctx context.Context, owner, method, about string, f func() error) error {
	call := c.begin(owner, method, about)
	err := c.wait(ctx, call.What)
	c.mu.Lock()
	defer c.mu.Unlock()
	if err == nil {
		err = c.fails[call.What]
	}
	var lost error
	if err == nil && c.disturb != nil {
		err, lost = c.disturb(call.What)
	}
	if err == nil {
		err = f()
		c.backend.Err = nil // which would have later calls fail, too
	}
	if err == nil {
		err = lost
	}
	call.Ended, call.Err = true, err
	return err
}

func (c *Cloud) begin(owner, method, about string) *Call {
	c.mu.Lock()
	defer c.mu.Unlock()
	call := &Call{Owner: owner, What: strings.TrimSpace(method + " " + about)}
	for _, other := range c.calls {
		switch {
		case other.Ended:
		case other.Owner == owner:
			call.Open = append(call.Open, other.What)
		case strings.HasPrefix(other.What, method):
			call.Beside = other.Owner
		}
	}
	c.calls = append(c.calls, call)
	return call
}

// wait waits while a call is held.
func (c *Cloud) wait(ctx context.Context, what string) error {
	c.mu.Lock()
	var held []*Hold
	for _, h := range c.holds {
		if strings.HasPrefix(what, h.prefix) {
			held = append(held, h)
		}
	}
	c.mu.Unlock()
	for _, h := range held {
		select {
		case <-h.release:
		case <-ctx.Done():
			return fmt.Errorf("%w: %w", errHeld, context.Cause(ctx))
		}
	}
	return nil
}
