package leadership

import (
	"cmp"
	"fmt"
	"os"

	"github.com/google/uuid"
)

// Identity identifies this process in leases: its host, or the name that the configuration
// gives it, and a random part. Processes that share a file, or a host, differ in that.
type Identity struct{ host, unique string }

// NewIdentity makes the identity of a process, which it keeps for as long as it lives.
func NewIdentity() (Identity, error) {
	host, err := os.Hostname()
	if err != nil {
		return Identity{}, fmt.Errorf("creating an identity for leader election: %w", err)
	}
	return Identity{host: host, unique: uuid.NewString()}, nil
}

// called returns the identity of a process, with the name in the configuration if it has one.
func (i Identity) called(name string) string { return cmp.Or(name, i.host) + "_" + i.unique }

// identityOf returns the identity of this process in the lease of a lock.
func (l *Leadership) identityOf(k *Lock) string { return l.options.Identity.called(k.key.identity) }
