package harness

import (
	"context"
	"fmt"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"kcmd.dev/test/await"
)

// EventText is what a user sees of an event.
func EventText(e *corev1.Event) string {
	return fmt.Sprintf("%s %s %s: %s", e.Source.Component, e.Type, e.Reason, e.Message)
}

// EventsOf lists the events of an object, the oldest first.
func (c *Cluster) EventsOf(ctx context.Context, namespace string, uid types.UID) ([]string, error) {
	list, err := c.Admin.CoreV1().Events(namespace).List(ctx, metav1.ListOptions{FieldSelector: "involvedObject.uid=" + string(uid)})
	if err != nil {
		return nil, err
	}
	slices.SortFunc(list.Items, func(a, b corev1.Event) int { return a.FirstTimestamp.Compare(b.FirstTimestamp.Time) })
	var texts []string
	for i := range list.Items {
		texts = append(texts, EventText(&list.Items[i]))
	}
	return texts, nil
}

// WaitForEvents waits until the object has just these events, in any order.
func (c *Cluster) WaitForEvents(t testing.TB, namespace string, uid types.UID, want ...string) {
	t.Helper()
	slices.Sort(want)
	await.That(t, "the events are there", func(ctx context.Context) error {
		got, err := c.EventsOf(ctx, namespace, uid)
		if err != nil {
			return err
		}
		slices.Sort(got)
		if !slices.Equal(got, want) {
			return fmt.Errorf("got %q, want %q", got, want)
		}
		return nil
	})
}

// WaitForEvent waits until the object has the event, among others.
func (c *Cluster) WaitForEvent(t testing.TB, namespace string, uid types.UID, want string) {
	t.Helper()
	await.That(t, "the event is there", func(ctx context.Context) error {
		got, err := c.EventsOf(ctx, namespace, uid)
		if err == nil && !slices.Contains(got, want) {
			err = fmt.Errorf("got %q, want %q", got, want)
		}
		return err
	})
}
