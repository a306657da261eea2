package leadership

import (
	"context"
	"fmt"
	"maps"
	"sync"
	"sync/atomic"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	coordinationv1beta1 "k8s.io/api/coordination/v1beta1"
	coordinationv1client "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/component-base/version"

	"kcmd.dev/pkg/config/locks"
	"kcmd.dev/pkg/config/v1beta1"
	"kcmd.dev/pkg/runtime/claims"
	"kcmd.dev/pkg/runtime/election"
	"kcmd.dev/pkg/runtime/takeover"
)

// releaseTimeout bounds the request that gives a lease back.
const releaseTimeout = 5 * time.Second

// LastGoodAnnotation is on a lease while its holder has its last good configuration in force
// instead of its file. The value is the hash of that configuration.
const LastGoodAnnotation = "config.kcmd.dev/last-good"

// Lock is one lock that this process contends for, and what it may run under it. It belongs
// to the loop, except for what is documented to be read by electors.
type Lock struct {
	locks.Lock

	// Set when the lock is made, and safe for electors to read.
	key        key
	connection Connection
	leases     coordinationv1client.LeasesGetter
	elector    *election.Elector        // nil without leader election
	reader     *claims.Reader           // nil without leader election
	requested  atomic.Bool              // this process asked for the lease; electors read it
	others     atomic.Bool              // see noteOthers; electors read it
	ran        atomic.Pointer[[]string] // see noteOthers; electors read it

	// Belongs to the loop.
	admission *claims.Admission
	enabled   []string // the controllers that are to run under the lock
	cancel    context.CancelFunc
	running   sync.WaitGroup // the elector

	begun   bool
	first   bool           // it is there since the process started
	last    bool           // it is there when the process ends
	follows bool           // without a lease: there may have been writes since caches were filled, see prepareBarrier
	after   map[*Lock]bool // what has to be given back before this lock begins
	always  *election.Term // without leader election, once it has begun

	// barrier is what controllers wait for that start under the lock, nil without a lease unless the
	// lock follows another one; barriers are those of controllers that came to the lock later than the term.
	barrier  *takeover.Barrier
	barriers map[string]*takeover.Barrier
	arrivals map[string]bool // controllers that ran, or may have run, under another lock before
	held     int             // transitions of the lease when it was last acquired; -1 before
	acquired time.Time       // when that was, as the lease says; zero before

	term    *election.Term // the valid one, nil while the lock is not held
	number  uint64         // of the newest term, among all terms of the process
	asking  bool           // a read of the other leases is under way
	askAt   time.Time      // no such read before
	trouble string         // why the last one failed
	hidden  string         // why the entry of the lease's namespace may be missing
	left    string         // why the lease is left to others

	// announceAt is when to make sure of the entry of the lease's namespace; zero for never, and while that is under way.
	announceAt time.Time

	// handingTo is the process that gets the lease when nothing runs under it any more: the
	// one that has asked for it or, if the term ended for that, the one that the API server
	// prefers.
	handingTo string
	clearing  bool // the request of another process is to be taken off the lease
	returning bool // the request that gives the lease back is under way
}

// Lease is the lease of the lock.
func (k *Lock) Lease() claims.Lease { return k.key.lease }

// Main is the lease of processes that do not support claims.
func (k *Lock) Main() claims.Lease { return k.key.main }

// Candidate is what the lock is going to create to be chosen by the API server; nil without coordinated leader election.
func (k *Lock) Candidate() *coordinationv1beta1.LeaseCandidate {
	if k.elector == nil {
		return nil
	}
	return k.elector.Candidate()
}

// Contends reports whether the lock has a lease, which it has unless there is no leader election.
func (k *Lock) Contends() bool { return k.elector != nil }

// key is compared to decide whether a lock has to be replaced by a new one.
type key struct {
	connection  uint64
	elect       bool
	coordinated bool
	main, lease claims.Lease
	identity    string // as configured
	emulated    string // the emulation version that is announced to the API server
}

func keyOf(connection uint64, cfg *v1beta1.KubeControllerManagerConfiguration, l locks.Lock) key {
	k := locks.KeyOf(cfg, l.Name)
	return key{
		connection:  connection,
		elect:       k.Election.Elect,
		coordinated: k.Coordinated,
		main:        claims.Lease(k.Election.Main),
		lease:       claims.Lease(k.Lease),
		identity:    k.Election.Identity,
		emulated:    k.Emulated,
	}
}

func timingsOf(c v1beta1.LeaderElection) election.Timings {
	return election.Timings{
		LeaseDuration: c.LeaseDuration.Duration,
		RenewDeadline: c.RenewDeadline.Duration,
		RetryPeriod:   c.RetryPeriod.Duration,
	}
}

// newLock makes a lock that does nothing before it begins. enabled are its enabled
// controllers. It must be discarded or retired eventually.
func (l *Leadership) newLock(conn Connection, cfg *v1beta1.KubeControllerManagerConfiguration, c locks.Lock, enabled []string) (*Lock, error) {
	k := &Lock{Lock: c, key: keyOf(conn.Generation(), cfg, c), connection: conn, cancel: func() {}, held: -1}
	k.admission = claims.NewAdmission(k.key.lease)
	k.want(enabled)
	if k.key.elect {
		if err := l.elect(k, cfg); err != nil {
			return nil, fmt.Errorf("lock %s: %w", c.Name, err)
		}
	}
	if err := conn.Acquire(); err != nil {
		return nil, fmt.Errorf("lock %s: %w", c.Name, err)
	}
	return k, nil
}

// want sets the enabled controllers of the lock.
func (k *Lock) want(enabled []string) {
	k.enabled = enabled
	k.admission.Want(enabled)
}

// elect gives a lock its elector.
func (l *Leadership) elect(k *Lock, cfg *v1beta1.KubeControllerManagerConfiguration) error {
	set, err := k.connection.ElectionClients()
	if err != nil {
		return fmt.Errorf("creating the client of leader election: %w", err)
	}
	k.leases = set.Kubernetes.CoordinationV1()
	k.reader = &claims.Reader{Leases: k.leases, Main: k.key.main}
	identity := l.identityOf(k)
	changed := func(election.State) { l.notify() }
	var silent func()
	if k.Name == locks.Main { // every process has it, and all leases are on the same connection
		changed = func(election.State) { l.mainChanged(k) }
		silent = k.connection.CutAll
	}
	o := election.Options{
		Leases:      k.leases,
		Namespace:   k.LeaseNamespace,
		Name:        k.LeaseName,
		Identity:    identity,
		Timings:     timingsOf(cfg.LeaderElection),
		Labels:      claims.Labels(),
		Annotations: l.annotations(k),
		Farewell:    k.farewell,
		Delay:       func() time.Duration { return l.delay(k) },
		OnRecede:    func() { l.recede(k.key.connection) },
		Caution:     l.cautionFor(k.key.lease),
		OnSilence:   silent,
		OnChange:    changed,
		Events:      l.options.Events,
		Metrics:     l.options.Metrics,
		Clock:       l.options.Clock,
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
func (k *Lock) begin(ctx context.Context) {
	k.begun = true
	if k.elector == nil {
		k.always = election.Always()
		return
	}
	ctx, k.cancel = context.WithCancel(context.WithoutCancel(ctx))
	k.running.Go(func() { k.elector.Run(ctx) })
}

// valid returns the term in which this process holds the lock, nil if it does not.
func (k *Lock) valid() *election.Term {
	if k.elector == nil {
		return k.always
	}
	if t := k.elector.State().Term; t != nil && t.Valid() {
		return t
	}
	return nil
}

// resign gives the lock back permanently. Whatever relied on it must have stopped before.
func (k *Lock) resign(ctx context.Context) error {
	defer k.running.Wait()
	defer k.cancel()
	if k.valid() != nil {
		// Events of controllers may only be written while the lock is held.
		k.connection.FlushEvents()
	}
	if k.always != nil {
		k.always.End(election.ErrReleased)
	}
	if k.elector == nil || !k.begun {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), releaseTimeout)
	defer cancel()
	if err := k.elector.Release(ctx); err != nil {
		return fmt.Errorf("releasing the lease %s: %w", k.key.lease, err)
	}
	return nil
}

// annotate updates the annotations on the lease of a lock.
func (l *Leadership) annotate(k *Lock) {
	if k.elector == nil {
		return
	}
	annotations := l.annotations(k)
	if k.clearing {
		annotations[requestedBy] = ""
	}
	k.elector.SetAnnotations(annotations)
}

// annotations returns the claim of this process and what it says about its configuration, and
// removes what its predecessor left.
func (l *Leadership) annotations(k *Lock) map[string]string {
	all := claims.Annotations(l.identityOf(k), k.admission.Claim())
	all[takeover.Annotation] = ""
	all[LastGoodAnnotation] = l.lastGood
	return all
}

// farewell returns the annotations that this process leaves to its successor.
func (k *Lock) farewell(l *coordinationv1.Lease) map[string]string {
	left := k.connection.Ledger().Versions()
	if k.others.Load() || k.elector.Receded() {
		left = takeover.NothingLeft()
	}
	all := map[string]string{takeover.Annotation: takeover.Leave(l, left), LastGoodAnnotation: ""}
	if ran := k.ran.Load(); ran != nil {
		maps.Copy(all, claims.Left(*ran))
	}
	return all
}
