package satoken

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clienttesting "k8s.io/client-go/testing"
)

// Pins SAT-38, SAT-39 and SAT-72.
func TestPopulateWritesACompleteSecret(t *testing.T) {
	before := secret("s", "")
	env, c := start(t, objects(account("sa", "u1"), before))
	if err := c.reconcile(env.Context(), secretKey(before)); err != nil {
		t.Fatal(err)
	}
	got, err := env.Client.CoreV1().Secrets("ns").Get(env.Context(), "s", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if needsOf(got, []byte("ca")) != (needs{}) {
		t.Errorf("data = %q, still lacks something", got.Data)
	}
	if got.Annotations[corev1.ServiceAccountUIDKey] != "u1" || got.Annotations[corev1.ServiceAccountNameKey] != "sa" {
		t.Errorf("annotations = %v, not bound to the account", got.Annotations)
	}
	update := env.Writes()[0].(clienttesting.UpdateAction).GetObject().(*corev1.Secret)
	if update.UID != before.UID || update.ResourceVersion != before.ResourceVersion {
		t.Errorf("update is of %s at %q, want the cached UID and resource version", update.UID, update.ResourceVersion)
	}
}
