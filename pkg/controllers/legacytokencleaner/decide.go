package legacytokencleaner

import (
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
)

const (
	// lastUsedLabel is the day on which the API server last accepted the token of a Secret.
	lastUsedLabel = "kubernetes.io/legacy-token-last-used"
	// invalidSinceLabel is the day since which it refuses the token.
	invalidSinceLabel = "kubernetes.io/legacy-token-invalid-since"

	// trackingConfigMap, in kube-system, has in sinceKey the day since which the API server
	// records the use of tokens.
	trackingConfigMap = "kube-apiserver-legacy-service-account-token-tracking"
	sinceKey          = "since"
)

// trackedFrom returns the time since which every use of a token has been recorded: a day after
// the one in the ConfigMap, to allow for clocks that differ.
func trackedFrom(tracking *corev1.ConfigMap) (time.Time, error) {
	since, ok := tracking.Data[sinceKey]
	if !ok {
		return time.Time{}, errors.New("it has no key " + sinceKey)
	}
	day, err := time.Parse(time.DateOnly, since)
	if err != nil {
		return time.Time{}, fmt.Errorf("parsing %s: %w", sinceKey, err)
	}
	return day.AddDate(0, 0, 1), nil
}

// unused reports whether the token of a Secret was neither created nor used since the cutoff.
// A label that is not a day is an error.
func unused(secret *corev1.Secret, cutoff time.Time) (bool, error) {
	if secret.Type != corev1.SecretTypeServiceAccountToken || !secret.CreationTimestamp.Time.Before(cutoff) || secret.DeletionTimestamp != nil {
		return false, nil
	}
	lastUsed, ok := secret.Labels[lastUsedLabel]
	if !ok {
		return true, nil // since use is recorded
	}
	if _, err := time.Parse(time.DateOnly, lastUsed); err != nil {
		return false, fmt.Errorf("parsing label %s: %w", lastUsedLabel, err)
	}
	return lastUsed < dayOf(cutoff), nil
}

// step is what to do next with a Secret that is to be retired.
type step int

const (
	wait step = iota
	invalidate
	remove
)

// nextStep returns the step that follows those which the labels of a Secret show.
func nextStep(secret *corev1.Secret, cutoff time.Time) step {
	since := secret.Labels[invalidSinceLabel]
	if _, err := time.Parse(time.DateOnly, since); err != nil {
		return invalidate
	}
	if since >= dayOf(cutoff) {
		return wait
	}
	return remove
}

// generated reports whether a Secret was generated for an account. Accounts do not list Secrets
// that users created.
func generated(secret *corev1.Secret, account *corev1.ServiceAccount) bool {
	if uid := secret.Annotations[corev1.ServiceAccountUIDKey]; uid != "" && uid != string(account.UID) {
		return false
	}
	return slices.ContainsFunc(account.Secrets, func(ref corev1.ObjectReference) bool { return ref.Name == secret.Name })
}

// dayOf formats a day as in labels. Days are compared as strings.
func dayOf(t time.Time) string { return t.UTC().Format(time.DateOnly) }
