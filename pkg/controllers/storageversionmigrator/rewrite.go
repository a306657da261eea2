package storageversionmigrator

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/client-go/metadata"
	"k8s.io/klog/v2"

	"kcmd.dev/pkg/controller"
	"kcmd.dev/pkg/controllers/kit/reconcile"
)

// pageSize is the page size of live lists.
const pageSize = 500

// rewriteAll rewrites those of the cached objects that may have been stored before the migration, in order, from where
// the last attempt got to.
func (c *migrationController) rewriteAll(ctx context.Context, migration *svm, to target, objects []any) error {
	stale, err := outdated(objects, migration.Status.ResourceVersion)
	if err != nil {
		return permanentError{error: err}
	}
	for _, object := range after(stale, c.progress.of(migration)) {
		if err := c.rewriteNext(ctx, migration, to, object); err != nil {
			return err
		}
		c.progress.reached(migration, reconcile.KeyOf(object))
	}
	return nil
}

// rewriteNext rewrites an object at the configured rate, if the migration is still to go on.
func (c *migrationController) rewriteNext(ctx context.Context, migration *svm, to target, object metav1.Object) error {
	if !c.pace.wait(ctx) {
		return errStopped
	}
	now, found, err := c.get(migration.Name)
	if err != nil {
		return err
	}
	if !found || now.UID != migration.UID || isOver(now) {
		return errOver
	}
	answer, err := c.rewrite(ctx, to, object)
	if err != nil {
		return err
	}
	if answer != nil && !controller.IsOlder(migration.Status.ResourceVersion, answer.GetResourceVersion()) {
		c.progress.unchanged(migration, object.GetUID())
	}
	return nil
}

// outdated returns the objects that have at most a resource version, in the order of their names.
func outdated(objects []any, version string) ([]metav1.Object, error) {
	var stale []metav1.Object
	for _, stored := range objects {
		object, err := meta.Accessor(stored)
		if err != nil {
			return nil, fmt.Errorf("reading the metadata of a cached object: %w", err)
		}
		order, err := resourceversion.CompareResourceVersion(object.GetResourceVersion(), version)
		if err != nil {
			return nil, fmt.Errorf("error comparing the resource version of %s: %w", reconcile.KeyOf(object), err)
		}
		if order <= 0 {
			stale = append(stale, object)
		}
	}
	slices.SortFunc(stale, func(a, b metav1.Object) int { return compareNames(reconcile.KeyOf(a), reconcile.KeyOf(b)) })
	return stale, nil
}

func compareNames(a, b types.NamespacedName) int {
	return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
}

// after returns the objects, sorted by name, that follow a name.
func after(objects []metav1.Object, last types.NamespacedName) []metav1.Object {
	from, found := slices.BinarySearchFunc(objects, last, func(object metav1.Object, last types.NamespacedName) int {
		return compareNames(reconcile.KeyOf(object), last)
	})
	if found {
		from++
	}
	return objects[from:]
}

// rewrite has the API server store an object again, and returns what is stored then. Without the UID an object that was
// deleted could be created again, and without the resource version a namesake be taken for it. The answer is nil if the
// object has changed since.
func (c *migrationController) rewrite(
	ctx context.Context, to target, object metav1.Object,
) (*metav1.PartialObjectMetadata, error) {
	body, err := json.Marshal(map[string]any{
		"apiVersion": to.kind.GroupVersion().String(),
		"kind":       to.kind.Kind,
		"metadata":   map[string]any{"uid": object.GetUID(), "resourceVersion": object.GetResourceVersion()},
	})
	if err != nil {
		return nil, fmt.Errorf("encoding an apply configuration: %w", err)
	}
	objects := c.Metadata.Resource(to.resource).Namespace(object.GetNamespace())
	answer, err := objects.Patch(ctx, object.GetName(), types.ApplyPatchType, body,
		metav1.PatchOptions{FieldManager: controllerName})
	if err == nil {
		return answer, nil
	}
	if apierrors.IsConflict(err) {
		changed, readErr := hasChanged(ctx, objects, object)
		if readErr != nil {
			return nil, fmt.Errorf("finding out whether %s %s has changed: %w", to.resource, reconcile.KeyOf(object), readErr)
		}
		if changed {
			return nil, nil
		}
	}
	if ctx.Err() != nil || mayPass(err) {
		return nil, fmt.Errorf("applying to %s %s: %w", to.resource, reconcile.KeyOf(object), err)
	}
	return nil, permanentError{err, klog.KObj(object).String()} // the migration shows the answer as it is
}

// hasChanged reports whether an object has been updated, deleted or recreated since it was read. An admission webhook
// may answer with a conflict although it has not. The API server is asked since the cache may be behind, and by a list
// since the role of the controller does not permit to get. A server that ignores the field selector sends other objects
// as well.
func hasChanged(ctx context.Context, objects metadata.ResourceInterface, object metav1.Object) (bool, error) {
	options := metav1.ListOptions{
		FieldSelector: fields.OneTermEqualSelector(metav1.ObjectNameField, object.GetName()).String(), Limit: pageSize,
	}
	for {
		page, err := objects.List(ctx, options)
		if err != nil {
			return false, err
		}
		for i := range page.Items {
			if is := &page.Items[i]; is.UID == object.GetUID() {
				return is.ResourceVersion != object.GetResourceVersion(), nil
			}
		}
		if options.Continue = page.Continue; options.Continue == "" {
			return true, nil
		}
	}
}

// mayPass reports whether a request may succeed later: the API server could not be asked, was not
// able to answer, or did not know who asks.
func mayPass(err error) bool {
	var answer apierrors.APIStatus
	return !errors.As(err, &answer) ||
		apierrors.IsServerTimeout(err) || apierrors.IsTooManyRequests(err) || apierrors.IsServiceUnavailable(err) ||
		apierrors.IsInternalError(err) || apierrors.IsTimeout(err) || apierrors.IsUnauthorized(err)
}
