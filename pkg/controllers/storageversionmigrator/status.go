package storageversionmigrator

import (
	"context"
	"fmt"
	"strings"

	migrationv1beta1 "k8s.io/api/storagemigration/v1beta1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kcmd.dev/pkg/controllers/kit/reconcile"
)

// maxMessage is the length of the message of a condition in bytes, which the API server limits.
const maxMessage = 32 << 10

// Short names of the types of the API.
type (
	svm           = migrationv1beta1.StorageVersionMigration
	svmStatus     = migrationv1beta1.StorageVersionMigrationStatus
	conditionType = migrationv1beta1.MigrationConditionType
)

// conditionOf returns a condition of a migration that is True or False, else nil.
func conditionOf(migration *svm, of conditionType) *metav1.Condition {
	condition := meta.FindStatusCondition(migration.Status.Conditions, string(of))
	if condition == nil || condition.Status != metav1.ConditionTrue && condition.Status != metav1.ConditionFalse {
		return nil
	}
	return condition
}

func is(migration *svm, of migrationv1beta1.MigrationConditionType) bool {
	return meta.IsStatusConditionTrue(migration.Status.Conditions, string(of))
}

// isOver reports whether the objects have been rewritten, or cannot be.
func isOver(migration *svm) bool {
	return is(migration, migrationv1beta1.MigrationSucceeded) || is(migration, migrationv1beta1.MigrationFailed)
}

// get returns the newest known state of a migration. It must not be modified.
func (c *migrationController) get(name string) (*svm, bool, error) {
	migration, found, err := reconcile.Found(c.migrations.Get(name))
	if !found {
		return nil, false, err
	}
	return c.newest.Newest(migration, migration), true, nil
}

// fail ends a migration. The message is cut to the length that is allowed: it may hold what a
// webhook says.
func (c *migrationController) fail(ctx context.Context, migration *svm, message string) error {
	if len(message) > maxMessage {
		message = strings.ToValidUTF8(message[:maxMessage], "")
	}
	return c.setOnce(ctx, migration, migrationv1beta1.MigrationFailed, "StorageVersionMigrationFailed", message)
}

// setOnce sets a condition to True, unless it has been set to True or False before.
func (c *migrationController) setOnce(
	ctx context.Context, migration *svm, of conditionType, reason, message string,
) error {
	if conditionOf(migration, of) != nil {
		return nil
	}
	return c.update(ctx, migration, func(status *svmStatus) {
		meta.RemoveStatusCondition(&status.Conditions, string(of)) // one that is neither
		status.Conditions = append(status.Conditions, metav1.Condition{
			Type:               string(of),
			Status:             metav1.ConditionTrue,
			LastTransitionTime: metav1.NewTime(c.Clock.Now()),
			Reason:             reason,
			Message:            message,
		})
	})
}

// update writes the status of a migration. A conflict is retried with what the cache shows then.
func (c *migrationController) update(ctx context.Context, migration *svm, change func(*svmStatus)) error {
	changed := migration.DeepCopy()
	change(&changed.Status)
	client := c.Client.StoragemigrationV1beta1().StorageVersionMigrations()
	written, err := client.UpdateStatus(ctx, changed, metav1.UpdateOptions{})
	if err == nil {
		c.newest.Wrote(migration, written)
		return nil
	}
	c.written.Answered(migration, err)
	return fmt.Errorf("updating the status of StorageVersionMigration %s: %w", migration.Name, err)
}
