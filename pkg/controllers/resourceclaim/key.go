package resourceclaim

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"kcmd.dev/pkg/controllers/kit/reconcile"
)

// kind is what a key names. All kinds share a queue, and so the workers.
type kind string

const (
	kindClaim    kind = "claim"
	kindPod      kind = "pod"
	kindPodGroup kind = "podgroup"
)

type key struct {
	kind kind
	types.NamespacedName
}

func (k key) String() string { return string(k.kind) + ":" + k.NamespacedName.String() }

func keyOf(kind kind, object metav1.Object) key { return key{kind, reconcile.KeyOf(object)} }

func (c *claimController) reconcile(ctx context.Context, key key) error {
	switch key.kind {
	case kindPod:
		return c.reconcilePod(ctx, key.NamespacedName)
	case kindPodGroup:
		return c.reconcileGroup(ctx, key.NamespacedName)
	default:
		return c.reconcileClaim(ctx, key)
	}
}
