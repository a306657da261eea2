package resourceclaim

import (
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
