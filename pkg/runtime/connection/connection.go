package connection

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
	"kcmd.dev/pkg/runtime/events"
	"kcmd.dev/pkg/runtime/informers"
	"kcmd.dev/pkg/runtime/informers/wire"
	"kcmd.dev/pkg/runtime/takeover"
)

// component is the name of the process towards the API server.
const component = "kube-controller-manager"

// Connection is everything that depends on how the process reaches the API server and
// that outlives controllers.
type Connection struct {
	generation uint64
	clients    *clients.Clients
	informers  *informers.Informers
	catalog    *apis.Catalog
	events     *events.Pipelines
	ledger     *takeover.Ledger
	metadata   metadata.Interface // of the caches
	observer   claims.Observer    // of the leases of this API server
	clock      clock.WithTicker

	begin      func()
	cancel     context.CancelFunc
	background sync.WaitGroup
	closed     chan struct{}

	mu      sync.Mutex // guards what follows
	access  *clients.Access
	users   int
	retired bool
}

// SourceOf returns where the configuration has the process find out how to reach the API
// server.
func SourceOf(c v1beta1.ClientConnection) clients.Source {
	return clients.Source{
		Kubeconfig:         c.Kubeconfig,
		Server:             c.Server,
		ContentType:        c.ContentType,
		AcceptContentTypes: c.AcceptContentTypes,
	}
}

// New makes a connection, which sends no request before it begins. generation distinguishes
// it from others of the process; whole reports which resources are cached whole anyway.
func New(ctx context.Context, generation uint64, c v1beta1.ClientConnection, whole func(schema.GroupVersionResource) bool, clk clock.WithTicker) (*Connection, error) {
	access, err := clients.LoadAccess(SourceOf(c), clk.Now())
	if err != nil {
		return nil, err
	}
	return With(ctx, generation, access, c, whole, clk)
}

// Anew makes another connection to the same API server as the same user, with the credentials in use. It shares nothing
// with this one: neither caches nor what was written.
func (c *Connection) Anew(ctx context.Context, generation uint64, settings v1beta1.ClientConnection,
	whole func(schema.GroupVersionResource) bool) (*Connection, error) {
	return With(ctx, generation, c.current(), settings, whole, c.clock)
}

// With is New with credentials that were read before.
func With(ctx context.Context, generation uint64, access *clients.Access, c v1beta1.ClientConnection,
	whole func(schema.GroupVersionResource) bool, clk clock.WithTicker) (*Connection, error) {
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
		return nil, fmt.Errorf("creating clients: %w", err)
	}
	conn := &Connection{generation: generation, clients: all, ledger: ledger, access: access, clock: clk, closed: make(chan struct{})}
	if err := conn.open(ctx, whole); err != nil {
		return nil, err
	}
	return conn, nil
}

func (c *Connection) open(ctx context.Context, whole func(schema.GroupVersionResource) bool) error {
	reads, err := c.clients.For(clients.Identity{Name: "shared-informers", ClientName: "shared-informers", ConsistentLists: true}, nil)
	if err != nil {
		return err
	}
	metadataReads, err := c.clients.For(clients.Identity{Name: "metadata-informers", ClientName: "metadata-informers", ConsistentLists: true}, nil)
	if err != nil {
		return err
	}
	if c.metadata, err = wire.MetadataClient(metadataReads.Metadata, metadataReads.Config); err != nil {
		return err
	}
	lookup, err := c.clients.For(clients.Identity{Name: "controller-discovery", ClientName: "controller-discovery"}, nil)
	if err != nil {
		return err
	}
	client, transforms, err := informers.ForCaches(reads.Kubernetes, reads.Config)
	if err != nil {
		return err
	}
	ctx, c.cancel = context.WithCancel(context.WithoutCancel(ctx))
	c.catalog = apis.New(lookup.Discovery, c.clock)
	c.informers = informers.New(informers.Options{
		Client:     client,
		Metadata:   c.metadata,
		Transforms: transforms,
		Whole:      whole,
		Failed:     c.catalog.Suspect,
		Clock:      c.clock,
		Name:       component,
	})
	c.events = events.New(ctx)
	c.begin = sync.OnceFunc(func() {
		c.informers.Start(ctx)
		c.background.Go(func() { c.catalog.Run(ctx) })
	})
	return nil
}

// Acquire counts a user. It fails if the connection is closed.
func (c *Connection) Acquire() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.retired && c.users == 0 {
		return fmt.Errorf("connection %d is closed", c.generation)
	}
	c.users++
	return nil
}

// Release uncounts a user. The last one closes a connection that is retired.
func (c *Connection) Release() {
	c.mu.Lock()
	c.users--
	last := c.retired && c.users == 0
	c.mu.Unlock()
	if last {
		c.close()
	}
}

// Retire closes the connection as soon as it has no users. It does not wait for that.
func (c *Connection) Retire() {
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
	// closeTimeout is the additional time for users that do not release it.
	closeTimeout = 5 * time.Second
)

// Shutdown closes the connection and waits until it is closed.
func (c *Connection) Shutdown() error {
	c.Retire()
	timer := c.clock.NewTimer(flushTimeout + closeTimeout)
	defer timer.Stop()
	select {
	case <-c.closed:
		return nil
	case <-timer.C():
		return errors.New("closing the connection: an abandoned controller still uses it")
	}
}

// close ends everything. What does not end in time, because a handler hangs or the API server
// does not respond, is reported and abandoned: it cannot write.
func (c *Connection) close() {
	go func() {
		defer close(c.closed)
		c.FlushEvents()
		c.cancel()
		c.events.Close()
		c.within(closeTimeout, "caches", c.informers.Shutdown)
		c.clients.Close()
		c.within(closeTimeout, "discovery", c.background.Wait)
		klog.Background().V(2).Info("Connection closed", "generation", c.generation)
	}()
}

// within reports what does not end in time.
func (c *Connection) within(limit time.Duration, what string, end func()) {
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
		klog.Background().Error(nil, "Closing a connection takes too long, continuing without waiting for it", "generation", c.generation, "part", what)
	}
}

// coldGrace is how long a cold standby keeps unused caches: long enough to regain a lease, or
// to replace a lock by another one.
const coldGrace = 5 * time.Second

// CacheGrace returns how long caches outlive their last user.
func CacheGrace(c v1beta1.LeaderElection) time.Duration {
	if c.Standby == v1beta1.StandbyCold {
		return coldGrace
	}
	return informers.DefaultGracePeriod
}
