package benchmark

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"kcmd.dev/test/benchmark/report"
	"kcmd.dev/test/benchmark/usage"
	"kcmd.dev/test/controlplane"
)

// stage is one run of a scenario: a control plane and, once started, a manager.
type stage struct {
	options  *Options
	scenario string
	mode     Mode
	name     string // of the subject
	round    int
	subject  subject
	plane    *controlplane.ControlPlane
	client   kubernetes.Interface
	manager  running
	others   []running // further managers, for example standbys
	record   func(report.Result)
	probes   int // namespaces made by ready
}

// phase is a part of a scenario that is measured.
type phase struct {
	name string
	// size says in words what is done; units is how many of unit that is.
	size  string
	units float64
	unit  string
	// work does it and returns when it is done. It may add figures of its own.
	work func(ctx context.Context, figures map[string]float64) error
	// after adds figures when the others have been taken, so that what it costs the manager is in none.
	after func(ctx context.Context, figures map[string]float64) error
	// check returns a description of the state at the end; it is not measured. An
	// error voids the result.
	check func(ctx context.Context) (string, error)
}

// start starts the manager with the mode's settings and waits until it does its work.
func (s *stage) start(ctx context.Context) error {
	return s.startWith(ctx, settings{mode: s.mode})
}

func (s *stage) startWith(ctx context.Context, with settings) error {
	m, err := s.subject.start(ctx, s.plane, with)
	if err != nil {
		return err
	}
	s.manager = m
	return s.ready(ctx)
}

// retire stops the manager, if one runs.
func (s *stage) retire() error {
	if s.manager == nil {
		return nil
	}
	err := s.manager.Stop()
	s.manager = nil
	return err
}

// startAgain stops the manager, if one runs, and starts another one, which need not wait for the end
// of the lease of the first.
func (s *stage) startAgain(ctx context.Context, with settings) error {
	if err := s.retire(); err != nil {
		return err
	}
	err := s.client.CoordinationV1().Leases(metav1.NamespaceSystem).Delete(ctx, program, metav1.DeleteOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("deleting the lease: %w", err)
	}
	return s.startWith(ctx, with)
}

// stop ends every manager of the stage.
func (s *stage) stop() error {
	var errs []error
	for _, m := range append(s.others, s.manager) {
		if m != nil {
			errs = append(errs, m.Stop())
		}
	}
	return errors.Join(errs...)
}

// ready waits until the manager has shown that its controllers work: it has given a new
// namespace what controllers give to each. Then it waits until the manager is quiet.
func (s *stage) ready(ctx context.Context) error {
	s.probes++
	if err := s.namespace(ctx, fmt.Sprintf("probe-%d", s.probes)); err != nil {
		return err
	}
	return s.settle(ctx)
}

// populated waits until a namespace has its service account and root certificate.
func (s *stage) populated(ctx context.Context, namespace string) error {
	return s.until(ctx, "namespace "+namespace+" is usable", func(ctx context.Context) error {
		if _, err := s.client.CoreV1().ServiceAccounts(namespace).Get(ctx, "default", metav1.GetOptions{}); err != nil {
			return err
		}
		_, err := s.client.CoreV1().ConfigMaps(namespace).Get(ctx, "kube-root-ca.crt", metav1.GetOptions{})
		return err
	})
}

// namespace creates a namespace; if a manager runs, it waits until pods can be created.
func (s *stage) namespace(ctx context.Context, name string) error {
	object := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
	if _, err := s.client.CoreV1().Namespaces().Create(ctx, object, metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("creating a namespace: %w", err)
	}
	if s.manager == nil {
		return nil
	}
	return s.populated(ctx, name)
}

const (
	pollInterval = 100 * time.Millisecond
	// A manager is quiet when it used at most quietCPU in each of quietPeriods periods.
	// The heartbeat of a manager with many caches stays below that.
	quietPeriod  = 500 * time.Millisecond
	quietPeriods = 4
	quietCPU     = 30 * time.Millisecond
	settleLimit  = time.Minute
)

// until polls until check returns nil. It gives up when the manager has ended or ctx has.
func (s *stage) until(ctx context.Context, what string, check func(context.Context) error) error {
	return s.untilEvery(ctx, pollInterval, what, check)
}

func (s *stage) untilEvery(ctx context.Context, interval time.Duration, what string, check func(context.Context) error) error {
	tick := time.NewTicker(interval)
	defer tick.Stop()
	var exited <-chan struct{}
	if s.manager != nil {
		exited = s.manager.Exited()
	}
	for {
		err := check(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-tick.C:
		case <-exited:
			return fmt.Errorf("waiting until %s: the manager has ended: %w", what, err)
		case <-s.plane.Failed():
			return fmt.Errorf("waiting until %s: %w", what, s.plane.Err())
		case <-ctx.Done():
			return fmt.Errorf("waiting until %s: %w: %w", what, context.Cause(ctx), err)
		}
	}
}

// settle waits until the manager is quiet, at most settleLimit: what it does later is
// still part of the phase that caused it.
func (s *stage) settle(ctx context.Context) error {
	deadline := time.Now().Add(settleLimit)
	last, err := usage.CPU(s.manager.PID())
	if err != nil {
		return err
	}
	tick := time.NewTicker(quietPeriod)
	defer tick.Stop()
	for quiet := 0; quiet < quietPeriods && time.Now().Before(deadline); {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("waiting until the manager is quiet: %w", context.Cause(ctx))
		}
		now, err := usage.CPU(s.manager.PID())
		if err != nil {
			return err
		}
		quiet++
		if now-last > quietCPU {
			quiet = 0
		}
		last = now
	}
	return nil
}

// measure carries a phase out and records its result. A phase that fails is recorded as
// void and its error returned, since the phases after it have no ground to stand on.
func (s *stage) measure(ctx context.Context, p phase) error {
	ctx, cancel := context.WithTimeoutCause(ctx, s.options.PhaseTimeout, fmt.Errorf("%s took longer than %s", p.name, s.options.PhaseTimeout))
	defer cancel()
	result := report.Result{
		Scenario: s.scenario, Phase: p.name, Mode: string(s.mode), Subject: s.name, Round: s.round,
		Size: p.size, Units: p.units, Unit: p.unit, Figures: map[string]float64{},
	}
	err := s.observe(ctx, p, &result)
	if err == nil && p.after != nil {
		err = p.after(ctx, result.Figures)
	}
	if err == nil && p.check != nil {
		result.EndState, err = p.check(ctx)
	}
	if err != nil {
		result.Void = err.Error()
	}
	s.record(result)
	return err
}

// observe fills in the figures.
func (s *stage) observe(ctx context.Context, p phase, r *report.Result) error {
	before, err := s.begin()
	if err != nil {
		return err
	}
	stopProfile := s.profile(ctx, p.name)
	began := time.Now()
	if err := p.work(ctx, r.Figures); err != nil {
		return err
	}
	if _, own := r.Figures[report.Wall]; !own {
		r.Figures[report.Wall] = time.Since(began).Seconds()
	}
	if err := s.settle(ctx); err != nil {
		return err
	}
	if before.pid != s.manager.PID() {
		// It was started, or another one took over: all of it belongs to this phase.
		before.usage = usage.Usage{}
	}
	if err := s.end(before, r); err != nil {
		return err
	}
	return stopProfile()
}

// snapshot is the state of all counters.
type snapshot struct {
	pid     int // 0 when no manager runs
	usage   usage.Usage
	harness time.Duration
	mark    controlplane.Mark
}

func (s *stage) begin() (snapshot, error) {
	var b snapshot
	var err error
	if b.mark, err = s.plane.Audit().Mark(); err != nil {
		return b, err
	}
	if b.harness, err = usage.Self(); err != nil {
		return b, err
	}
	if s.manager == nil {
		return b, nil
	}
	b.pid = s.manager.PID()
	if err := usage.ResetPeak(b.pid); err != nil {
		return b, err
	}
	b.usage, err = usage.Of(b.pid)
	return b, err
}

// end reads the counters again; the audit log, whose reading costs time, comes last.
func (s *stage) end(b snapshot, r *report.Result) error {
	now, err := usage.Of(s.manager.PID())
	if err != nil {
		return err
	}
	harness, err := usage.Self()
	if err != nil {
		return err
	}
	const mebi = 1 << 20
	r.HarnessCPUSeconds = (harness - b.harness).Seconds()
	r.Figures[report.CPU] = (now.CPU - b.usage.CPU).Seconds()
	r.Figures[report.RSS] = float64(now.RSS) / mebi
	r.Figures[report.Anonymous] = float64(now.Anonymous) / mebi
	r.Figures[report.PeakRSS] = float64(now.PeakRSS) / mebi
	r.Figures[report.Received] = float64(now.Received-b.usage.Received) / mebi
	events, err := s.plane.Audit().Since(b.mark)
	if err != nil {
		return err
	}
	counts := countRequests(events)
	maps.Copy(r.Figures, counts.figures)
	r.Requests = counts.byKind
	return nil
}
