package garbagecollector

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"

	"kcmd.dev/pkg/controllers/kit/reconcile"
	"kcmd.dev/pkg/controllers/kit/requests"
	"kcmd.dev/pkg/controllers/kit/slowstart"
)

// maxOrphaned is the number of dependents of one owner that are patched concurrently.
const maxOrphaned = 64

// maxUnlisted is how long the objects of a kind are waited for before owners are released without their dependents. A
// kind that cannot be listed, since its conversion fails for instance, holds up no deletion for longer.
const maxUnlisted = 5 * time.Minute

// finalizerRetries is the backoff for conflicts when removing a finalizer.
func finalizerRetries() wait.Backoff {
	return wait.Backoff{Steps: 4, Duration: 10 * time.Millisecond, Factor: 5, Jitter: 0.1}
}

// errMoreDependents keeps the finalizer of an owner although its dependents were released.
var errMoreDependents = errors.New("dependents were added meanwhile, or found under another version")

// errStillOwned keeps the finalizer of an owner: without it, the dependent would be deleted with the owner.
var errStillOwned = errors.New("the owner is still there after it was removed, an admission webhook may keep it")

// attemptToOrphan removes an owner from all of its dependents and then removes its finalizer.
func (c *collector) attemptToOrphan(ctx context.Context, owner *node) error {
	s := c.graph.look(owner)
	if !s.current {
		return nil
	}
	cached, found := c.monitors.cached(s.resource, owner.identity)
	if found && !deletingWith(cached, metav1.FinalizerOrphanDependents) {
		return nil // its finalizer was removed, or the cache is behind, and will show it
	}
	if resource, lacks := c.unlisted(ctx); lacks {
		return reconcile.AwaitCache(fmt.Errorf("orphaning the dependents of %s: those among %s are not known yet", owner, resource))
	}
	dependents := c.graph.dependentsOf(owner)
	orphaned, errs := slowstart.Do(ctx, len(dependents), maxOrphaned, func(ctx context.Context, i int) error {
		return c.release(ctx, dependents[i], owner.uid)
	})
	if len(errs) > 0 {
		return fmt.Errorf("orphaning the dependents of %s, %d of %d done: %w",
			owner, orphaned, len(dependents), errors.Join(errs...))
	}
	if c.graph.hasOthers(owner, dependents) {
		return reconcile.Requeue(errMoreDependents)
	}
	err := c.removeFinalizer(ctx, owner, s, metav1.FinalizerOrphanDependents)
	if unmapped := (*mappingError)(nil); errors.As(err, &unmapped) {
		return reconcile.Requeue(err)
	}
	return err
}

// unlisted returns a resource of which the graph may lack objects. A dependent that shows up after its owner was
// released has no owner, and would be deleted. A definition that was deleted meanwhile leaves no objects behind.
func (c *collector) unlisted(ctx context.Context) (resource schema.GroupVersionResource, lacks bool) {
	for _, resource := range c.monitors.unfilled(maxUnlisted) {
		if !c.isGone(ctx, resource) {
			return resource, true
		}
	}
	return schema.GroupVersionResource{}, false
}

// release removes an owner from one dependent.
func (c *collector) release(ctx context.Context, dependent *node, owner types.UID) error {
	s := c.graph.look(dependent)
	if !s.current {
		return nil
	}
	if s.unwatched {
		// No informer would show the change of the dependent.
		defer c.attempt.add(reconcile.Backlog, dependent)
	}
	at, err := c.locateNode(dependent, s)
	if err != nil {
		return err
	}
	released, err := c.disown(ctx, at, dependent, []types.UID{owner})
	if err = c.confirm(ctx, at, dependent, err); errors.Is(err, errGone) {
		return nil
	}
	if err == nil && len(withoutOwners(released.OwnerReferences, []types.UID{owner})) < len(released.OwnerReferences) {
		return fmt.Errorf("%s: %w", dependent, errStillOwned)
	}
	return err
}

// removeFinalizer removes a garbage collection finalizer from an object. The object then counts as done until
// an informer shows it with the finalizer again.
func (c *collector) removeFinalizer(ctx context.Context, n *node, s state, finalizer string) error {
	c.graph.relieve(n, true) // before, for an informer can show what follows before the answer comes
	err := c.removeFromNewest(ctx, n, s, finalizer)
	if err != nil {
		c.graph.relieve(n, false) // it is tried again
	}
	return err
}

// removeFromNewest removes a finalizer from the state of an object in the cache, if that is the newest one, else from
// the one that is read.
func (c *collector) removeFromNewest(ctx context.Context, n *node, s state, finalizer string) error {
	at, err := c.locateNode(n, s)
	if err != nil {
		return err
	}
	if cached, found := c.monitors.cached(s.resource, n.identity); found && hasFinalizer(cached, finalizer) {
		if err := c.removeIfUnchanged(ctx, at, n, cached, finalizer); !apierrors.IsConflict(err) {
			return err
		}
	}
	err = requests.RetryOnConflict(finalizerRetries(), func() error {
		object, err := c.read(ctx, at, n.uid)
		if err != nil || object == nil || !hasFinalizer(object, finalizer) {
			return err
		}
		return c.removeIfUnchanged(ctx, at, n, object, finalizer)
	})
	if apierrors.IsConflict(err) {
		return fmt.Errorf("updateMaxRetries(%d) has reached. The garbage collector will retry later for owner %s",
			finalizerRetries().Steps, n)
	}
	return err
}

// removeIfUnchanged removes a finalizer from an object that has not changed since it was read.
func (c *collector) removeIfUnchanged(
	ctx context.Context, at location, n *node, object metav1.Object, finalizer string,
) error {
	_, err := c.patch(ctx, at, types.MergePatchType, finalizersMerge(object, finalizer))
	if err = c.confirm(ctx, at, n, err); errors.Is(err, errGone) {
		return nil
	}
	return err
}

func hasFinalizer(object metav1.Object, finalizer string) bool {
	return slices.Contains(object.GetFinalizers(), finalizer)
}

// finalizersMerge returns the merge patch that removes a finalizer, with the resource version
// as a precondition.
func finalizersMerge(object metav1.Object, finalizer string) []byte {
	fields := map[string]any{"resourceVersion": object.GetResourceVersion(), "finalizers": nil}
	left := slices.DeleteFunc(slices.Clone(object.GetFinalizers()), func(f string) bool { return f == finalizer })
	if len(left) > 0 {
		fields["finalizers"] = left
	}
	return metadataPatch(fields)
}
