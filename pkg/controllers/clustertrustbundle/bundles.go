package clustertrustbundle

import (
	"context"
	"errors"

	certificatesv1alpha1 "k8s.io/api/certificates/v1alpha1"
	certificatesv1beta1 "k8s.io/api/certificates/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"

	"kcmd.dev/pkg/controller"
	"kcmd.dev/pkg/controllers/kit/reconcile"
	"kcmd.dev/pkg/controllers/kit/watch"
)

// bundles reads and writes the ClusterTrustBundles of the signer, in any version of their API.
type bundles interface {
	// existing returns the cached trust bundles by name.
	existing() map[string]string
	create(ctx context.Context, name, trust string) error
	// update changes the content of a cached one.
	update(ctx context.Context, name, trust string) error
	// delete deletes a cached one, and no other of its name.
	delete(ctx context.Context, name string) error
}

// newBundles requests the informer of the served version. changed is called for each of its
// events.
func newBundles(env controller.Env, changed func(reconcile.Lane)) bundles {
	informers := env.Informers.Filtered(controller.Filter{FieldSelector: "spec.signerName=" + signerName}).Certificates()
	if env.Chosen.Version == certificatesv1alpha1.SchemeGroupVersion.Version {
		return newVersion(env.Client.CertificatesV1alpha1().ClusterTrustBundles(), informers.V1alpha1().ClusterTrustBundles().Informer(), changed,
			func(name, trust string) *certificatesv1alpha1.ClusterTrustBundle {
				return &certificatesv1alpha1.ClusterTrustBundle{
					ObjectMeta: metav1.ObjectMeta{Name: name},
					Spec:       certificatesv1alpha1.ClusterTrustBundleSpec{SignerName: signerName, TrustBundle: trust},
				}
			},
			func(b *certificatesv1alpha1.ClusterTrustBundle) (string, *string) {
				return b.Spec.SignerName, &b.Spec.TrustBundle
			})
	}
	return newVersion(env.Client.CertificatesV1beta1().ClusterTrustBundles(), informers.V1beta1().ClusterTrustBundles().Informer(), changed,
		func(name, trust string) *certificatesv1beta1.ClusterTrustBundle {
			return &certificatesv1beta1.ClusterTrustBundle{
				ObjectMeta: metav1.ObjectMeta{Name: name},
				Spec:       certificatesv1beta1.ClusterTrustBundleSpec{SignerName: signerName, TrustBundle: trust},
			}
		},
		func(b *certificatesv1beta1.ClusterTrustBundle) (string, *string) {
			return b.Spec.SignerName, &b.Spec.TrustBundle
		})
}

// object is a ClusterTrustBundle of some version.
type object[T any] interface {
	metav1.Object
	DeepCopy() T
}

// client writes ClusterTrustBundles of one version.
type client[T any] interface {
	Create(context.Context, T, metav1.CreateOptions) (T, error)
	Update(context.Context, T, metav1.UpdateOptions) (T, error)
	Delete(context.Context, string, metav1.DeleteOptions) error
}

// version implements bundles for one version of the API.
type version[T object[T]] struct {
	client  client[T]
	indexer cache.Indexer
	build   func(name, trust string) T
	spec    func(T) (signer string, trust *string)
}

func newVersion[T object[T]](
	c client[T], informer cache.SharedIndexInformer, changed func(reconcile.Lane),
	build func(name, trust string) T, spec func(T) (signer string, trust *string),
) version[T] {
	watch.Objects(informer, watch.Funcs[T]{
		AddOrUpdate: func(lane reconcile.Lane, _ T) { changed(lane) },
		Delete:      func(T) { changed(reconcile.Fresh) },
	})
	return version[T]{client: c, indexer: informer.GetIndexer(), build: build, spec: spec}
}

// existing ignores the ClusterTrustBundles of other signers, which a server without support for
// the field selector sends as well.
func (v version[T]) existing() map[string]string {
	all := map[string]string{}
	for _, obj := range v.indexer.List() {
		if bundle, ok := obj.(T); ok {
			if signer, trust := v.spec(bundle); signer == signerName {
				all[bundle.GetName()] = *trust
			}
		}
	}
	return all
}

func (v version[T]) create(ctx context.Context, name, trust string) error {
	_, err := v.client.Create(ctx, v.build(name, trust), metav1.CreateOptions{})
	return err
}

func (v version[T]) update(ctx context.Context, name, trust string) error {
	bundle, ok := v.cached(name)
	if !ok {
		return errors.New("it is not in the cache any more")
	}
	bundle = bundle.DeepCopy()
	_, content := v.spec(bundle)
	*content = trust
	_, err := v.client.Update(ctx, bundle, metav1.UpdateOptions{})
	return err
}

func (v version[T]) delete(ctx context.Context, name string) error {
	bundle, ok := v.cached(name)
	if !ok {
		return nil // it is gone
	}
	return v.client.Delete(ctx, name, metav1.DeleteOptions{
		Preconditions: metav1.NewUIDPreconditions(string(bundle.GetUID())),
	})
}

func (v version[T]) cached(name string) (T, bool) {
	obj, _, err := v.indexer.GetByKey(name)
	bundle, ok := obj.(T)
	return bundle, ok && err == nil
}
