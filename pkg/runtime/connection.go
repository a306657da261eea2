package runtime

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/metadata"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"kcmd.dev/pkg/config/v1beta1"
	"kcmd.dev/pkg/runtime/apis"
	"kcmd.dev/pkg/runtime/claims"
	"kcmd.dev/pkg/runtime/clients"
	"kcmd.dev/pkg/runtime/informers"
	"kcmd.dev/pkg/runtime/takeover"
)

// connection is everything that depends on how the process reaches the API server and
// that outlives controllers: clients, caches, discovery and event pipelines.
type connection struct {
	generation uint64
	clients    *clients.Clients
	informers  *informers.Informers
	catalog    *apis.Catalog
	events     *pipelines
	ledger     *takeover.Ledger
	metadata   metadata.Interface // of the caches
	observer   claims.Observer    // of the leases of this API server
	clock      clock.WithTicker

	begin      func() // lets it send requests; only the first call has an effect
	cancel     context.CancelFunc
	background sync.WaitGroup

	mu      sync.Mutex
	access  *clients.Access // renewed in place, see rotation.go
	users   int
	retired bool
	closed  chan struct{}
}

// sourceOf says where the configuration has the process look for its way to the API server.
func sourceOf(c v1beta1.ClientConnection) clients.Source {
	return clients.Source{
		Kubeconfig:         c.Kubeconfig,
		Server:             c.Server,
		ContentType:        c.ContentType,
		AcceptContentTypes: c.AcceptContentTypes,
	}
}

// connect makes a connection, which sends no request before it begins. whole says which
// resources are cached whole anyway.
func connect(ctx context.Context, generation uint64, c v1beta1.ClientConnection, whole func(schema.GroupVersionResource) bool, clk clock.WithTicker) (*connection, error) {
	access, err := clients.LoadAccess(sourceOf(c), clk.Now())
	if err != nil {
		return nil, err
	}
	ledger := takeover.NewLedger(clk)
	all, err := clients.New(clients.Options{
		Base:             access.Config,
		ServiceAccounts:  *c.UseServiceAccountCredentials,
		QPS:              *c.QPS,
		Burst:            c.EffectiveBurst(),
		Recorder:         ledger,
		ForbiddenManager: informers.ShrunkMarker,
		Clock:            clk,
	})
	if err != nil {
		return nil, fmt.Errorf("making clients: %w", err)
	}
	conn := &connection{generation: generation, clients: all, ledger: ledger, access: access, clock: clk, closed: make(chan struct{})}
	if err := conn.open(ctx, whole, clk); err != nil {
		return nil, err
	}
	return conn, nil
}

// reconnects reports that a change cannot be made on the existing connection.
func reconnects(old, new v1beta1.ClientConnection) bool {
	return sourceOf(old) != sourceOf(new) ||
		*old.UseServiceAccountCredentials != *new.UseServiceAccountCredentials
}

func (c *connection) open(ctx context.Context, whole func(schema.GroupVersionResource) bool, clk clock.WithTicker) error {
	reads, err := c.clients.For(clients.Identity{Name: "shared-informers", ClientName: "shared-informers", ConsistentLists: true}, nil)
	if err != nil {
		return err
	}
	metadataReads, err := c.clients.For(clients.Identity{Name: "metadata-informers", ClientName: "metadata-informers", ConsistentLists: true}, nil)
	if err != nil {
		return err
	}
	lookup, err := c.clients.For(clients.Identity{Name: "controller-discovery", ClientName: "controller-discovery"}, nil)
	if err != nil {
		return err
	}
	ctx, c.cancel = context.WithCancel(context.WithoutCancel(ctx))
	c.metadata = metadataReads.Metadata
	c.catalog = apis.New(lookup.Discovery, clk)
	c.informers = informers.New(informers.Options{
		Client:   reads.Kubernetes,
		Metadata: metadataReads.Metadata,
		Whole:    whole,
		Failed:   c.catalog.Suspect,
		Clock:    clk,
		Name:     component,
	})
	c.events = newPipelines(ctx)
	c.begin = sync.OnceFunc(func() {
		c.informers.Start(ctx)
		c.background.Go(func() { c.catalog.Run(ctx) })
	})
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

// retire closes the connection as soon as it has no users. It does not wait for that.
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

// What the end of a connection waits for, at most.
const (
	// flushTimeout is for the events that were recorded last.
	flushTimeout = 2 * time.Second
	// closeTimeout is for users that do not let go, on top of that.
	closeTimeout = 5 * time.Second
)

// shutdown closes the connection and waits until it is closed.
func (c *connection) shutdown(clk clock.WithTicker) error {
	c.retire()
	timer := clk.NewTimer(flushTimeout + closeTimeout)
	defer timer.Stop()
	select {
	case <-c.closed:
		return nil
	case <-timer.C():
		return errors.New("closing the connection: a controller that was given up still uses it")
	}
}

// close ends everything. What does not end in time, because a handler hangs or the API
// server does not answer, is reported and left behind: nothing of it can write.
func (c *connection) close() {
	go func() {
		defer close(c.closed)
		c.events.flush(flushTimeout, c.clock)
		c.cancel()
		c.events.close()
		c.within(closeTimeout, "caches", c.informers.Shutdown)
		c.clients.Close()
		c.within(closeTimeout, "discovery", c.background.Wait)
		klog.Background().V(2).Info("Connection closed", "generation", c.generation)
	}()
}

// within reports what does not end in time.
func (c *connection) within(limit time.Duration, what string, end func()) {
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		end()
	}()
	timer := c.clock.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-ended:
	case <-timer.C():
		klog.Background().Error(nil, "Closing a connection takes too long and is not waited for", "generation", c.generation, "part", what)
	}
}
