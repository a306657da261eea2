package simulation

import (
	"fmt"

	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/utils/ptr"
)

// TamperWithSlices is what users and other managers do to an EndpointSlice.
func (w *World) TamperWithSlices() {
	all := All[*discoveryv1.EndpointSlice](w)
	if len(all) == 0 {
		return
	}
	slice := all[w.Rand.IntN(len(all))]
	if w.OneIn(3) {
		w.Delete(slice, nil)
		return
	}
	what, change := w.tampering()
	w.Note("slice %s: %s", slice.Name, what)
	Change(w, slice, change)
}

func (w *World) tampering() (string, func(*discoveryv1.EndpointSlice)) {
	label := func(key, value string) func(*discoveryv1.EndpointSlice) {
		return func(s *discoveryv1.EndpointSlice) {
			s.Labels = mapWith(s.Labels, key, value)
		}
	}
	switch w.Rand.IntN(7) {
	case 0:
		return "endpoints are dropped", func(s *discoveryv1.EndpointSlice) { s.Endpoints = s.Endpoints[:len(s.Endpoints)/2] }
	case 1:
		return "endpoints are changed", func(s *discoveryv1.EndpointSlice) {
			for i := range s.Endpoints {
				s.Endpoints[i].Conditions.Ready = ptr.To(w.OneIn(2))
			}
		}
	case 2:
		return "is taken over", label(discoveryv1.LabelManagedBy, "somebody-else")
	case 3:
		manager := ""
		for _, s := range All[*discoveryv1.EndpointSlice](w) {
			if of := s.Labels[discoveryv1.LabelManagedBy]; of != "somebody-else" {
				manager = of
			}
		}
		return "is given back", label(discoveryv1.LabelManagedBy, manager)
	case 4:
		return "is of another Service", label(discoveryv1.LabelServiceName, []string{"a", "b", "c"}[w.Rand.IntN(3)])
	case 5:
		return "is annotated", func(s *discoveryv1.EndpointSlice) {
			s.Annotations = mapWith(s.Annotations, "foreign", fmt.Sprint(w.Rand.IntN(2)))
		}
	}
	return "finalizers come or go", func(s *discoveryv1.EndpointSlice) {
		if s.Finalizers = nil; w.OneIn(2) && s.DeletionTimestamp == nil {
			s.Finalizers = []string{"example.com/hold"}
		}
	}
}

func mapWith(m map[string]string, key, value string) map[string]string {
	with := map[string]string{key: value}
	for k, v := range m {
		if k != key {
			with[k] = v
		}
	}
	return with
}
