// Package leadership tests, against a real API server, that every controller runs in exactly
// one of several managers, whatever happens to the leases and to the files that say which
// lease a controller goes with.
//
//  1. What runs is recorded, not asked for: the controllers of most tests are fakes that
//     write into a ledger, which all managers of the test share, when they start, and when
//     they stop or lose the right to write. Two owners at one instant fail the test.
//  2. The managers of a test have files of their own, edited one after the other in either
//     order, as mounted ConfigMaps change.
//  3. Each test has a control plane's leases to itself: it stops its managers in the end,
//     which gives all leases back. Numbers are logged; run with -v to see them.
package leadership

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"kcmd.dev/pkg/config/v1beta1"
	"kcmd.dev/pkg/controller"
	"kcmd.dev/pkg/runtime"
	"kcmd.dev/test/await"
	"kcmd.dev/test/controlplane"
	"kcmd.dev/test/integration/harness"
	"kcmd.dev/test/manager"
)

const (
	deployments = "deployment-controller"
	replicaSets = "replicaset-controller"
	jobs        = "job-controller"
	cronJobs    = "cronjob-controller"
	namespaces  = "namespace-controller"
	endpoints   = "endpoints-controller"

	mainLease     = "kube-controller-manager"
	leaseDuration = 3 * time.Second
	renewDeadline = 2 * time.Second
	retryPeriod   = 300 * time.Millisecond
)

// fakes are the controllers of most tests.
var fakes = []string{deployments, replicaSets, jobs, cronJobs, namespaces, endpoints}

var plane *controlplane.ControlPlane

func TestMain(m *testing.M) {
	options := controlplane.Options{Nodes: 2, Scheduler: true}
	os.Exit(controlplane.RunTests(m, options, func(cp *controlplane.ControlPlane) { plane = cp }))
}

// quick makes the manager notice edits at once and leases short.
func quick(c *manager.Config) {
	harness.Settle(time.Millisecond)(c)
	harness.Lease(leaseDuration, renewDeadline, retryPeriod)(c)
}

// group makes a lease group, or replaces the one of the same name.
func group(c *manager.Config, name string, controllers ...string) {
	c.LeaderElection.Groups = slices.DeleteFunc(c.LeaderElection.Groups, func(g v1beta1.LeaseGroup) bool { return g.Name == name })
	if len(controllers) > 0 {
		c.LeaderElection.Groups = append(c.LeaderElection.Groups, v1beta1.LeaseGroup{Name: name, Controllers: controllers})
	}
}

// ledger records who runs what.
type ledger struct {
	t *testing.T

	mu       sync.Mutex
	owners   map[string][]string
	entries  []string
	mistakes []string
	changed  map[string]time.Time // when an owner came or went
	gaps     map[string]time.Duration
}

func newLedger(t *testing.T) *ledger {
	l := &ledger{t: t, owners: map[string][]string{}, changed: map[string]time.Time{}, gaps: map[string]time.Duration{}}
	t.Cleanup(l.check)
	return l
}

// check fails the test if a controller ever had two owners.
func (l *ledger) check() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.mistakes) > 0 {
		l.t.Errorf("two owners at once:\n%s\nthe ledger:\n%s", strings.Join(l.mistakes, "\n"), strings.Join(l.entries, "\n"))
	}
}

func (l *ledger) begins(process, controller string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.note("%s begins %s", process, controller)
	l.owners[controller] = append(l.owners[controller], process)
	l.gaps[controller] = time.Since(l.changed[controller])
	l.changed[controller] = time.Now()
	if owners := l.owners[controller]; len(owners) > 1 {
		l.mistakes = append(l.mistakes, fmt.Sprintf("%s runs in %v", controller, owners))
	}
}

func (l *ledger) ends(process, controller string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.note("%s ends %s", process, controller)
	if n := slices.Index(l.owners[controller], process); n >= 0 {
		l.owners[controller] = slices.Delete(l.owners[controller], n, n+1)
	}
	l.changed[controller] = time.Now()
}

func (l *ledger) note(format string, args ...any) {
	l.entries = append(l.entries, time.Now().Format("05.000 ")+fmt.Sprintf(format, args...))
}

// owner is the process that runs a controller, empty if there is none.
func (l *ledger) owner(controller string) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Join(l.owners[controller], "+")
}

func (l *ledger) since(controller string) time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.changed[controller]
}

// gap is how long a controller had no owner before it had the one it has.
func (l *ledger) gap(controller string) time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.gaps[controller].Round(time.Millisecond)
}

// idle is an error that reports a controller that has an owner.
func (l *ledger) idle(context.Context) error {
	for _, c := range fakes {
		if owner := l.owner(c); owner != "" {
			return fmt.Errorf("%s runs in %s", c, owner)
		}
	}
	return nil
}

// waitOwner waits until a controller runs in a process; an empty one stands for any.
func (l *ledger) waitOwner(controller, process string) {
	l.t.Helper()
	await.That(l.t, fmt.Sprintf("%s runs in %q", controller, process), func(context.Context) error {
		got := l.owner(controller)
		if got == "" || process != "" && got != process {
			return fmt.Errorf("it runs in %q", got)
		}
		return nil
	})
}

// waitAll waits until all fakes run.
func (l *ledger) waitAll() {
	l.t.Helper()
	for _, c := range fakes {
		l.waitOwner(c, "")
	}
}

// descriptors are the fakes of a process. Each takes a moment to stop, to make an overlap
// likely if there can be one.
func (l *ledger) descriptors(process string) []controller.Descriptor {
	var all []controller.Descriptor
	for _, name := range fakes {
		all = append(all, controller.Describe(
			controller.Descriptor{Name: name},
			func(*controller.Config) struct{} { return struct{}{} },
			func(env controller.Env, _ struct{}) (controller.Controller, error) {
				return &fake{ledger: l, process: process, name: name, fenced: env.Fenced}, nil
			}))
	}
	return all
}

type fake struct {
	ledger        *ledger
	process, name string
	fenced        <-chan struct{}
}

const stopsWithin = 50 * time.Millisecond

// Run owns the controller until it has stopped, or may not write any more.
func (f *fake) Run(ctx context.Context) error {
	f.ledger.begins(f.process, f.name)
	defer f.ledger.ends(f.process, f.name)
	select {
	case <-ctx.Done():
	case <-f.fenced:
		return nil
	}
	drain := time.NewTimer(stopsWithin)
	defer drain.Stop()
	select {
	case <-drain.C:
	case <-f.fenced:
	}
	return nil
}

// processOf is the name of the process that an identity was configured for: a random part
// follows it.
func processOf(identity string) string {
	name, _, _ := strings.Cut(identity, "_")
	return name
}

// begin runs a manager with fakes until the end of the test. Its identity is its name, see
// processOf.
func (l *ledger) begin(name string, edit func(*manager.Config)) *manager.Manager {
	l.t.Helper()
	return manager.Join(l.t, plane, runtime.Options{Descriptors: l.descriptors(name)}, harness.All(quick, func(c *manager.Config) {
		c.LeaderElection.Identity = name
		c.Serving.Port = ptr.To[int32](0)
	}, edit))
}

// waitLocks waits until a process holds exactly some locks.
func waitLocks(t *testing.T, m harness.Subject, locks ...string) {
	t.Helper()
	harness.Wait(t, m, fmt.Sprintf("it holds %v", locks), func(s *runtime.Status) error {
		if held := locksOf(s); !slices.Equal(held, locks) {
			return fmt.Errorf("it holds %v", held)
		}
		return nil
	})
}

func locksOf(s *runtime.Status) []string {
	var held []string
	for _, l := range s.Leadership.Leases {
		if l.Leading {
			held = append(held, l.Lock)
		}
	}
	return held
}

func status(t *testing.T, m harness.Subject) *runtime.Status {
	t.Helper()
	s := harness.Status(t, m)
	return &s
}

// leaseOf is what the status shows of a lock.
func leaseOf(s *runtime.Status, lock string) runtime.LeaseStatus {
	for _, l := range s.Leadership.Leases {
		if l.Lock == lock {
			return l
		}
	}
	return runtime.LeaseStatus{}
}

// lease reads a lease.
func lease(t *testing.T, namespace, name string) *coordinationv1.Lease {
	t.Helper()
	l, err := plane.AdminClient().CoordinationV1().Leases(namespace).Get(t.Context(), name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return l
}

var errNotYet = errors.New("not yet")
