package endpointslicemirroring

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/endpointslice/util"
	netutils "k8s.io/utils/net"
	"k8s.io/utils/ptr"

	"kcmd.dev/pkg/controllers/kit/services/subsets"
)

// groupKey tells what the endpoints of one slice have in common.
type groupKey struct {
	addressType discoveryv1.AddressType
	ports       util.PortMapKey
}

// group is the desired content of one slice.
type group struct {
	key       groupKey
	ports     []discoveryv1.EndpointPort
	endpoints []discoveryv1.Endpoint
	known     map[endpointKey]int // where in endpoints
}

func newGroup(addressType discoveryv1.AddressType, key util.PortMapKey, ports []discoveryv1.EndpointPort) *group {
	return &group{key: groupKey{addressType, key}, ports: ports, known: map[endpointKey]int{}}
}

// add adds an endpoint. The canonical IPs of two addresses can be the same: then the later
// one counts.
func (g *group) add(endpoint discoveryv1.Endpoint) {
	key := keyOf(&endpoint)
	if at, known := g.known[key]; known {
		g.endpoints[at] = endpoint
		return
	}
	g.known[key] = len(g.endpoints)
	g.endpoints = append(g.endpoints, endpoint)
}

// skippedAddresses counts what is not mirrored.
type skippedAddresses struct {
	total   int
	invalid int // of them are no IPs
}

// desiredGroups returns the groups of Endpoints that have endpoints, those of a subset next
// to one another, and what is left out.
func desiredGroups(endpoints *corev1.Endpoints, maxEndpoints int) ([]*group, skippedAddresses) {
	var groups []*group
	var skipped skippedAddresses
	for _, subset := range subsets.Repack(endpoints.Subsets) {
		ports := portsOf(subset.Ports)
		key := util.NewPortMapKey(slices.Clone(ports))
		v4 := newGroup(discoveryv1.AddressTypeIPv4, key, ports)
		v6 := newGroup(discoveryv1.AddressTypeIPv6, key, ports)
		added, invalid := fill(v4, v6, &subset, maxEndpoints)
		skipped.invalid += invalid
		skipped.total += len(subset.Addresses) + len(subset.NotReadyAddresses) - added
		for _, g := range []*group{v4, v6} {
			if len(g.endpoints) > 0 {
				groups = append(groups, g)
			}
		}
	}
	return groups, skipped
}

// fill adds the addresses of a subset to the group of their family, the ready ones first,
// until there are maxEndpoints in both.
func fill(v4, v6 *group, subset *corev1.EndpointSubset, maxEndpoints int) (added, invalid int) {
	add := func(addresses []corev1.EndpointAddress, ready bool) {
		for i := range addresses {
			if added == maxEndpoints {
				return
			}
			ip := netutils.ParseIPSloppy(addresses[i].IP)
			if ip == nil {
				invalid++
				continue
			}
			g := v4
			if netutils.IsIPv6(ip) {
				g = v6
			}
			g.add(endpointOf(&addresses[i], ip.String(), ready))
			added++
		}
	}
	add(subset.Addresses, true)
	add(subset.NotReadyAddresses, false)
	return added, invalid
}

// endpointOf converts an address. Endpoints say nothing of serving or terminating.
func endpointOf(address *corev1.EndpointAddress, ip string, ready bool) discoveryv1.Endpoint {
	endpoint := discoveryv1.Endpoint{
		Addresses:  []string{ip},
		Conditions: discoveryv1.EndpointConditions{Ready: &ready},
		TargetRef:  address.TargetRef,
		NodeName:   address.NodeName,
	}
	if address.Hostname != "" {
		endpoint.Hostname = &address.Hostname
	}
	return endpoint
}

func portsOf(all []corev1.EndpointPort) []discoveryv1.EndpointPort {
	ports := make([]discoveryv1.EndpointPort, 0, len(all))
	for i := range all {
		ports = append(ports, discoveryv1.EndpointPort{
			Name:        &all[i].Name,
			Port:        &all[i].Port,
			Protocol:    &all[i].Protocol,
			AppProtocol: all[i].AppProtocol,
		})
	}
	return ports
}

// groupOf returns the group that a slice belongs to. It leaves the order of its ports alone:
// the slice is shared with the cache.
func groupOf(slice *discoveryv1.EndpointSlice) groupKey {
	return groupKey{slice.AddressType, util.NewPortMapKey(slices.Clone(slice.Ports))}
}

// endpointKey identifies an endpoint among those of a slice.
type endpointKey struct{ addresses, hostname, namespace, name string }

func keyOf(e *discoveryv1.Endpoint) endpointKey {
	addresses := e.Addresses
	if !slices.IsSorted(addresses) {
		addresses = slices.Sorted(slices.Values(addresses))
	}
	key := endpointKey{addresses: strings.Join(addresses, ","), hostname: ptr.Deref(e.Hostname, "")}
	if e.TargetRef != nil {
		key.namespace, key.name = e.TargetRef.Namespace, e.TargetRef.Name
	}
	return key
}

// difference counts the endpoints that have to be added to, changed in and removed from
// what a slice holds.
type difference struct{ added, updated, removed int }

func differenceOf(held, desired []discoveryv1.Endpoint) difference {
	var d difference
	known := make(map[endpointKey]*discoveryv1.Endpoint, len(held))
	for i := range held {
		known[keyOf(&held[i])] = &held[i]
	}
	// Whatever is held twice has to go once.
	d.removed = len(held) - len(known)
	for i := range desired {
		key := keyOf(&desired[i])
		was, ok := known[key]
		switch {
		case !ok:
			d.added++
		case !util.EndpointsEqualBeyondHash(was, &desired[i]):
			d.updated++
		}
		delete(known, key)
	}
	d.removed += len(known)
	return d
}
