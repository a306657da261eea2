package runtime

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	coordinationv1client "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/component-base/version"
	"k8s.io/utils/ptr"

	"kcmd.dev/pkg/config"
	"kcmd.dev/pkg/config/v1beta1"
	"kcmd.dev/pkg/runtime/claims"
	"kcmd.dev/pkg/runtime/clients"
	"kcmd.dev/pkg/runtime/election"
	"kcmd.dev/pkg/runtime/takeover"
)

// releaseTimeout bounds the request that gives a lease back.
const releaseTimeout = 5 * time.Second

// lock is one lock that this process contends for, and what it may run under it. Only the
// loop changes it.
type lock struct {
	config.Lock
	key        lockKey
	connection *connection
	leases     coordinationv1client.LeasesGetter
	elector    *election.Elector // nil without leader election
	reader     *claims.Reader    // nil without leader election
	admission  *claims.Admission
	cancel     context.CancelFunc
	running    sync.WaitGroup

	begun  bool
	after  map[*lock]bool // what has to be given back before this lock begins
	always *election.Term // without leader election, once it has begun

	// barrier is what controllers wait for that start under the lock, nil without leader
	// election; barriers are those of controllers that came to the lock later than the term.
	barrier  *takeover.Barrier
	barriers map[string]*takeover.Barrier
	arrivals map[string]bool // controllers that ran, or may have run, under another lock before
	held     int             // transitions of the lease when it was last acquired; -1 before

	term    *election.Term // the valid one, nil while the lock is not held
	number  uint64         // of the newest term, among all terms of the process
	asking  bool           // a read of the other leases is under way
	askAt   time.Time      // no such read before
	trouble string         // why the last one failed

	// handingTo is who gets the lease when nothing runs under it any more: who has asked for
	// it, or, when the term has ended for that, whom the API server prefers.
	handingTo string
	clearing  bool        // the request of another process is to be taken off the lease
	returning bool        // the request that gives the lease back is under way
	requested atomic.Bool // this process asked for the lease
}

// lockKey says when a lock has to be replaced by a new one.
type lockKey struct {
	connection  uint64
	elect       bool
	coordinated bool
	main, lease claims.Lease
	identity    string // as configured
}

func keyOf(connection uint64, cfg *v1beta1.KubeControllerManagerConfiguration, l config.Lock) lockKey {
	e := cfg.LeaderElection
	return lockKey{
		connection:  connection,
		elect:       ptr.Deref(e.LeaderElect, true),
		coordinated: coordinated(cfg, l.Name),
		main:        claims.Lease{Namespace: e.ResourceNamespace, Name: e.ResourceName},
		lease:       claims.Lease{Namespace: l.LeaseNamespace, Name: l.LeaseName},
		identity:    e.Identity,
	}
}

// coordinated reports that the API server chooses the holder of a lock. As upstream, it
// does so for the main lock only: a candidate has one lease.
func coordinated(cfg *v1beta1.KubeControllerManagerConfiguration, lock string) bool {
	return lock == config.MainLock && config.Enabled(cfg, config.CoordinatedLeaderElection)
}

func timingsOf(c v1beta1.LeaderElection) election.Timings {
	return election.Timings{
		LeaseDuration: c.LeaseDuration.Duration,
		RenewDeadline: c.RenewDeadline.Duration,
		RetryPeriod:   c.RetryPeriod.Duration,
	}
}

// coldGrace is how long a cold standby keeps caches that nobody uses: long enough for a
// lease that comes back, or a lock that is replaced by another one.
const coldGrace = 5 * time.Second

// cacheGrace is how long caches outlive their last user; 0 means as long as is usual.
func cacheGrace(c v1beta1.LeaderElection) time.Duration {
	if c.Standby == v1beta1.StandbyCold {
		return coldGrace
	}
	return 0
}

// self is what names this process in leases: its host, unless the configuration has another
// name for it, and a random part. Processes that share a file, or a host, differ in that.
type self struct{ host, unique string }

func newSelf() (self, error) {
	host, err := os.Hostname()
	if err != nil {
		return self{}, fmt.Errorf("making an identity for leader election: %w", err)
	}
	return self{host: host, unique: uuid.NewString()}, nil
}

// called is the identity of a process to which the configuration gives a name, or none.
func (s self) called(name string) string { return cmp.Or(name, s.host) + "_" + s.unique }

// identityOf is the name of this process in the lease of a lock.
func (l *leadership) identityOf(k *lock) string { return l.self.called(k.key.identity) }

// newLock makes a lock that does nothing before it begins. wanted are its enabled
// controllers. It is to be discarded or retired in the end.
func (l *leadership) newLock(conn *connection, cfg *v1beta1.KubeControllerManagerConfiguration, c config.Lock, wanted []string) (*lock, error) {
	k := &lock{Lock: c, key: keyOf(conn.generation, cfg, c), connection: conn, cancel: func() {}, held: -1}
	k.admission = claims.NewAdmission(k.key.lease)
	k.admission.Want(wanted)
	if k.key.elect {
		if err := l.elect(k, cfg); err != nil {
			return nil, fmt.Errorf("lock %s: %w", c.Name, err)
		}
	}
	if err := conn.acquire(); err != nil {
		return nil, fmt.Errorf("lock %s: %w", c.Name, err)
	}
	return k, nil
}

// elect gives a lock its elector.
func (l *leadership) elect(k *lock, cfg *v1beta1.KubeControllerManagerConfiguration) error {
	set, err := k.connection.clients.For(clients.Identity{Name: "leader-election", ClientName: "leader-election"}, nil)
	if err != nil {
		return fmt.Errorf("making the client of leader election: %w", err)
	}
	k.leases = set.Kubernetes.CoordinationV1()
	k.reader = &claims.Reader{Leases: k.leases, Main: k.key.main}
	identity := l.identityOf(k)
	changed := func(election.State) { l.notify() }
	if k.Name == config.MainLock {
		changed = func(election.State) { l.mainChanged(k) }
	}
	o := election.Options{
		Leases:      k.leases,
		Namespace:   k.LeaseNamespace,
		Name:        k.LeaseName,
		Identity:    identity,
		Timings:     timingsOf(cfg.LeaderElection),
		Labels:      claims.Labels(),
		Annotations: k.annotations(identity),
		Farewell:    k.farewell,
		Delay:       func() time.Duration { return l.delay(k) },
		OnChange:    changed,
		Events:      l.events,
		Metrics:     l.metrics,
		Clock:       l.clock,
	}
	if k.key.coordinated {
		o.Coordinated = &election.Coordination{
			Client:           set.Kubernetes,
			BinaryVersion:    version.Get().GitVersion,
			EmulationVersion: cfg.EmulatedVersion,
		}
	}
	k.elector, err = election.New(o)
	return err
}

// begin contends for the lock, or holds it at once if there is no leader election.
func (k *lock) begin(ctx context.Context) {
	k.begun = true
	if k.elector == nil {
		k.always = election.Always()
		return
	}
	ctx, k.cancel = context.WithCancel(context.WithoutCancel(ctx))
	k.running.Go(func() { k.elector.Run(ctx) })
}

// valid is the term in which this process holds the lock, nil if it does not.
func (k *lock) valid() *election.Term {
	if k.elector == nil {
		return k.always
	}
	if t := k.elector.State().Term; t != nil && t.Valid() {
		return t
	}
	return nil
}

// resign gives the lock back for good. Whatever relied on it has to have stopped before.
func (k *lock) resign(ctx context.Context) error {
	defer k.running.Wait()
	defer k.cancel()
	if k.elector == nil || !k.begun {
		return nil
	}
	if k.valid() != nil {
		// Events of controllers may only be written under the lease.
		k.connection.events.flush(flushTimeout, k.connection.clock)
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), releaseTimeout)
	defer cancel()
	if err := k.elector.Release(ctx); err != nil {
		return fmt.Errorf("releasing the lease %s: %w", k.key.lease, err)
	}
	return nil
}

// annotate puts on the lease what others have to know.
func (k *lock) annotate(identity string) {
	if k.elector == nil {
		return
	}
	annotations := k.annotations(identity)
	if k.clearing {
		annotations[requestedBy] = ""
	}
	k.elector.SetAnnotations(annotations)
}

// annotations are the claim of this process, in place of what its predecessor left.
func (k *lock) annotations(identity string) map[string]string {
	all := claims.Annotations(identity, k.admission.Claim())
	all[takeover.Annotation] = ""
	return all
}

// farewell is what this process leaves to its successor.
func (k *lock) farewell(l *coordinationv1.Lease) map[string]string {
	return map[string]string{takeover.Annotation: takeover.Leave(l, k.connection.ledger.Versions())}
}

// right is what may run under a lock.
type right struct {
	// term is the number of the term of the lock; 0 while it is not held, and then reason
	// says why.
	term   uint64
	reason string
	// granted says what may run; nil permits everything. blocked says who stands in the
	// way of the rest, as far as is known.
	granted func(controller string) bool
	blocked map[string]string
}

func (k *lock) right() right {
	switch {
	case !k.begun:
		return right{reason: "the lock is being replaced"}
	case k.handingTo != "":
		return right{reason: "the lease goes to " + k.handingTo}
	case k.term == nil:
		return right{reason: "another process holds the lease"}
	case k.elector == nil:
		return right{term: k.number}
	}
	r := right{term: k.number, granted: k.admission.Granted, blocked: k.admission.Blocked()}
	if k.trouble != "" {
		r.reason = k.trouble
	}
	return r
}

// eventTarget is the object that events about the process itself are about.
func eventTarget(c v1beta1.LeaderElection) *coordinationv1.Lease {
	return &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: c.ResourceNamespace, Name: c.ResourceName}}
}
