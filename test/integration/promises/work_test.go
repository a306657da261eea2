package promises

import (
	"context"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"kcmd.dev/pkg/controller"
	"kcmd.dev/test/await"
)

// controllersWork fails unless a new namespace gets what two controllers make for it.
func controllersWork(t testing.TB) {
	t.Helper()
	namespace := plane.Namespace(t)
	await.That(t, "the namespace has its service account and its CA bundle", func(context.Context) error {
		core := plane.AdminClient().CoreV1()
		if _, err := core.ServiceAccounts(namespace).Get(t.Context(), "default", metav1.GetOptions{}); err != nil {
			return err
		}
		_, err := core.ConfigMaps(namespace).Get(t.Context(), "kube-root-ca.crt", metav1.GetOptions{})
		return err
	})
}

// createDeployment creates one that needs no pods.
func createDeployment(t testing.TB, namespace string) {
	t.Helper()
	labels := map[string]string{"app": "idle"}
	d := &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: "idle"},
		Spec: appsv1.DeploymentSpec{
			Replicas: ptr.To[int32](0),
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "x"}}},
			},
		},
	}
	if _, err := plane.AdminClient().AppsV1().Deployments(namespace).Create(t.Context(), d, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

// reconciled counts the reconciles of all loops of a controller.
func reconciled(loops []controller.LoopStatus) (n uint64) {
	for _, l := range loops {
		n += l.Reconciled
	}
	return n
}
