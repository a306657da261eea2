package storageversionmigrator

import (
	"context"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
)

// rewriteMissed rewrites the objects that the cache lacks, or has shown in a state that they are not in. It is for the
// time when all others are rewritten.
func (c *migrationController) rewriteMissed(ctx context.Context, migration *svm, to target) error {
	missed, err := c.missed(ctx, migration, to.resource)
	if err != nil {
		return err
	}
	if len(missed) > 0 {
		klog.FromContext(ctx).Info("Rewriting objects that the cache has missed",
			"migration", migration.Name, "resource", to.resource, "objects", len(missed))
	}
	for _, object := range missed {
		if err := c.rewriteNext(ctx, migration, to, object); err != nil {
			return err
		}
	}
	return nil
}

// missed lists the objects that are left to be rewritten. A list in pages does not have to be of one resource version:
// an object that is left has existed all the time.
func (c *migrationController) missed(
	ctx context.Context, migration *svm, resource schema.GroupVersionResource,
) ([]metav1.Object, error) {
	var all []metav1.Object
	unchanged := func(object types.UID) bool { return c.progress.isUnchanged(migration, object) }
	options, resumed := metav1.ListOptions{Limit: pageSize}, false
	for {
		if c.isStopping(ctx) {
			return nil, errStopped
		}
		page, err := c.Metadata.Resource(resource).List(ctx, options)
		if next := resumption(err); next != "" && !resumed {
			options.Continue, resumed = next, true
			continue
		}
		resumed = false
		if err != nil {
			return nil, fmt.Errorf("listing what is left of %s: %w", resource, err)
		}
		if err := reached(page.ResourceVersion, migration.Status.ResourceVersion); err != nil {
			return nil, err
		}
		left, err := leftIn(page.Items, migration.Status.ResourceVersion, unchanged)
		if err != nil {
			return nil, permanentError{error: err}
		}
		all = append(all, left...)
		if options.Continue = page.Continue; options.Continue == "" {
			return all, nil
		}
	}
}

// leftIn returns the objects of a page that are left to be rewritten: those that have at most a resource version and
// are not known to be stored in the present way.
func leftIn(
	page []metav1.PartialObjectMetadata, version string, unchanged func(types.UID) bool,
) ([]metav1.Object, error) {
	var objects []any
	for i := range page {
		if !unchanged(page[i].UID) {
			objects = append(objects, &page[i])
		}
	}
	return outdated(objects, version)
}

// resumption returns the token with which a list goes on at the present state after the one that it began with has
// expired. It is empty for any other error.
func resumption(err error) string {
	var answer apierrors.APIStatus
	if !apierrors.IsResourceExpired(err) || !errors.As(err, &answer) {
		return ""
	}
	return answer.Status().Continue
}
