package connection

import (
	"context"
	"slices"
	"time"

	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/tools/record"

	"kcmd.dev/pkg/runtime/apis"
	"kcmd.dev/pkg/runtime/claims"
	"kcmd.dev/pkg/runtime/clients"
	"kcmd.dev/pkg/runtime/events"
	"kcmd.dev/pkg/runtime/informers"
	"kcmd.dev/pkg/runtime/takeover"
)

// Generation distinguishes this connection from the others of the process.
func (c *Connection) Generation() uint64 { return c.generation }

// Clients make requests.
func (c *Connection) Clients() *clients.Clients { return c.clients }

// Informers are the caches.
func (c *Connection) Informers() *informers.Informers { return c.informers }

// Catalog is what the API server serves.
func (c *Connection) Catalog() *apis.Catalog { return c.catalog }

// Events are the pipelines of controllers and of the process.
func (c *Connection) Events() *events.Pipelines { return c.events }

// Ledger is what the process has written over this connection.
func (c *Connection) Ledger() *takeover.Ledger { return c.ledger }

// Reached reports whether discovery has succeeded.
func (c *Connection) Reached() bool { return c.catalog.Complete() }

// Unsynced are the caches that are read and that are not filled.
func (c *Connection) Unsynced() []string { return c.informers.Unsynced() }

// Observer remembers the leases that were seen over this connection.
func (c *Connection) Observer() *claims.Observer { return &c.observer }

// Begin lets the connection fill caches and follow what the API server serves. Only the first
// call has an effect.
func (c *Connection) Begin() { c.begin() }

// Server is the URL of the API server.
func (c *Connection) Server() string { return c.current().Config.Host }

// Files are those the credentials were read from.
func (c *Connection) Files() []string { return slices.Clone(c.current().Files) }

// ClusterCA is the CA of the API server in the kubeconfig, or in the file that it names; without a kubeconfig, that of
// the pod. Empty if there is none.
func (c *Connection) ClusterCA() []byte { return c.current().Config.CAData }

// Compare returns how other credentials differ from those in use.
func (c *Connection) Compare(next *clients.Access) (clients.Difference, error) {
	return c.current().Compare(next)
}

// Renew uses other credentials from now on.
func (c *Connection) Renew(next *clients.Access) error {
	if err := c.clients.Renew(next); err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.access = next
	return nil
}

func (c *Connection) current() *clients.Access {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.access
}

// ElectionClients are those that leases are contended for with.
func (c *Connection) ElectionClients() (*clients.Set, error) {
	return c.clients.For(clients.Identity{Name: "leader-election", ClientName: "leader-election"}, nil)
}

// CutAccounts breaks the connections of controllers that have accounts of their own, so that
// unsent requests cannot arrive late.
func (c *Connection) CutAccounts() { c.clients.CutAccounts() }

// CutAll breaks all connections, so that further requests open others.
func (c *Connection) CutAll() { c.clients.CutAll() }

// NewBarrier makes a barrier that controllers wait for until caches contain what was left to
// them by those who wrote until began, which is now if it is zero.
func (c *Connection) NewBarrier(ctx context.Context, left takeover.Versions, began time.Time) *takeover.Barrier {
	c.clients.ReadAtOnce()
	return takeover.New(ctx, takeover.Options{
		Left:   left,
		Began:  began,
		Ledger: c.ledger,
		Read:   takeover.Reader{Metadata: c.metadata},
		Clock:  c.clock,
	})
}

// CachesOf are the complete caches that controllers use, or would use while they stand by.
func (c *Connection) CachesOf(controllers []string) []takeover.Cache {
	return c.informers.CachesOf(controllers)
}

// CatchUp makes a barrier that an instance waits for until caches contain everything that
// this process has written so far. It lives until it is ended, not until ctx is.
func (c *Connection) CatchUp(ctx context.Context) *takeover.Barrier {
	return c.NewBarrier(context.WithoutCancel(ctx), c.ledger.Versions(), time.Time{})
}

// FlushEvents waits until what was recorded so far has been delivered, for a bounded time.
func (c *Connection) FlushEvents() { c.events.Flush(flushTimeout, c.clock) }

// ProcessEvents records events of the process itself.
func (c *Connection) ProcessEvents() (record.EventRecorder, error) {
	return c.events.Open(component, component, func() (corev1client.EventsGetter, error) {
		set, err := c.clients.For(clients.Identity{Name: component, ClientName: component}, nil)
		if err != nil {
			return nil, err
		}
		return set.Kubernetes.CoreV1(), nil
	})
}
