package accounts

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
	bootstrapapi "k8s.io/cluster-bootstrap/token/api"
	"k8s.io/cluster-bootstrap/token/jws"
	"k8s.io/utils/ptr"

	"kcmd.dev/test/await"
	"kcmd.dev/test/controlplane"
	"kcmd.dev/test/manager"
	"kcmd.dev/test/must"
)

// createBootstrapToken creates a token with a secret made of its ID, which signs unless more
// says otherwise. It is deleted with the test.
func createBootstrapToken(t *testing.T, id string, more map[string]string) *corev1.Secret {
	t.Helper()
	data := map[string]string{
		bootstrapapi.BootstrapTokenIDKey:           id,
		bootstrapapi.BootstrapTokenSecretKey:       bootstrapSecret(id),
		bootstrapapi.BootstrapTokenUsageSigningKey: "true",
	}
	maps.Copy(data, more)
	secrets := admin.CoreV1().Secrets(metav1.NamespaceSystem)
	name := bootstrapapi.BootstrapTokenSecretPrefix + id
	t.Cleanup(func() { _ = secrets.Delete(context.Background(), name, metav1.DeleteOptions{}) })
	return must.Get(secrets.Create(t.Context(), &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Type:       bootstrapapi.SecretTypeBootstrapToken,
		StringData: data,
	}, metav1.CreateOptions{}))(t)
}

func bootstrapSecret(id string) string { return "hidden" + id + "hid" }

func expiresIn(d time.Duration) map[string]string {
	return map[string]string{bootstrapapi.BootstrapTokenExpirationKey: time.Now().Add(d).UTC().Format(time.RFC3339)}
}

// createClusterInfo creates the ConfigMap that is signed, until the end of the test. There is
// just one, so that tests that need it do not run in parallel.
func createClusterInfo(t *testing.T, kubeconfig string) {
	t.Helper()
	configMaps := admin.CoreV1().ConfigMaps(metav1.NamespacePublic)
	t.Cleanup(func() {
		_ = configMaps.Delete(context.Background(), bootstrapapi.ConfigMapClusterInfo, metav1.DeleteOptions{})
	})
	must.Get(configMaps.Create(t.Context(), &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: bootstrapapi.ConfigMapClusterInfo},
		Data:       map[string]string{bootstrapapi.KubeConfigKey: kubeconfig, "more": "kept"},
	}, metav1.CreateOptions{}))(t)
}

// waitForSignatures waits until the kubeconfig is signed by just these tokens.
func waitForSignatures(t *testing.T, what, kubeconfig string, ids ...string) {
	t.Helper()
	await.That(t, what, func(ctx context.Context) error {
		info, err := admin.CoreV1().ConfigMaps(metav1.NamespacePublic).Get(ctx, bootstrapapi.ConfigMapClusterInfo, metav1.GetOptions{})
		if err != nil {
			return err
		}
		if info.Data[bootstrapapi.KubeConfigKey] != kubeconfig || info.Data["more"] != "kept" || len(info.Data) != 2+len(ids) {
			return fmt.Errorf("the data is %q", info.Data)
		}
		for _, id := range ids {
			if !jws.DetachedTokenIsValid(info.Data[bootstrapapi.JWSSignatureKeyPrefix+id], kubeconfig, id, bootstrapSecret(id)) {
				return fmt.Errorf("the signature of %s is not valid: %q", id, info.Data)
			}
		}
		return nil
	})
}

// written are the requests of a controller that are no reads, as "verb resource/name code".
func written(t *testing.T, from controlplane.Mark, account string) []string {
	t.Helper()
	var lines []string
	events := must.Get(cluster.Audit().Since(from, controlplane.ByUser("system:serviceaccount:kube-system:"+account), controlplane.Writes()))(t)
	for _, e := range events {
		lines = append(lines, line(&e))
	}
	return lines
}

func line(e *auditv1.Event) string {
	return fmt.Sprintf("%s %s/%s %d", e.Verb, e.ObjectRef.Resource, e.ObjectRef.Name, e.ResponseStatus.Code)
}

// Pins BOOT-9, BOOT-10, BOOT-28, BOOT-30 and TOK-18.
func TestClusterInfoIsSignedByBootstrapTokens(t *testing.T) {
	createClusterInfo(t, "first")
	from := must.Get(cluster.Audit().Mark())(t)
	createBootstrapToken(t, "aaaaaa", nil)
	waitForSignatures(t, "a token signs", "first", "aaaaaa")
	createBootstrapToken(t, "bbbbbb", map[string]string{bootstrapapi.BootstrapTokenUsageSigningKey: "false"})
	createBootstrapToken(t, "cccccc", expiresIn(time.Hour))
	waitForSignatures(t, "a second one signs, one that is not to does not", "first", "aaaaaa", "cccccc")
	cluster.PatchConfigMap(t, metav1.NamespacePublic, bootstrapapi.ConfigMapClusterInfo, `{"data":{"kubeconfig":"second"}}`)
	waitForSignatures(t, "another kubeconfig is signed", "second", "aaaaaa", "cccccc")
	cluster.PatchConfigMap(t, metav1.NamespacePublic, bootstrapapi.ConfigMapClusterInfo, `{"data":{"jws-kubeconfig-cccccc":"x","jws-kubeconfig-nobody":"x"}}`)
	waitForSignatures(t, "signatures are repaired", "second", "aaaaaa", "cccccc")
	secrets := admin.CoreV1().Secrets(metav1.NamespaceSystem)
	must.Succeed(t, secrets.Delete(t.Context(), "bootstrap-token-aaaaaa", metav1.DeleteOptions{}))
	waitForSignatures(t, "the signature goes with its token", "second", "cccccc")
	patch := must.Get(json.Marshal(map[string]any{"stringData": expiresIn(-time.Minute)}))(t)
	must.Get(secrets.Patch(t.Context(), "bootstrap-token-cccccc", types.MergePatchType, patch, metav1.PatchOptions{}))(t)
	waitForSignatures(t, "the signature goes with the time of its token", "second")
	waitForNoSecret(t, metav1.NamespaceSystem, "bootstrap-token-cccccc")

	want := slices.Repeat([]string{"update configmaps/cluster-info 200"}, 6)
	got := slices.DeleteFunc(written(t, from, "bootstrap-signer"), func(line string) bool { return strings.HasSuffix(line, " 409") })
	if !slices.Equal(got, want) {
		t.Errorf("the requests are %q, want one update for each step", got)
	}
}

// Pins TOK-5, TOK-9, TOK-12, TOK-13, TOK-20 and TOK-25.
func TestExpiredBootstrapTokensAreDeleted(t *testing.T) {
	t.Parallel()
	from := must.Get(cluster.Audit().Mark())(t)
	createBootstrapToken(t, "dddddd", expiresIn(-time.Hour))
	createBootstrapToken(t, "eeeeee", map[string]string{bootstrapapi.BootstrapTokenExpirationKey: "next week"})
	createBootstrapToken(t, "ffffff", expiresIn(3*time.Second))
	createBootstrapToken(t, "gggggg", expiresIn(time.Hour))
	createBootstrapToken(t, "hhhhhh", nil)
	// The last one to go is the one that had time left.
	for _, id := range []string{"dddddd", "eeeeee", "ffffff"} {
		waitForNoSecret(t, metav1.NamespaceSystem, bootstrapapi.BootstrapTokenSecretPrefix+id)
	}
	for _, id := range []string{"gggggg", "hhhhhh"} {
		must.Get(admin.CoreV1().Secrets(metav1.NamespaceSystem).Get(t.Context(), bootstrapapi.BootstrapTokenSecretPrefix+id, metav1.GetOptions{}))(t)
	}
	got := written(t, from, "token-cleaner")
	slices.Sort(got)
	want := []string{"delete secrets/bootstrap-token-dddddd 200", "delete secrets/bootstrap-token-eeeeee 200", "delete secrets/bootstrap-token-ffffff 200"}
	if !slices.Equal(got, want) {
		t.Errorf("the requests are %q, want %q", got, want)
	}
	log := string(must.Get(os.ReadFile(cluster.Manager.LogFile()))(t))
	if want := `"Deleting a bootstrap token whose expiration is not an RFC 3339 time" logger="token-cleaner-controller" secret="kube-system/bootstrap-token-eeeeee"`; !strings.Contains(log, want) {
		t.Errorf("the log lacks %s", want)
	}
}

// TestBootstrapTokensAfterARestart is not parallel: it edits the manager's configuration.
// Pins BOOT-29 and TOK-19.
func TestBootstrapTokensAfterARestart(t *testing.T) {
	createClusterInfo(t, "first")
	createBootstrapToken(t, "iiiiii", expiresIn(time.Hour))
	createBootstrapToken(t, "jjjjjj", nil)
	waitForSignatures(t, "both sign", "first", "iiiiii", "jjjjjj")
	enable := func(on bool) {
		t.Helper()
		must.Succeed(t, cluster.Manager.Edit(t.Context(), func(c *manager.Config) {
			c.Controllers.BootstrapSigner.Enabled, c.Controllers.TokenCleaner.Enabled = ptr.To(on), ptr.To(on)
		}))
	}
	before := generations(t)
	enable(false)
	patch := must.Get(json.Marshal(map[string]any{"stringData": expiresIn(-time.Minute)}))(t)
	must.Get(admin.CoreV1().Secrets(metav1.NamespaceSystem).Patch(t.Context(), "bootstrap-token-iiiiii", types.MergePatchType, patch, metav1.PatchOptions{}))(t)
	createBootstrapToken(t, "kkkkkk", nil)
	cluster.PatchConfigMap(t, metav1.NamespacePublic, bootstrapapi.ConfigMapClusterInfo, `{"data":{"kubeconfig":"second"}}`)
	enable(true)
	waitForSignatures(t, "what happened meanwhile is made up for", "second", "jjjjjj", "kkkkkk")
	waitForNoSecret(t, metav1.NamespaceSystem, "bootstrap-token-iiiiii")
	waitForRestarts(t, before, map[string]uint64{"bootstrap-signer-controller": 1, "token-cleaner-controller": 1})
}

// The secrets of tokens are in the Secrets and nowhere else.
func TestSecretsOfBootstrapTokensAreNotShown(t *testing.T) {
	createClusterInfo(t, "first")
	createBootstrapToken(t, "llllll", nil)
	createBootstrapToken(t, "mmmmmm", map[string]string{bootstrapapi.BootstrapTokenExpirationKey: bootstrapSecret("mmmmmm")})
	waitForSignatures(t, "a token signs", "first", "llllll")
	waitForNoSecret(t, metav1.NamespaceSystem, "bootstrap-token-mmmmmm")
	status := must.Get(json.Marshal(must.Get(cluster.Manager.Status(t.Context()))(t)))(t)
	log := must.Get(os.ReadFile(cluster.Manager.LogFile()))(t)
	for what, text := range map[string][]byte{"status": status, "log": log} {
		if len(text) == 0 {
			t.Errorf("there is no %s", what)
		}
		if strings.Contains(string(text), "hidden") {
			t.Errorf("a secret is in the %s", what)
		}
	}
}
