package satoken

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"kcmd.dev/pkg/controller"
)

type kind string

const (
	accountKind kind = "ServiceAccount"
	secretKind  kind = "Secret"
)

// key names one incarnation of a ServiceAccount or of a token Secret.
type key struct {
	kind      kind
	namespace string
	name      string
	uid       types.UID

	// accountName and accountUID are the annotations of a Secret. accountUID may be empty,
	// which matches any account of that name.
	accountName string
	accountUID  types.UID
}

func accountKey(account *corev1.ServiceAccount) key {
	return key{kind: accountKind, namespace: account.Namespace, name: account.Name, uid: account.UID}
}

func secretKey(secret *corev1.Secret) key {
	return key{
		kind:        secretKind,
		namespace:   secret.Namespace,
		name:        secret.Name,
		uid:         secret.UID,
		accountName: secret.Annotations[corev1.ServiceAccountNameKey],
		accountUID:  types.UID(secret.Annotations[corev1.ServiceAccountUIDKey]),
	}
}

func (k key) valid() bool {
	if k.namespace == "" || k.name == "" || k.uid == "" {
		return false
	}
	return k.kind == accountKind || k.accountName != ""
}

// String returns the form of the key in logs and status.
func (k key) String() string {
	return fmt.Sprintf("%s %s/%s (%s)", k.kind, k.namespace, k.name, k.uid)
}

// account returns an account with the identity in the key.
func (k key) account() *corev1.ServiceAccount {
	return &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: k.namespace, Name: k.name, UID: k.uid}}
}

// tokenSecrets selects the Secrets that the controller caches.
var tokenSecrets = controller.Filter{FieldSelector: "type=" + string(corev1.SecretTypeServiceAccountToken)}

// isToken reports whether a Secret holds a service account token. The cache contains no
// other Secrets, unless the API server ignores the field selector.
func isToken(secret *corev1.Secret) bool {
	return secret.Type == corev1.SecretTypeServiceAccountToken
}

// tokensByAccount is the index of token Secrets by the account that they name.
const tokensByAccount = "serviceAccountTokens"

func accountIndexKeys(object any) ([]string, error) {
	secret, ok := object.(*corev1.Secret)
	if !ok || !isToken(secret) || secret.Annotations[corev1.ServiceAccountNameKey] == "" {
		return nil, nil
	}
	return []string{accountIndexKey(secret.Namespace, secret.Annotations[corev1.ServiceAccountNameKey])}, nil
}

func accountIndexKey(namespace, account string) string { return namespace + "/" + account }

// hasUID reports whether an object has the UID; an empty UID matches any object.
func hasUID(object metav1.Object, uid types.UID) bool {
	return uid == "" || object.GetUID() == uid
}
