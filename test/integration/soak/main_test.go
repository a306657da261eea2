// Package soak lets a manager run through everything that can happen to it, at random and
// many times over, and looks at what is left in the end.
//
//  1. The manager is the real binary, on a control plane with a scheduler and simulated
//     nodes, with Deployments that are created, changed, scaled and deleted all the time.
//  2. What happens is drawn from a seed, which is logged: good and bad edits, rotated
//     certificates, stolen leases, an API server that hangs or restarts. SOAK_SEED
//     repeats a run, SOAK_DURATION makes it longer; make soak runs ten minutes.
//  3. In the end everything has converged: each Deployment is available, no object is
//     without its owner, and the configuration in force is the last good one.
//  4. Nothing has leaked: goroutines, file descriptors, handlers, series of metrics and
//     the heap are back where they were after everything had happened once.
package soak

import (
	"errors"
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
	"time"

	"k8s.io/utils/ptr"

	"kcmd.dev/pkg/runtime"
	"kcmd.dev/test/controlplane"
	"kcmd.dev/test/integration/harness"
	"kcmd.dev/test/manager"
	"kcmd.dev/test/must"
)

const (
	// duration is how long things happen if SOAK_DURATION does not say.
	duration = 15 * time.Second
	// patience bounds the waits for the end state. The machine may be busy.
	patience = 90 * time.Second
	// pause is the longest time between two things that happen.
	pause = 500 * time.Millisecond
	nodes = 5
)

var plane *controlplane.ControlPlane

func TestMain(m *testing.M) {
	options := controlplane.Options{Nodes: nodes, Scheduler: true, NoAudit: true}
	os.Exit(controlplane.RunTests(m, options, func(cp *controlplane.ControlPlane) { plane = cp }))
}

// settings are what the environment says about a run.
func settings(t *testing.T) (time.Duration, uint64) {
	t.Helper()
	length, seed := duration, uint64(time.Now().UnixNano())
	var err error
	if text := os.Getenv("SOAK_DURATION"); text != "" {
		if length, err = time.ParseDuration(text); err != nil {
			t.Fatalf("reading SOAK_DURATION: %v", err)
		}
	}
	if text := os.Getenv("SOAK_SEED"); text != "" {
		if seed, err = strconv.ParseUint(text, 10, 64); err != nil {
			t.Fatalf("reading SOAK_SEED: %v", err)
		}
	}
	return length, seed
}

func TestSoak(t *testing.T) {
	length, seed := settings(t)
	t.Logf("SOAK_DURATION=%v SOAK_SEED=%d", length, seed)
	s := newStorm(t, rand.New(rand.NewPCG(seed, seed)))
	for _, what := range s.all() {
		what.happen()
	}
	s.calm()
	baseline := s.measure()

	counts := map[string]int{}
	for end := time.Now().Add(length); time.Now().Before(end); {
		what := s.pick()
		what.happen()
		counts[what.name]++
		s.pace()
	}
	began := time.Now()
	s.calm()
	t.Logf("happened %v; converged after %v", counts, time.Since(began).Round(time.Millisecond))
	s.compare(baseline)
	s.wellBehaved()
}

// storm is a manager and what happens to it.
type storm struct {
	t       *testing.T
	random  *rand.Rand
	manager *manager.Process
	access  string // path of the kubeconfig
	work    *work
	edits   int
}

func newStorm(t *testing.T, random *rand.Rand) *storm {
	t.Helper()
	s := &storm{t: t, random: random, access: t.TempDir() + "/kubeconfig", work: newWork(t, random)}
	s.rotate()
	s.manager = manager.StartProcess(t, plane, func(c *manager.Config) {
		c.ClientConnection.Kubeconfig = s.access
		harness.Settle(20 * time.Millisecond)(c)
		harness.Lease(4*time.Second, 3*time.Second, 500*time.Millisecond)(c)
		c.Serving.Profiling = ptr.To(true)
	})
	s.work.begin()
	return s
}

// pace waits a little, for no longer than pause.
func (s *storm) pace() {
	timer := time.NewTimer(time.Duration(s.random.Int64N(int64(pause))))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-s.manager.Done():
		s.t.Fatal("the manager has ended")
	}
}

// wait waits for a state of the manager.
func (s *storm) wait(what string, check func(*runtime.Status) error) {
	s.t.Helper()
	must.Succeed(s.t, s.manager.Wait(s.t.Context(), what, check))
}

// calm brings back the configuration of the beginning and waits until all is well.
func (s *storm) calm() {
	s.t.Helper()
	s.edit(plain)
	must.Succeed(s.t, s.manager.WaitRunning(s.t.Context()))
	s.work.converged()
	s.wait("nothing is left to do and every cache is filled", func(st *runtime.Status) error {
		return errors.Join(harness.QueuesAreEmpty(st), harness.CachesFilled(st))
	})
	s.watching()
}
