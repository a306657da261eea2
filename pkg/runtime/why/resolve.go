package why

import (
	"errors"
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"kcmd.dev/pkg/runtime/clients"
)

// subject is the object that is asked about.
type subject struct {
	clients.Target
	namespaced bool
}

var namespaces = schema.GroupResource{Resource: "namespaces"}

// resolve finds the resource that a type is, by its name, singular, kind or a short name, with or
// without its group.
func resolve(served []*metav1.APIResourceList, q Query) (subject, error) {
	if q.Type == "" || q.Name == "" {
		return subject{}, errors.New("the type and the name of an object are needed")
	}
	if len(served) == 0 {
		return subject{}, errors.New("the API server has not said yet which resources it serves")
	}
	name, group, grouped := strings.Cut(strings.ToLower(q.Type), ".")
	for _, list := range served {
		gv, err := schema.ParseGroupVersion(list.GroupVersion)
		if err != nil || grouped && gv.Group != group {
			continue
		}
		for _, r := range list.APIResources {
			if !isNamed(r, name) {
				continue
			}
			s := subject{namespaced: r.Namespaced}
			s.Resource, s.Name = schema.GroupResource{Group: gv.Group, Resource: r.Name}, q.Name
			if r.Namespaced {
				s.Namespace = q.Namespace
				if s.Namespace == "" {
					s.Namespace = metav1.NamespaceDefault
				}
			}
			return s, nil
		}
	}
	return subject{}, fmt.Errorf("the API server serves no resource %q", q.Type)
}

func isNamed(r metav1.APIResource, name string) bool {
	if strings.Contains(r.Name, "/") {
		return false
	}
	if r.Name == name || strings.ToLower(r.Kind) == name || r.SingularName == name {
		return true
	}
	for _, short := range r.ShortNames {
		if short == name {
			return true
		}
	}
	return false
}
