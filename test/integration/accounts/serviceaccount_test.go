package accounts

import (
	"context"
	"errors"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	"kcmd.dev/test/await"
	"kcmd.dev/test/integration/harness"
	"kcmd.dev/test/must"
)

// Pins SA-15.
func TestServiceAccountIsCreatedAndRecreated(t *testing.T) {
	t.Parallel()
	namespace := cluster.NamespaceForPods(t)
	accounts := admin.CoreV1().ServiceAccounts(namespace)
	first := must.Get(accounts.Get(t.Context(), "default", metav1.GetOptions{}))(t)
	if len(first.Secrets)+len(first.ImagePullSecrets)+len(first.Labels)+len(first.Annotations) > 0 {
		t.Errorf("the account is not empty: %+v", first)
	}
	if err := accounts.Delete(t.Context(), "default", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	waitForOtherAccount(t, namespace, first.UID)
}

// waitForOtherAccount waits until the namespace has a default account that is not
// this one.
func waitForOtherAccount(t *testing.T, namespace string, uid types.UID) {
	t.Helper()
	await.That(t, "the account is there again", func(ctx context.Context) error {
		a, err := admin.CoreV1().ServiceAccounts(namespace).Get(ctx, "default", metav1.GetOptions{})
		if err == nil && a.UID == uid {
			err = errors.New("it is the old one")
		}
		return err
	})
}

// Pins SA-19.
func TestServiceAccountOfAnotherNameIsLeftAlone(t *testing.T) {
	t.Parallel()
	namespace := cluster.NamespaceForPods(t)
	accounts := admin.CoreV1().ServiceAccounts(namespace)
	robot := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "robot"}}
	must.Get(accounts.Create(t.Context(), robot, metav1.CreateOptions{}))(t)
	list := must.Get(accounts.List(t.Context(), metav1.ListOptions{}))(t)
	w, err := accounts.Watch(t.Context(), metav1.ListOptions{ResourceVersion: list.ResourceVersion})
	harness.Follow(t, w, err, func(e watch.EventType, a *corev1.ServiceAccount) error {
		if e == watch.Added && a.Name != "default" {
			return errors.New("the account " + a.Name + " is created")
		}
		return nil
	})
	// What the controller does about the second deletion it does after the first.
	for _, name := range []string{"robot", "default"} {
		if err := accounts.Delete(t.Context(), name, metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	waitForOtherAccount(t, namespace, list.Items[0].UID)
}

// Pins SA-20.
func TestServiceAccountIsNotRecreatedInTerminatingNamespace(t *testing.T) {
	t.Parallel()
	namespace := cluster.NamespaceForPods(t)
	cluster.CreateConfigMap(t, namespace, "held", harness.Hold)
	cluster.DeleteNamespace(t, namespace)
	await.That(t, "the account is deleted with its namespace", func(ctx context.Context) error {
		_, err := admin.CoreV1().ServiceAccounts(namespace).Get(ctx, "default", metav1.GetOptions{})
		return await.Gone(err)
	})
	cluster.PatchConfigMap(t, namespace, "held", harness.NoFinalizers)
	cluster.WaitForNamespaceGone(t, namespace)
}
