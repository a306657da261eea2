package daemonset

import (
	"reflect"
	"strconv"
	"sync"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	appslisters "k8s.io/client-go/listers/apps/v1"

	"kcmd.dev/pkg/controllers/kit/reconcile"
	"kcmd.dev/pkg/controllers/kit/workloads/history"
)

// generationLabel marks pods with the template generation of their set, if it has one.
// It was replaced by controller-revision-hash.
const generationLabel = "pod-template-generation"

// blueprint holds the data derived from the template of a DaemonSet. It is computed once per
// template, because every reconcile and every node event needs it.
type blueprint struct {
	// template is the template that it was derived from. It belongs to a set of the cache and must not be modified.
	template  *corev1.PodTemplateSpec
	placement placement
	// payload is the template as stored in a ControllerRevision.
	payload []byte
}

func newBlueprint(ds *appsv1.DaemonSet, comparisonOperators bool) (*blueprint, error) {
	payload, err := history.Payload(&ds.Spec.Template)
	if err != nil {
		return nil, err
	}
	return &blueprint{
		template:  &ds.Spec.Template,
		placement: newPlacement(&ds.Spec.Template.Spec, comparisonOperators),
		payload:   payload,
	}, nil
}

// podTemplate returns the template for new pods of the set, without a node.
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

// templateGeneration returns the template generation in the annotation of a set that was
// created through an API version older than apps/v1.
func templateGeneration(ds *appsv1.DaemonSet) (string, bool) {
	generation, err := strconv.ParseInt(ds.Annotations[appsv1.DeprecatedTemplateGeneration], 10, 64)
	if err != nil {
		return "", false
	}
	return strconv.FormatInt(generation, 10), true
}

// blueprints caches the blueprint of each set. It is safe for concurrent use.
type blueprints struct {
	sets                appslisters.DaemonSetLister
	comparisonOperators bool

	mu   sync.RWMutex
	made map[types.NamespacedName]*blueprint
}

func newBlueprints(sets appslisters.DaemonSetLister, comparisonOperators bool) *blueprints {
	return &blueprints{sets: sets, comparisonOperators: comparisonOperators, made: map[types.NamespacedName]*blueprint{}}
}

// of returns the blueprint of a set. It is shared and must not be modified.
func (s *blueprints) of(ds *appsv1.DaemonSet) (*blueprint, error) {
	key := reconcile.KeyOf(ds)
	s.mu.RLock()
	known := s.made[key]
	s.mu.RUnlock()
	if known != nil && known.template == &ds.Spec.Template {
		return known, nil
	}
	made, err := s.renew(known, ds)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.exists(ds) {
		s.made[key] = made
	}
	return made, nil
}

// renew returns the blueprint of another version of a set. The templates are compared, not the generations: in a
// cluster that was restored from a backup, a generation can occur twice.
func (s *blueprints) renew(known *blueprint, ds *appsv1.DaemonSet) (*blueprint, error) {
	if known == nil || !reflect.DeepEqual(known.template, &ds.Spec.Template) {
		return newBlueprint(ds, s.comparisonOperators)
	}
	return &blueprint{template: &ds.Spec.Template, placement: known.placement, payload: known.payload}, nil
}

// exists reports whether the cache has a set. A blueprint is stored only if it does, so that one that was made in the
// meantime is not left behind by forget, which is called after the set has left the cache.
func (s *blueprints) exists(ds *appsv1.DaemonSet) bool {
	cached, err := s.sets.DaemonSets(ds.Namespace).Get(ds.Name)
	return err == nil && cached.UID == ds.UID
}

// forget drops the blueprint of a deleted set.
func (s *blueprints) forget(key types.NamespacedName) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.made, key)
}
