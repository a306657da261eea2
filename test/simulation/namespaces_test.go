package simulation

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestNothingIsCreatedInANamespaceThatIsNotThere(t *testing.T) {
	w := New(t, 1)
	namespaces := Namespaces{World: w, Names: []string{"ns"}}
	w.Refuse = namespaces.Refusal
	create := func(name string) error {
		_, err := w.Client.CoreV1().Pods("ns").Create(w.Context(), newPod(name), metav1.CreateOptions{})
		return err
	}
	if err := create("early"); !apierrors.IsNotFound(err) {
		t.Errorf("created in no namespace: %v", err)
	}
	namespaces.User()
	if err := create("p"); err != nil {
		t.Error(err)
	}
	namespaces.User()
	ns, _ := Get[*corev1.Namespace](w, "", "ns")
	isTerminating := apierrors.HasStatusCause(create("late"), corev1.NamespaceTerminatingCause)
	if !isTerminating || ns.Status.Phase != corev1.NamespaceTerminating {
		t.Errorf("created in %+v", ns)
	}
	for namespaces.Act(true) {
	}
	if left := All[*corev1.Pod](w); len(left) > 0 || len(All[*corev1.Namespace](w)) > 0 {
		t.Errorf("left are %v", left)
	}
	namespaces.User()
	w.Faulty, namespaces.former["ns"] = true, true
	w.Rand = nil // no fault of another kind
	if err := namespaces.Refusal(newPod("q")); !apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) {
		t.Errorf("the namespace is not taken for the one before: %v", err)
	}
	if err := namespaces.Refusal(newPod("q")); err != nil {
		t.Error(err)
	}
}
