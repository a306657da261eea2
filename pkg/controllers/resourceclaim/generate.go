package resourceclaim

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	schedulingv1alpha2 "k8s.io/api/scheduling/v1alpha2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/dynamic-resource-allocation/resourceclaim"
	"k8s.io/klog/v2"
	"k8s.io/utils/ptr"

	"kcmd.dev/pkg/controller"
	"kcmd.dev/pkg/controllers/kit/reconcile"
	"kcmd.dev/pkg/controllers/kit/requests"
)

// pageSize is the page size of live lists of claims.
const pageSize = 500

// owner is a pod or a PodGroup that claims are generated for.
type owner struct {
	metav1.Object
	key       key
	reference metav1.OwnerReference
	// owns returns an error if a claim was not generated for the owner.
	owns func(*resourcev1.ResourceClaim) error
	// cached returns the claims generated for the owner that the cache shows.
	cached func() ([]*resourcev1.ResourceClaim, error)
}

func (o owner) identity() metav1.Object { return identity(o.GetNamespace(), o.GetUID()) }

func (c *claimController) podOwner(pod *corev1.Pod) owner {
	return owner{
		Object:    pod,
		key:       keyOf(kindPod, pod),
		reference: metav1.OwnerReference{APIVersion: "v1", Kind: "Pod", Name: pod.Name, UID: pod.UID, Controller: ptr.To(true)},
		owns:      func(claim *resourcev1.ResourceClaim) error { return c.isForPod(pod, claim) },
		cached:    func() ([]*resourcev1.ResourceClaim, error) { return c.find.generatedFor(pod) },
	}
}

func (c *claimController) groupOwner(group *schedulingv1alpha2.PodGroup) owner {
	return owner{
		Object: group,
		key:    keyOf(kindPodGroup, group),
		reference: metav1.OwnerReference{
			APIVersion: schedulingv1alpha2.SchemeGroupVersion.String(), Kind: "PodGroup", Name: group.Name, UID: group.UID, Controller: ptr.To(true),
		},
		owns:   func(claim *resourcev1.ResourceClaim) error { return resourceclaim.IsForPodGroup(group, claim) },
		cached: func() ([]*resourcev1.ResourceClaim, error) { return c.find.generatedForGroup(group) },
	}
}

// known is what an owner says about the claim of an entry.
type known struct {
	name      *string // nil if the entry needs none
	mustBeOwn bool    // whether it has to be checked that the claim was generated for the owner
	err       error
}

// hasClaim reports whether an entry has its claim or needs none. A claim that is recorded and that
// the cache does not show is looked up live.
func (c *claimController) hasClaim(ctx context.Context, of owner, entry known) (bool, error) {
	switch {
	case errors.Is(entry.err, resourceclaim.ErrClaimNotFound):
		return false, nil
	case entry.err != nil:
		return false, fmt.Errorf("checking for claim before creating it: %w", entry.err)
	case entry.name == nil:
		return true, nil
	case *entry.name == "":
		return false, nil
	}
	claim, err := c.recorded(ctx, of, entry)
	if claim == nil || err != nil {
		return false, err
	}
	if !entry.mustBeOwn {
		return true, nil
	}
	if err := of.owns(claim); err != nil {
		klog.FromContext(ctx).Info("The recorded ResourceClaim is that of another owner", "owner", klog.KObj(of), "claim", klog.KObj(claim), "err", err)
		return false, nil
	}
	return true, nil
}

// recorded returns the claim that an entry names, nil if there is none.
func (c *claimController) recorded(ctx context.Context, of owner, entry known) (*resourcev1.ResourceClaim, error) {
	claim, found, err := reconcile.Found(c.claims.ResourceClaims(of.GetNamespace()).Get(*entry.name))
	if found || err != nil || !entry.mustBeOwn {
		return claim, err
	}
	all, err := c.memory.generated.List(of.identity(), of.cached)
	if err != nil {
		return nil, err
	}
	if i := slices.IndexFunc(all, func(c *resourcev1.ResourceClaim) bool { return c.Name == *entry.name }); i >= 0 {
		claim = all[i]
	} else {
		claim, err = c.Client.ResourceV1().ResourceClaims(of.GetNamespace()).Get(ctx, *entry.name, metav1.GetOptions{})
	}
	if controller.Absent(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("checking for claim before creating it: %w", err)
	}
	c.queue.AddAfter(of.key, reconcile.RecheckAfter)
	return claim, nil
}

// claimOf returns the claim that was generated for an entry, nil if none is known. Of several it is
// the oldest; the others are left to the garbage collector.
func (c *claimController) claimOf(of owner, entry string) (*resourcev1.ResourceClaim, error) {
	all, err := c.memory.generated.List(of.identity(), of.cached)
	if err != nil {
		return nil, err
	}
	all = slices.DeleteFunc(all, func(claim *resourcev1.ResourceClaim) bool {
		return claim.Annotations[resourcev1.PodResourceClaimAnnotation] != entry
	})
	if len(all) == 0 {
		return nil, nil
	}
	return slices.MinFunc(all, func(a, b *resourcev1.ResourceClaim) int {
		return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.Name, b.Name))
	}), nil
}

// generate returns the name of the claim for an entry, which it creates unless there is one.
func (c *claimController) generate(ctx context.Context, of owner, entry, template string) (string, error) {
	if err := c.settleDoubts(ctx, of); err != nil {
		return "", err
	}
	claim, err := c.claimOf(of, entry)
	if err != nil {
		return "", err
	}
	if claim == nil {
		if claim, err = c.create(ctx, of, entry, template); err != nil {
			return "", err
		}
	}
	return claim.Name, nil
}

func (c *claimController) create(ctx context.Context, of owner, entry, name string) (*resourcev1.ResourceClaim, error) {
	template, err := c.templates.ResourceClaimTemplates(of.GetNamespace()).Get(name)
	if err != nil {
		return nil, fmt.Errorf("resource claim template %q: %w", name, err)
	}
	if err := c.allowed(&template.Spec.Spec); err != nil {
		return nil, err
	}
	claim := claimFrom(template, of, entry)
	created, err := c.Client.ResourceV1().ResourceClaims(claim.Namespace).Create(ctx, claim, metav1.CreateOptions{})
	c.metrics.created(claim, err)
	if err != nil {
		if !requests.IsRefusal(err) {
			c.memory.doubt(of.GetUID())
		}
		return nil, fmt.Errorf("create ResourceClaim %s: %w", claim.Name, err)
	}
	if err := of.owns(created); err != nil {
		return nil, fmt.Errorf("create ResourceClaim %s: it was stored with another owner than was sent, an admission webhook may change it: %w",
			created.Name, err)
	}
	c.memory.generated.Wrote(of.identity(), created)
	return created, nil
}

// settleDoubts finds out which claims there are for an owner, if one may have been created by a
// request that failed.
func (c *claimController) settleDoubts(ctx context.Context, of owner) error {
	if _, ok := c.memory.doubts.age(of.GetUID()); !ok {
		return nil
	}
	options := metav1.ListOptions{Limit: pageSize}
	for {
		list, err := c.Client.ResourceV1().ResourceClaims(of.GetNamespace()).List(ctx, options)
		if err != nil {
			return fmt.Errorf("checking for claim before creating it: %w", err)
		}
		for i := range list.Items {
			if metav1.IsControlledBy(&list.Items[i], of) {
				c.memory.generated.Wrote(of.identity(), list.Items[i].DeepCopy()) // not a part of the list, which would stay in memory
			}
		}
		if options.Continue = list.Continue; options.Continue == "" {
			break
		}
	}
	c.memory.doubts.drop(of.GetUID())
	return nil
}
