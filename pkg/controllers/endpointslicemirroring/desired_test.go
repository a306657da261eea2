package endpointslicemirroring

import (
	"reflect"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/utils/ptr"
)

func TestDesiredGroups(t *testing.T) {
	for name, tc := range map[string]struct {
		subsets []corev1.EndpointSubset
		most    int
		want    []string
		skipped skippedAddresses
	}{
		"nothing":                     {nil, 10, nil, skippedAddresses{}},
		"no addresses":                {[]corev1.EndpointSubset{subset(80, nil, nil)}, 10, nil, skippedAddresses{}},
		"EPM-18: ready and not ready": {[]corev1.EndpointSubset{subset(80, []string{"10.0.0.1"}, []string{"10.0.0.2"})}, 10, []string{"IPv4 80: (10.0.0.2) 10.0.0.1"}, skippedAddresses{}},
		"EPM-18: both families":       {[]corev1.EndpointSubset{subset(80, []string{"10.0.0.1", "fd00::1"}, nil)}, 10, []string{"IPv4 80: 10.0.0.1", "IPv6 80: fd00::1"}, skippedAddresses{}},
		"EPM-18: two subsets":         {[]corev1.EndpointSubset{subset(80, []string{"10.0.0.1"}, nil), subset(90, []string{"10.0.0.2"}, nil)}, 10, []string{"IPv4 80: 10.0.0.1", "IPv4 90: 10.0.0.2"}, skippedAddresses{}},
		"EPM-17: canonical":           {[]corev1.EndpointSubset{subset(80, []string{"10.0.0.1"}, nil), {Addresses: subset(0, []string{"10.0.0.1"}, nil).Addresses, Ports: []corev1.EndpointPort{{Name: "q", Port: 90}}}}, 10, []string{"IPv4 80,90: 10.0.0.1"}, skippedAddresses{}},
		"EPM-17: without ports":       {[]corev1.EndpointSubset{subset(0, []string{"10.0.0.1"}, nil)}, 10, []string{"IPv4 : 10.0.0.1"}, skippedAddresses{}},
		"EPM-18: leading zeros":       {[]corev1.EndpointSubset{subset(80, []string{"010.000.0.1"}, nil)}, 10, []string{"IPv4 80: 10.0.0.1"}, skippedAddresses{}},
		"two forms of one IP":         {[]corev1.EndpointSubset{subset(80, []string{"010.0.0.1"}, []string{"10.0.0.1"})}, 10, []string{"IPv4 80: (10.0.0.1)"}, skippedAddresses{}},
		"EPM-18: invalid":             {[]corev1.EndpointSubset{subset(80, []string{"10.0.0.1", "nonsense"}, []string{"300.0.0.1"})}, 10, []string{"IPv4 80: 10.0.0.1"}, skippedAddresses{total: 2, invalid: 2}},
		"only invalid":                {[]corev1.EndpointSubset{subset(80, []string{"nonsense"}, nil)}, 10, nil, skippedAddresses{total: 1, invalid: 1}},
		"EPM-5, EPM-18: too many": {[]corev1.EndpointSubset{subset(80, []string{"10.0.0.1", "10.0.0.2", "fd00::1"}, []string{"10.0.0.3"})}, 2,
			[]string{"IPv4 80: 10.0.0.1 10.0.0.2"}, skippedAddresses{total: 2}},
		"EPM-18: ready ones first": {[]corev1.EndpointSubset{subset(80, []string{"10.0.0.9"}, []string{"10.0.0.1", "10.0.0.2"})}, 2,
			[]string{"IPv4 80: (10.0.0.1) 10.0.0.9"}, skippedAddresses{total: 1}},
		"EPM-5: of each subset": {[]corev1.EndpointSubset{subset(80, []string{"10.0.0.1", "10.0.0.2"}, nil), subset(90, []string{"10.0.0.3"}, nil)}, 1,
			[]string{"IPv4 80: 10.0.0.1", "IPv4 90: 10.0.0.3"}, skippedAddresses{total: 1}},
		"EPM-24: invalid and too many": {[]corev1.EndpointSubset{subset(80, []string{"!", "10.0.0.1", "10.0.0.2"}, nil)}, 1,
			[]string{"IPv4 80: 10.0.0.1"}, skippedAddresses{total: 2, invalid: 1}},
	} {
		t.Run(name, func(t *testing.T) {
			groups, skipped := desiredGroups(testEndpoints(tc.subsets...), tc.most)
			var got []string
			for _, g := range groups {
				got = append(got, sliceText(g.key.addressType, g.ports, g.endpoints))
			}
			slices.Sort(got)
			if !slices.Equal(got, tc.want) || skipped != tc.skipped {
				t.Errorf("got  %q %+v\nwant %q %+v", got, skipped, tc.want, tc.skipped)
			}
		})
	}
}

// Pins EPM-18.
func TestEndpointOfAnAddress(t *testing.T) {
	target := &corev1.ObjectReference{Kind: "Pod", Namespace: "n", Name: "p", UID: "u"}
	groups, _ := desiredGroups(testEndpoints(corev1.EndpointSubset{
		Addresses: []corev1.EndpointAddress{{IP: "10.0.0.1", Hostname: "h", NodeName: ptr.To("node"), TargetRef: target}},
		Ports:     []corev1.EndpointPort{{Name: "p", Port: 80, Protocol: corev1.ProtocolUDP, AppProtocol: ptr.To("dns")}},
	}), 10)
	want := []discoveryv1.Endpoint{{
		Addresses: []string{"10.0.0.1"}, Hostname: ptr.To("h"), NodeName: ptr.To("node"), TargetRef: target,
		Conditions: discoveryv1.EndpointConditions{Ready: ptr.To(true)},
	}}
	if !reflect.DeepEqual(groups[0].endpoints, want) {
		t.Errorf("got  %+v\nwant %+v", groups[0].endpoints, want)
	}
	ports := []discoveryv1.EndpointPort{{Name: ptr.To("p"), Port: ptr.To[int32](80), Protocol: ptr.To(corev1.ProtocolUDP), AppProtocol: ptr.To("dns")}}
	if !reflect.DeepEqual(groups[0].ports, ports) {
		t.Errorf("ports are %+v", groups[0].ports)
	}
}

// Pins EPM-20b.
func TestDifference(t *testing.T) {
	endpoint := func(name string, change ...func(*discoveryv1.Endpoint)) discoveryv1.Endpoint {
		e := discoveryv1.Endpoint{Addresses: []string{name}, Conditions: discoveryv1.EndpointConditions{Ready: ptr.To(true)}, TargetRef: &corev1.ObjectReference{Name: name}}
		for _, c := range change {
			c(&e)
		}
		return e
	}
	list := func(all ...discoveryv1.Endpoint) []discoveryv1.Endpoint { return all }
	two := func(e *discoveryv1.Endpoint) { e.Addresses = []string{"b", "a"} }
	for name, tc := range map[string]struct {
		held, desired []discoveryv1.Endpoint
		want          difference
	}{
		"none":              {nil, nil, difference{}},
		"equal":             {list(endpoint("a"), endpoint("b")), list(endpoint("b"), endpoint("a")), difference{}},
		"added":             {list(endpoint("a")), list(endpoint("a"), endpoint("b")), difference{added: 1}},
		"removed":           {list(endpoint("a"), endpoint("b")), list(endpoint("a")), difference{removed: 1}},
		"held twice":        {list(endpoint("a"), endpoint("a")), list(endpoint("a")), difference{removed: 1}},
		"hostname":          {list(endpoint("a")), list(endpoint("a", func(e *discoveryv1.Endpoint) { e.Hostname = ptr.To("h") })), difference{added: 1, removed: 1}},
		"target":            {list(endpoint("a")), list(endpoint("a", func(e *discoveryv1.Endpoint) { e.TargetRef = nil })), difference{added: 1, removed: 1}},
		"version of target": {list(endpoint("a")), list(endpoint("a", func(e *discoveryv1.Endpoint) { e.TargetRef.ResourceVersion = "5" })), difference{}},
		"UID of target":     {list(endpoint("a")), list(endpoint("a", func(e *discoveryv1.Endpoint) { e.TargetRef.UID = "5" })), difference{updated: 1}},
		"ready":             {list(endpoint("a")), list(endpoint("a", func(e *discoveryv1.Endpoint) { *e.Conditions.Ready = false })), difference{updated: 1}},
		"serving":           {list(endpoint("a", func(e *discoveryv1.Endpoint) { e.Conditions.Serving = ptr.To(true) })), list(endpoint("a")), difference{updated: 1}},
		"node":              {list(endpoint("a")), list(endpoint("a", func(e *discoveryv1.Endpoint) { e.NodeName = ptr.To("x") })), difference{updated: 1}},
		"zone":              {list(endpoint("a", func(e *discoveryv1.Endpoint) { e.Zone = ptr.To("x") })), list(endpoint("a")), difference{updated: 1}},
		"several addresses": {list(endpoint("a", two)), list(endpoint("a", func(e *discoveryv1.Endpoint) { e.Addresses = []string{"a", "b"} })), difference{}},
	} {
		t.Run(name, func(t *testing.T) {
			if got := differenceOf(tc.held, tc.desired); got != tc.want {
				t.Errorf("got %+v, want %+v", got, tc.want)
			}
		})
	}
}
