package faults

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

func trustBundleCorners() Scenario {
	const extra, kept = "extra", "kept"
	// label has metadata of users on the bundle that was published.
	label := func(ctx context.Context, w *world, name string) error {
		_, err := w.client.Resource(trustBundles).Patch(ctx, name, types.MergePatchType, []byte(`{"metadata":{"labels":{"a":"b"},"annotations":{"c":"d"}}}`), metav1.PatchOptions{})
		return err
	}
	finish := func(finalizers string) func(context.Context, *world, string) error {
		return func(ctx context.Context, w *world, name string) error {
			_, err := w.client.Resource(trustBundles).Patch(ctx, name, types.MergePatchType, []byte(`{"metadata":{"finalizers":`+finalizers+`}}`), metav1.PatchOptions{})
			return err
		}
	}
	remove := func(ctx context.Context, w *world, name string) error {
		return w.client.Resource(trustBundles).Delete(ctx, name, metav1.DeleteOptions{})
	}
	s := trustBundlePublisher()
	published := []Condition{bundlePublished}
	return Scenario{
		Name:        "trust-bundles",
		Bare:        true,
		Controllers: s.Controllers,
		Configure:   s.Configure,
		Kinds:       []schema.GroupVersionResource{trustBundles},
		Steps: []Step{
			{"create bundles of the signer", []Action{TrustBundle(servingBundleName(extra), servingSigner), TrustBundle("faults-none", "")}, published},
			{"label the bundle", []Action{eachServingBundle(label)}, published},
			{"delete it, but keep it by a finalizer", []Action{eachServingBundle(finish(`["example.com/kept"]`)), eachServingBundle(remove)}, published},
			{
				"let it go, and create another one",
				[]Action{eachServingBundle(finish("null")), TrustBundle(servingBundleName(kept), servingSigner)},
				published,
			},
		},
	}
}
