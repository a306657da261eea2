package why

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
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
// without its group. As in kubectl a version may come before the group; it makes no difference, since
// an object is the same in every version.
func resolve(served []*metav1.APIResourceList, q Query) (subject, error) {
	if q.Type == "" || q.Name == "" {
		return subject{}, errors.New("the type and the name of an object are needed")
	}
	if len(served) == 0 {
		return subject{}, errors.New("the API server has not said yet which resources it serves")
	}
	arg := strings.ToLower(q.Type)
	name, group, grouped := strings.Cut(arg, ".")
	s, found := find(served, name, group, grouped)
	if gvr, _ := schema.ParseResourceArg(arg); gvr != nil && !found {
		s, found = find(served, gvr.Resource, gvr.Group, true)
	}
	if !found {
		return subject{}, fmt.Errorf("the API server serves no resource %q", q.Type)
	}
	s.Name = q.Name
	if s.namespaced {
		s.Namespace = cmp.Or(q.Namespace, metav1.NamespaceDefault)
	}
	return s, nil
}

// find finds the resource of a name, in one group if that is given.
func find(served []*metav1.APIResourceList, name, group string, grouped bool) (subject, bool) {
	for _, list := range served {
		gv, err := schema.ParseGroupVersion(list.GroupVersion)
		if err != nil || grouped && gv.Group != group {
			continue
		}
		for _, r := range list.APIResources {
			if isNamed(r, name) {
				s := subject{namespaced: r.Namespaced}
				s.Resource = schema.GroupResource{Group: gv.Group, Resource: r.Name}
				return s, true
			}
		}
	}
	return subject{}, false
}

func isNamed(r metav1.APIResource, name string) bool {
	if strings.Contains(r.Name, "/") {
		return false
	}
	return r.Name == name || strings.ToLower(r.Kind) == name || r.SingularName == name || slices.Contains(r.ShortNames, name)
}
