package storageversionmigrator

import (
	"context"
	"fmt"
	"time"

	migrationv1beta1 "k8s.io/api/storagemigration/v1beta1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/util/retry"

	"kcmd.dev/pkg/controllers/kit/customresources"
	"kcmd.dev/pkg/controllers/kit/requests"
)

// storageMigrating is the condition of a CustomResourceDefinition whose objects are migrated.
const storageMigrating = "StorageMigrating"

// storageVersion is the version in which objects are stored now.
func storageVersion(d *customresources.Definition) string {
	for _, version := range d.Spec.Versions {
		if version.Storage {
			return version.Name
		}
	}
	return ""
}

// definitionStatus is what a migration applies to the status of a definition. Its manager owns all
// of storedVersions, so that it always applies them: an apply without them would remove them.
type definitionStatus struct {
	status          metav1.ConditionStatus
	reason, message string
	storedVersions  []string
}

// runningMessage says in the condition of a definition which migration is running.
func runningMessage(migration *svm) string { return "Migration " + migration.Name + " is running" }

// startOf tells what the start of a migration applies to a definition.
func startOf(migration *svm) func(*customresources.Definition) *definitionStatus {
	return func(d *customresources.Definition) *definitionStatus {
		return &definitionStatus{
			status: metav1.ConditionTrue, reason: "MigrationRunning", message: runningMessage(migration),
			storedVersions: d.Status.StoredVersions,
		}
	}
}

// Reasons of the condition after the end of a migration.
const (
	reasonSucceeded = "MigrationSucceeded"
	reasonFailed    = "MigrationFailed"
)

// endOf tells what the end of a migration applies to a definition. It is nil if it has been applied:
// deciding once more, from what was applied then, could have another result. It is also nil if another
// migration has been started, which can be if the cache lacked this one for a while: the condition is
// of the spec that the other one began with, and objects were stored in another version in between.
func endOf(migration *svm) func(*customresources.Definition) *definitionStatus {
	succeeded := is(migration, migrationv1beta1.MigrationSucceeded)
	return func(d *customresources.Definition) *definitionStatus {
		now := meta.FindStatusCondition(d.Status.Conditions, storageMigrating)
		isOfAnother := now != nil && now.Status == metav1.ConditionTrue && now.Message != runningMessage(migration)
		if hasEnded(now) || isOfAnother {
			return nil
		}
		end := &definitionStatus{status: metav1.ConditionFalse, storedVersions: d.Status.StoredVersions}
		storage := storageVersion(d)
		switch {
		case !succeeded:
			end.reason, end.message = reasonFailed, "The migration has failed"
		case now == nil || now.ObservedGeneration != d.Metadata.Generation || storage == "":
			end.reason, end.message = reasonSucceeded, "The migration has succeeded "+
				"but the stored versions have not been updated due to a generation mismatch"
		default:
			end.reason, end.message = reasonSucceeded, "The migration has succeeded and the stored versions have been updated"
			end.storedVersions = []string{storage}
		}
		return end
	}
}

// hasEnded reports whether a condition, which may be nil, is that of a migration that has ended.
func hasEnded(condition *metav1.Condition) bool {
	return condition != nil && condition.Status == metav1.ConditionFalse &&
		(condition.Reason == reasonSucceeded || condition.Reason == reasonFailed)
}

// applyToDefinition applies to the definition of a resource what is decided on it as it is now. If
// the resource is not a custom one, there is nothing to do.
func (c *migrationController) applyToDefinition(
	ctx context.Context, migrated schema.GroupResource, decide func(*customresources.Definition) *definitionStatus,
) error {
	options := metav1.ApplyOptions{FieldManager: runnerName, Force: true}
	return requests.RetryOnConflict(retry.DefaultRetry, func() error {
		d, err := customresources.Read(ctx, c.Dynamic, migrated)
		if err != nil || d == nil {
			return err
		}
		status := decide(d)
		if status == nil {
			return nil
		}
		_, err = c.Dynamic.Resource(customresources.Definitions).ApplyStatus(ctx, d.Metadata.Name, status.on(d, c.Clock.Now()), options)
		if err != nil {
			return fmt.Errorf("applying the status of CustomResourceDefinition %s: %w", d.Metadata.Name, err)
		}
		return nil
	})
}

// on is the apply configuration for a definition that was read.
func (s *definitionStatus) on(d *customresources.Definition, now time.Time) *unstructured.Unstructured {
	status := map[string]any{"conditions": []any{map[string]any{
		"type":               storageMigrating,
		"status":             string(s.status),
		"lastTransitionTime": now.UTC().Format(time.RFC3339),
		"reason":             s.reason,
		"message":            s.message,
		"observedGeneration": d.Metadata.Generation,
	}}}
	if len(s.storedVersions) > 0 {
		versions := make([]any, len(s.storedVersions))
		for i, version := range s.storedVersions {
			versions[i] = version
		}
		status["storedVersions"] = versions
	}
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": customresources.Definitions.GroupVersion().String(),
		"kind":       "CustomResourceDefinition",
		"metadata":   map[string]any{"name": d.Metadata.Name, "resourceVersion": d.Metadata.ResourceVersion},
		"status":     status,
	}}
}
