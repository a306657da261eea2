package workloads

import (
	"context"
	"errors"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kcmd.dev/test/await"
	"kcmd.dev/test/must"
)

// noSecrets is a limit that shows whether admission knows a quota: it forbids
// what no test with a quota creates.
const noSecrets corev1.ResourceName = "count/secrets"

// setQuota limits a resource of the namespace. There is no quota controller, so the
// test writes the status that admission reads, and says what is used.
func setQuota(t *testing.T, namespace string, name corev1.ResourceName, hard, used int64) {
	t.Helper()
	quotas := admin.CoreV1().ResourceQuotas(namespace)
	limits := corev1.ResourceList{name: *resource.NewQuantity(hard, resource.DecimalSI), noSecrets: resource.MustParse("0")}
	quota, err := quotas.Get(t.Context(), "quota", metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		quota = &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Name: "quota"}}
		quota, err = quotas.Create(t.Context(), quota, metav1.CreateOptions{})
	}
	if err != nil {
		t.Fatal(err)
	}
	quota.Spec.Hard = limits
	quota = must.Get(quotas.Update(t.Context(), quota, metav1.UpdateOptions{}))(t)
	quota.Status = corev1.ResourceQuotaStatus{
		Hard: limits,
		Used: corev1.ResourceList{name: *resource.NewQuantity(used, resource.DecimalSI), noSecrets: resource.MustParse("0")},
	}
	must.Get(quotas.UpdateStatus(t.Context(), quota, metav1.UpdateOptions{}))(t)
	await.That(t, "admission knows the quota", func(ctx context.Context) error {
		probe := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "probe"}}
		_, err := admin.CoreV1().Secrets(namespace).Create(ctx, probe, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		if err == nil {
			return errors.New("a Secret may be created")
		}
		if !strings.Contains(err.Error(), "exceeded quota: quota") {
			return err
		}
		return nil
	})
}
