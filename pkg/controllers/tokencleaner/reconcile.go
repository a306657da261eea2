package tokencleaner

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"

	"kcmd.dev/pkg/controllers/kit/reconcile"
)

// lookAgain is when a token that expires later is reconciled again at the latest. A clock that is set forward, or a
// machine that was suspended, brings its end nearer, and the timer does not know.
const lookAgain = 10 * time.Minute

func (c *cleaner) reconcile(ctx context.Context, key types.NamespacedName) error {
	secret, found, err := reconcile.Found(c.secrets.Get(key.Name))
	if !found || !isToken(secret) {
		return err
	}
	logger := klog.FromContext(ctx).WithValues("secret", key)
	switch verdict, remaining := fateOf(secret, c.Clock.Now()); verdict {
	case expires:
		c.queue.AddAfter(key, min(remaining, lookAgain))
	case expired:
		logger.V(3).Info("Deleting an expired bootstrap token")
		return c.delete(ctx, secret)
	case malformed:
		// Its owner finds no other trace of the cause.
		logger.Info("Deleting a bootstrap token whose expiration is not an RFC 3339 time")
		return c.delete(ctx, secret)
	case stays:
	}
	return nil
}

// delete deletes a token, unless it has changed since it was cached. After an answer that the token has changed or is
// gone, it is reconciled again: an admission webhook may have given that answer, and then no event follows.
func (c *cleaner) delete(ctx context.Context, secret *corev1.Secret) error {
	err := c.Client.CoreV1().Secrets(secret.Namespace).Delete(ctx, secret.Name, metav1.DeleteOptions{
		Preconditions: &metav1.Preconditions{UID: &secret.UID, ResourceVersion: &secret.ResourceVersion},
	})
	if apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
		c.queue.AddAfter(reconcile.KeyOf(secret), reconcile.RecheckAfter)
		return nil
	}
	if err != nil {
		return fmt.Errorf("deleting secret %s/%s: %w", secret.Namespace, secret.Name, err)
	}
	return nil
}
