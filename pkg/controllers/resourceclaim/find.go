package resourceclaim

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	schedulingv1alpha2 "k8s.io/api/scheduling/v1alpha2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
	"k8s.io/dynamic-resource-allocation/resourceclaim"

	"kcmd.dev/pkg/controllers/kit/index"
)

// The indexes. Keys are <namespace>/<name>, but for those of claims by pod and by PodGroup, which are
// <namespace>/<UID>: a claim may refer to an owner in another namespace, which does not own it.
const (
	podsByClaim      = "podResourceClaim"
	podsByTemplate   = "podResourceClaimTemplate"
	groupsByClaim    = "podGroupResourceClaim"
	groupsByTemplate = "podGroupResourceClaimTemplate"
	claimsByPod      = "claimPodOwner"
	claimsByGroup    = "claimPodGroupOwner"
)

// finder finds what refers to an object.
type finder struct{ pods, claims, groups cache.Indexer }

// newFinder adds the indexes. There are none of groups if groups is nil.
func newFinder(pods, claims, groups cache.SharedIndexInformer) finder {
	index.Ensure(pods, podsByClaim, claimsOfPod)
	index.Ensure(pods, podsByTemplate, templatesOfPod)
	index.Ensure(claims, claimsByPod, podsOfClaim)
	f := finder{pods: pods.GetIndexer(), claims: claims.GetIndexer()}
	if groups == nil {
		return f
	}
	index.EnsurePodsByGroup(pods)
	index.Ensure(claims, claimsByGroup, groupsOfClaim)
	index.Ensure(groups, groupsByClaim, claimsOfGroup)
	index.Ensure(groups, groupsByTemplate, templatesOfGroup)
	f.groups = groups.GetIndexer()
	return f
}

func (f finder) podsUnder(name string, object metav1.Object) ([]*corev1.Pod, error) {
	return index.Append[*corev1.Pod](nil, f.pods, name, nameIn(object.GetNamespace(), object.GetName()))
}

// groupsUnder returns none if PodGroups have no claims.
func (f finder) groupsUnder(name string, object metav1.Object) ([]*schedulingv1alpha2.PodGroup, error) {
	if f.groups == nil {
		return nil, nil
	}
	return index.Append[*schedulingv1alpha2.PodGroup](nil, f.groups, name, nameIn(object.GetNamespace(), object.GetName()))
}

func (f finder) claimsUnder(name, key string) ([]*resourcev1.ResourceClaim, error) {
	return index.Append[*resourcev1.ResourceClaim](nil, f.claims, name, key)
}

// generatedFor returns the claims that were generated for a pod.
func (f finder) generatedFor(pod *corev1.Pod) ([]*resourcev1.ResourceClaim, error) {
	return f.claimsUnder(claimsByPod, nameIn(pod.Namespace, string(pod.UID)))
}

// generatedForGroup returns the claims that were generated for a PodGroup.
func (f finder) generatedForGroup(group *schedulingv1alpha2.PodGroup) ([]*resourcev1.ResourceClaim, error) {
	return f.claimsUnder(claimsByGroup, nameIn(group.Namespace, string(group.UID)))
}

// nameIn is how an index names an object.
func nameIn(namespace, name string) string {
	return types.NamespacedName{Namespace: namespace, Name: name}.String()
}

// The index functions return no error: an informer panics on one.

func claimsOfPod(obj any) ([]string, error) {
	pod, ok := obj.(*corev1.Pod)
	if !ok {
		return nil, nil
	}
	var keys []string
	for i := range pod.Spec.ResourceClaims {
		if name, _, err := resourceclaim.Name(pod, &pod.Spec.ResourceClaims[i]); err == nil && name != nil {
			keys = append(keys, nameIn(pod.Namespace, *name))
		}
	}
	return keys, nil
}

func templatesOfPod(obj any) ([]string, error) {
	pod, ok := obj.(*corev1.Pod)
	if !ok {
		return nil, nil
	}
	var keys []string
	for i := range pod.Spec.ResourceClaims {
		if template := pod.Spec.ResourceClaims[i].ResourceClaimTemplateName; template != nil {
			keys = append(keys, nameIn(pod.Namespace, *template))
		}
	}
	return keys, nil
}

func claimsOfGroup(obj any) ([]string, error) {
	group, ok := obj.(*schedulingv1alpha2.PodGroup)
	if !ok {
		return nil, nil
	}
	var keys []string
	for i := range group.Spec.ResourceClaims {
		if name, _, err := resourceclaim.NameFromPodGroup(group, &group.Spec.ResourceClaims[i]); err == nil && name != nil {
			keys = append(keys, nameIn(group.Namespace, *name))
		}
	}
	return keys, nil
}

func templatesOfGroup(obj any) ([]string, error) {
	group, ok := obj.(*schedulingv1alpha2.PodGroup)
	if !ok {
		return nil, nil
	}
	var keys []string
	for i := range group.Spec.ResourceClaims {
		if template := group.Spec.ResourceClaims[i].ResourceClaimTemplateName; template != nil {
			keys = append(keys, nameIn(group.Namespace, *template))
		}
	}
	return keys, nil
}

func podsOfClaim(obj any) ([]string, error) {
	claim, ok := obj.(*resourcev1.ResourceClaim)
	if !ok {
		return nil, nil
	}
	var keys []string
	for i := range claim.OwnerReferences {
		if isPod(&claim.OwnerReferences[i]) {
			keys = append(keys, nameIn(claim.Namespace, string(claim.OwnerReferences[i].UID)))
		}
	}
	return keys, nil
}

func groupsOfClaim(obj any) ([]string, error) {
	claim, ok := obj.(*resourcev1.ResourceClaim)
	if !ok {
		return nil, nil
	}
	var keys []string
	for i := range claim.OwnerReferences {
		if isGroup(&claim.OwnerReferences[i]) {
			keys = append(keys, nameIn(claim.Namespace, string(claim.OwnerReferences[i].UID)))
		}
	}
	return keys, nil
}

// isPod reports whether a reference is to a pod that controls the object.
func isPod(ref *metav1.OwnerReference) bool {
	return ref.Controller != nil && *ref.Controller && ref.APIVersion == "v1" && ref.Kind == "Pod"
}

// isGroup reports whether a reference is to a PodGroup, of any version, that controls the object.
func isGroup(ref *metav1.OwnerReference) bool {
	return ref.Controller != nil && *ref.Controller && ref.Kind == "PodGroup" && strings.HasPrefix(ref.APIVersion, schedulingv1alpha2.GroupName+"/")
}

// podOf returns the reference of a claim to the pod that controls it, nil if there is none.
func podOf(claim *resourcev1.ResourceClaim) *metav1.OwnerReference {
	for i := range claim.OwnerReferences {
		if isPod(&claim.OwnerReferences[i]) {
			return &claim.OwnerReferences[i]
		}
	}
	return nil
}
