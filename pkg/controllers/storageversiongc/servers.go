package storageversiongc

import (
	"context"
	"fmt"
	"maps"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	coordinationlisters "k8s.io/client-go/listers/coordination/v1"
	"k8s.io/utils/clock"

	"kcmd.dev/pkg/controller"
)

// invalidTTL is how long it is remembered that a lease is not valid.
const invalidTTL = time.Second

// servers finds out which API servers exist.
type servers struct {
	client kubernetes.Interface
	leases coordinationlisters.LeaseLister // those with the identity label
	clock  clock.PassiveClock

	mu sync.Mutex
	// invalid holds the API servers without a valid lease, and when each was read.
	invalid map[string]time.Time
}

func newServers(client kubernetes.Interface, leases coordinationlisters.LeaseLister, c clock.PassiveClock) *servers {
	return &servers{client: client, leases: leases, clock: c, invalid: map[string]time.Time{}}
}

// cached reports whether the cache shows a valid lease of an API server.
func (s *servers) cached(id string) bool {
	lease, err := s.leases.Leases(metav1.NamespaceSystem).Get(id)
	return err == nil && lease.Labels[identityLabel] == identityValue
}

// valid reports whether an API server has a valid lease.
func (s *servers) valid(ctx context.Context, id string) (bool, error) {
	if s.cached(id) {
		return true, nil
	}
	if s.remembered(id) {
		return false, nil
	}
	_, valid, err := s.read(ctx, id)
	return valid, err
}

// read reads a lease live: whether it exists, and whether it has the identity label.
func (s *servers) read(ctx context.Context, id string) (exists, valid bool, err error) {
	began := s.clock.Now()
	lease, err := s.client.CoordinationV1().Leases(metav1.NamespaceSystem).Get(ctx, id, metav1.GetOptions{})
	if err != nil && !controller.Absent(err) {
		return false, false, fmt.Errorf("reading lease %s of an API server: %w", id, err)
	}
	exists = err == nil
	valid = exists && lease.Labels[identityLabel] == identityValue
	if !valid {
		s.remember(id, began)
	}
	return exists, valid, nil
}

func (s *servers) remembered(id string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	at, found := s.invalid[id]
	return found && s.clock.Since(at) < invalidTTL
}

// remember also forgets what is outdated.
func (s *servers) remember(id string, at time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	maps.DeleteFunc(s.invalid, func(_ string, at time.Time) bool { return s.clock.Since(at) >= invalidTTL })
	s.invalid[id] = at
}
