package leadership

import (
	"cmp"
	"fmt"
	"os"
	"strings"

	"github.com/google/uuid"

	"kcmd.dev/pkg/runtime/claims"
)

// Identity identifies this process in leases: its host, or the name that the configuration
// gives it, and a random part. Processes that share a file, or a host, differ in that.
type Identity struct{ host, unique string }

// NewIdentity makes the identity of a process, which it keeps for as long as it lives and has the same main lease.
func NewIdentity() (Identity, error) {
	host, err := os.Hostname()
	if err != nil {
		return Identity{}, fmt.Errorf("creating an identity for leader election: %w", err)
	}
	return Identity{host: host, unique: uuid.NewString()}, nil
}

// called returns the identity of a process, with the name in the configuration if it has one.
func (i Identity) called(name string) string { return cmp.Or(name, i.host) + "_" + i.unique }

// identityIn returns the identity of this process while it has a main lease, and the name that the configuration gives
// it. The random part is another one for each main lease: with coordinated leader election, the identity is the name of
// the LeaseCandidate, which is for one lease and which this process may not delete.
func (l *Leadership) identityIn(main claims.Lease, name string) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	unique, known := l.uniques[main]
	if !known {
		unique = l.options.Identity.unique
		if len(l.uniques) > 0 {
			unique = uuid.NewString()
		}
		if l.uniques == nil {
			l.uniques = map[claims.Lease]string{}
		}
		l.uniques[main] = unique
	}
	return Identity{l.options.Identity.host, unique}.called(name)
}

// identityOf returns the identity of this process in the lease of a lock.
func (l *Leadership) identityOf(k *Lock) string { return l.identityIn(k.key.main, k.key.identity) }

// isOwn reports whether a holder is this process, by any of its identities.
func (l *Leadership) isOwn(holder string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, unique := range l.uniques {
		if strings.HasSuffix(holder, "_"+unique) {
			return true
		}
	}
	return false
}
