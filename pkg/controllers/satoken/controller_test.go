package satoken

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/utils/ptr"

	"kcmd.dev/pkg/config/locks"
	"kcmd.dev/pkg/config/v1beta1"
	"kcmd.dev/test/controllertest"
	"kcmd.dev/test/must"
)

// Pins SAT-3, SAT-8 and SAT-79.
func TestDescriptor(t *testing.T) {
	d := Descriptor()
	env := controllertest.New(t)
	cfg := v1beta1.NewDefault()
	cfg.ServiceAccounts.RootCAFile = "/nothing/ca.crt"
	idle := d.Value(cfg)
	if c, err := d.New(env.Env, idle); c != nil || err != nil {
		t.Errorf("New = %v, %v without a private key, want nothing to run", c, err)
	}
	if files := d.Files(idle); len(files) != 0 {
		t.Errorf("files = %v without a private key", files)
	}

	cfg.ServiceAccounts.PrivateKeyFile = write(t, keyPEM(t))
	if _, err := d.New(env.Env, d.Value(cfg)); err == nil {
		t.Error("New accepts a missing CA file")
	}
	cfg.ServiceAccounts.RootCAFile = write(t, caPEM(t))
	value := d.Value(cfg)
	if diff := cmp.Diff([]string{cfg.ServiceAccounts.PrivateKeyFile, cfg.ServiceAccounts.RootCAFile}, d.Files(value)); diff != "" {
		t.Errorf("files (-want +got):\n%s", diff)
	}
	c := must.Get(d.New(env.Env, value))(t)
	if workers := c.(*tokenController).loop.Inspect().Workers; workers != 10 {
		t.Errorf("workers = %d, want 5 for each of two kinds of keys", workers)
	}
}

// Pins SAT-1, SAT-5, SAT-6, SAT-9, SAT-77 and SAT-79.
func TestIdentity(t *testing.T) {
	d, cfg := Descriptor(), v1beta1.NewDefault()
	if d.Name != "serviceaccount-token-controller" || !slices.Equal(d.Aliases, []string{"serviceaccount-token"}) {
		t.Errorf("it is called %s, also %q", d.Name, d.Aliases)
	}
	// Without a service account it has the identity of the process.
	if d.ServiceAccount != "" || d.ClientName != "tokens-controller" {
		t.Errorf("it acts as %q, and its user agent ends with %q", d.ServiceAccount, d.ClientName)
	}
	if on, reason := d.Enabled(cfg); !on || d.Gate != "" {
		t.Errorf("it is disabled: %s", reason)
	}
	cfg.Controllers.ServiceAccountToken.Enabled = ptr.To(false)
	if on, _ := d.Enabled(cfg); on {
		t.Error("it cannot be disabled")
	}
	cfg.ServiceAccounts.PrivateKeyFile = write(t, keyPEM(t))
	before := d.Value(cfg)
	cfg.FeatureGates = map[string]bool{"AllAlpha": true}
	if d.Value(cfg) != before {
		t.Error("feature gates restart it")
	}
	*cfg.Controllers.ServiceAccountToken.ConcurrentSyncs = 7
	c := must.Get(d.New(controllertest.New(t).Env, d.Value(cfg)))(t)
	if s := c.(*tokenController).loop.Inspect(); s.Workers != 14 || s.Queue != "serviceaccount_tokens_service" {
		t.Errorf("its queue is %s with %d workers", s.Queue, s.Workers)
	}
}

// It runs under the main lease whatever is migrated, and what is migrated does not wait for it, not even if it has
// nothing to run. Pins SAT-7 and SAT-87.
func TestItIsNotMigrated(t *testing.T) {
	cfg := v1beta1.NewDefault()
	cfg.LeaderMigration.Enabled = ptr.To(true)
	cfg.LeaderMigration.ControllerLeaders = []v1beta1.ControllerLeader{
		{Name: Descriptor().Name, Component: v1beta1.AnyComponent}, {Name: "job-controller", Component: v1beta1.AnyComponent},
	}
	var contended []string
	for _, lock := range locks.All(cfg) {
		contended = append(contended, lock.Name)
		if runs := slices.Contains(lock.Controllers, Descriptor().Name); runs != (lock.Name == locks.Main) {
			t.Errorf("under %s run %q", lock.Name, lock.Controllers)
		}
	}
	if want := []string{locks.Main, locks.Migration}; !slices.Equal(contended, want) {
		t.Errorf("locks are %q, want %q", contended, want)
	}
}
