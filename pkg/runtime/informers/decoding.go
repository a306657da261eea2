package informers

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"

	"kcmd.dev/pkg/runtime/informers/wire"
)

// preshrunkFields is the managedFields of a pod that was shrunk while it was decoded, and whose metadata and spec
// belong to others too. It is never changed.
var preshrunkFields = []metav1.ManagedFieldsEntry{{Manager: ShrunkMarker}}

// preshrunk reports whether a pod was shrunk while it was decoded, and has not been stored yet.
func preshrunk(pod *corev1.Pod) bool {
	return len(pod.ManagedFields) == 1 && &pod.ManagedFields[0] == &preshrunkFields[0]
}

// cacheClient is a client with a core client of its own.
type cacheClient struct {
	kubernetes.Interface
	core corev1client.CoreV1Interface
}

func (c cacheClient) CoreV1() corev1client.CoreV1Interface { return c.core }

// ForCaches returns a client of the same configuration as an ordinary one that fills caches, whose watches of pods
// return what a cache keeps of them, and the defaultTransforms that go with it. See package wire.
func ForCaches(ordinary kubernetes.Interface, config *rest.Config) (kubernetes.Interface, Transforms, error) {
	shared := newPodSharing()
	version := corev1.SchemeGroupVersion
	config = rest.CopyConfig(config)
	config.APIPath = "/api"
	config.GroupVersion = &version
	config.NegotiatedSerializer = wire.Pods(rest.CodecFactoryForGeneratedClient(scheme.Scheme, scheme.Codecs).WithoutConversion(), shared.decoding())
	client, err := rest.RESTClientFor(config)
	if err != nil {
		return nil, nil, fmt.Errorf("creating the client that fills caches: %w", err)
	}
	return cacheClient{ordinary, corev1client.New(client)}, transformsWith(shared), nil
}

// decoding is how pods are decoded whose parts are shared.
func (s *podSharing) decoding() wire.Options {
	return wire.Options{
		Metadata:    s.newMetadata,
		Spec:        s.newSpec,
		Status:      shrinkStatus,
		Mark:        preshrunkFields,
		TokenVolume: tokenVolumePrefix,
	}
}
