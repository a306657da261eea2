package satoken

import (
	"bytes"
	"context"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"
)

// needs are the data that a token Secret lacks.
type needs struct{ ca, namespace, token bool }

// needsOf returns what a Secret lacks. A different namespace that somebody set is kept; an
// empty ca means that there is no CA to publish.
func needsOf(secret *corev1.Secret, ca []byte) needs {
	return needs{
		ca:        len(ca) > 0 && !bytes.Equal(secret.Data[corev1.ServiceAccountRootCAKey], ca),
		namespace: len(secret.Data[corev1.ServiceAccountNamespaceKey]) == 0,
		token:     len(secret.Data[corev1.ServiceAccountTokenKey]) == 0,
	}
}

// populate adds what a Secret lacks. The update starts from the cached Secret, which lacks only
// its managed fields; its resource version makes the update fail if it is stale, and then the
// event of the newer state enqueues the key again, or, if none follows, the recheck.
func (c *tokenController) populate(
	ctx context.Context, k key, account *corev1.ServiceAccount, secret *corev1.Secret, lacking needs,
) error {
	if lacking == (needs{}) {
		return nil
	}
	token := ""
	if lacking.token {
		var err error
		if token, err = c.signer.sign(account, secret); err != nil {
			klog.FromContext(ctx).Error(err, "Failed to sign a service account token", "secret", klog.KObj(secret))
			return nil
		}
	}
	completed := complete(secret, account, lacking, c.ca, token)
	_, err := c.Client.CoreV1().Secrets(secret.Namespace).Update(ctx, completed, metav1.UpdateOptions{})
	return c.concluded(k, "updating", secret.Name, err)
}

// complete returns a copy of a Secret with the missing data, bound to the account.
func complete(
	secret *corev1.Secret, account *corev1.ServiceAccount, lacking needs, ca []byte, token string,
) *corev1.Secret {
	secret = secret.DeepCopy()
	if secret.Data == nil {
		secret.Data = map[string][]byte{}
	}
	if lacking.ca {
		secret.Data[corev1.ServiceAccountRootCAKey] = ca
	}
	if lacking.namespace {
		secret.Data[corev1.ServiceAccountNamespaceKey] = []byte(secret.Namespace)
	}
	if lacking.token {
		secret.Data[corev1.ServiceAccountTokenKey] = []byte(token)
	}
	if secret.Annotations == nil {
		secret.Annotations = map[string]string{}
	}
	secret.Annotations[corev1.ServiceAccountNameKey] = account.Name
	secret.Annotations[corev1.ServiceAccountUIDKey] = string(account.UID)
	return secret
}
