package garbagecollector

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/utils/ptr"
)

// learned are the resources known not to support strategic merge patches: custom and some
// aggregated ones.
type learned struct{ resources sync.Map }

func (l *learned) add(resource schema.GroupVersionResource) { l.resources.Store(resource, true) }

func (l *learned) has(resource schema.GroupVersionResource) bool {
	_, found := l.resources.Load(resource)
	return found
}

// metadataPatch is a patch of metadata.
func metadataPatch(fields map[string]any) []byte {
	// Marshalling maps of strings, slices and owner references never fails.
	patch, _ := json.Marshal(map[string]any{"metadata": fields})
	return patch
}

// disownStrategic returns the patch that removes owners by UID. The UID of the object is a
// precondition.
func disownStrategic(object types.UID, owners []types.UID) []byte {
	var refs []map[string]any
	for _, owner := range owners {
		refs = append(refs, map[string]any{"$patch": "delete", "uid": owner})
	}
	return metadataPatch(map[string]any{"uid": object, "ownerReferences": refs})
}

// unblockStrategic returns the patch that resets blockOwnerDeletion of blocking references. The UID and the resource
// version of the object are preconditions: what deletes it then knows all of its owners.
func unblockStrategic(item *metav1.PartialObjectMetadata) []byte {
	blocking := slices.DeleteFunc(slices.Clone(item.OwnerReferences), func(ref metav1.OwnerReference) bool {
		return !isBlocking(ref)
	})
	return metadataPatch(map[string]any{
		"uid": item.UID, "resourceVersion": item.ResourceVersion, "ownerReferences": unblocked(blocking),
	})
}

func isBlocking(ref metav1.OwnerReference) bool { return ptr.Deref(ref.BlockOwnerDeletion, false) }

// ownersMerge returns the merge patch that replaces the list of owners, with the resource
// version as a precondition.
func ownersMerge(version string, refs []metav1.OwnerReference) []byte {
	fields := map[string]any{"resourceVersion": version, "ownerReferences": nil}
	if len(refs) > 0 {
		fields["ownerReferences"] = refs
	}
	return metadataPatch(fields)
}

func unblocked(refs []metav1.OwnerReference) []metav1.OwnerReference {
	refs = slices.Clone(refs)
	for n := range refs {
		refs[n].BlockOwnerDeletion = ptr.To(false)
	}
	return refs
}

func withoutOwners(refs []metav1.OwnerReference, owners []types.UID) []metav1.OwnerReference {
	return slices.DeleteFunc(slices.Clone(refs), func(ref metav1.OwnerReference) bool {
		return slices.Contains(owners, ref.UID)
	})
}

// disown removes owners from an object, and returns the patched object. The merge patch is based on the cached
// references, or on the live ones if the cache is stale.
func (c *collector) disown(
	ctx context.Context, at location, n *node, owners []types.UID,
) (*metav1.PartialObjectMetadata, error) {
	patched, supported, err := c.patchStrategically(ctx, at, disownStrategic(n.uid, owners))
	if supported {
		return patched, err
	}
	merge := func(object metav1.Object) (*metav1.PartialObjectMetadata, error) {
		patch := ownersMerge(object.GetResourceVersion(), withoutOwners(object.GetOwnerReferences(), owners))
		return c.patch(ctx, at, types.MergePatchType, patch)
	}
	if cached, found := c.monitors.cached(at.resource, n.identity); found {
		if patched, err := merge(cached); !apierrors.IsConflict(err) {
			return patched, err
		}
	}
	object, err := c.read(ctx, at, n.uid)
	if err != nil {
		return nil, err
	}
	if object == nil {
		return nil, apierrors.NewNotFound(at.resource.GroupResource(), at.name)
	}
	return merge(object)
}

// unblock resets blockOwnerDeletion in all references of an object, if it has not changed since it was read, and
// returns the patched object.
func (c *collector) unblock(
	ctx context.Context, at location, item *metav1.PartialObjectMetadata,
) (*metav1.PartialObjectMetadata, error) {
	if !slices.ContainsFunc(item.OwnerReferences, isBlocking) {
		return item, nil
	}
	if !sharesUIDs(item.OwnerReferences) {
		patched, supported, err := c.patchStrategically(ctx, at, unblockStrategic(item))
		if supported {
			return patched, err
		}
	}
	return c.patch(ctx, at, types.MergePatchType, ownersMerge(item.ResourceVersion, unblocked(item.OwnerReferences)))
}

// sharesUIDs reports whether two references have the same UID. A strategic merge patch changes only the first of them.
func sharesUIDs(refs []metav1.OwnerReference) bool {
	uids := sets.New[types.UID]()
	for _, ref := range refs {
		uids.Insert(ref.UID)
	}
	return len(uids) < len(refs)
}

// patchStrategically sends a strategic merge patch, unless the resource is known not to support it.
func (c *collector) patchStrategically(
	ctx context.Context, at location, patch []byte,
) (object *metav1.PartialObjectMetadata, supported bool, err error) {
	if c.mergeOnly.has(at.resource) {
		return nil, false, nil
	}
	object, err = c.patch(ctx, at, types.StrategicMergePatchType, patch)
	if apierrors.IsUnsupportedMediaType(err) {
		c.mergeOnly.add(at.resource)
		return nil, false, nil
	}
	return object, true, err
}

func (c *collector) patch(
	ctx context.Context, at location, as types.PatchType, patch []byte,
) (*metav1.PartialObjectMetadata, error) {
	object, err := c.client(at).Patch(ctx, at.name, as, patch, metav1.PatchOptions{})
	if err := at.unserved(err); err != nil {
		return nil, err
	}
	if err != nil {
		return nil, fmt.Errorf("patching %s %s/%s: %w", at.resource.GroupResource(), at.namespace, at.name, err)
	}
	return object, nil
}
