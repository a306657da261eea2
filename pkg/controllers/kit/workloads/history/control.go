package history

import (
	"context"
	"errors"
	"fmt"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/retry"

	"kcmd.dev/pkg/controller"
	"kcmd.dev/pkg/controllers/kit/index"
	"kcmd.dev/pkg/controllers/kit/reconcile"
	"kcmd.dev/pkg/controllers/kit/requests"
)

// Control reads revisions from the cache and writes them.
type Control struct {
	client kubernetes.Interface
	index  index.ControllerRevisions
}

// NewControl returns a Control that reads from the ControllerRevision informer, and adds its
// index if needed.
func NewControl(client kubernetes.Interface, informer cache.SharedIndexInformer) Control {
	byController := index.NewControllerRevisions(informer)
	return Control{client: client, index: byController}
}

// Candidates returns the revisions of the namespace of the owner, of the kind, that it controls
// or might adopt, regardless of their labels, in no particular order.
func (c Control) Candidates(kind string, owner metav1.Object) ([]*appsv1.ControllerRevision, error) {
	return c.index.OwnedByOrOrphans(kind, owner)
}

// List returns the Candidates that the selector matches, sorted.
func (c Control) List(kind string, owner metav1.Object, selector labels.Selector) ([]*appsv1.ControllerRevision, error) {
	candidates, err := c.Candidates(kind, owner)
	if err != nil {
		return nil, err
	}
	matching := slices.DeleteFunc(candidates, func(revision *appsv1.ControllerRevision) bool {
		return !selector.Matches(labels.Set(revision.Labels))
	})
	Sort(matching)
	return matching, nil
}

// Create creates a revision made by New in the namespace, or returns an existing one with the
// same payload. If a name is taken by another payload it increments collisions and tries the
// next name. It returns the new count, also on failure.
func (c Control) Create(ctx context.Context, namespace, parent string, revision *appsv1.ControllerRevision, collisions int32) (*appsv1.ControllerRevision, int32, error) {
	client := c.client.AppsV1().ControllerRevisions(namespace)
	for ctx.Err() == nil {
		attempt := revision.DeepCopy()
		attempt.Name = Name(parent, Hash(revision.Data.Raw, collisions))
		created, err := client.Create(ctx, attempt, metav1.CreateOptions{})
		if !apierrors.IsAlreadyExists(err) {
			return created, collisions, err
		}
		existing, err := client.Get(ctx, attempt.Name, metav1.GetOptions{})
		if err != nil {
			return nil, collisions, err
		}
		if Holds(existing, revision.Data.Raw) {
			return existing, collisions, nil
		}
		collisions++
	}
	return nil, collisions, context.Cause(ctx)
}

// Renumber changes the number of a revision and returns it as stored. On a conflict it retries
// with the live object, with four attempts in total, unless that is another one of the name.
func (c Control) Renumber(ctx context.Context, revision *appsv1.ControllerRevision, number int64) (*appsv1.ControllerRevision, error) {
	client := c.client.AppsV1().ControllerRevisions(revision.Namespace)
	current := revision
	err := requests.RetryOnConflict(retry.DefaultBackoff, func() error {
		if current.Revision == number {
			return nil
		}
		changed := current.DeepCopy()
		changed.Revision = number
		updated, err := client.Update(ctx, changed, metav1.UpdateOptions{})
		if err == nil {
			current = updated
			return nil
		}
		live, getErr := client.Get(ctx, revision.Name, metav1.GetOptions{})
		switch {
		case getErr != nil:
			return err
		case live.UID != revision.UID:
			return reconcile.Requeue(fmt.Errorf("it was recreated: got uid %s, wanted %s", live.UID, revision.UID))
		}
		current = live
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("numbering revision %s/%s: %w", revision.Namespace, revision.Name, err)
	}
	return current, nil
}

// Delete deletes a revision. It is no error if it does not exist.
func (c Control) Delete(ctx context.Context, revision *appsv1.ControllerRevision) error {
	options := metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &revision.UID}}
	err := c.client.AppsV1().ControllerRevisions(revision.Namespace).Delete(ctx, revision.Name, options)
	// A conflict means that the name now belongs to another revision.
	if err == nil || controller.Absent(err) || apierrors.IsConflict(err) {
		return nil
	}
	return fmt.Errorf("deleting revision %s/%s: %w", revision.Namespace, revision.Name, err)
}

// DeleteAll deletes revisions. A failure does not affect the others.
func (c Control) DeleteAll(ctx context.Context, revisions []*appsv1.ControllerRevision) error {
	var failures []error
	for _, revision := range revisions {
		failures = append(failures, c.Delete(ctx, revision))
	}
	return errors.Join(failures...)
}

// Patch sends a patch for a revision, for example for an owners.Claimer, and returns the
// revision as stored.
func (c Control) Patch(ctx context.Context, revision *appsv1.ControllerRevision, kind types.PatchType, patch []byte) (*appsv1.ControllerRevision, error) {
	return c.client.AppsV1().ControllerRevisions(revision.Namespace).Patch(ctx, revision.Name, kind, patch, metav1.PatchOptions{})
}
