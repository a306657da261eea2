package satoken

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
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

	// accountName and accountUID are the annotations of a Secret. accountUID may be
	// empty, which stands for whichever account has the name.
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

// String is how the key appears in logs and status.
func (k key) String() string {
	return fmt.Sprintf("%s %s/%s (%s)", k.kind, k.namespace, k.name, k.uid)
}

// account is the identity that the key of an account stands for.
func (k key) account() *corev1.ServiceAccount {
	return &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: k.namespace, Name: k.name, UID: k.uid}}
}

// isToken says whether a Secret is one of ours. The cache holds no other, unless its
// server does not know the field selector.
func isToken(secret *corev1.Secret) bool {
	return secret.Type == corev1.SecretTypeServiceAccountToken
}

// hasUID says whether an object is the one that a UID stands for; an empty UID stands for
// any.
func hasUID(object metav1.Object, uid types.UID) bool {
	return uid == "" || object.GetUID() == uid
}
