package replicas

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/cache"

	"kcmd.dev/pkg/controllers/kit/pods"
)

// Kind describes a kind of owner to the engine. All fields are required unless documented
// otherwise. Objects passed to the functions are cached and must not be modified.
type Kind[T pods.Owner] struct {
	// GroupVersionKind is written to owner references.
	GroupVersionKind schema.GroupVersionKind
	// Resource is used in requests.
	Resource schema.GroupResource

	// Informer is the informer of the kind.
	Informer cache.SharedIndexInformer
	// Live reads an owner from the API server.
	Live func(ctx context.Context, namespace, name string) (T, error)

	// Selector returns the selector of an owner, or an error if it is invalid.
	Selector func(T) (labels.Selector, error)
	// Spec returns the relevant part of the spec of an owner.
	Spec func(T) Spec
	// Template returns the pod template of an owner.
	Template func(T) *corev1.PodTemplateSpec

	// Status returns the status of an owner.
	Status func(T) Status
	// Metadata returns the metadata of an owner.
	Metadata func(T) *metav1.ObjectMeta
	// WithStatus returns a copy of an owner with another status, which shares everything else with it.
	WithStatus func(owner T, status Status) T
	// UpdateStatus stores the status of the owner. Of the object that it returns only the metadata is read.
	UpdateStatus func(ctx context.Context, owner T) (T, error)

	// RelatedByNode returns the number of active pods related to an owner by node
	// name, which ranks its pods for deletion. Nil if the kind has no related pods.
	RelatedByNode func(T) (map[string]int, error)
}

// Spec is the relevant part of the spec of an owner.
type Spec struct {
	// Replicas is the desired number of pods.
	Replicas int32
	// MinReadySeconds is how long a pod must be ready to be available.
	MinReadySeconds int32
}

// Status is the status of an owner.
type Status struct {
	// Replicas counts active pods; the others count those of them that have all labels
	// of the template, are ready, and are available.
	Replicas, FullyLabeled, Ready, Available int32
	// Terminating counts pods that are being deleted and have not finished; nil if the
	// kind does not report it.
	Terminating *int32
	// ObservedGeneration is the generation that the counts belong to.
	ObservedGeneration int64
	// Conditions holds ReplicaFailure and the conditions that others wrote.
	Conditions []Condition
}

// Condition is a condition of an owner.
type Condition struct {
	Type               string
	Status             corev1.ConditionStatus
	LastTransitionTime metav1.Time
	Reason             string
	Message            string
}

// ReplicaFailure is the type of the condition that is true while pods cannot be created
// or deleted.
const ReplicaFailure = "ReplicaFailure"
