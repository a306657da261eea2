package satoken

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kcmd.dev/test/controllertest"
)

// Pins SAT-73.
func TestSecretsDeletedBetweenInstancesAreCleanedUpAfter(t *testing.T) {
	full := secret("s", "u1", withData("ca", "ns", "t"))
	kept := secret("kept", "u1", withData("ca", "ns", "t"))
	_, old := start(t, objects(account("sa", "u1", "s", "kept", "never-seen"), full, kept))

	env, c := startAfter(t, old.HandOver(), objects(account("sa", "u1", "s", "kept", "never-seen"), kept))
	stop := env.Run(t, c)
	controllertest.Eventually(t, "the reference is removed", func() bool {
		sa, err := env.Client.CoreV1().ServiceAccounts("ns").Get(t.Context(), "sa", metav1.GetOptions{})
		return err == nil && len(sa.Secrets) == 2 && sa.Secrets[0].Name == "kept" && sa.Secrets[1].Name == "never-seen"
	})
	controllertest.Eventually(t, "both secrets are reconciled", func() bool { return c.loop.Inspect().Reconciled >= 2 })
	stop()
	if got := c.known.keys(); len(got) != 1 || got[0] != secretKey(kept) {
		t.Errorf("known = %v, want the secret that exists", got)
	}
}

func TestAnEstateOfAnotherTypeIsIgnored(t *testing.T) {
	_, c := startAfter(t, "something else", nil)
	c.takeOver()
	if depth := c.loop.Inspect().Depth; depth != 0 {
		t.Errorf("depth = %d, want 0", depth)
	}
}
