package leadership

import (
	"fmt"
	"strings"
	"testing"

	"k8s.io/utils/ptr"

	"kcmd.dev/pkg/config/gates"
	"kcmd.dev/pkg/config/locks"
	"kcmd.dev/pkg/config/v1beta1"
)

// What restarts in the plan is what gets a new lock, and what is kept keeps it.
func TestLocksAreReplacedWhenTheirKeyChanges(t *testing.T) {
	keys := func(change func(*v1beta1.KubeControllerManagerConfiguration)) string {
		cfg := v1beta1.NewDefault()
		cfg.LeaderElection.Groups = []v1beta1.LeaseGroup{{Name: "apps", Controllers: []string{"deployment-controller"}}}
		if change != nil {
			change(cfg)
		}
		var all []key
		for _, l := range locks.All(cfg) {
			all = append(all, keyOf(1, cfg, l))
		}
		return fmt.Sprint(all)
	}
	coordinated := func(version string) func(*v1beta1.KubeControllerManagerConfiguration) {
		return func(c *v1beta1.KubeControllerManagerConfiguration) {
			c.FeatureGates, c.EmulatedVersion = map[string]bool{gates.CoordinatedLeaderElection: true}, version
		}
	}
	if keys(coordinated("1.36")) == keys(coordinated("1.35")) {
		t.Error("the API server goes on choosing by the former version")
	}
	same := keys(nil)
	for name, c := range map[string]struct {
		change   func(*v1beta1.KubeControllerManagerConfiguration)
		replaced bool
	}{
		"version": {func(c *v1beta1.KubeControllerManagerConfiguration) { c.EmulatedVersion = "1.35" }, false},
		"timings": {func(c *v1beta1.KubeControllerManagerConfiguration) { c.LeaderElection.LeaseDuration.Duration *= 2 }, false},
		"members": {func(c *v1beta1.KubeControllerManagerConfiguration) {
			c.LeaderElection.Groups[0].Controllers[0] = "job-controller"
		}, false},
		"identity":  {func(c *v1beta1.KubeControllerManagerConfiguration) { c.LeaderElection.Identity = "x" }, true},
		"name":      {func(c *v1beta1.KubeControllerManagerConfiguration) { c.LeaderElection.ResourceName = "x" }, true},
		"namespace": {func(c *v1beta1.KubeControllerManagerConfiguration) { c.LeaderElection.ResourceNamespace = "x" }, true},
		"lease":     {func(c *v1beta1.KubeControllerManagerConfiguration) { c.LeaderElection.Groups[0].ResourceName = "x" }, true},
		"elect":     {func(c *v1beta1.KubeControllerManagerConfiguration) { c.LeaderElection.LeaderElect = ptr.To(false) }, true},
	} {
		if got := keys(c.change) != same; got != c.replaced {
			t.Errorf("%s: replaced %v, want %v", name, got, c.replaced)
		}
	}
}

// Processes that share a file, or a host, have different identities. One process keeps its own
// for as long as it lives. Pins MGR-150.
func TestIdentitiesAreUnique(t *testing.T) {
	one, err := NewIdentity()
	if err != nil {
		t.Fatal(err)
	}
	other, err := NewIdentity()
	if err != nil {
		t.Fatal(err)
	}
	for name, prefix := range map[string]string{"": one.host + "_", "configured": "configured_"} {
		got := one.called(name)
		if !strings.HasPrefix(got, prefix) || got == prefix {
			t.Errorf("%q is called %q", name, got)
		}
		if got == other.called(name) || got != one.called(name) {
			t.Errorf("%q: %q, then %q, and %q in another process", name, got, one.called(name), other.called(name))
		}
	}
}
