package controller

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Offers reports whether the API server offered a matching resource of a group, in whatever version, when the group
// could last be asked. Env.Mapper does not know the resources of a group that cannot be asked, as that of an aggregated
// API server that is down: there its NoMatch does not say that there is no such resource.
func (e Env) Offers(group string, matches func(*metav1.APIResource) bool) bool {
	for _, list := range e.Served() {
		version, err := schema.ParseGroupVersion(list.GroupVersion)
		if err != nil || version.Group != group {
			continue
		}
		for i := range list.APIResources {
			if matches(&list.APIResources[i]) {
				return true
			}
		}
	}
	return false
}
