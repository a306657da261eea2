package disruption

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/scale"
	"k8s.io/utils/clock"
)

// scaleTTL is how long the scale of a workload is cached. A burst of pod events, as in a
// rollout, then costs one request per second instead of one per event.
const scaleTTL = time.Second

// scaleReader reads the scale of workloads that are not cached from the API server.
type scaleReader struct {
	mapper    meta.RESTMapper
	scales    scale.ScalesGetter
	discovery discovery.ServerResourcesInterface
	clock     clock.PassiveClock
	versions  []schema.GroupVersion // supported versions of Scale

	mu         sync.Mutex
	remembered map[scaleOf]scaleAnswer
}

// scaleOf identifies a workload.
type scaleOf struct {
	namespace, name string
	kind            schema.GroupVersionKind
	uid             types.UID
}

// scaleAnswer is the result of reading a scale: a workload, that there is none, or that the
// kind has no scale.
type scaleAnswer struct {
	workload *workload
	err      error
	until    time.Time
}

func newScaleReader(
	mapper meta.RESTMapper, scales scale.ScalesGetter, d discovery.ServerResourcesInterface, c clock.PassiveClock,
) *scaleReader {
	return &scaleReader{
		mapper:     mapper,
		scales:     scales,
		discovery:  d,
		clock:      c,
		versions:   scale.NewScaleConverter().ScaleVersions(),
		remembered: map[scaleOf]scaleAnswer{},
	}
}

// find returns the workload that a reference refers to, nil if there is none. If the result was
// cached, it also returns when it expires, which is when the caller has to read it again.
func (s *scaleReader) find(
	ctx context.Context, namespace string, kind schema.GroupVersionKind, ref *metav1.OwnerReference,
) (*workload, time.Time, error) {
	of := scaleOf{namespace: namespace, name: ref.Name, kind: kind, uid: ref.UID}
	if known, ok := s.recall(of); ok {
		return known.workload, known.until, known.err
	}
	mapping, err := s.mapper.RESTMapping(kind.GroupKind(), kind.Version)
	if err != nil {
		return nil, time.Time{}, err
	}
	got, err := s.scales.Scales(namespace).Get(ctx, mapping.Resource.GroupResource(), ref.Name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return s.explain(of, mapping.Resource)
	case err != nil:
		return nil, time.Time{}, err
	case got.UID != ref.UID:
		s.remember(of, scaleAnswer{})
		return nil, time.Time{}, nil
	}
	found := &workload{uid: got.UID, replicas: got.Spec.Replicas}
	s.remember(of, scaleAnswer{workload: found})
	return found, time.Time{}, nil
}

// explain distinguishes a workload that does not exist from a kind that has no scale.
func (s *scaleReader) explain(of scaleOf, resource schema.GroupVersionResource) (*workload, time.Time, error) {
	list, err := s.discovery.ServerResourcesForGroupVersion(resource.GroupVersion().String())
	if err != nil {
		return nil, time.Time{}, err
	}
	var answer scaleAnswer
	if !hasScale(list.APIResources, resource, s.versions) {
		answer.err = fmt.Errorf("%s does not implement the scale subresource", resource.GroupResource())
	}
	s.remember(of, answer)
	return nil, time.Time{}, answer.err
}

// hasScale reports whether the scale subresource of a resource is served.
func hasScale(
	served []metav1.APIResource, resource schema.GroupVersionResource, understood []schema.GroupVersion,
) bool {
	return slices.ContainsFunc(served, func(r metav1.APIResource) bool {
		return r.Name == resource.Resource+"/scale" && r.Kind == "Scale" &&
			slices.Contains(understood, schema.GroupVersion{Group: r.Group, Version: r.Version})
	})
}

func (s *scaleReader) recall(of scaleOf) (scaleAnswer, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	known, ok := s.remembered[of]
	return known, ok && s.clock.Now().Before(known.until)
}

// remember caches a result and drops expired ones.
func (s *scaleReader) remember(of scaleOf, answer scaleAnswer) {
	now := s.clock.Now()
	answer.until = now.Add(scaleTTL)
	s.mu.Lock()
	defer s.mu.Unlock()
	for other, known := range s.remembered {
		if !now.Before(known.until) {
			delete(s.remembered, other)
		}
	}
	s.remembered[of] = answer
}
