package accounts

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"

	"kcmd.dev/pkg/runtime"
	"kcmd.dev/test/await"
	"kcmd.dev/test/controlplane"
	"kcmd.dev/test/integration/harness"
	"kcmd.dev/test/manager"
	"kcmd.dev/test/must"
)

const (
	legacyLastUsed     = "kubernetes.io/legacy-token-last-used"
	legacyInvalidSince = "kubernetes.io/legacy-token-invalid-since"
	legacyCleaner      = "legacy-service-account-token-cleaner"
	day                = 24 * time.Hour
)

// passAfter has a manager of its own make a pass, some days from now and with a period of one
// day. The manager runs until done returns nil.
func passAfter(t *testing.T, days int, what string, done func(context.Context) error) {
	t.Helper()
	m := manager.Join(t, cluster.ControlPlane, runtime.Options{Clock: harness.ShiftedClock(time.Duration(days) * day)},
		harness.All(harness.WithoutLease, harness.Only(func(c *manager.Config) []**bool {
			c.Controllers.LegacyServiceAccountTokenCleaner.CleanUpPeriod = &metav1.Duration{Duration: day}
			return []**bool{&c.Controllers.LegacyServiceAccountTokenCleaner.Enabled}
		})))
	await.That(t, what, done)
	must.Succeed(t, m.Stop())
}

// dayAfter is what day it is then.
func dayAfter(days int) string {
	return time.Now().Add(time.Duration(days) * day).UTC().Format(time.DateOnly)
}

// hasLabel is nil if a Secret is invalid since a day; empty means that it is not.
func hasLabel(ctx context.Context, namespace, name, since string) error {
	secret, err := admin.CoreV1().Secrets(namespace).Get(ctx, name, metav1.GetOptions{})
	if err == nil && secret.Labels[legacyInvalidSince] != since {
		err = fmt.Errorf("%s has the labels %v", name, secret.Labels)
	}
	return err
}

// patchLabels changes labels of a Secret; nil removes one.
func patchLabels(t *testing.T, namespace, name, labels string) {
	t.Helper()
	must.Get(admin.CoreV1().Secrets(namespace).Patch(t.Context(), name, types.MergePatchType, []byte(`{"metadata":{"labels":`+labels+`}}`), metav1.PatchOptions{}))(t)
}

// Pins LSAT-7, LSAT-8, LSAT-9, LSAT-10, LSAT-13, LSAT-20, LSAT-22, LSAT-28, LSAT-31, LSAT-33 and LSAT-39.
func TestUnusedGeneratedTokensAreRetired(t *testing.T) {
	t.Parallel()
	namespace := cluster.NamespaceForPods(t)
	account := createAccount(t, namespace, "robot")
	tokens := map[string][]byte{}
	for _, name := range []string{"manual", "mounted", "revived", "unused", "used"} {
		createTokenSecret(t, namespace, name, "robot", nil)
		tokens[name] = waitForToken(t, namespace, name, bundle(t)).Data[corev1.ServiceAccountTokenKey]
		if name != "manual" {
			account.Secrets = append(account.Secrets, corev1.ObjectReference{Name: name})
		}
	}
	must.Get(admin.CoreV1().ServiceAccounts(namespace).Update(t.Context(), account, metav1.UpdateOptions{}))(t)
	must.Get(admin.CoreV1().Pods(namespace).Create(t.Context(), &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "mounts"},
		Spec: corev1.PodSpec{
			Containers: []corev1.Container{{Name: "c", Image: "x"}},
			Volumes:    []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "mounted"}}}},
		},
	}, metav1.CreateOptions{}))(t)
	// Used on the day of the pass, as far as the API server tells.
	patchLabels(t, namespace, "used", fmt.Sprintf(`{%q:%q}`, legacyLastUsed, dayAfter(4)))

	from := must.Get(cluster.Audit().Mark())(t)
	passAfter(t, 4, "unused tokens are labelled", func(ctx context.Context) error {
		return errors.Join(hasLabel(ctx, namespace, "unused", dayAfter(4)), hasLabel(ctx, namespace, "revived", dayAfter(4)))
	})
	for _, name := range []string{"manual", "mounted", "used"} {
		must.Succeed(t, hasLabel(t.Context(), namespace, name, ""))
	}
	if got, want := retired(t, from, namespace), []string{"patch secrets/revived 200", "patch secrets/unused 200"}; !slices.Equal(got, want) {
		t.Errorf("the requests are %q, want %q", got, want)
	}
	if got := listsOfPods(t, from, namespace); got != 1 {
		t.Errorf("the pods were listed %d times", got)
	}
	await.That(t, "an invalid token is refused", func(context.Context) error {
		if authenticate(t, tokens["unused"]).Authenticated {
			return errors.New("it is accepted")
		}
		return nil
	})
	patchLabels(t, namespace, "revived", fmt.Sprintf(`{%q:null}`, legacyInvalidSince))
	waitForAuthentication(t, tokens["revived"])

	from = must.Get(cluster.Audit().Mark())(t)
	passAfter(t, 7, "the unused token is deleted, the other one labelled again", func(ctx context.Context) error {
		_, err := admin.CoreV1().Secrets(namespace).Get(ctx, "unused", metav1.GetOptions{})
		return errors.Join(await.Gone(err), hasLabel(ctx, namespace, "revived", dayAfter(7)), hasLabel(ctx, namespace, "used", dayAfter(7)))
	})
	want := []string{"delete secrets/unused 200", "patch secrets/revived 200", "patch secrets/used 200"}
	if got := retired(t, from, namespace); !slices.Equal(got, want) {
		t.Errorf("the requests are %q, want %q", got, want)
	}
	for _, name := range []string{"manual", "mounted"} {
		must.Succeed(t, hasLabel(t.Context(), namespace, name, ""))
	}
	await.That(t, "the account does not list what is deleted", func(ctx context.Context) error {
		now, err := admin.CoreV1().ServiceAccounts(namespace).Get(ctx, "robot", metav1.GetOptions{})
		if err == nil && (len(now.Secrets) != 3 || slices.ContainsFunc(now.Secrets, func(ref corev1.ObjectReference) bool { return ref.Name == "unused" })) {
			err = fmt.Errorf("it lists %v", now.Secrets)
		}
		return err
	})
	events := must.Get(cluster.Audit().Since(from, controlplane.ByUser("system:serviceaccount:kube-system:"+legacyCleaner), controlplane.ByVerb("get")))(t)
	for _, e := range events {
		if got := line(&e); got != "get configmaps/kube-apiserver-legacy-service-account-token-tracking 200" {
			t.Errorf("it also sent %s", got)
		}
	}
	if len(events) != 1 {
		t.Errorf("it read the ConfigMap %d times in a pass", len(events))
	}
}

// retired are the writes of the controller in a namespace, sorted.
func retired(t *testing.T, from controlplane.Mark, namespace string) []string {
	t.Helper()
	var lines []string
	events := must.Get(cluster.Audit().Since(from, controlplane.ByUser("system:serviceaccount:kube-system:"+legacyCleaner), controlplane.Writes(), controlplane.ByNamespace(namespace)))(t)
	for _, e := range events {
		lines = append(lines, line(&e))
	}
	slices.Sort(lines)
	return lines
}

// listsOfPods counts the lists of the pods of a namespace, and the watches that begin with one.
func listsOfPods(t *testing.T, from controlplane.Mark, namespace string) int {
	t.Helper()
	events := must.Get(cluster.Audit().Since(from, controlplane.ByNamespace(namespace), controlplane.ByResource("pods"), func(e *auditv1.Event) bool {
		return e.Verb == "list" || e.Verb == "watch" && e.Stage == auditv1.StageResponseStarted && strings.Contains(e.RequestURI, "sendInitialEvents=true")
	}))(t)
	return len(events)
}
