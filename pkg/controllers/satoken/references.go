package satoken

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"

	"kcmd.dev/pkg/controller"
)

// conflictBackoff is the backoff for conflicting updates of an account: ten attempts, 100 to
// 200 ms apart.
func conflictBackoff() wait.Backoff {
	return wait.Backoff{Steps: 10, Duration: 100 * time.Millisecond, Jitter: 1.0}
}

// errUnseen means that a Secret exists that the cache lacks.
var errUnseen = errors.New("the cache does not show the secret")

// removeReference removes the name of a Secret from its account, reading the account live for
// each attempt.
func (c *tokenController) removeReference(ctx context.Context, k key) error {
	backoff := conflictBackoff()
	for {
		err := c.tryRemoveReference(ctx, k)
		pause := backoff.Step()
		if !apierrors.IsConflict(err) || backoff.Steps == 0 {
			return err
		}
		select {
		case <-c.Clock.After(pause):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

func (c *tokenController) tryRemoveReference(ctx context.Context, k key) error {
	account, err := c.liveAccount(ctx, k.namespace, k.accountName, k.accountUID)
	if err != nil || account == nil {
		return err
	}
	changed := withoutReference(account, k.name)
	if changed == nil {
		return nil
	}
	// So far only a cache shows that the Secret was deleted. If another one has its name, the reference is to that one.
	secret, err := c.Client.CoreV1().Secrets(k.namespace).Get(ctx, k.name, metav1.GetOptions{})
	if err != nil && !controller.Absent(err) {
		return fmt.Errorf("reading secret %s/%s: %w", k.namespace, k.name, err)
	}
	if err == nil && secret.UID == k.uid {
		return errUnseen
	}
	if err == nil {
		return nil
	}
	_, err = c.Client.CoreV1().ServiceAccounts(k.namespace).Update(ctx, changed, metav1.UpdateOptions{})
	if err != nil {
		return fmt.Errorf("updating service account %s/%s: %w", k.namespace, k.accountName, err)
	}
	return nil
}

// withoutReference returns a copy of an account that does not list the Secret, nil if the
// account does not list it.
func withoutReference(account *corev1.ServiceAccount, secretName string) *corev1.ServiceAccount {
	names := func(ref corev1.ObjectReference) bool { return ref.Name == secretName }
	if !slices.ContainsFunc(account.Secrets, names) {
		return nil
	}
	account = account.DeepCopy()
	account.Secrets = slices.DeleteFunc(account.Secrets, names)
	return account
}
