package why

import (
	"cmp"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"kcmd.dev/pkg/runtime/clients"
	"kcmd.dev/pkg/runtime/journal"
)

// family is an object and its dependents.
type family struct {
	subject subject
	members map[clients.Target]bool
	// resources are those of the members, without pods unless they are asked about.
	resources map[schema.GroupResource]bool
	// keys are the names of members as keys of queues, with the resources of those that have one.
	keys map[string]map[schema.GroupResource]bool
	// records are all that the journal holds of the namespace, the oldest first.
	records []journal.Record
	since   time.Time
}

// familyOf finds the members in the caches and in the journal.
func (s Sources) familyOf(of subject) *family {
	f := &family{
		subject:   of,
		members:   map[clients.Target]bool{},
		resources: map[schema.GroupResource]bool{},
		keys:      map[string]map[schema.GroupResource]bool{},
	}
	dependents := map[clients.Target][]clients.Target{}
	owns := func(owner, dependent clients.Target) {
		if owner.Resource == of.Resource && !of.namespaced {
			owner.Namespace = "" // the reference does not tell that the owner has none
		}
		if owner.Name != "" && dependent.Name != "" {
			dependents[owner] = append(dependents[owner], dependent)
		}
	}
	s.Journal.Each(func(r journal.Record) {
		if f.since.IsZero() || r.Began.Before(f.since) {
			f.since = r.Began
		}
		if f.near(r) {
			f.records = append(f.records, r)
			owns(r.Owner, r.Target)
		}
	})
	if caches := s.Caches(); caches != nil && of.namespaced {
		caches.Visit(of.Namespace, func(resource schema.GroupResource, object metav1.Object) {
			owns(clients.OwnerOf(object), clients.Target{Resource: resource, Namespace: object.GetNamespace(), Name: object.GetName()})
		})
	}
	f.add(of.Target, dependents)
	return f
}

// near reports whether a record can be of the family: dependents are in the namespace of their
// owner, if it has one.
func (f *family) near(r journal.Record) bool {
	switch {
	case f.subject.namespaced:
		return r.Namespace == f.subject.Namespace
	case f.subject.Resource == namespaces:
		return r.Namespace == f.subject.Name || r.Target == f.subject.Target
	}
	return true
}

// add adds an object and its dependents.
func (f *family) add(t clients.Target, dependents map[clients.Target][]clients.Target) {
	if f.members[t] {
		return
	}
	f.members[t] = true
	if t.Resource.Resource != string(corev1.ResourcePods) || t.Resource == f.subject.Resource {
		f.resources[t.Resource] = true
	}
	f.addKey(t.Namespace+"/"+t.Name, t.Resource)
	if t.Namespace == "" {
		f.addKey(t.Name, t.Resource)
	}
	for _, d := range dependents[t] {
		f.add(d, dependents)
	}
}

func (f *family) addKey(key string, of schema.GroupResource) {
	if f.keys[key] == nil {
		f.keys[key] = map[schema.GroupResource]bool{}
	}
	f.keys[key][of] = true
}

// has reports whether a write of this target is of the family.
func (f *family) has(t clients.Target) bool {
	return f.members[t] || f.subject.Resource == namespaces && t.Namespace == f.subject.Name
}

// compareKeys orders keys by controller, queue and key.
func compareKeys(a, b Key) int {
	return cmp.Or(cmp.Compare(a.Controller, b.Controller), cmp.Compare(a.Queue, b.Queue), cmp.Compare(a.Key, b.Key))
}
