package election

import (
	"context"
	"errors"
	"fmt"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/api/coordination/v1beta1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/version"
	"k8s.io/apiserver/pkg/server/healthz"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/klog/v2"
)

// Coordination lets the API server choose the holder of the lease, from the LeaseCandidates
// that name it, by the oldest emulation version (KEP-4355, feature gate
// CoordinatedLeaderElection, API coordination.k8s.io/v1beta1). The Elector then keeps the
// LeaseCandidate of this process, named like Options.Identity: no two leases of a namespace
// can have the same Identity.
type Coordination struct {
	// Client accesses LeaseCandidates; it may list and watch. Required.
	Client kubernetes.Interface
	// BinaryVersion and EmulationVersion are those of this process, as semantic versions.
	// A leading v, the pre-release and the build are left out. A binary that is older than
	// what it emulates, such as one built without a version, counts as what it emulates.
	// Required.
	BinaryVersion, EmulationVersion string
}

// complete checks the options, and returns them as they are sent to the API server.
func (c Coordination) complete() (*Coordination, error) {
	if c.Client == nil {
		return nil, errors.New("coordinated leader election: Client is required")
	}
	binary, err := version.Parse(c.BinaryVersion)
	if err != nil {
		return nil, fmt.Errorf("coordinated leader election: binary version: %w", err)
	}
	emulated, err := version.Parse(c.EmulationVersion)
	if err != nil {
		return nil, fmt.Errorf("coordinated leader election: emulation version: %w", err)
	}
	c.BinaryVersion, c.EmulationVersion = plain(binary), plain(emulated)
	if binary.LessThan(emulated) {
		c.BinaryVersion = c.EmulationVersion
	}
	return &c, nil
}

func plain(v *version.Version) string {
	return fmt.Sprintf("%d.%d.%d", v.Major(), v.Minor(), v.Patch())
}

// beginCandidacy keeps the LeaseCandidate until ctx ends or the returned function is called.
func (e *Elector) beginCandidacy(ctx context.Context) (retire context.CancelFunc) {
	ctx, retire = context.WithCancel(ctx)
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.released {
		retire()
	}
	e.retire = retire
	if e.opts.Coordinated != nil {
		e.candidacy.Go(func() { e.stand(ctx) })
	}
	return retire
}

// withdraw ends the candidacy permanently and leaves a LeaseCandidate that counts as expired:
// the API server might otherwise choose this process again. It may not delete the
// LeaseCandidate; the API server does.
func (e *Elector) withdraw(ctx context.Context) error {
	e.mu.Lock()
	retire := e.retire
	e.mu.Unlock()
	if e.opts.Coordinated == nil || retire == nil {
		return nil
	}
	retire()
	e.candidacy.Wait()
	ctx, cancel := context.WithTimeout(ctx, e.requestTimeout())
	defer cancel()
	var err error
	for range withdrawals {
		if err = e.expire(ctx); !apierrors.IsConflict(err) {
			break
		}
	}
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("withdrawing lease candidate %s: %w", klog.KRef(e.opts.Namespace, e.opts.Identity), err)
	}
	return nil
}

// withdrawals are attempted at most while they conflict with writes of the API server, which pings candidates.
const withdrawals = 5

// expire marks the LeaseCandidate as expired.
func (e *Elector) expire(ctx context.Context) error {
	candidates := e.opts.Coordinated.Client.CoordinationV1beta1().LeaseCandidates(e.opts.Namespace)
	candidate, err := candidates.Get(ctx, e.opts.Identity, metav1.GetOptions{})
	if err != nil {
		return err
	}
	candidate.Spec.RenewTime = &metav1.MicroTime{Time: time.Unix(0, 0)}
	_, err = candidates.Update(ctx, candidate, metav1.UpdateOptions{})
	return err
}

// stand keeps the LeaseCandidate of this process until ctx ends: client-go's part of
// coordinated leader election creates it, renews it every five minutes and answers pings
// of the API server. It returns when every goroutine it started has.
func (e *Elector) stand(ctx context.Context) {
	c, o := e.opts.Coordinated, e.opts
	for {
		err := e.refreshCandidate(ctx)
		if err == nil {
			break
		}
		if ctx.Err() != nil {
			return
		}
		klog.FromContext(ctx).Error(err, "Lease candidate is not ready", "leaseCandidate", klog.KRef(o.Namespace, o.Identity))
		e.sleep(ctx)
	}
	candidate, informers, err := leaderelection.NewCandidate(c.Client, o.Namespace, o.Identity, o.Name, c.BinaryVersion, c.EmulationVersion, coordinationv1.OldestEmulationVersion)
	if err != nil {
		klog.FromContext(ctx).Error(err, "Creating the lease candidate failed", "leaseCandidate", klog.KRef(o.Namespace, o.Identity))
		return
	}
	e.mu.Lock()
	e.candidate = healthz.NewInformerSyncHealthz(informers)
	e.mu.Unlock()
	candidate.Run(ctx)
	if running, ok := informers.(interface{ Shutdown() }); ok {
		running.Shutdown() // candidate.Run leaves its informer running for a moment
	}
}

// Candidate is the LeaseCandidate that the Elector is going to create; nil without coordination.
func (e *Elector) Candidate() *v1beta1.LeaseCandidate {
	if e.opts.Coordinated == nil {
		return nil
	}
	return &v1beta1.LeaseCandidate{
		ObjectMeta: metav1.ObjectMeta{Namespace: e.opts.Namespace, Name: e.opts.Identity},
		Spec:       e.candidateSpec(),
	}
}

func (e *Elector) candidateSpec() v1beta1.LeaseCandidateSpec {
	c := e.opts.Coordinated
	return v1beta1.LeaseCandidateSpec{
		LeaseName:        e.opts.Name,
		RenewTime:        &metav1.MicroTime{Time: e.opts.Clock.Now()},
		BinaryVersion:    c.BinaryVersion,
		EmulationVersion: c.EmulationVersion,
		Strategy:         coordinationv1.OldestEmulationVersion,
	}
}

// refreshCandidate corrects a LeaseCandidate of the same identity that an earlier elector,
// perhaps with another version to emulate, has left withdrawn: client-go only renews it.
func (e *Elector) refreshCandidate(ctx context.Context) error {
	c := e.opts.Coordinated
	ctx, cancel := context.WithTimeout(ctx, e.requestTimeout())
	defer cancel()
	candidates := c.Client.CoordinationV1beta1().LeaseCandidates(e.opts.Namespace)
	candidate, err := candidates.Get(ctx, e.opts.Identity, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("reading lease candidate: %w", err)
	}
	if candidate.Spec.LeaseName != e.opts.Name {
		return fmt.Errorf("lease candidate %s is for lease %s, not %s", candidate.Name, candidate.Spec.LeaseName, e.opts.Name)
	}
	pinged := candidate.Spec.PingTime
	candidate.Spec = e.candidateSpec()
	candidate.Spec.PingTime = pinged
	if _, err := candidates.Update(ctx, candidate, metav1.UpdateOptions{}); err != nil {
		return fmt.Errorf("updating lease candidate: %w", err)
	}
	return nil
}

// strategy is what to record of how the API server chooses the holder: what it has
// recorded itself. Without coordination it is none: then candidates settle who holds the
// lease.
func (e *Elector) strategy() *coordinationv1.CoordinatedLeaseStrategy {
	if e.opts.Coordinated == nil || e.lease == nil {
		return nil
	}
	return e.lease.Spec.Strategy
}

// sleep waits for RetryPeriod or the end of ctx.
func (e *Elector) sleep(ctx context.Context) {
	e.mu.Lock()
	period := e.timings.RetryPeriod
	e.mu.Unlock()
	timer := e.opts.Clock.NewTimer(max(period, time.Millisecond))
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C():
	}
}
