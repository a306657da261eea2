package leadership

import (
	"context"
	"time"

	"kcmd.dev/pkg/runtime/claims"
	"kcmd.dev/pkg/runtime/clients"
	"kcmd.dev/pkg/runtime/takeover"
)

// Connection is what locks need of the connection they are of.
type Connection interface {
	// Generation tells connections apart: a lock belongs to one.
	Generation() uint64
	// Acquire counts a lock as a user, Release takes it off.
	Acquire() error
	Release()
	// ElectionClients are those that leases are contended for with.
	ElectionClients() (*clients.Set, error)
	// Observer remembers the observed leases of others.
	Observer() *claims.Observer
	// Ledger records what this process has written.
	Ledger() *takeover.Ledger
	// NewBarrier makes a barrier that controllers wait for until caches contain what was left
	// to them by those who wrote until began, which is now if it is zero.
	NewBarrier(ctx context.Context, left takeover.Versions, began time.Time) *takeover.Barrier
	// CachesOf are the complete caches that controllers use, or would use while they stand by.
	CachesOf(controllers []string) []takeover.Cache
	// FlushEvents waits until what was recorded has been delivered, for a bounded time.
	FlushEvents()
	// CutAccounts discards requests of controllers with accounts of their own that are not
	// sent yet.
	CutAccounts()
	// CutAll breaks the connections of everything, for others to be opened.
	CutAll()
}
