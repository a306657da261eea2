package slicewrites

import (
	"slices"

	discoveryv1 "k8s.io/api/discovery/v1"
)

// Sortable returns the slices in a form that k8s.io/endpointslice may sort in place, which it does
// with the ports and with the addresses of each endpoint. What could be reordered is
// copied; the rest goes on to be shared with the cache.
func Sortable(cached []*discoveryv1.EndpointSlice) []*discoveryv1.EndpointSlice {
	private := make([]*discoveryv1.EndpointSlice, len(cached))
	for i, slice := range cached {
		private[i] = sortableSlice(slice)
	}
	return private
}

func sortableSlice(cached *discoveryv1.EndpointSlice) *discoveryv1.EndpointSlice {
	unsorted := slices.ContainsFunc(cached.Endpoints, unsortedAddresses)
	if len(cached.Ports) < 2 && !unsorted {
		return cached
	}
	private := *cached
	private.Ports = slices.Clone(cached.Ports)
	if !unsorted {
		return &private
	}
	private.Endpoints = slices.Clone(cached.Endpoints)
	for i := range private.Endpoints {
		private.Endpoints[i].Addresses = slices.Clone(private.Endpoints[i].Addresses)
	}
	return &private
}

func unsortedAddresses(e discoveryv1.Endpoint) bool { return !slices.IsSorted(e.Addresses) }
