package satoken

import (
	"testing"

	corev1 "k8s.io/api/core/v1"

	"kcmd.dev/pkg/controllers/kit/reconcile"
)

func TestHandlers(t *testing.T) {
	opaque := secret("s", "u1", func(s *corev1.Secret) { s.Type = corev1.SecretTypeOpaque })
	for name, tc := range map[string]struct {
		event func(*tokenController)
		depth int
		known int
	}{
		"SAT-15: secret added":            {func(c *tokenController) { c.secretAdded(reconcile.Fresh, secret("s", "u1")) }, 1, 1},
		"SAT-15: other secret added":      {func(c *tokenController) { c.secretAdded(reconcile.Fresh, opaque) }, 0, 0},
		"SAT-15: secret updated":          {func(c *tokenController) { c.secretUpdated(reconcile.Fresh, secret("s", ""), secret("s", "u1")) }, 1, 1},
		"SAT-15: secret deleted":          {func(c *tokenController) { c.secretDeleted(secret("s", "u1")) }, 1, 0},
		"SAT-15: other secret deleted":    {func(c *tokenController) { c.secretDeleted(opaque) }, 0, 0},
		"SAT-69, SAT-74: account updated": {func(c *tokenController) { c.accountUpdated(account("sa", "u1"), account("sa", "u1", "x")) }, 0, 0},
		"SAT-74: account replaced":        {func(c *tokenController) { c.accountUpdated(account("sa", "u1"), account("sa", "u2")) }, 1, 0},
		"SAT-75: secret replaced unnoted": {func(c *tokenController) { replaceSecret(c) }, 2, 1},
	} {
		t.Run(name, func(t *testing.T) {
			_, c := start(t, nil)
			tc.event(c)
			if got := c.loop.Inspect().Depth; got != tc.depth {
				t.Errorf("depth = %d, want %d", got, tc.depth)
			}
			if got := len(c.known.keys()); got != tc.known {
				t.Errorf("known = %v, want %d", c.known.keys(), tc.known)
			}
		})
	}
}
