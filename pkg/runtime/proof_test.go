package runtime

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clocktesting "k8s.io/utils/clock/testing"

	"kcmd.dev/pkg/config"
	"kcmd.dev/pkg/config/gates"
	"kcmd.dev/pkg/config/locks"
	"kcmd.dev/pkg/config/v1beta1"
)

var errSilent = errors.New("no answer")

// Renewed credentials that are refused are not used. Those that cannot be tried are: nothing is
// lost by it.
func TestWhichRenewedCredentialsAreRefused(t *testing.T) {
	trusting := httptest.NewTLSServer(http.NotFoundHandler())
	defer trusting.Close()
	_, untrusted := http.Get(trusting.URL)
	for name, c := range map[string]struct {
		err  error
		want bool
	}{
		"proved":           {nil, false},
		"unknown":          {apierrors.NewUnauthorized("no"), true},
		"another CA":       {untrusted, true},
		"no rights":        {apierrors.NewForbidden(schema.GroupResource{}, "", nil), false},
		"no answer":        {errSilent, false},
		"a busy server":    {apierrors.NewTooManyRequests("later", 1), false},
		"a failing server": {apierrors.NewInternalError(errSilent), false},
	} {
		var err error
		if c.err != nil {
			err = &unproved{cause: fmt.Errorf("asking: %w", c.err)}
		}
		if got := rejectsCredentials(err); got != c.want {
			t.Errorf("%s: got %t", name, got)
		}
	}
}

func TestTheFieldsThatAreToBlame(t *testing.T) {
	for field, c := range map[string]v1beta1.ClientConnection{
		"clientConnection.server":     {Server: "https://a", Kubeconfig: "b"},
		"clientConnection.kubeconfig": {Kubeconfig: "b"},
		"clientConnection":            {},
	} {
		if got := connectionField(c); got != field {
			t.Errorf("%+v: got %s", c, got)
		}
	}
	for lock, field := range map[string]string{
		locks.Main:          "leaderElection.resourceName",
		locks.Migration:     "leaderMigration.leaderName",
		locks.Group("apps"): "leaderElection.groups",
	} {
		if got := lockField(lock); got != field {
			t.Errorf("%s: got %s", lock, got)
		}
	}
}

// A lock can be another one because of other fields than the one that names its lease. The error of a lease that
// cannot be used names the one that was edited. Pins MGR-238.
func TestTheFieldThatMakesALeaseAnotherOneIsToBlame(t *testing.T) {
	group := v1beta1.LeaseGroup{Name: "apps", Controllers: []string{"deployment-controller"}}
	for name, c := range map[string]struct {
		lock, want string
		edit       func(c *v1beta1.KubeControllerManagerConfiguration)
	}{
		"its name": {locks.Main, "leaderElection.resourceName", func(c *v1beta1.KubeControllerManagerConfiguration) {
			c.LeaderElection.ResourceName = "other"
		}},
		"its namespace": {locks.Main, "leaderElection.resourceNamespace", func(c *v1beta1.KubeControllerManagerConfiguration) {
			c.LeaderElection.ResourceNamespace = "other"
		}},
		"both": {locks.Main, "leaderElection.resourceName", func(c *v1beta1.KubeControllerManagerConfiguration) {
			c.LeaderElection.ResourceNamespace, c.LeaderElection.ResourceName = "other", "other"
		}},
		"who holds it": {locks.Main, "leaderElection.identity", func(c *v1beta1.KubeControllerManagerConfiguration) {
			c.LeaderElection.Identity = "other"
		}},
		"who chooses the holder": {locks.Main, "featureGates." + gates.CoordinatedLeaderElection,
			func(c *v1beta1.KubeControllerManagerConfiguration) {
				c.FeatureGates = map[string]bool{gates.CoordinatedLeaderElection: true}
			}},
		"a group": {locks.Group("apps"), "leaderElection.groups", func(c *v1beta1.KubeControllerManagerConfiguration) {
			c.LeaderElection.Groups = []v1beta1.LeaseGroup{group}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			was := v1beta1.NewDefault()
			next := was.DeepCopy()
			c.edit(next)
			tx := &transaction{was: basis{document: &config.Document{Config: was}}, next: basis{document: &config.Document{Config: next}}}
			if got := tx.leaseField(c.lock); got != c.want {
				t.Errorf("got %s, want %s", got, c.want)
			}
		})
	}
}

// What could not be proved is asked again with growing delays, until it succeeds or nobody
// waits any more.
func TestRetriesSlowDown(t *testing.T) {
	clk := clocktesting.NewFakeClock(time.Now())
	r := &Runtime{options: Options{Clock: clk}}
	var asked atomic.Int32
	const succeeds = 8
	proved := make(chan bool, 1)
	go func() {
		proved <- r.untilProved(t.Context(), func(context.Context) error {
			if asked.Add(1) == succeeds {
				return nil
			}
			return errSilent
		})
	}()
	for n, delay := range []time.Duration{1, 2, 4, 8, 16, 30, 30, 30} {
		waitFor(t, func() bool { return clk.HasWaiters() && asked.Load() == int32(n) })
		clk.Step(delay*time.Second - time.Millisecond)
		if !clk.HasWaiters() {
			t.Fatalf("proof %d came before %v", n+1, delay*time.Second)
		}
		clk.Step(delay*time.Second/4 + time.Millisecond)
	}
	if !<-proved || asked.Load() != succeeds {
		t.Errorf("%d proofs", asked.Load())
	}

	ctx, cancel := context.WithCancel(t.Context())
	go func() { proved <- r.untilProved(ctx, func(context.Context) error { return errSilent }) }()
	waitFor(t, clk.HasWaiters)
	cancel()
	if <-proved {
		t.Error("proved although nobody waits any more")
	}
}

func waitFor(t *testing.T, what func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for !what() {
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatal("it does not happen")
		}
	}
}
