package endpointslicemirroring

import (
	"cmp"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// plan is what has to be written for the slices to mirror Endpoints.
type plan struct {
	create    []*discoveryv1.EndpointSlice
	update    []*discoveryv1.EndpointSlice // named like the slices they overwrite
	remove    []*discoveryv1.EndpointSlice
	unchanged []*discoveryv1.EndpointSlice

	endpoints difference // over all slices
	desired   int        // endpoints
}

// newPlan compares the groups with the slices there are. Of several slices of one group the
// first by name is kept.
func newPlan(endpoints *corev1.Endpoints, groups []*group, existing []*discoveryv1.EndpointSlice) *plan {
	existing = slices.SortedFunc(slices.Values(existing), func(a, b *discoveryv1.EndpointSlice) int {
		return cmp.Compare(a.Name, b.Name)
	})
	byGroup := map[groupKey]*discoveryv1.EndpointSlice{}
	p := &plan{}
	wanted := map[groupKey]bool{}
	for _, g := range groups {
		wanted[g.key] = true
	}
	for _, slice := range existing {
		key := groupOf(slice)
		if !wanted[key] || byGroup[key] != nil {
			p.remove = append(p.remove, slice)
			p.endpoints.removed += len(slice.Endpoints)
			continue
		}
		byGroup[key] = slice
	}
	for _, g := range groups {
		p.place(endpoints, g, byGroup[g.key])
	}
	p.recycle()
	return p
}

// place plans the slice of a group, of which one may exist.
func (p *plan) place(endpoints *corev1.Endpoints, g *group, slice *discoveryv1.EndpointSlice) {
	p.desired += len(g.endpoints)
	if slice == nil {
		p.endpoints.added += len(g.endpoints)
		p.create = append(p.create, newSlice(endpoints, g))
		return
	}
	d := differenceOf(slice.Endpoints, g.endpoints)
	if d == (difference{}) && describes(slice, endpoints) {
		p.unchanged = append(p.unchanged, slice)
		return
	}
	p.endpoints.added += d.added
	p.endpoints.updated += d.updated
	p.endpoints.removed += d.removed
	p.overwrite(newSlice(endpoints, g), slice)
}

// overwrite plans to write a slice over another one, if that is as the cache shows it.
func (p *plan) overwrite(fresh, slice *discoveryv1.EndpointSlice) {
	fresh.Name, fresh.GenerateName = slice.Name, ""
	fresh.UID, fresh.ResourceVersion = slice.UID, slice.ResourceVersion
	p.update = append(p.update, fresh)
}

// recycle overwrites slices that are to be removed instead of creating others of the same
// address type, which cannot be changed.
func (p *plan) recycle() {
	p.create = slices.DeleteFunc(p.create, func(fresh *discoveryv1.EndpointSlice) bool {
		spare := slices.IndexFunc(p.remove, func(s *discoveryv1.EndpointSlice) bool {
			return s.AddressType == fresh.AddressType
		})
		if spare < 0 {
			return false
		}
		p.overwrite(fresh, p.remove[spare])
		p.remove = slices.Delete(p.remove, spare, spare+1)
		return true
	})
}

// describes reports whether labels, annotations and owner of a slice are those of the Endpoints.
func describes(slice *discoveryv1.EndpointSlice, endpoints *corev1.Endpoints) bool {
	return maps.Equal(withoutOurs(slice.Labels), withoutOurs(endpoints.Labels)) &&
		maps.Equal(slice.Annotations, mirroredAnnotations(endpoints)) &&
		!ownedByNamesake(slice, endpoints)
}

// ownedByNamesake reports whether a slice is owned by Endpoints that were deleted and created
// again since. The garbage collector would delete the slice (kubernetes#125354).
func ownedByNamesake(slice *discoveryv1.EndpointSlice, endpoints *corev1.Endpoints) bool {
	return slices.ContainsFunc(slice.OwnerReferences, func(ref metav1.OwnerReference) bool {
		return ref.Kind == "Endpoints" && ref.Name == endpoints.Name && ref.UID != endpoints.UID
	})
}

// withoutOurs returns a copy of labels without those that each slice has.
func withoutOurs(all map[string]string) map[string]string {
	rest := make(map[string]string, len(all)+2)
	maps.Copy(rest, all)
	delete(rest, discoveryv1.LabelServiceName)
	delete(rest, discoveryv1.LabelManagedBy)
	return rest
}

// mirroredAnnotations leaves out what is true of the Endpoints only.
func mirroredAnnotations(endpoints *corev1.Endpoints) map[string]string {
	annotations := maps.Clone(endpoints.Annotations)
	delete(annotations, corev1.EndpointsLastChangeTriggerTime)
	delete(annotations, corev1.LastAppliedConfigAnnotation)
	return annotations
}

// newSlice returns the slice of a group, to be created.
func newSlice(endpoints *corev1.Endpoints, g *group) *discoveryv1.EndpointSlice {
	labels := withoutOurs(endpoints.Labels)
	labels[discoveryv1.LabelServiceName] = endpoints.Name
	labels[discoveryv1.LabelManagedBy] = managedBy
	owner := metav1.NewControllerRef(endpoints, corev1.SchemeGroupVersion.WithKind("Endpoints"))
	return &discoveryv1.EndpointSlice{
		ObjectMeta: metav1.ObjectMeta{
			Namespace:       endpoints.Namespace,
			GenerateName:    namePrefix(endpoints.Name),
			Labels:          labels,
			Annotations:     mirroredAnnotations(endpoints),
			OwnerReferences: []metav1.OwnerReference{*owner},
		},
		AddressType: g.key.addressType,
		Ports:       g.ports,
		Endpoints:   g.endpoints,
	}
}

// namePrefix has a dash at the end unless that makes it too long.
func namePrefix(name string) string {
	if prefix := name + "-"; len(validation.NameIsDNSSubdomain(prefix, true)) == 0 {
		return prefix
	}
	return name
}
