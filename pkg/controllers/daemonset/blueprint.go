package daemonset

import (
	"strconv"
	"sync"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"kcmd.dev/pkg/controllers/kit/history"
)

// generationLabel marks pods with the template generation of their set, if it has one.
// It was replaced by controller-revision-hash.
const generationLabel = "pod-template-generation"

// blueprint is what follows from the spec of a DaemonSet. It is made once per generation,
// because every reconcile, and every event of every node, needs it.
type blueprint struct {
	uid        types.UID
	generation int64

	placement placement
	// payload is the template as a ControllerRevision holds it.
	payload []byte
}

func newBlueprint(ds *appsv1.DaemonSet, comparisonOperators bool) (*blueprint, error) {
	payload, err := history.Payload(&ds.Spec.Template)
	if err != nil {
		return nil, err
	}
	return &blueprint{
		uid:        ds.UID,
		generation: ds.Generation,
		placement:  newPlacement(&ds.Spec.Template.Spec, comparisonOperators),
		payload:    payload,
	}, nil
}

// podTemplate returns what new pods of the set are made from, except for their node.
func (b *blueprint) podTemplate(ds *appsv1.DaemonSet, hash string) *corev1.PodTemplateSpec {
	template := ds.Spec.Template.DeepCopy()
	template.Spec.Tolerations = b.placement.tolerations
	if template.Labels == nil {
		template.Labels = map[string]string{}
	}
	template.Labels[appsv1.DefaultDaemonSetUniqueLabelKey] = hash
	if generation, ok := templateGeneration(ds); ok {
		template.Labels[generationLabel] = generation
	}
	return template
}

// templateGeneration returns the template generation that an annotation gives a set which
// was created through an API older than apps/v1.
func templateGeneration(ds *appsv1.DaemonSet) (string, bool) {
	generation, err := strconv.ParseInt(ds.Annotations[appsv1.DeprecatedTemplateGeneration], 10, 64)
	if err != nil {
		return "", false
	}
	return strconv.FormatInt(generation, 10), true
}

// blueprints keeps the blueprint of each set. It is safe for concurrent use.
type blueprints struct {
	comparisonOperators bool

	mu   sync.RWMutex
	made map[types.NamespacedName]*blueprint
}

func newBlueprints(comparisonOperators bool) *blueprints {
	return &blueprints{comparisonOperators: comparisonOperators, made: map[types.NamespacedName]*blueprint{}}
}

// of returns the blueprint of a set. It is shared and must not be changed.
func (s *blueprints) of(ds *appsv1.DaemonSet) (*blueprint, error) {
	key := keyOf(ds)
	s.mu.RLock()
	known := s.made[key]
	s.mu.RUnlock()
	if known != nil && known.uid == ds.UID && known.generation == ds.Generation {
		return known, nil
	}
	made, err := newBlueprint(ds, s.comparisonOperators)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.made[key] = made
	return made, nil
}

// forget drops the blueprint of a set that is gone.
func (s *blueprints) forget(key types.NamespacedName) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.made, key)
}
