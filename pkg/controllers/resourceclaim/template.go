package resourceclaim

import (
	"errors"
	"maps"
	"slices"
	"strings"

	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// maxPrefix is how long the prefix of a generated name may be for the name to be valid: 63 bytes
// less those that are generated, and a hyphen.
const maxPrefix = 57

// claimFrom makes the claim for an entry of an owner. Nothing of it is shared with the template.
func claimFrom(template *resourcev1.ResourceClaimTemplate, of owner, entry string) *resourcev1.ResourceClaim {
	return &resourcev1.ResourceClaim{
		ObjectMeta: metav1.ObjectMeta{
			Namespace:       of.GetNamespace(),
			GenerateName:    prefixOf(of.GetName(), entry),
			Labels:          maps.Clone(template.Spec.Labels),
			Annotations:     labels.Merge(template.Spec.Annotations, labels.Set{resourcev1.PodResourceClaimAnnotation: entry}),
			OwnerReferences: []metav1.OwnerReference{of.reference},
		},
		Spec: *template.Spec.Spec.DeepCopy(),
	}
}

// prefixOf returns what the name of a generated claim begins with. If it would be too long, owner
// and entry are shortened in proportion. No part of a name between two dots begins with a hyphen, so at
// least the first letter of the owner stays, and no dot at the end of what is left of it.
func prefixOf(owner, entry string) string {
	prefix := owner + "-" + entry + "-"
	if len(prefix) <= maxPrefix {
		return prefix
	}
	owner = owner[:max(1, len(owner)*maxPrefix/len(prefix))]
	return strings.TrimRight(owner, ".") + "-" + entry[:len(entry)*maxPrefix/len(prefix)]
}

// allowed returns an error if a template asks for something that is switched off.
func (c config) allowed(spec *resourcev1.ResourceClaimSpec) error {
	if !c.adminAccess && asksForAdminAccess(spec) {
		return errors.New("admin access is requested, but the feature is disabled")
	}
	if !c.prioritizedLists && slices.ContainsFunc(spec.Devices.Requests, func(r resourcev1.DeviceRequest) bool { return len(r.FirstAvailable) > 0 }) {
		return errors.New("template includes a prioritized list of subrequests, but the feature is disabled")
	}
	return nil
}

// asksForAdminAccess reports whether a request is for devices that others may use. A list of
// alternatives cannot be.
func asksForAdminAccess(spec *resourcev1.ResourceClaimSpec) bool {
	return slices.ContainsFunc(spec.Devices.Requests, func(r resourcev1.DeviceRequest) bool {
		return r.Exactly != nil && r.Exactly.AdminAccess != nil && *r.Exactly.AdminAccess
	})
}
