package events

import (
	"context"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"

	"kcmd.dev/pkg/controller"
)

// briefEvents are stored, and answered with their metadata only.
type briefEvents struct {
	corev1client.EventInterface
	asked []bool // whether that was asked for
}

func (b *briefEvents) CreateWithEventNamespaceWithContext(ctx context.Context, e *corev1.Event) (*corev1.Event, error) {
	b.asked = append(b.asked, controller.WantsOnlyMetadata(ctx))
	stored := &corev1.Event{ObjectMeta: e.ObjectMeta}
	stored.ResourceVersion = "5"
	return stored, nil
}

func (b *briefEvents) PatchWithEventNamespaceWithContext(ctx context.Context, e *corev1.Event, _ []byte) (*corev1.Event, error) {
	b.asked = append(b.asked, controller.WantsOnlyMetadata(ctx))
	return &corev1.Event{ObjectMeta: e.ObjectMeta}, nil
}

// The pipeline recognizes an event by what was sent, and updates it by the name and version it was stored with.
func TestOfAStoredEventOnlyTheMetadataIsRead(t *testing.T) {
	events := &briefEvents{}
	sink := apiServer{events}
	sent := &corev1.Event{Reason: "Scheduled", Message: "said", Count: 3}
	sent.Namespace, sent.Name = "n", "e"
	want := sent.DeepCopy()
	want.ResourceVersion = "5"
	got, err := sink.Create(sent)
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("error %v, %s", err, diff)
	}
	if sent.ResourceVersion != "" {
		t.Error("the event that was sent is changed")
	}
	if _, err := sink.Patch(sent, nil); err != nil {
		t.Error(err)
	}
	if !slices.Equal(events.asked, []bool{true, true}) {
		t.Errorf("only the metadata was asked for: %v", events.asked)
	}
}
