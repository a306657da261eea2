package accounts

import (
	"context"
	"errors"
	"fmt"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/uuid"

	"kcmd.dev/test/await"
	"kcmd.dev/test/must"
)

// createTokenSecret asks for a token of a service account.
func createTokenSecret(t *testing.T, namespace, name, account string, edit func(*corev1.Secret)) *corev1.Secret {
	t.Helper()
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{corev1.ServiceAccountNameKey: account}},
		Type:       corev1.SecretTypeServiceAccountToken,
	}
	if edit != nil {
		edit(secret)
	}
	return must.Get(admin.CoreV1().Secrets(namespace).Create(t.Context(), secret, metav1.CreateOptions{}))(t)
}

func createAccount(t *testing.T, namespace, name string) *corev1.ServiceAccount {
	t.Helper()
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: name}}
	return must.Get(admin.CoreV1().ServiceAccounts(namespace).Create(t.Context(), account, metav1.CreateOptions{}))(t)
}

// waitForToken waits until the Secret is filled in with this CA bundle.
func waitForToken(t *testing.T, namespace, name, ca string) *corev1.Secret {
	t.Helper()
	var secret *corev1.Secret
	await.That(t, "the Secret is filled in", func(ctx context.Context) (err error) {
		if secret, err = admin.CoreV1().Secrets(namespace).Get(ctx, name, metav1.GetOptions{}); err != nil {
			return err
		}
		if len(secret.Data[corev1.ServiceAccountTokenKey]) == 0 || len(secret.Data[corev1.ServiceAccountNamespaceKey]) == 0 ||
			string(secret.Data[corev1.ServiceAccountRootCAKey]) != ca {
			return fmt.Errorf("it holds %q", secret.Data)
		}
		return nil
	})
	return secret
}

func waitForNoSecret(t *testing.T, namespace, name string) {
	t.Helper()
	await.That(t, "the Secret "+name+" is deleted", func(ctx context.Context) error {
		_, err := admin.CoreV1().Secrets(namespace).Get(ctx, name, metav1.GetOptions{})
		return await.Gone(err)
	})
}

// authenticate returns who the API server takes the bearer of the token for.
func authenticate(t *testing.T, token []byte) authenticationv1.TokenReviewStatus {
	t.Helper()
	review := &authenticationv1.TokenReview{Spec: authenticationv1.TokenReviewSpec{Token: string(token)}}
	return must.Get(admin.AuthenticationV1().TokenReviews().Create(t.Context(), review, metav1.CreateOptions{}))(t).Status
}

// waitForAuthentication waits until the API server's cache shows it the token.
func waitForAuthentication(t *testing.T, token []byte) authenticationv1.UserInfo {
	t.Helper()
	var status authenticationv1.TokenReviewStatus
	await.That(t, "the token is accepted", func(context.Context) error {
		if status = authenticate(t, token); !status.Authenticated {
			return errors.New(status.Error)
		}
		return nil
	})
	return status.User
}

// Pins SAT-38 and SAT-48.
func TestTokenSecretIsFilledInAndAuthenticates(t *testing.T) {
	t.Parallel()
	namespace := cluster.NamespaceForPods(t)
	account := createAccount(t, namespace, "robot")
	createTokenSecret(t, namespace, "token", "robot", nil)
	secret := waitForToken(t, namespace, "token", bundle(t))
	if got := string(secret.Data[corev1.ServiceAccountNamespaceKey]); got != namespace {
		t.Errorf("the namespace is %q", got)
	}
	if secret.Annotations[corev1.ServiceAccountUIDKey] != string(account.UID) || secret.Annotations[corev1.ServiceAccountNameKey] != "robot" {
		t.Errorf("the annotations are %v", secret.Annotations)
	}
	token := secret.Data[corev1.ServiceAccountTokenKey]
	if who := waitForAuthentication(t, token); who.Username != "system:serviceaccount:"+namespace+":robot" || who.UID != string(account.UID) {
		t.Errorf("the token authenticates %+v", who)
	}
	// The account's own list is the user's business.
	account = must.Get(admin.CoreV1().ServiceAccounts(namespace).Get(t.Context(), "robot", metav1.GetOptions{}))(t)
	if len(account.Secrets) > 0 {
		t.Errorf("the account refers to %v", account.Secrets)
	}
	if err := admin.CoreV1().Secrets(namespace).Delete(t.Context(), "token", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	await.That(t, "the token of a deleted Secret is refused", func(context.Context) error {
		if authenticate(t, token).Authenticated {
			return errors.New("it is accepted")
		}
		return nil
	})
}

func TestTokenSecretIsRepaired(t *testing.T) {
	t.Parallel()
	namespace := cluster.NamespaceForPods(t)
	createTokenSecret(t, namespace, "token", "default", func(s *corev1.Secret) {
		s.Data = map[string][]byte{corev1.ServiceAccountNamespaceKey: []byte("mine"), "more": []byte("kept")}
	})
	first := waitForToken(t, namespace, "token", bundle(t))
	if string(first.Data[corev1.ServiceAccountNamespaceKey]) != "mine" || string(first.Data["more"]) != "kept" {
		t.Errorf("data of the user's is written over: %q", first.Data)
	}
	patch := []byte(`{"data":{"ca.crt":"eA==","namespace":null}}`)
	must.Get(admin.CoreV1().Secrets(namespace).Patch(t.Context(), "token", types.MergePatchType, patch, metav1.PatchOptions{}))(t)
	second := waitForToken(t, namespace, "token", bundle(t))
	if got := string(second.Data[corev1.ServiceAccountNamespaceKey]); got != namespace {
		t.Errorf("the namespace is %q", got)
	}
	if string(second.Data[corev1.ServiceAccountTokenKey]) != string(first.Data[corev1.ServiceAccountTokenKey]) {
		t.Error("a token that was there is replaced")
	}
	patch = []byte(`{"data":{"token":null}}`)
	must.Get(admin.CoreV1().Secrets(namespace).Patch(t.Context(), "token", types.MergePatchType, patch, metav1.PatchOptions{}))(t)
	third := waitForToken(t, namespace, "token", bundle(t))
	waitForAuthentication(t, third.Data[corev1.ServiceAccountTokenKey])
}

// Pins SAT-30.
func TestTokenSecretsGoWithTheirAccount(t *testing.T) {
	t.Parallel()
	namespace := cluster.NamespaceForPods(t)
	createAccount(t, namespace, "robot")
	createTokenSecret(t, namespace, "one", "robot", nil)
	createTokenSecret(t, namespace, "two", "robot", nil)
	createTokenSecret(t, namespace, "other", "default", nil)
	for _, name := range []string{"one", "two", "other"} {
		waitForToken(t, namespace, name, bundle(t))
	}
	if err := admin.CoreV1().ServiceAccounts(namespace).Delete(t.Context(), "robot", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	waitForNoSecret(t, namespace, "one")
	waitForNoSecret(t, namespace, "two")
	waitForToken(t, namespace, "other", bundle(t))
}

// Pins SAT-33a.
func TestTokenSecretWithoutAccountIsDeleted(t *testing.T) {
	t.Parallel()
	namespace := cluster.NamespaceForPods(t)
	createTokenSecret(t, namespace, "nobody", "nobody", nil)
	waitForNoSecret(t, namespace, "nobody")
	createTokenSecret(t, namespace, "namesake", "default", func(s *corev1.Secret) {
		s.Annotations[corev1.ServiceAccountUIDKey] = string(uuid.NewUUID())
	})
	waitForNoSecret(t, namespace, "namesake")
}

// Pins SAT-32.
func TestReferenceToDeletedTokenSecretIsRemoved(t *testing.T) {
	t.Parallel()
	namespace := cluster.NamespaceForPods(t)
	account := createAccount(t, namespace, "robot")
	createTokenSecret(t, namespace, "token", "robot", nil)
	waitForToken(t, namespace, "token", bundle(t))
	account.Secrets = []corev1.ObjectReference{{Name: "first"}, {Name: "token"}, {Name: "last"}}
	must.Get(admin.CoreV1().ServiceAccounts(namespace).Update(t.Context(), account, metav1.UpdateOptions{}))(t)
	if err := admin.CoreV1().Secrets(namespace).Delete(t.Context(), "token", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	await.That(t, "just the one reference is removed", func(ctx context.Context) error {
		a, err := admin.CoreV1().ServiceAccounts(namespace).Get(ctx, "robot", metav1.GetOptions{})
		if err == nil && (len(a.Secrets) != 2 || a.Secrets[0].Name != "first" || a.Secrets[1].Name != "last") {
			err = fmt.Errorf("the references are %v", a.Secrets)
		}
		return err
	})
}
