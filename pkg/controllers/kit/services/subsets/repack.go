// Package subsets knows the canonical form of the subsets of v1 Endpoints, in which equal
// sets of addresses and ports are written alike.
//
//  1. An address is identified by its IP and the UID of its target. Of several records of
//     one address the first is taken.
//  2. Every port of every subset has a set of addresses, each ready or not; an address that
//     is both is not ready.
//  3. Ports with the same set share a subset. The addresses of subsets without ports make one
//     subset without ports, unless a port has the same set. Subsets without addresses are gone.
//  4. Addresses are ordered by IP, then by the UID of the target; ports and subsets by a
//     hash of their content, as every kube-controller-manager has ordered them.
//
// The result shares the address records with the argument, and neither is to be changed.
//
// Behaviour: docs/specs/endpoints-controller.md, rule 7.
package subsets

import (
	"bytes"
	"cmp"
	"fmt"
	"hash/fnv"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/dump"
	"k8s.io/utils/ptr"
)

// Repack returns subsets in canonical form, nil if there is no address.
func Repack(subsets []corev1.EndpointSubset) []corev1.EndpointSubset {
	addresses := ranked(subsets)
	var repacked []corev1.EndpointSubset
	for _, group := range groupPorts(subsets, addresses) {
		repacked = append(repacked, group.subset(addresses))
	}
	return sortByHash(repacked)
}

// Count returns the number of ready and of not ready addresses in all subsets.
func Count(subsets []corev1.EndpointSubset) (ready, notReady int) {
	for i := range subsets {
		ready += len(subsets[i].Addresses)
		notReady += len(subsets[i].NotReadyAddresses)
	}
	return ready, notReady
}

// addressKey identifies an address.
type addressKey struct {
	ip  string
	uid types.UID // empty without a target
}

func keyOf(a *corev1.EndpointAddress) addressKey {
	if a.TargetRef == nil {
		return addressKey{ip: a.IP}
	}
	return addressKey{ip: a.IP, uid: a.TargetRef.UID}
}

// addresses are the different addresses of all subsets in their order.
type addresses struct {
	records []*corev1.EndpointAddress
	rank    map[addressKey]int
}

func ranked(subsets []corev1.EndpointSubset) addresses {
	all := addresses{rank: map[addressKey]int{}}
	note := func(list []corev1.EndpointAddress) {
		for i := range list {
			key := keyOf(&list[i])
			if _, known := all.rank[key]; !known {
				all.rank[key] = 0
				all.records = append(all.records, &list[i])
			}
		}
	}
	for i := range subsets {
		note(subsets[i].Addresses)
		note(subsets[i].NotReadyAddresses)
	}
	slices.SortStableFunc(all.records, compareAddresses)
	for i, record := range all.records {
		all.rank[keyOf(record)] = i
	}
	return all
}

func compareAddresses(a, b *corev1.EndpointAddress) int {
	if c := strings.Compare(a.IP, b.IP); c != 0 {
		return c
	}
	switch {
	case a.TargetRef == nil && b.TargetRef == nil:
		return 0
	case a.TargetRef == nil:
		return -1
	case b.TargetRef == nil:
		return 1
	}
	return cmp.Compare(a.TargetRef.UID, b.TargetRef.UID)
}

// portKey identifies a port. The zero key, which no port has, stands for having none.
type portKey struct {
	isPort         bool
	name           string
	port           int32
	protocol       corev1.Protocol
	hasAppProtocol bool
	appProtocol    string
}

func portKeyOf(p *corev1.EndpointPort) portKey {
	return portKey{
		isPort: true, name: p.Name, port: p.Port, protocol: p.Protocol,
		hasAppProtocol: p.AppProtocol != nil, appProtocol: ptr.Deref(p.AppProtocol, ""),
	}
}

// portAddresses is a port, nil for the lack of any, with its set of addresses.
type portAddresses struct {
	port *corev1.EndpointPort
	// ready has the readiness of the addresses by their rank.
	ready map[int]bool
}

// portGroup is the ports that have one set of addresses in common. There is none if only the
// lack of ports has this set.
type portGroup struct {
	ports []corev1.EndpointPort
	set   []rankedAddress
}

// rankedAddress is an address of a set, by its rank.
type rankedAddress struct {
	rank  int32
	ready bool
}

// groupPorts returns the groups in the order in which their first port, or the lack of any, occurs.
func groupPorts(subsets []corev1.EndpointSubset, addresses addresses) []*portGroup {
	var groups []*portGroup
	byContent := map[string][]*portGroup{}
	for _, p := range portsOf(subsets, addresses) {
		set := sortedSet(p.ready)
		if len(set) == 0 {
			continue
		}
		content := bucket(set)
		same := slices.IndexFunc(byContent[content], func(g *portGroup) bool { return slices.Equal(g.set, set) })
		if same < 0 {
			group := &portGroup{set: set}
			groups = append(groups, group)
			same = len(byContent[content])
			byContent[content] = append(byContent[content], group)
		}
		if p.port != nil {
			group := byContent[content][same]
			group.ports = append(group.ports, *p.port)
		}
	}
	return groups
}

// bucket is the same for equal sets, and cheap.
func bucket(set []rankedAddress) string {
	return fmt.Sprintf("%d %v %v", len(set), set[0], set[len(set)-1])
}

// portsOf returns the different ports of all subsets in the order in which they occur.
func portsOf(subsets []corev1.EndpointSubset, addresses addresses) []*portAddresses {
	var ordered []*portAddresses
	known := map[portKey]*portAddresses{}
	add := func(key portKey, port *corev1.EndpointPort, subset *corev1.EndpointSubset) {
		p := known[key]
		if p == nil {
			p = &portAddresses{port: port, ready: map[int]bool{}}
			known[key] = p
			ordered = append(ordered, p)
		}
		p.add(subset, addresses)
	}
	for i := range subsets {
		subset := &subsets[i]
		if len(subset.Ports) == 0 {
			add(portKey{}, nil, subset)
		}
		for n := range subset.Ports {
			add(portKeyOf(&subset.Ports[n]), &subset.Ports[n], subset)
		}
	}
	return ordered
}

func (p *portAddresses) add(subset *corev1.EndpointSubset, addresses addresses) {
	for i := range subset.Addresses {
		rank := addresses.rank[keyOf(&subset.Addresses[i])]
		if _, known := p.ready[rank]; !known {
			p.ready[rank] = true
		}
	}
	for i := range subset.NotReadyAddresses {
		p.ready[addresses.rank[keyOf(&subset.NotReadyAddresses[i])]] = false
	}
}

func sortedSet(ready map[int]bool) []rankedAddress {
	set := make([]rankedAddress, 0, len(ready))
	for rank, isReady := range ready {
		set = append(set, rankedAddress{int32(rank), isReady})
	}
	slices.SortFunc(set, func(a, b rankedAddress) int { return cmp.Compare(a.rank, b.rank) })
	return set
}

func (g *portGroup) subset(addresses addresses) corev1.EndpointSubset {
	subset := corev1.EndpointSubset{Ports: sortByHash(g.ports)}
	for _, a := range g.set {
		record := *addresses.records[a.rank]
		if a.ready {
			subset.Addresses = append(subset.Addresses, record)
		} else {
			subset.NotReadyAddresses = append(subset.NotReadyAddresses, record)
		}
	}
	return subset
}

// sortByHash orders items by the hash of each, which is computed once.
func sortByHash[T any](items []T) []T {
	if len(items) < 2 {
		return items
	}
	type hashed struct {
		item T
		hash []byte
	}
	sorted := make([]hashed, len(items))
	for i := range items {
		sorted[i] = hashed{items[i], hashOf(items[i])}
	}
	slices.SortStableFunc(sorted, func(a, b hashed) int { return bytes.Compare(a.hash, b.hash) })
	for i := range sorted {
		items[i] = sorted[i].item
	}
	return items
}

func hashOf(item any) []byte {
	hash := fnv.New128a()
	// A hash takes whatever is written to it.
	_, _ = hash.Write([]byte(dump.ForHash(item)))
	return hash.Sum(nil)
}
