package endpointslicemirroring

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/leaderelection/resourcelock"

	"kcmd.dev/pkg/controller"
)

// source reads the Endpoints and the Service of a name, from the caches or from the API server.
type source struct {
	endpoints func(id types.NamespacedName) (*corev1.Endpoints, error)
	service   func(id types.NamespacedName) (*corev1.Service, error)
}

// mirrored returns Endpoints that are to be mirrored, nil if there are none or they are not.
func mirrored(id types.NamespacedName, from source) (*corev1.Endpoints, error) {
	endpoints, err := from.endpoints(id)
	if controller.Absent(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("looking up Endpoints %s: %w", id, err)
	}
	if !mirrorable(endpoints) {
		return nil, nil
	}
	service, err := from.service(id)
	if controller.Absent(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("looking up Service %s: %w", id, err)
	}
	if service.Spec.Selector != nil {
		return nil, nil
	}
	return endpoints, nil
}

func cachedSource(services corelisters.ServiceLister, endpoints corelisters.EndpointsLister) source {
	return source{
		endpoints: func(id types.NamespacedName) (*corev1.Endpoints, error) {
			return endpoints.Endpoints(id.Namespace).Get(id.Name)
		},
		service: func(id types.NamespacedName) (*corev1.Service, error) {
			return services.Services(id.Namespace).Get(id.Name)
		},
	}
}

func (c *mirroringController) live(ctx context.Context) source {
	return source{
		endpoints: func(id types.NamespacedName) (*corev1.Endpoints, error) {
			return c.Client.CoreV1().Endpoints(id.Namespace).Get(ctx, id.Name, metav1.GetOptions{})
		},
		service: func(id types.NamespacedName) (*corev1.Service, error) {
			return c.Client.CoreV1().Services(id.Namespace).Get(ctx, id.Name, metav1.GetOptions{})
		},
	}
}

// mirrorable reports whether nothing in the Endpoints themselves excludes mirroring them.
func mirrorable(endpoints *corev1.Endpoints) bool {
	_, isLock := endpoints.Annotations[resourcelock.LeaderElectionRecordAnnotationKey]
	return !isLock && endpoints.Labels[discoveryv1.LabelSkipMirror] != "true"
}
