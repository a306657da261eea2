package runtime

import (
	"context"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/google/uuid"
	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	coordinationv1client "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/client-go/tools/record"
	"k8s.io/utils/clock"

	"kcmd.dev/pkg/config/v1beta1"
	"kcmd.dev/pkg/runtime/clients"
	"kcmd.dev/pkg/runtime/election"
)

// releaseTimeout bounds the request that gives the lease back.
const releaseTimeout = 5 * time.Second

// leadership is the right of this process to run controllers, from one lock. A change of
// the lock or of the connection makes a new leadership.
type leadership struct {
	key     leadershipKey
	elector *election.Elector // nil without leader election
	always  *election.Term    // set without leader election
	changes chan struct{}
	lease   *coordinationv1.Lease // names the lock, for events

	cancel  context.CancelFunc
	running sync.WaitGroup
}

// leadershipKey says when a leadership has to be replaced.
type leadershipKey struct {
	connection      uint64
	elect           bool
	namespace, name string
	identity        string
}

func keyOf(connection uint64, c v1beta1.LeaderElection) leadershipKey {
	return leadershipKey{
		connection: connection,
		elect:      *c.LeaderElect,
		namespace:  c.ResourceNamespace,
		name:       c.ResourceName,
		identity:   c.Identity,
	}
}

func timingsOf(c v1beta1.LeaderElection) election.Timings {
	return election.Timings{
		LeaseDuration: c.LeaseDuration.Duration,
		RenewDeadline: c.RenewDeadline.Duration,
		RetryPeriod:   c.RetryPeriod.Duration,
	}
}

// newIdentity names this process in the lease.
func newIdentity() (string, error) {
	host, err := os.Hostname()
	if err != nil {
		return "", fmt.Errorf("making an identity for leader election: %w", err)
	}
	return host + "_" + uuid.NewString(), nil
}

// lead begins to contend for the lock, or leads at once if there is no leader election.
func lead(ctx context.Context, conn *connection, c v1beta1.LeaderElection, defaultIdentity string,
	events record.EventRecorder, metrics election.Metrics, clk clock.WithTicker) (*leadership, error) {
	l := &leadership{
		key:     keyOf(conn.generation, c),
		changes: make(chan struct{}, 1),
		lease:   &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: c.ResourceNamespace, Name: c.ResourceName}},
		cancel:  func() {},
	}
	if !*c.LeaderElect {
		l.always = election.Always()
		l.changes <- struct{}{}
		return l, nil
	}
	set, err := conn.clients.For(clients.Identity{Name: "leader-election", ClientName: "leader-election"}, nil)
	if err != nil {
		return nil, fmt.Errorf("making the client of leader election: %w", err)
	}
	identity := c.Identity
	if identity == "" {
		identity = defaultIdentity
	}
	l.elector, err = election.New(election.Options{
		Leases:    set.Kubernetes.CoordinationV1().(coordinationv1client.LeasesGetter),
		Namespace: c.ResourceNamespace,
		Name:      c.ResourceName,
		Identity:  identity,
		Timings:   timingsOf(c),
		OnChange:  func(election.State) { l.notify() },
		Events:    events,
		Metrics:   metrics,
		Clock:     clk,
	})
	if err != nil {
		return nil, err
	}
	ctx, l.cancel = context.WithCancel(context.WithoutCancel(ctx))
	l.running.Go(func() { l.elector.Run(ctx) })
	return l, nil
}

func (l *leadership) notify() {
	select {
	case l.changes <- struct{}{}:
	default:
	}
}

// term is the valid term of this process, nil if it does not lead.
func (l *leadership) term() *election.Term {
	if l.elector == nil {
		return l.always // nil after resign
	}
	if t := l.elector.State().Term; t != nil && t.Valid() {
		return t
	}
	return nil
}

// resign gives the lease back and ends the leadership. What relied on it has to have
// stopped before.
func (l *leadership) resign(ctx context.Context) error {
	defer l.running.Wait()
	defer l.cancel()
	if l.elector == nil {
		l.always = nil
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), releaseTimeout)
	defer cancel()
	if err := l.elector.Release(ctx); err != nil {
		return fmt.Errorf("releasing the lease %s/%s: %w", l.key.namespace, l.key.name, err)
	}
	return nil
}
