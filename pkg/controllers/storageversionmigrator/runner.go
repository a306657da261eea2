package storageversionmigrator

import (
	"cmp"
	"context"
	"slices"

	migrationv1beta1 "k8s.io/api/storagemigration/v1beta1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/klog/v2"

	"kcmd.dev/pkg/controllers/kit/index"
)

// runNext ends the migrations of a resource that are over, and starts the next one.
func (c *migrationController) runNext(ctx context.Context, migrated schema.GroupResource) error {
	all, err := index.Append[*svm](nil, c.byResource, resourceIndex, migrated.String())
	if err != nil {
		return err
	}
	for i, migration := range all {
		all[i] = c.newest.Newest(migration, migration)
	}
	over, next := choose(all)
	for _, migration := range over {
		if err := c.end(ctx, migration); err != nil {
			return err
		}
	}
	if next == nil {
		return nil
	}
	return c.start(ctx, next)
}

// choose returns the migrations of a resource that are to be ended, and the one to be started, nil
// if there is none or another one is running.
func choose(all []*svm) (over []*svm, next *svm) {
	running := false
	var waiting []*svm
	for _, migration := range all {
		switch {
		case is(migration, migrationv1beta1.MigrationRunning) && isOver(migration):
			over = append(over, migration)
		case is(migration, migrationv1beta1.MigrationRunning):
			running = true
		case !isOver(migration) && conditionOf(migration, migrationv1beta1.MigrationRunning) == nil:
			waiting = append(waiting, migration)
		}
	}
	if running || len(waiting) == 0 {
		return over, nil
	}
	return over, slices.MinFunc(waiting, func(a, b *svm) int {
		return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.Name, b.Name))
	})
}

// start starts a migration. The definition is first: should the second write fail, both are
// repeated.
func (c *migrationController) start(ctx context.Context, migration *svm) error {
	if err := c.applyToDefinition(ctx, resourceOf(migration), startOf(migration)); err != nil {
		return err
	}
	err := c.setOnce(ctx, migration, migrationv1beta1.MigrationRunning, "MigrationRunning", "The migration is running")
	if err != nil {
		return err
	}
	klog.FromContext(ctx).Info("Started a migration", "migration", migration.Name, "resource", resourceOf(migration))
	return nil
}

// end ends a migration that is over.
func (c *migrationController) end(ctx context.Context, migration *svm) error {
	succeeded := is(migration, migrationv1beta1.MigrationSucceeded)
	if err := c.applyToDefinition(ctx, resourceOf(migration), endOf(migration)); err != nil {
		return err
	}
	err := c.update(ctx, migration, func(status *svmStatus) {
		meta.SetStatusCondition(&status.Conditions, metav1.Condition{
			Type:               string(migrationv1beta1.MigrationRunning),
			Status:             metav1.ConditionFalse,
			ObservedGeneration: migration.Generation,
			LastTransitionTime: metav1.NewTime(c.Clock.Now()),
			Reason:             "MigrationCompleted",
			Message:            "Migration completed",
		})
	})
	if err != nil {
		return err
	}
	klog.FromContext(ctx).Info("Ended a migration",
		"migration", migration.Name, "resource", resourceOf(migration), "succeeded", succeeded)
	return nil
}
