package cloud

import (
	"context"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clienttesting "k8s.io/client-go/testing"

	"kcmd.dev/test/controllertest"
)

func nodeOf(name string, uid types.UID) *corev1.Node {
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, UID: uid}}
}

// A node is deleted by the UID of the one that the cloud was asked about.
// Pins CNLC-16.
func TestDeletionNamesTheNodeThatWasJudged(t *testing.T) {
	env := controllertest.New(t, nodeOf("a", "new"))
	client := newClient(env.Env, newWorld(t).guard)
	session := &Session{Client: client}
	session.Judged([]*corev1.Node{nodeOf("b", "other"), nodeOf("a", "old")})
	if err := client.CoreV1().Nodes().Delete(t.Context(), "a", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	sent, ok := env.Writes()[0].(clienttesting.DeleteAction)
	if !ok {
		t.Fatalf("%T was sent", env.Writes()[0])
	}
	if p := sent.GetDeleteOptions().Preconditions; p == nil || p.UID == nil || *p.UID != "old" {
		t.Errorf("the preconditions are %+v", p)
	}
}

// Events of the library take the way of all events, and send nothing themselves. One that is
// counted up is passed on again.
func TestEventsArePassedOn(t *testing.T) {
	env := controllertest.New(t)
	client := newClient(env.Env, newWorld(t).guard)
	events := client.CoreV1().Events("")
	event := &corev1.Event{InvolvedObject: corev1.ObjectReference{Kind: "Node", Name: "a"}, Type: "Normal", Reason: "Reason", Message: "message"}
	for _, send := range []func() (*corev1.Event, error){
		func() (*corev1.Event, error) { return events.CreateWithEventNamespace(event) },     //nolint:staticcheck // what the library calls
		func() (*corev1.Event, error) { return events.UpdateWithEventNamespace(event) },     //nolint:staticcheck // what the library calls
		func() (*corev1.Event, error) { return events.PatchWithEventNamespace(event, nil) }, //nolint:staticcheck // what the library calls
	} {
		if _, err := send(); err != nil {
			t.Fatal(err)
		}
	}
	env.WantEvents(t, "Normal Reason message", "Normal Reason message", "Normal Reason message")
	if sent := env.Writes(); len(sent) > 0 {
		t.Errorf("%v were sent", sent)
	}
}

// The stop does not cut off what a key in flight writes.
func TestWritesOfNodesSurviveTheStop(t *testing.T) {
	w := newWorld(t)
	stopped, cancel := context.WithCancel(t.Context())
	cancel()
	bound := w.bind(stopped)
	if err := bound.Err(); err != nil {
		t.Errorf("the context of the write has ended: %v", err)
	}
	w.end()
	<-bound.Done()
}
