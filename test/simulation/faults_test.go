package simulation

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestThingsHappenWhileARequestIsUnderWay(t *testing.T) {
	w := New(t, 1)
	pods := w.Client.CoreV1().Pods("ns")
	happened := 0
	w.happens = func() {
		happened++
		if _, err := pods.List(t.Context(), metav1.ListOptions{}); err != nil { // a request within a request
			t.Error(err)
		}
		if happened == 1 {
			w.Create(newPod("p"))
		}
	}
	for hasty, want := range []bool{false, true} {
		w.Hasty = hasty
		listed, err := pods.List(t.Context(), metav1.ListOptions{})
		if err != nil || (happened > 0) != want || (len(listed.Items) == 1) != want {
			t.Errorf("hasty %d: %d things happened, listed %v, error %v", hasty, happened, listed, err)
		}
	}
}
