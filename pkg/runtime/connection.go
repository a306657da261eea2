package runtime

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"kcmd.dev/pkg/config/v1beta1"
	"kcmd.dev/pkg/runtime/apis"
	"kcmd.dev/pkg/runtime/clients"
	"kcmd.dev/pkg/runtime/informers"
)

// connection is everything that depends on how the process reaches the API server and
// that outlives controllers: clients, caches, discovery and event pipelines.
type connection struct {
	generation uint64
	clients    *clients.Clients
	config     *rest.Config
	informers  *informers.Informers
	catalog    *apis.Catalog
	events     *pipelines

	cancel     context.CancelFunc
	background sync.WaitGroup

	mu      sync.Mutex
	users   int
	retired bool
	closed  chan struct{}
}

// connect makes a connection. It sends no request yet; start does. whole says which resources
// are cached whole anyway.
func connect(ctx context.Context, generation uint64, c v1beta1.ClientConnection, whole func(schema.GroupVersionResource) bool, clk clock.WithTicker) (*connection, error) {
	config, err := clients.LoadConfig(c.Kubeconfig, c.ContentType, c.AcceptContentTypes)
	if err != nil {
		return nil, err
	}
	all, err := clients.New(clients.Options{
		Base:            config,
		ServiceAccounts: *c.UseServiceAccountCredentials,
		QPS:             *c.QPS,
		Burst:           c.EffectiveBurst(),
		ForbiddenBody:   informers.ShrunkMarker,
	})
	if err != nil {
		return nil, fmt.Errorf("making clients: %w", err)
	}
	conn := &connection{generation: generation, clients: all, config: config, closed: make(chan struct{})}
	if err := conn.open(ctx, whole, clk); err != nil {
		return nil, err
	}
	return conn, nil
}

// reconnects reports that a change cannot be made on the existing connection.
func reconnects(old, new v1beta1.ClientConnection) bool {
	return old.Kubeconfig != new.Kubeconfig ||
		old.ContentType != new.ContentType ||
		old.AcceptContentTypes != new.AcceptContentTypes ||
		*old.UseServiceAccountCredentials != *new.UseServiceAccountCredentials
}

func (c *connection) open(ctx context.Context, whole func(schema.GroupVersionResource) bool, clk clock.WithTicker) error {
	reads, err := c.clients.For(clients.Identity{Name: "shared-informers", ClientName: "shared-informers"}, nil)
	if err != nil {
		return err
	}
	metadataReads, err := c.clients.For(clients.Identity{Name: "metadata-informers", ClientName: "metadata-informers"}, nil)
	if err != nil {
		return err
	}
	lookup, err := c.clients.For(clients.Identity{Name: "controller-discovery", ClientName: "controller-discovery"}, nil)
	if err != nil {
		return err
	}
	ctx, c.cancel = context.WithCancel(context.WithoutCancel(ctx))
	c.informers = informers.New(informers.Options{
		Client:   reads.Kubernetes,
		Metadata: metadataReads.Metadata,
		Whole:    whole,
		Clock:    clk,
		Name:     component,
	})
	c.catalog = apis.New(lookup.Discovery, clk)
	c.events = newPipelines(ctx)
	c.informers.Start(ctx)
	c.background.Go(func() { c.catalog.Run(ctx) })
	return nil
}

// acquire counts a user. It fails if the connection is closed.
func (c *connection) acquire() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.retired && c.users == 0 {
		return fmt.Errorf("connection %d is closed", c.generation)
	}
	c.users++
	return nil
}

func (c *connection) release() {
	c.mu.Lock()
	c.users--
	last := c.retired && c.users == 0
	c.mu.Unlock()
	if last {
		c.close()
	}
}

// retire closes the connection as soon as it has no users.
func (c *connection) retire() {
	c.mu.Lock()
	again := c.retired
	c.retired = true
	unused := c.users == 0
	c.mu.Unlock()
	if unused && !again {
		c.close()
	}
}

// closeTimeout is how long the end of the process waits for users that do not let go.
const closeTimeout = 5 * time.Second

// shutdown closes the connection and waits until it is closed.
func (c *connection) shutdown(clk clock.WithTicker) error {
	c.retire()
	timer := clk.NewTimer(closeTimeout)
	defer timer.Stop()
	select {
	case <-c.closed:
		c.background.Wait()
		return nil
	case <-timer.C():
		return errors.New("closing the connection: a controller that was given up still uses it")
	}
}

func (c *connection) close() {
	c.events.close()
	c.cancel()
	c.informers.Shutdown()
	klog.Background().V(2).Info("Connection closed", "generation", c.generation)
	close(c.closed)
}
