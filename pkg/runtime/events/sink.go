package events

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"

	"kcmd.dev/pkg/controller"
)

// apiServer stores events. Of the answers, pipelines need no more than the metadata.
type apiServer struct{ corev1client.EventInterface }

// Create implements record.EventSink.
func (s apiServer) Create(e *corev1.Event) (*corev1.Event, error) {
	answer, err := s.CreateWithEventNamespaceWithContext(controller.OnlyMetadata(context.Background()), e)
	if err != nil {
		return nil, err
	}
	stored := *e
	stored.ObjectMeta = answer.ObjectMeta
	return &stored, nil
}

// Update implements record.EventSink.
func (s apiServer) Update(e *corev1.Event) (*corev1.Event, error) {
	return s.UpdateWithEventNamespaceWithContext(context.Background(), e)
}

// Patch implements record.EventSink, but for what it returns: see [deliverable.Patch].
func (s apiServer) Patch(e *corev1.Event, data []byte) (*corev1.Event, error) {
	return s.PatchWithEventNamespaceWithContext(controller.OnlyMetadata(context.Background()), e, data)
}
